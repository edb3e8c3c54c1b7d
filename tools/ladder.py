"""Does the next suggestion take the next step? Two matrix-product ladders, profiled and timed on an H200.

    python tools/ladder.py [--out reports/ladder.md]

A rung is a labelled capture of fixtures/h200 that names the rung after it (`next` in its table). For each: what
kscope suggests, at which place the step that the next rung takes stands, what it promises, and what the step brought.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from eval import spearman  # noqa: E402

from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.model.contract.analysis import KernelAnalysis  # noqa: E402
from kscope.parsers.files.inputs import open_input  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402
from tests.support import captures, reports  # noqa: E402


class Rung(msgspec.Struct, frozen=True):
    """place: 1 for the first finding that is more than information; None if the step is not among them. promised,
    low, high: of that finding. measured: time of this rung over that of the next."""

    case: str
    next: str
    time_us: float
    place: int | None
    rule: str
    promised: float
    low: float
    high: float
    measured: float
    suggestions: tuple[str, ...]


def ladders(labels: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Chains of cases from the slowest rung to the last but one, the longest first."""
    nexts = {case: label["next"] for case, label in labels.items() if "next" in label}
    starts = [case for case in nexts if case not in nexts.values()]
    chains = []
    for case in starts:
        chain = [case]
        while nexts.get(chain[-1]) in nexts:
            chain.append(nexts[chain[-1]])
        chains.append(chain)
    return sorted(chains, key=len, reverse=True)


def climb() -> list[list[Rung]]:
    found = captures.tables(reports.FIXTURES)
    labels, times = captures.labels(found), captures.times(found)
    return [[rung(case, labels[case], times) for case in chain] for chain in ladders(labels)]


def rung(case: str, label: dict[str, Any], times: dict[str, float]) -> Rung:
    findings = [f for f in diagnose(case).findings if f.severity != "info"]
    place = next((i for i, f in enumerate(findings) if f.rule in label["accept"]), None)
    estimate = findings[place].estimate if place is not None else None
    promised = (estimate.speedup, estimate.low, estimate.high) if estimate else (1.0, 1.0, 1.0)
    return Rung(
        case, label["next"], times[case], None if place is None else place + 1,
        findings[place].rule if place is not None else "", *promised, times[case] / times[label["next"]],
        tuple(f"{f.rule} {f.estimate.speedup:.2f}x" if f.estimate else f.rule for f in findings[:3]),
    )  # fmt: skip


def diagnose(case: str) -> KernelAnalysis:
    with open_input(reports.fixture(case)) as path:
        return analyze_kernel(next(iter(read_kernels(path))), case)


def page(climbed: list[list[Rung]]) -> str:
    lines = [
        "# Ladders", "",
        "Made by `make eval` (tools/ladder.py) from our own kernels: fixtures/kernels/ladder_f32.cu and",
        "ladder_bf16.cu, 4096 x 4096 x 4096 on one H200. Each rung is one improvement over the one before. The step",
        "that the next rung takes should be the first or second suggestion, and the promises should rank the steps",
        "as the clock does. The labels were written before kscope had seen the captures; the rules have been worked",
        "on since.",
    ]  # fmt: skip
    for rungs in climbed:
        rank = spearman([r.promised for r in rungs], [r.measured for r in rungs])
        name = rungs[0].case.partition(".")[0]
        lines += [
            "", f"## {name}", "", "| rung | time | the next step is suggestion | promised | measured | suggestions |",
            "|---|---|---|---|---|---|",
        ]  # fmt: skip
        for r in rungs:
            where = f"{r.place}: {r.rule}" if r.place else "none"
            lines.append(
                f"| {r.case.partition('.')[2]} | {r.time_us:,.0f} us | {where} | {r.promised:.2f}x "
                f"({r.low:.1f} - {r.high:.1f}) | {r.measured:.2f}x | {', '.join(r.suggestions)} |"
            )
        hits = sum(r.place is not None and r.place <= 2 for r in rungs)
        inside = sum(r.low <= r.measured <= r.high for r in rungs)
        lines += [
            "", f"{hits} of {len(rungs)} next steps are first or second; rank correlation of promise and measurement "
            f"{rank:.2f}; {inside} of {len(rungs)} measured gains lie inside the promised range.",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    text = page(climb())
    if args.out:
        args.out.write_text(text, encoding="utf-8")
        print(f"Wrote {args.out}", file=sys.stderr)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
