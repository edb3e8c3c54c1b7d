"""Judge kscope on stored reports of public programs, beside Nsight Compute's own rules. Needs no GPU.

    python tools/field/judge.py REPORTS [--half learn] [--out PAGE.md]

REPORTS is the folder that tools/field/capture.py filled. labels/<half>.toml says what an expert sees in each kernel,
written from the source before a report was analysed; labels/measured.toml what the step that it names brought when it
was built, checked and timed. Figures: the cause named first and among the first three findings that are more than
information; of the promises made for a cause that a measured step removes, the share whose [low, high] holds the
measured gain; promises of 1.25x or more where nothing pays. Of first suggestions that were built, which made the kernel
slower: labels/told.toml has those built as kscope words them, else the measured step counts if it removes that cause.

Half `strangers`: reports that others published (strangers.toml); their steps are the other versions that the same
people profiled (labels/strangers_steps.toml). REPORTS then has a folder a repository, and reports by path and commit.

From judged4 on there are up to three steps a program, each of which removes one cause (labels/steps.toml; `a` is the
label's), so each promise has a measurement of its own, and "best step first" says whether the first suggestion names
the cause of the step that was measured to bring most, or of one within a tenth of it. What kscope says first and nobody
had built was built as told and counts as a step too; programs in which no step brings a tenth are left out there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).resolve().parent
WITHIN = 0.9  # of the best step's gain: what differs by less is as good a start
WORTH = 1.1  # gain of the best step; below it there is no best
SLOWER = 0.96  # two runs of one kernel differ by up to 3.5 % (those of labels/measured.toml that were timed twice)
sys.path[:0] = [str(HERE.parent), str(HERE)]

from eval import Promise, ours, theirs  # noqa: E402 - tools/ is no package
from split import HALVES  # noqa: E402

from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402


class Row(msgspec.Struct, frozen=True):
    """One kernel: its label, what was measured (labels/measured.toml), what kscope and the profiler's rules say."""

    program: str
    label: dict[str, Any]
    measured: dict[str, Any]
    verdict: str
    said: list[Promise]
    nvidia: list[Promise]
    told: dict[str, Any] = {}
    steps: list[dict[str, Any]] = []

    def built(self) -> float | None:
        """How many times faster the kernel was with the first suggestion; None where nobody built it, and where the
        first finding promises nothing: that a unit is full is no step to build."""
        first = next((p for p in self.said if p.counts), None)
        if first is not None and first.low is None:
            return None
        for step in (self.told, self.measured, *self.steps):
            if first is not None and set(first.slugs) & set(step.get("causes", ())):
                return step.get("ratio")
        return None

    def first(self, said: Sequence[Promise], among: int) -> bool:
        counted = [p for p in said if p.counts][:among]
        return any(set(p.slugs) & set(self.label["accept"]) for p in counted)

    @property
    def truth(self) -> float | None:
        """How many times faster the measured step made the kernel."""
        return self.measured.get("ratio")

    def promise(self, step: dict[str, Any] | None = None) -> Promise | None:
        """The first promise made for a cause that the step removes, the label's where none is given."""
        causes = (self.measured if step is None else step).get("causes", ())
        named = (p for p in self.said if set(p.slugs) & set(causes))
        return next((p for p in named if p.low is not None), None)

    def kept(self, step: dict[str, Any] | None = None) -> bool | None:
        """Whether the measured gain lies in that promise's bounds; None without a promise or a measurement."""
        p, truth = self.promise(step), (self.measured if step is None else step).get("ratio")
        if p is None or truth is None or p.low is None or p.high is None:
            return None
        return bool(p.low <= truth <= p.high)

    def best_first(self) -> bool | None:
        """Whether the first suggestion names a cause whose step brings as good as most; None where no step pays."""
        built = [one for one in (*self.steps, self.told) if one.get("ratio")]
        most = max((one["ratio"] for one in built), default=0.0)
        if most < WORTH:
            return None
        good = {cause for one in built if one["ratio"] >= WITHIN * most for cause in one["causes"]}
        first = next((p for p in self.said if p.counts), None)
        return first is not None and bool(set(first.slugs) & good)


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def manifest_of(reports: Path) -> list[dict[str, Any]]:
    manifest = reports / "manifest.json"
    if not manifest.is_file():
        sys.exit(f"{reports}: no manifest.json; make field HECBENCH=checkout on a machine with a GPU writes one")
    rows: list[dict[str, Any]] = json.loads(manifest.read_text(encoding="utf-8"))["rows"]
    return rows


def published() -> list[dict[str, Any]]:
    """The same of strangers.toml: OWNER+NAME/PATH@COMMIT.ncu-rep, with `/` and blanks of the path as `_` and seven
    digits of the commit."""
    rows = []
    for program, one in read_toml(HERE / "strangers.toml").items():
        path = one["path"].removesuffix(".ncu-rep").replace("/", "_").replace(" ", "_")
        report = f"{one['repository'].replace('/', '+')}/{path}@{one['commit'][:7]}.ncu-rep"
        rows.append({"program": program, "report": report, "function": one["kernel"], "launch": one["launch"]})
    return rows


