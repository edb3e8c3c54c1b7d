"""How good are the diagnoses? kscope and Nsight Compute's own rules on the labelled captures of fixtures/.

    python tools/eval.py [FOLDER] [--out reports/eval.md]      (--out puts the figures into README.md too)

FOLDER is one of fixtures/, with captures/*.toml and the reports (default: fixtures/h200). Writes one page:
the figures, an ablation, and a row a case with truth, promise and what the profiler's rules say.

Figures: regime accuracy; top-1 and top-3 accuracy of the first findings that are more than information; false alarms
(an accepted rule still promised at 1.15x or more on the fixed version, unless that was built, timed and brought a tenth
or more: fixtures/kernels/further; or any promise of 1.25x or more where nothing pays); median absolute log2 error of
the promised speed-up; share of the truth inside [low, high]; Spearman rank correlation of promise and truth.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.features.estimate import bounds as bounds_module  # noqa: E402
from kscope.model.contract.analysis import Finding, KernelAnalysis  # noqa: E402
from kscope.model.kernel import Kernel  # noqa: E402
from kscope.parsers.files.inputs import open_input  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402
from tests.support import captures, reports  # noqa: E402

KEPT = 1.1  # gain of what was built as kscope says, from which its promise is no false alarm
GENERIC = ("HighPipeUtilization", "IssueSlotUtilization", "MemoryL2Compression")  # name no cause
NVIDIA: dict[str, tuple[str, ...]] = {  # what a rule of Nsight Compute names, in our slugs
    "UncoalescedGlobalAccess": ("uncoalesced-global-access", "misaligned-global-access"),
    "UncoalescedSharedAccess": ("shared-bank-conflicts",),
    "SharedMemoryConflicts": ("shared-bank-conflicts",),
    "TheoreticalOccupancy": ("low-occupancy",),
    "AchievedOccupancy": ("low-occupancy", "load-imbalance"),
    "ThreadDivergence": ("warp-divergence",),
    "SOLFPRoofline": ("accidental-fp64",),
    "FPInstructions": ("missing-fma",),
    "WorkloadImbalance": ("load-imbalance",),
}
TITLED: dict[tuple[str, str], tuple[str, ...]] = {
    ("LaunchConfiguration", "tail"): ("tail-effect",),
    ("LaunchConfiguration", "small grid"): ("small-grid",),
    ("LaunchConfiguration", "block"): ("block-size",),
    ("MemoryCacheAccessPattern", "local"): ("register-spills", "local-memory-indexing"),
    ("MemoryCacheAccessPattern", "global"): ("uncoalesced-global-access", "narrow-global-access"),
    ("CPIStall", "long scoreboard"): ("exposed-memory-latency", "redundant-memory-traffic"),
    ("CPIStall", "barrier"): ("barrier-stalls",),
    ("CPIStall", "wait"): ("dependency-chain",),
    ("CPIStall", "no instruction"): ("instruction-cache-misses",),
    ("CPIStall", "mio"): ("shared-bank-conflicts", "slow-math-functions", "divergent-constant-access"),
    ("CPIStall", "lg throttle"): ("uncoalesced-global-access", "narrow-global-access", "low-data-reuse"),
    ("CPIStall", "math pipe"): ("pipe-saturated", "slow-math-functions", "accidental-fp64"),
    ("CPIStall", "imc"): ("divergent-constant-access",),
    ("CPIStall", "membar"): ("memory-fence-stalls",),
}


class Promise(msgspec.Struct, frozen=True):
    """What a tool says first to last: slugs it names, promised speed-up, bounds (None where it gives none)."""

    slugs: tuple[str, ...]
    gain: float
    low: float | None = None
    high: float | None = None
    counts: bool = True


class Case(msgspec.Struct, frozen=True):
    name: str
    label: dict[str, Any] | None
    fixed_of: dict[str, Any] | None
    truth: float | None
    kernel: Kernel
    further: dict[str, float] = {}
    """What the fixed version gained by another cause removed as kscope says (fixtures/kernels/further), by slug."""


def load(folder: Path, only: Sequence[str] | None = None) -> list[Case]:
    """The labelled captures of a folder and the versions without their fault; `only` of these names if given."""
    found = captures.tables(folder)
    labels, times = captures.labels(found), captures.times(found)
    fixed = {label["fixed"]: label for label in labels.values() if label.get("fixed")}
    out = []
    for name in found:
        label = labels.get(name)
        if (label is None and name not in fixed) or (only is not None and name not in only):
            continue
        better = label.get("fixed") if label else None
        truth = times[name] / times[better] if better in times and name in times else None
        with open_input(reports.fixture(name, folder)) as path:
            out.append(Case(name, label, fixed.get(name), truth, next(iter(read_kernels(path))), further(folder, name)))
    return out


def further(folder: Path, case: str) -> dict[str, float]:
    """Gain by slug of what was built and timed of a version without its planted fault."""
    file = folder.parent / "kernels" / "further" / "measured.toml"
    row = tomllib.loads(file.read_text()).get(case) if file.is_file() else None
    return {row["cause"]: row["before_us"] / row["after_us"]} if row else {}


def ours(analysis: KernelAnalysis) -> list[Promise]:
    def promise(f: Finding) -> Promise:
        e = f.estimate
        counts = f.severity != "info"
        return Promise((f.rule,), e.speedup, e.low, e.high, counts) if e else Promise((f.rule,), 1.0, counts=counts)

    return [promise(f) for f in analysis.findings]


def theirs(kernel: Kernel) -> list[Promise]:
    out = []
    for r in kernel.nvidia:
        if r.speedup_pct is None or r.rule in GENERIC:
            continue
        title = r.title.lower()
        slugs = NVIDIA.get(r.rule) or next((v for (k, t), v in TITLED.items() if k == r.rule and t in title), ())
        out.append(Promise(slugs, 1 / max(1e-3, 1 - min(r.speedup_pct, 99.9) / 100)))
    return sorted(out, key=lambda p: -p.gain)


def figures(cases: Sequence[Case], said: Sequence[list[Promise]], regimes: Sequence[str] | None) -> dict[str, Any]:
    top1, top3, alarms, errors, inside = [], [], [], [], []
    promised, truths, regime = [], [], []
    for number, (case, promises) in enumerate(zip(cases, said, strict=True)):
        if case.fixed_of is not None:
            kept = {slug for slug, gain in case.further.items() if gain >= KEPT}
            named = (p for p in promises if p.gain >= 1.15 and not kept & set(p.slugs))
            alarms.append(any(set(p.slugs) & set(case.fixed_of["accept"]) for p in named))
        if case.label is None:
            continue
        accept = set(case.label["accept"])
        first = [p for p in promises if p.counts]
        top1.append(bool(first) and bool(set(first[0].slugs) & accept))
        top3.append(any(set(p.slugs) & accept for p in first[:3]))
        if regimes is not None:
            regime.append(regimes[number] in case.label["regime"])
        if case.label.get("no_gain"):
            alarms.append(any(p.gain >= 1.25 for p in promises))
        if case.truth is not None:
            hit = next((p for p in promises if set(p.slugs) & accept and (p.low is not None or regimes is None)), None)
            gain = hit.gain if hit else 1.0
            errors.append(abs(math.log2(gain / case.truth)))
            inside.append(hit is not None and hit.low is not None and hit.low <= case.truth <= (hit.high or 0.0))
            promised.append(gain)
            truths.append(case.truth)
    return {
        "cases": len(top1),
        "regime": mean(regime),
        "top-1": mean(top1),
        "top-3": mean(top3),
        "false alarms": mean(alarms),
        "median log2 error": statistics.median(errors) if errors else None,
        "truth in bounds": mean(inside) if regimes is not None else None,
        "rank correlation": spearman(promised, truths),
    }


def mean(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    if len(a) < 3:
        return None
    ra, rb = ([sorted(v).index(x) for x in v] for v in (a, b))
    ma, mb = statistics.mean(ra), statistics.mean(rb)
    spread = math.sqrt(sum((x - ma) ** 2 for x in ra) * sum((y - mb) ** 2 for y in rb))
    return sum((x - ma) * (y - mb) for x, y in zip(ra, rb, strict=True)) / spread if spread else None


def without_code(kernel: Kernel) -> Kernel:
    return msgspec.structs.replace(kernel, program=None)


def whole(analysis: KernelAnalysis) -> KernelAnalysis:
    """The same; raises where a rule failed (an override that no longer fits), whose findings would be missing."""
    if analysis.errors:
        sys.exit(f"{analysis.name}: {analysis.errors[0]}")
    return analysis


def without_caps(run: Callable[[], list[list[Promise]]]) -> list[list[Promise]]:
    """The same estimates with nothing to stop them: no unit, no queue of a full one, no latency floor."""
    names = {
        "next_limit": lambda self, scale, skip=(), **where: (0.0, ""), "queued": lambda self, scale: 0.0,
        "floor": 0.0,
    }  # fmt: skip
    classes = {name: next(c for c in bounds_module.Bounds.__mro__ if name in c.__dict__) for name in names}
    kept = {name: classes[name].__dict__[name] for name in names}
    try:
        for name, value in names.items():
            setattr(classes[name], name, value)
        return run()
    finally:
        for name, value in kept.items():
            setattr(classes[name], name, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "fixtures" / "h200")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    cases = load(args.folder)
    full = [analyze_kernel(c.kernel, c.name) for c in cases]
    bare = [analyze_kernel(without_code(c.kernel), c.name) for c in cases]
    said, nvidia = [ours(a) for a in full], [theirs(c.kernel) for c in cases]
    uncapped = without_caps(lambda: [ours(whole(analyze_kernel(c.kernel, c.name))) for c in cases])
    regimes = [a.verdict.regime for a in full]
    table = {
        "kscope": figures(cases, said, regimes),
        "without SASS": figures(cases, [ours(a) for a in bare], [a.verdict.regime for a in bare]),
        "without caps": figures(cases, uncapped, regimes),
        "Nsight Compute's rules": figures(cases, nvidia, None),
    }
    text = page(table, cases, full, said, nvidia)
    if args.out:
        text += fitted(cases)
    if args.out:
        args.out.write_text(text, encoding="utf-8")
        print(f"Wrote {args.out}", file=sys.stderr)
        in_readme(summary(table))
    print("\n".join(summary(table)))


def fitted(cases: Sequence[Case]) -> str:
    """The section on the constants of the estimates: how they hold on families of kernels that a fit has not seen."""
    import fit

    lines = ["", "## Fitted constants, one family of kernels left out", "", "Made by tools/fit.py, which says how.", ""]
    return "\n".join([*lines, *fit.report(fit.fit(cases))]) + "\n"


def first_sight(folder: Path) -> list[str]:
    """What kscope said of new captures before anybody worked on the rules with them (first_sight.toml)."""
    path = folder / "first_sight.toml"
    if not path.is_file():
        return []
    seen = tomllib.loads(path.read_text(encoding="utf-8"))
    rounds = seen["round"]
    keys = list(rounds[0]["figures"])
    rows = [f"| {r['name']} | " + " | ".join(f"{r['figures'][k]:.2f}" for k in keys) + " |" for r in rounds]
    said = [f"The {r['name']}: {r['about'].strip()}" for r in rounds]
    return [
        "", "## At first sight", "", seen["about"].strip(), "", *(line for text in said for line in (text, "")),
        "| | " + " | ".join(keys) + " |", "|---|" + "---|" * len(keys), *rows,
    ]  # fmt: skip


def summary(table: dict[str, dict[str, Any]]) -> list[str]:
    keys = [k for k in next(iter(table.values())) if k != "cases"]
    lines = ["| | " + " | ".join(keys) + " |", "|---|" + "---|" * len(keys)]
    for name, row in table.items():
        lines.append(f"| {name} | " + " | ".join("" if row[k] is None else f"{row[k]:.2f}" for k in keys) + " |")
    return lines


def in_readme(table: Sequence[str]) -> None:
    """The figures between the marks in README.md."""
    readme = ROOT / "README.md"
    head, _, rest = readme.read_text(encoding="utf-8").partition("<!-- eval -->")
    _, _, tail = rest.partition("<!-- /eval -->")
    body = "\n".join(["<!-- eval -->", *table, "<!-- /eval -->"])
    readme.write_text(head + body + tail, encoding="utf-8")


def page(
    table: dict[str, dict[str, Any]],
    cases: Sequence[Case],
    full: Sequence[KernelAnalysis],
    said: Sequence[list[Promise]],
    nvidia: Sequence[list[Promise]],
) -> str:
    count = table["kscope"]["cases"]
    level = sum(bool(c.label and c.label.get("no_gain")) for c in cases)
    lines = [
        "# How good are the diagnoses?", "",
        f"Made by `make eval` from the {count} labelled kernels of fixtures/h200, {level} of them without anything to",
        "gain, and the versions without their fault; the figures are defined in tools/eval.py. The same kernels were "
        "used to develop the rules.", "",
        *summary(table),
        *first_sight(ROOT / "fixtures" / "h200"), "",
        "## Case by case", "",
        "| kernel | planted | verdict | kscope, first | truth | Nsight Compute, first |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for case, analysis, mine, other in zip(cases, full, said, nvidia, strict=True):
        planted = ", ".join(case.label["accept"]) if case.label else "none (the fixed version)"
        first = next((p for p in mine if p.counts), None)
        bounds = f" ({first.low:.1f} - {first.high:.1f})" if first and first.low and first.high else ""
        says = f"{first.slugs[0]} {first.gain:.2f}x{bounds}" if first else "nothing pays"
        they = f"{', '.join(other[0].slugs) or 'no cause named'} {other[0].gain:.1f}x" if other else "nothing"
        truth = f"{case.truth:.2f}x" if case.truth else "no gain" if case.label and case.label.get("no_gain") else ""
        verdict = f"{analysis.verdict.regime}, {analysis.verdict.limiter.replace('_', ' ')}"
        lines.append(f"| {case.name} | {planted} | {verdict} | {says} | {truth} | {they} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
