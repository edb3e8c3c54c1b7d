"""Speed of `kscope sass` against NVIDIA's nvdisasm; the rows of tools/bench.py about machine code.

    python tools/bench_sass.py [--cubin FILE] [--rounds N] [--strict]

FILE is a large cubin, such as one of a CUDA library (`pip download nvidia-npp-cu12`, then `cuobjdump -xelf`). Without
one the largest of our own stands in, which is too small to say much. Both sides run in turn as fresh processes.
"""

from __future__ import annotations

import argparse
import lzma
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.features.sass.cfg import build_cfg  # noqa: E402
from kscope.features.sass.liveness import Liveness  # noqa: E402
from kscope.parsers import toolchain  # noqa: E402
from kscope.parsers.cubin.programs import read_programs  # noqa: E402

OWN = ROOT / "fixtures" / "sass" / "unrolled.sm_90a.cubin.xz"
TOTAL_RATIO, LIVENESS_RATIO = 1.1, 10.0
LINT_RATIO = 6.0
Row = Callable[[str, str, str, str, str, bool], None]
"""What a row is printed with: what, our time, theirs, ratio, target, met."""


def rows(row: Row, cubin: Path | None, rounds: int, folder: Path) -> None:
    """Rows "listing", "lints" and "live registers"."""
    own = folder / "own.cubin"
    own.write_bytes(lzma.decompress(OWN.read_bytes()))
    if cubin is None:
        print("kscope sass: no --cubin FILE given, the largest of our own stands in", file=sys.stderr)
    _listing(row, cubin or own, rounds)
    _lints(row, cubin or own, rounds)
    _liveness(row, own, rounds)


def _listing(row: Row, cubin: Path, rounds: int) -> None:
    tool = toolchain.find("nvdisasm")
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_run([str(tool.path), "-json", str(cubin)]))
        ours.append(_run([sys.executable, "-m", "kscope", "sass", str(cubin)]))
    a, b = statistics.median(ours), statistics.median(theirs)
    count = sum(len(program) for image in read_programs(cubin) for program in image.functions)
    what = f"kscope sass, {count:,} instructions"
    row(what, _s(a), _s(b), f"{a / b:.2f}x", f"<= {TOTAL_RATIO}x", a <= TOTAL_RATIO * b)


def _lints(row: Row, cubin: Path, rounds: int) -> None:
    """What the lints add: all of them over every function, against the listing alone."""
    command = [sys.executable, "-m", "kscope", "sass", str(cubin)]
    plain, full = [], []
    for _ in range(rounds):
        plain.append(_run(command))
        full.append(_run([*command, "--format", "json"]))
    a, b = statistics.median(full), statistics.median(plain)
    what = "kscope sass with its lints, to the listing"
    row(what, _s(a), _s(b), f"{a / b:.2f}x", f"<= {LINT_RATIO}x", a <= LINT_RATIO * b)


def _liveness(row: Row, cubin: Path, rounds: int) -> None:
    """Live registers alone: ours from the parsed program, nvdisasm's as what it adds to a plain listing. On our own
    cubin: nvdisasm does not analyse the images of CUDA 12.x that libraries ship."""
    tool = str(toolchain.find("nvdisasm").path)
    programs = [program for image in read_programs(cubin) for program in image.functions]
    ours, theirs = [], []
    for _ in range(rounds):
        plain = _run([tool, "-c", "-ndf", str(cubin)])
        theirs.append(_run([tool, "-c", "-plr", "-lrm", "count", str(cubin)]) - plain)
        begin = time.perf_counter()
        for program in programs:
            Liveness(program, build_cfg(program)).peak()
        ours.append(time.perf_counter() - begin)
    a, b = statistics.median(ours), statistics.median(theirs)
    what = f"live registers, {sum(map(len, programs)):,} instructions"
    row(what, _s(a), _s(b), f"{b / a:.0f}x", f">= {LIVENESS_RATIO:.0f}x", b >= LIVENESS_RATIO * a)


def _run(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def _s(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubin", type=Path, help="a large cubin")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default 3)")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    args = parser.parse_args()
    missed = 0

    def row(what: str, ours: str, theirs: str, value: str, target: str, ok: bool) -> None:
        nonlocal missed
        missed += not ok
        print(f"{what:42} {ours:>9} {theirs:>9} {value:>7}  {target:9} {'ok' if ok else 'MISS'}", flush=True)

    print(f"{'':42} {'kscope':>9} {'nvdisasm':>9} {'ratio':>7}  target")
    with tempfile.TemporaryDirectory(prefix="kscope-bench-") as folder:
        rows(row, args.cubin.resolve() if args.cubin else None, args.rounds, Path(folder))
    return int(args.strict and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