def load(reports: Path, half: str) -> tuple[list[Row], list[str]]:
    """The labelled kernels that have a report, and what is missing in words."""
    labels = read_toml(HERE / "labels" / f"{half}.toml")
    made = "strangers_steps" if half == "strangers" else "steps"
    measured, told, steps = (read_toml(HERE / "labels" / f"{name}.toml") for name in ("measured", "told", made))
    if not labels:
        sys.exit(f"no labels/{half}.toml: write what the sources say before a report of this half is analysed")
    rows, missing = [], []
    captured = {r["program"]: r for r in (published() if half == "strangers" else manifest_of(reports))}
    for program, label in labels.items():
        row = captured.get(program, {})
        path = reports / row.get("report", "-")
        if not path.is_file():
            missing.append(f"{program}: no report ({row.get('fault', 'not captured')})")
            continue
        if (other := label.get("instead", {}).get(row["function"])) is not None:
            label = {**label, **other, "kernel": row["function"]}
        if row["function"] != label["kernel"]:
            missing.append(f"{program}: the report holds {row['function']}, the label speaks of {label['kernel']}")
            continue
        kernel = next(islice(read_kernels(path), row.get("launch", 0), None))
        analysis = analyze_kernel(kernel, program)
        verdict = f"{analysis.verdict.regime}, {analysis.verdict.limiter.replace('_', ' ')}"
        mine = steps.get(program, {})
        own, other = mine.get("a", measured.get(program, {})), told.get(program, {})
        rows.append(Row(program, label, own, verdict, ours(analysis), theirs(kernel), other, list(mine.values())))
    return rows, missing


def share(values: Sequence[bool]) -> str:
    return f"{sum(values) / len(values):.2f} ({sum(values)} of {len(values)})" if values else "none"


def table(rows: Sequence[Row], half: str) -> list[str]:
    """The figures of one half, the profiler's rules beside them."""
    kept = [k for k in (r.kept() for r in rows) if k is not None]
    level = [r for r in rows if r.label.get("no_gain")]
    false = [any(p.gain >= 1.25 for p in r.said) for r in level]
    false_n = [any(p.gain >= 1.25 for p in r.nvidia) for r in level]
    return [
        f"| {half} half, {len(rows)} kernels | cause first | among three | promises in bounds | false alarms |",
        "|---|---|---|---|---|",
        f"| kscope | {share([r.first(r.said, 1) for r in rows])} | {share([r.first(r.said, 3) for r in rows])} "
        f"| {share(kept)} | {share(false)} |",
        f"| Nsight Compute's rules | {share([r.first(r.nvidia, 1) for r in rows])} "
        f"| {share([r.first(r.nvidia, 3) for r in rows])} | | {share(false_n)} |",
    ]


def first_steps(rows: Sequence[Row]) -> list[str]:
    """What the first suggestions brought that were built, the slower ones by name."""
    built = [(r.built(), r.program) for r in rows if r.built() is not None]
    slower = ", ".join(f"{name} ({gain:.2f}x)" for gain, name in built if gain is not None and gain < SLOWER)
    told = [r.told["ratio"] for r in rows if r.told.get("ratio")]
    gain = sum(ratio >= WORTH for ratio in told)
    as_told = f" As told: {len(told)}, of which {gain} gain a tenth or more." if told else ""
    return ["", f"First suggestions built: {len(built)}; slower than before: {slower or 'none'}.{as_told}"]


def every_step(rows: Sequence[Row]) -> list[str]:
    """Where each cause has a step of its own: promises against their own steps, and whether the best comes first."""
    if not any(r.steps for r in rows):
        return []
    kept = [k for r in rows for k in map(r.kept, r.steps) if k is not None]
    best = [b for b in map(Row.best_first, rows) if b is not None]
    return ["", f"Every step that was built: promises in bounds {share(kept)}; best step first {share(best)}."]


def said(promises: Sequence[Promise]) -> str:
    def one(p: Promise) -> str:
        bounds = f" ({p.low:.2f} - {p.high:.2f})" if p.low is not None and p.high is not None else ""
        return f"{' / '.join(p.slugs) or 'no cause named'} {p.gain:.2f}x{bounds}"

    return "; ".join(one(p) for p in [p for p in promises if p.counts][:3]) or "nothing pays"


def cases(rows: Sequence[Row]) -> list[str]:
    marks = {True: "yes", False: "no", None: ""}
    lines = [
        "| program | label | verdict | kscope, first three | first | three | measured | in bounds | Nsight Compute |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        truth = f"{r.truth:.2f}x" if r.truth else "no gain" if r.label.get("no_gain") else ""
        others = [one for one in r.steps[1:] if one.get("ratio")]
        truth += "".join(f"; {' / '.join(one['causes'])} {one['ratio']:.2f}x" for one in others)
        named = r.promise()
        promise = (
            f"{marks[r.kept()]} ({named.slugs[0]} {named.low:.2f} - {named.high:.2f})" if named and r.truth else ""
        )
        lines.append(
            f"| {r.program} | {', '.join(r.label['accept'])} | {r.verdict} | {said(r.said)} "
            f"| {marks[r.first(r.said, 1)]} | {marks[r.first(r.said, 3)]} | {truth} | {promise} | {said(r.nvidia)} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--half", choices=[*HALVES, "strangers"], default="learn")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows, missing = load(args.reports, args.half)
    figures = [*table(rows, args.half), *first_steps(rows), *every_step(rows)]
    notes = ["", *(f"- left out: {m}" for m in missing)] if missing else []
    text = "\n".join(["# Kernels of the field", "", *figures, *notes, "", *cases(rows)]) + "\n"
    if args.out:
        args.out.write_text(text, encoding="utf-8")
        print(f"Wrote {args.out}", file=sys.stderr)
    print("\n".join([*figures, *notes] if args.out else [text]))


if __name__ == "__main__":
    main()
