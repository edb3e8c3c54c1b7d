"""Golden listings: reports/sass/NAME.txt, what `kscope sass --annotate` prints of some of our own kernels.

    python tools/golden_sass.py [--check] [FOLDER]

`--check` writes nothing and exits 1 where the folder differs. Needs nvdisasm (pip install nvidia-cuda-nvdisasm).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import patches  # noqa: E402

FOLDER = ROOT / "reports" / "sass"
CASES = {
    "scale4_scalar.sm_80": ("sass/memory.sm_80.cubin.xz", "^scale4_scalar$"),
    "product_exposed.sm_86": ("sass/tiles.sm_86.cubin.xz", "^product_exposed$"),
    "refill_unfenced.sm_90a": ("sass/tma.sm_90a.cubin.xz", "^refill_unfenced$"),
    "wgmma_each.sm_90a": ("sass/wgmma.sm_90a.cubin.xz", "^wgmma_each$"),
    "umma_fenced.sm_100a": ("sass/tcgen05.sm_100a.cubin.xz", "^umma_fenced$"),
    "bank_conflict.slow": ("h200/bank_conflict.slow/report.ncu-rep.xz", ""),
}
"""Name -> input, in fixtures/, and function."""
WIDTH = 120


def golden(name: str) -> str:
    """The listing of one case."""
    from kscope.engine.code.programs import binary_analysis, report_analysis
    from kscope.parsers.cubin.programs import read_programs
    from kscope.reports.text.machine import MachineOptions, render

    path, function = CASES[name]
    file = str(patches.built(path) if path in patches.archived() else patches.FIXTURES / path)
    if ".ncu-rep" in path:
        analysis = report_analysis(file, annotate=True)
    else:
        analysis = binary_analysis(file, read_programs(file, None, function), annotate=True)
    text = render(analysis, MachineOptions(width=WIDTH)).replace(f"{patches.BUILD.parent}/", "").replace(f"{ROOT}/", "")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    named = [a for a in arguments if a != "--check"]
    if len(named) > 1 or any(a.startswith("-") for a in named):
        print(f"usage: {Path(__file__).name} [--check] [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(named[0]) if named else FOLDER
    files = {f"{name}.txt": golden(name) for name in CASES}
    here = {path.name for path in folder.glob("*.txt")}
    changed = sorted(
        name for name in here | set(files)
        if name not in files or name not in here or (folder / name).read_text("utf-8") != files[name]
    )  # fmt: skip
    if not check:
        folder.mkdir(parents=True, exist_ok=True)
        for name in changed:
            if name in files:
                (folder / name).write_text(files[name], encoding="utf-8")
            else:
                (folder / name).unlink()
    for name in changed:
        print(name)
    print(f"{len(changed)} of {len(files)} files {'differ' if check else 'rewritten'} in {folder}", file=sys.stderr)
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
