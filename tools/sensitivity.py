"""What each constant moves: it is made smaller and larger, and the captures are diagnosed anew.

    python tools/sensitivity.py [--all] [--code] [--only PART] [--jobs N]      (`make sensitivity`)

Constants are the keys of kscope/arch/estimates.toml; with `--code` also the named numbers at the head of modules of
features, rules and engine/verdict (`PART.NAME = 0.3`). Shares of 1 are tried at 3/4 and 4/3, other values at half and
double; a pair that must not cross (ORDER) does not. Captures are a third of fixtures/h200 and fixtures/dials, or all
with `--all`. A row
says on how many of them the verdict (regime, limiter), the first suggestion, the list of findings with their
severities, and a promise (by more than 2 %) changes, and names some. A constant that moves nothing is held by nothing:
it is not needed, or a capture is.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.arch import table  # noqa: E402
from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.model.contract.analysis import KernelAnalysis  # noqa: E402
from kscope.model.kernel import Kernel  # noqa: E402
from kscope.parsers.files.inputs import open_input  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402
from tests.support import reports  # noqa: E402

TABLE = "estimates"
ROOMS = ("features", "rules", "engine/verdict", "engine/findings", "engine/kernels")
ORDER = (("free", "full"), ("near", "at"), ("used_unit", "full_unit"))
MOVED = 0.02  # of a promise, from which it counts as another
SAMPLE = 3
KINDS = ("verdict", "first", "findings", "gains")

Said = tuple[tuple[str, str], str, tuple[tuple[str, str], ...], tuple[tuple[str, float, float, float], ...]]
"""Of one capture: regime and limiter; code of the first suggestion; codes and severities; codes and promises."""


class Moves(msgspec.Struct):
    """Captures on which a setting changes something, by kind."""

    verdict: list[str] = []
    first: list[str] = []
    findings: list[str] = []
    gains: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all captures, not a third of them")
    parser.add_argument("--code", action="store_true", help="constants of modules as well")
    parser.add_argument("--only", default="", metavar="PART", help="constants whose name holds this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    dials = sorted(path.name for path in reports.DIALS.iterdir() if path.is_dir())
    cases = tuple(dict.fromkeys((*reports.cases(), *dials)))[:: 1 if args.all else SAMPLE]
    names = [f"{TABLE}.{key}" for key in table(TABLE)] + (list(named()) if args.code else [])
    settings = [(name, v) for name in names if args.only in name for v in tried(name)]
    start = time.monotonic()
    with ProcessPoolExecutor(args.jobs) as pool:
        parts = [cases[i :: args.jobs * 4] for i in range(args.jobs * 4)]
        found = merged(pool.map(moves, parts, [settings] * len(parts)), len(settings))
    print("\n".join(page(settings, found, len(cases))))
    print(f"\n{len(settings)} settings on {len(cases)} captures, {time.monotonic() - start:.0f} s.")
    return 0


def named() -> Iterator[str]:
    """Numbers with a name of their own at the head of a module, `kscope.rules.memory.x.LEAST`: no estimate's, but of
    the same kind."""
    for room in ROOMS:
        for path in sorted((ROOT / "kscope" / room).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                    for target in node.targets:
                        if type(node.value.value) in (int, float) and isinstance(target, ast.Name) and node.value.value:
                            yield f"{module}.{target.id}"


def value_of(name: str) -> float:
    path, _, key = name.rpartition(".")
    return float(table(TABLE)[key]["value"]) if path == TABLE else getattr(importlib.import_module(path), key)


def tried(name: str) -> list[float]:
    """The values to try beside the present one; whole numbers stay whole."""
    now, key = value_of(name), name.rpartition(".")[2]
    values = [now * 3 / 4, min(1.0, now * 4 / 3)] if 0 < now <= 1 and isinstance(now, float) else [now / 2, now * 2]
    for low, high in ORDER if name.startswith(f"{TABLE}.") else ():
        if key == low:
            values = [min(v, value_of(f"{TABLE}.{high}") - 0.01) for v in values]
        elif key == high:
            values = [max(v, value_of(f"{TABLE}.{low}") + 0.01) for v in values]
    values = [type(now)(v) for v in values]
    return [v for v in values if v != now]


@contextmanager
def using(name: str, value: float) -> Iterator[None]:
    """Another value for a while, also where other modules have imported it by name."""
    path, _, key = name.rpartition(".")
    if path == TABLE:
        row = table(TABLE)[key]
        kept, row["value"] = row["value"], value
        try:
            yield
        finally:
            row["value"] = kept
        return
    now = value_of(name)
    holders = [m for m in list(sys.modules.values()) if _holds(m, path, key)]
    for module in holders:
        setattr(module, key, value)
    try:
        yield
    finally:
        for module in holders:
            setattr(module, key, now)


def _holds(module: object, path: str, key: str) -> bool:
    """The module itself, or one that says `from path import key`."""
    name = str(getattr(module, "__name__", ""))
    if name == path:
        return True
    file = getattr(module, "__file__", None)
    if not name.startswith("kscope.") or not file or key not in vars(module):
        return False
    text = Path(file).read_text(encoding="utf-8")
    return any(
        isinstance(node, ast.ImportFrom) and node.module == path and any(a.name == key for a in node.names)
        for node in ast.walk(ast.parse(text))
    )


def moves(cases: Sequence[str], settings: Sequence[tuple[str, float]]) -> list[Moves]:
    """What each setting changes on some of the captures."""
    kernels = {case: kernel_of(case) for case in cases}
    before = {case: said(analyze_kernel(kernel, case)) for case, kernel in kernels.items()}
    out = []
    for name, value in settings:
        here = Moves()
        with using(name, value):
            for case, kernel in kernels.items():
                after = said(analyze_kernel(kernel, case))
                for kind in changed(before[case], after):
                    getattr(here, kind).append(case)
        out.append(here)
    return out


def kernel_of(case: str) -> Kernel:
    with open_input(reports.fixture(case)) as path:
        return next(iter(read_kernels(path)))


def said(analysis: KernelAnalysis) -> Said:
    findings = analysis.findings
    first = next((f.code for f in findings if f.severity != "info"), "")
    gains = [(f.code, f.estimate.speedup, f.estimate.low, f.estimate.high) for f in findings if f.estimate is not None]
    listed = sorted((f.code, f.severity) for f in findings)
    return (analysis.verdict.regime, analysis.verdict.limiter), first, tuple(listed), tuple(sorted(gains))


def changed(before: Said, after: Said) -> list[str]:
    """Kinds of what differs. Promises are compared where both versions make them."""
    found = [kind for kind, a, b in zip(KINDS[:3], before[:3], after[:3], strict=True) if a != b]
    now = {code: values for code, *values in after[3]}
    pairs = [pair for code, *values in before[3] for pair in zip(values, now.get(code, values), strict=True)]
    return [*found, KINDS[3]] if any(abs(x - y) > MOVED * x for x, y in pairs) else found


def merged(parts: Iterable[list[Moves]], count: int) -> list[Moves]:
    out = [Moves() for _ in range(count)]
    for part in parts:
        for whole, some in zip(out, part, strict=True):
            for kind in KINDS:
                getattr(whole, kind).extend(getattr(some, kind))
    return out


def page(settings: Sequence[tuple[str, float]], found: Sequence[Moves], count: int) -> list[str]:
    """Markdown: a row a constant and value, then those that move nothing."""
    lines = ["| constant | now | tried | verdict | first | findings | gains | for instance |", "|---" * 8 + "|"]
    still: dict[str, bool] = {}
    for (name, value), some in zip(settings, found, strict=True):
        short = name.removeprefix(f"{TABLE}.").removeprefix("kscope.")
        counts = [len(getattr(some, kind)) for kind in KINDS]
        instance = next((sorted(getattr(some, kind))[:2] for kind in KINDS if getattr(some, kind)), [])
        cells = [short, f"{value_of(name):g}", f"{value:g}", *map(str, counts), ", ".join(instance)]
        lines.append(f"| {' | '.join(cells)} |")
        still[short] = still.get(short, True) and not any(counts)
    nothing = [name for name, inert in still.items() if inert]
    return [*lines, "", f"Move nothing on these {count} captures: {', '.join(nothing) or 'none'}."]


if __name__ == "__main__":
    sys.exit(main())
