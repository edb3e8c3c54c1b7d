"""Are answers right on reports of strangers, with the chips, versions and section sets that people have?

    python tools/public_reports.py REPORTS [--out PAGE.md] [--each]

REPORTS is a folder with one folder a repository (OWNER+NAME), in it the reports of tools/public_reports.toml, with `/`
and blanks of their paths as `_`. A kernel is right where the regime and the first step (`next` of the JSON) are among
those of its label; silent where nothing is claimed although the label says that the report shows it (the regime is
unknown, or the step is to collect more); wrong otherwise. Reports whose kernel is the same code on the same chip with
the same set count once under `distinct`. --each: a line a kernel.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.model.contract.analysis import KernelAnalysis  # noqa: E402
from kscope.parsers.files.inputs import open_input  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402

LABELS = HERE / "public_reports.toml"


class Judged(msgspec.Struct, frozen=True):
    """One kernel. said: regime, limiter, confidence and first step, as kscope says them; held: right, silent, wrong or
    unread. later: not wrong by what a second look allows."""

    repository: str
    path: str
    chip: str
    collected: str
    name: str
    held: str
    said: str
    why: str = ""
    later: bool = False

    @property
    def same(self) -> tuple[str, ...]:
        """What distinct kernels differ in."""
        return (self.repository, self.name, self.chip, self.collected, self.said.split(" |")[0])


def judge(label: dict[str, Any], found: KernelAnalysis) -> tuple[str, str, str]:
    """(right | silent | wrong, what is said, what is wrong about it)."""
    verdict, step = found.verdict, found.next_step
    do = step.do if step else "stop"
    first = step.code if step and step.code else {"measure": "m", "stop": "s", "change_algorithm": "s"}.get(do, "s")
    if do == "measure":
        first = "m"
    said = f"{verdict.regime}/{verdict.limiter} {verdict.confidence:.2f} | {do} {first} | {verdict.sentence}"
    regime_right = verdict.regime in label["regime"]
    step_right = first in label["steps"]
    if regime_right and step_right:
        return "right", said, ""
    if verdict.regime != "unknown" and not regime_right:
        return "wrong", said, f"regime: {' or '.join(label['regime'])}"
    if first not in ("m", "s") and not step_right:
        return "wrong", said, f"step: {' '.join(label['steps'])}"
    return "silent", said, f"{' or '.join(label['regime'])}; {' '.join(label['steps'])}"


def judged(reports: Path, labels: Sequence[dict[str, Any]]) -> Iterator[Judged]:
    """Each labelled kernel whose report is under `reports`."""
    for entry in labels:
        name = entry["path"].replace("/", "_").replace(" ", "_")
        path = reports / entry["repository"].replace("/", "+") / name
        if not path.is_file():
            continue
        wanted = {k["launch"]: k for k in entry["kernels"]}
        base = {"repository": entry["repository"], "path": entry["path"], "chip": entry["chip"],
                "collected": entry["collected"]}  # fmt: skip
        try:
            with open_input(path) as plain:
                for number, kernel in enumerate(read_kernels(plain)):
                    if (label := wanted.pop(number, None)) is not None:
                        found = analyze_kernel(kernel, str(number))
                        held, said, why = judge(label, found)
                        later = label.get("later", {})
                        more = {key: [*label[key], *later.get(key, [])] for key in ("regime", "steps")}
                        again = held == "wrong" and judge(more, found)[0] != "wrong"
                        yield Judged(**base, name=label["name"], held=held, said=said, why=why, later=again)
        except Exception as fault:
            yield Judged(**base, name="(whole report)", held="unread", said="", why=repr(fault)[:200])


def share(some: Sequence[Judged], held: str) -> str:
    return f"{sum(r.held == held for r in some)} ({sum(r.held == held for r in some) / len(some):.0%})" if some else "-"


def table(rows: Sequence[Judged]) -> list[str]:
    """A line a chip and a line a set, kernels and distinct ones; a report is wrong where one of its kernels is."""
    head = (
        "| {} | reports | wrong reports | kernels | right | silent | wrong | unread | distinct | right | wrong "
        "| wrong, looked up |"
    )
    lines = []
    for title, key in (("chip", "chip"), ("collected", "collected"), ("", "")):
        if title:
            lines += [head.format(title), "|---" + "|---:" * 11 + "|"]
        groups = sorted({getattr(r, key) for r in rows}, key=lambda g: (len(g), g)) if key else ["all"]
        for group in groups:
            some = [r for r in rows if not key or getattr(r, key) == group]
            files = {(r.repository, r.path) for r in some}
            bad = {(r.repository, r.path) for r in some if r.held in ("wrong", "unread")}
            distinct = list({(*r.same, r.held): r for r in some}.values())
            lines.append(
                f"| {group} | {len(files)} | {len(bad)} ({len(bad) / len(files):.0%}) | {len(some)} | "
                + " | ".join(share(some, held) for held in ("right", "silent", "wrong", "unread"))
                + f" | {len(distinct)} | {share(distinct, 'right')} | {share(distinct, 'wrong')} | "
                + f"{sum(r.held == 'wrong' and not r.later for r in some)} of {len(some)} |"
            )
        if title == "chip":
            lines.append("")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--each", action="store_true")
    args = parser.parse_args()
    labels = tomllib.loads(LABELS.read_text(encoding="utf-8"))["report"]
    rows = list(judged(args.reports, labels))
    if not rows:
        sys.exit(f"{args.reports}: none of the {len(labels)} labelled reports is there")
    lines = table(rows)
    print("\n".join(lines))
    for r in rows:
        if args.each or r.held != "right":
            print(f"{r.held:7} {r.chip} {r.repository.split('/')[0]:14} {r.path[-34:]:34} {r.name[:26]:26} {r.said}"
                  + (f"  [{r.why}]" if r.why else ""))  # fmt: skip
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
