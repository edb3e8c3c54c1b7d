"""How good are diagnoses of reports that were collected with less? The labelled captures, reduced to what ncu's sets
and sections hold (tests/support/reduced.py), judged by the same labels.

    python tools/partial.py [--every N] [--set NAME ...] [--wrong] [--out FILE]

A row a set: kernels; regime right; told to be unknown; wrong; wrong with a confidence above 0.5; the largest confidence
of a wrong one; kernels whose planted cause no finding names (hidden), and of these the share whose first suggestion is
the command that would tell: ncu with the sections that lack, or, where the code is there and cannot be read, the
disassembler that reads it; `visible`: the same of the causes that the full report shows, for no command brings what
kscope does not see in a full report either; kernels without anything to gain that are promised 1.25x or more.
--every N: only each Nth capture. --wrong: a line for each wrong regime and each hidden cause without the command.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.model.contract.analysis import KernelAnalysis  # noqa: E402
from kscope.parsers.files.inputs import open_input  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402
from tests.support import reduced, reports  # noqa: E402
from tests.support.labels import LABELS  # noqa: E402

SURE = 0.5
PROMISE = 1.25


class Judged(msgspec.Struct, frozen=True):
    """One kernel of one set. hidden: its label names a cause that no finding does; visible: one of the full report
    does; told: its first suggestion is the command that collects what lacks."""

    case: str
    collected: str
    regime: str
    right: bool
    confidence: float
    hidden: bool
    told: bool
    alarm: bool
    first: str
    visible: bool = True

    @property
    def unknown(self) -> bool:
        return self.regime == "unknown"

    @property
    def wrong(self) -> bool:
        return not self.right and not self.unknown


def names_it(case: str, found: KernelAnalysis) -> bool:
    """Whether a finding with more than information names the cause of the label."""
    return bool({f.rule for f in found.findings if f.severity != "info"} & set(LABELS[case].get("accept", ())))


def judge(case: str, collected: str, found: KernelAnalysis, *, visible: bool = True) -> Judged:
    """visible: whether the full report shows the cause."""
    label, step = LABELS[case], found.next_step
    command = step is not None and step.do == "measure" and step.command is not None
    return Judged(
        case=case, collected=collected, regime=found.verdict.regime, right=found.verdict.regime in label["regime"],
        confidence=found.verdict.confidence, hidden=bool(label.get("accept")) and not names_it(case, found),
        told=command, visible=visible,
        alarm=bool(label.get("no_gain")) and any(f.estimate and f.estimate.speedup >= PROMISE for f in found.findings),
        first=f"{step.words if step else None} | {found.verdict.sentence}",
    )  # fmt: skip


def judged(cases: Sequence[str], sets: Sequence[str]) -> Iterator[Judged]:
    for case in cases:
        with open_input(reports.fixture(case)) as path:
            kernel = next(iter(read_kernels(path)))
        shown = names_it(case, analyze_kernel(kernel, case))
        for collected in sets:
            found = analyze_kernel(reduced.reduced(kernel, collected), case)
            yield judge(case, collected, found, visible=shown)


def table(rows: Sequence[Judged]) -> list[str]:
    """A line a set, and one for all."""
    head = (
        "| set | kernels | right | unknown | wrong | wrong and sure | surest wrong | hidden | command first "
        "| hidden, visible in full | command first | alarms |"
    )
    lines = [head, "|---" + "|---:" * 11 + "|"]
    by_set = {name: [r for r in rows if r.collected == name] for name in dict.fromkeys(r.collected for r in rows)}
    for name, some in [*by_set.items(), ("all", list(rows))]:
        wrong = [r for r in some if r.wrong]
        hidden = [r for r in some if r.hidden]
        seen = [r for r in hidden if r.visible]
        lines.append(
            f"| {name} | {len(some)} | {sum(r.right for r in some) / len(some):.2f} | "
            f"{sum(r.unknown for r in some) / len(some):.2f} | {len(wrong) / len(some):.2f} | "
            f"{sum(r.confidence > SURE for r in wrong)} | {max((r.confidence for r in wrong), default=0):.2f} | "
            f"{len(hidden)} | {_told(hidden)} | {len(seen)} | {_told(seen)} | {sum(r.alarm for r in some)} |"
        )
    return lines


def _told(rows: Sequence[Judged]) -> str:
    return f"{sum(r.told for r in rows) / len(rows):.2f}" if rows else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--set", action="append", choices=list(reduced.SETS))
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = list(judged(sorted(LABELS)[:: args.every], args.set or list(reduced.SETS)))
    lines = table(rows)
    print("\n".join(lines))
    if args.wrong:
        for r in rows:
            if r.wrong or (r.hidden and not r.told):
                print(f"{r.collected:14} {r.case:28} {LABELS[r.case]['regime']} {r.confidence:.2f}  {r.first[:150]}")
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
