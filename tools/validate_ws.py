"""What kscope says of warp-specialised kernels from a profile, against what their warps recorded themselves.

    python tools/validate_ws.py [FOLDER] [--out reports/warp_specialization.md]

FOLDER (default: fixtures/dials) has two reports a case, one of the plain program and one of the program that records
itself, truth.csv (tools/dials.py: what was recorded in the last pass of the second report) and settings.toml (dials,
planted causes, times). A cell is one share of one role's time.

Diagnoses are judged on the plain program. Shares are compared twice: of the recorded program with its own records,
which is the same machine code and the same launch conditions; and of the plain program with the records, without the
time that records took, where they took at most 3 % of the role's time and made the kernel at most 3 % longer. Kernels
below 20 us are shown and left out of the figures. Where no unit's busy time was recorded, covered and exposed waiting
are compared together.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import footprint
import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.features.facts import Facts  # noqa: E402
from kscope.features.specialized.coverage import Share  # noqa: E402
from kscope.features.specialized.role_time import RoleTime, noise  # noqa: E402
from kscope.features.specialized.specialization import Specialization  # noqa: E402
from kscope.model.contract.analysis import KernelAnalysis  # noqa: E402
from kscope.parsers.files.inputs import open_input  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402
from tests.support import patches, reports  # noqa: E402

RECORDED = 1.03  # recorded over plain time, above which the recording is not of the same kernel
RECORDS = 3.0  # points of a role's time that went into its records, above which it is not the plain program's role
SHORT = 20.0  # us
CLOSE = 3.0  # points of role time
PARTS = ("priming", "issued", "covered", "exposed", "drain")
ROLES = {"MMA": "consumer"}
COVERED = ("ws_gemm.produce_covered", "ws_gemm.store_small")  # delays that a busy tensor pipe covers
SERIES = (
    ("K from 8192 to 128", "fill and drain", ("k8192", "best", "k2048", "k1024", "k512", "k256", "k128")),
    ("stages from 6 to 2 (128 x 128 tiles)", "data", ("n128_stages6", "n128_stages4", "n128_stages3", "n128_stages2")),
    ("stages from 4 to 2", "data", ("best", "stages3", "stages2")),
    ("producer's delay", "data", ("best", "produce_covered", "produce_near", "produce_1500", "produce_exposed")),
    ("K with an exposed epilogue", "epilogue",
     ("epilogue_exposed", "epilogue_exposed_k2048", "epilogue_exposed_k1024")),
)  # fmt: skip


class Cell(msgspec.Struct, frozen=True):
    """One share of one role's time in percent: estimate with bounds, and the truth."""

    case: str
    role: str
    part: str
    estimate: float
    low: float
    high: float
    truth: float
    counts: bool
    noise: float

    @property
    def error(self) -> float:
        return abs(self.estimate - self.truth)

    @property
    def inside(self) -> bool:
        return self.low - 0.05 <= self.truth <= self.high + 0.05


class Case(msgspec.Struct, frozen=True):
    """`plain`, `recorded`: what the two reports say of roles, None where there are none."""

    name: str
    setting: dict[str, Any]
    us: float
    analysis: KernelAnalysis
    plain: Specialization | None
    recorded: Specialization | None

    @property
    def long(self) -> bool:
        return self.us >= SHORT

    @property
    def undisturbed(self) -> bool:
        recorded = self.setting.get("recorded_us")
        return recorded is not None and recorded <= RECORDED * self.setting["time_us"]


Truth = dict[tuple[str, str], dict[str, str]]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "fixtures" / "dials")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    page = render(args.folder)
    if args.out is not None:
        args.out.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
    return 0


def render(folder: Path) -> str:
    settings = tomllib.loads((folder / "settings.toml").read_text(encoding="utf-8"))
    with (folder / "truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {(row["case"], row["role"]): row for row in csv.DictReader(file)}
    cases = [read(folder / name, settings[name]) for name in settings]
    same = [c for case in cases for c in compared(case, truth, recorded=True)]
    other = [c for case in cases for c in compared(case, truth, recorded=False)]
    blocks = [
        "# Warp specialisation: the estimate against the truth",
        "Written by `make validate`. Estimates come from one Nsight Compute report a case; the truth was recorded by "
        "the kernel's own warps (`kscope_trace.cuh`). Our own GEMM and copy kernels on an H200, a dial at a time.",
        "## Shares of the roles' time",
        figures(cases, same, other),
        "Same program: the report is of the program that records, the records are of the last pass of that report. "
        "The sampler looked every 256 cycles, as often as it can (`--warp-sampling-interval 0`).",
        "Plain program: the report is of the program without a recorder, with the sampler's default interval of 2,048 "
        "cycles; the time that records took is left out of the truth, and only those roles are counted that recording "
        "cost at most 3 % of their time in kernels that it made at most 3 % longer. What the recorder leaves of itself "
        f"in the estimates is taken out of them (`tools/footprint.py`). Both: kernels of {SHORT:.0f} us and more.",
        "Sampling noise is two standard errors of a share, from the number of moments in which the sampler looked and "
        "from how few SMs are out of step with the others. Where it is above 3 points, one such report cannot be "
        "expected to come within 3 points.",
        "## First suggestion at each dial setting",
        suggestions(cases),
        "## Counterfactuals",
        counterfactuals(cases),
        "## Response to the dials",
        responses(cases),
        "## Every cell: the same program",
        "Percent of the role's time: estimate / truth [bounds]. `!` more than 3 points off, `~` more than 3 points off "
        "with a sampling noise above 3 points, `*` outside the bounds. Cases in brackets are not counted.",
        every(cases, same),
        "## Every cell: the plain program",
        every(cases, other),
    ]
    return "\n\n".join(blocks) + "\n"


def read(folder: Path, setting: dict[str, Any]) -> Case:
    with open_input(reports.fixture(folder.name, folder.parent)) as plain:
        (kernel,) = read_kernels(plain)
    recorded = None
    if f"{folder.parent.name}/{folder.name}/recorded" in patches.names(folder.parent.name):
        with open_input(reports.fixture(folder.name, folder.parent, "recorded")) as other:
            recorded = Facts(next(iter(read_kernels(other)))).specialized.pipeline
    us = (kernel.duration_ns or 0.0) / 1000
    return Case(folder.name, setting, us, analyze_kernel(kernel, "0"), Facts(kernel).specialized.pipeline, recorded)


def compared(case: Case, truth: Truth, *, recorded: bool) -> Iterable[Cell]:
    """Estimate against truth, of the recorded or of the plain program."""
    sp = case.recorded if recorded else case.plain
    for time in sp.times if sp is not None else ():
        row = truth.get((case.name, ROLES.get(time.role.name, time.role.name)))
        main = truth.get((case.name, "consumer"))
        if sp is None or row is None or main is None:
            continue
        known = bool(row["covered"])
        less = footprint.of_plain(sp)
        if recorded:
            less = footprint.of_recorded(sp, float(main["cycles"]), float(main["late"]))
        shares = estimated(time, less, known=known)
        spent = 0.0 if recorded else float(row["recording"])
        for part in PARTS:
            if part in shares:
                share = shares[part]
                value = (float(row[part]) - (spent if part == "issued" else 0.0)) / (1 - spent / 100)
                blur = 100 * noise(sp, share.point, time.role)
                yield Cell(
                    case.name, time.role.name, part if known or part != "exposed" else "waiting",
                    100 * share.point, 100 * share.low, 100 * share.high, value,
                    case.long and (recorded or (case.undisturbed and spent <= RECORDS)), blur,
                )  # fmt: skip


def estimated(time: RoleTime, less: footprint.Footprint, *, known: bool) -> dict[str, Share]:
    """Shares of what the recorder saw of a role's time."""
    inside = less.enclosed.get(time.role.name, 0.0)
    waiting = time.covered if known else time.covered.plus(time.exposed)
    shares = {
        "priming": shifted(time.priming, -less.before), "issued": shifted(time.issued, -inside),
        "covered" if known else "exposed": shifted(waiting, inside), "drain": shifted(time.drain, -less.behind),
    }  # fmt: skip
    if known:
        shares["exposed"] = time.exposed
    return {part: share.scaled(1 / (1 - less.before - less.behind)) for part, share in shares.items()}


def shifted(share: Share, by: float) -> Share:
    return Share(max(0.0, share.point + by), max(0.0, share.low + by), max(0.0, share.high + by))


def figures(cases: list[Case], same: list[Cell], other: list[Cell]) -> str:
    flat = [c for c in cases if not c.setting.get("specialised", True)]
    called = sum(c.analysis.warp_specialization is not None for c in flat)
    columns = [counts(same), counts(other)]
    lines = ["| figure | same program | plain program |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {' | '.join(c[name] for c in columns)} |" for name in columns[0]]
    return "\n".join([*lines, f"\nKernels without roles that were called specialised: {called} of {len(flat)}."])


def counts(cells: list[Cell]) -> dict[str, str]:
    counted = [c for c in cells if c.counts]
    errors = sorted(c.error for c in counted)
    clear = [c for c in counted if c.noise <= CLOSE]
    return {
        "cells (shares of a role's time), compared": f"{len(counted)} of {len(cells)}",
        "mean error, points of role time": f"{sum(errors) / len(errors):.2f}",
        "within 3 points": percent(sum(e <= CLOSE for e in errors), len(errors)),
        "within 3 points, where the sampling noise is not above": percent(
            sum(c.error <= CLOSE for c in clear), len(clear)
        ),
        "largest error, where the sampling noise is not above": f"{max(c.error for c in clear):.1f}",
        "largest error": f"{errors[-1]:.1f}",
        "mean width of the bounds": f"{sum(c.high - c.low for c in counted) / len(counted):.0f}",
        "truth inside the bounds": percent(sum(c.inside for c in counted), len(counted)),
        "truth inside the bounds, all cells": percent(sum(c.inside for c in cells), len(cells)),
    }


def percent(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "none"


def suggestions(cases: list[Case]) -> str:
    lines = ["| case | us | regime | first | promise | planted | |", "| --- | ---: | --- | --- | ---: | --- | --- |"]
    hits = 0
    judged = [c for c in cases if c.setting.get("accept")]
    for case in judged:
        named = [f for f in case.analysis.findings if f.severity != "info"]
        first = named[0] if named else None
        accept = case.setting["accept"]
        hit = first is not None and first.rule in accept
        hits += hit
        gain = f"{first.estimate.speedup:.2f}x" if first is not None and first.estimate is not None else ""
        verdict = case.analysis.verdict
        lines.append(
            f"| {case.name} | {case.us:.0f} | {verdict.regime}, {verdict.limiter} | "
            f"{first.rule if first else 'none'} | {gain} | {', '.join(accept)} | {'' if hit else 'missed'} |"
        )
    return f"The first suggestion is the planted cause in {percent(hits, len(judged))}.\n\n" + "\n".join(lines)


def counterfactuals(cases: list[Case]) -> str:
    """Times of a setting and of the one without its fault, against the promise of the accepted finding."""
    by_name = {c.name: c for c in cases}
    lines = [
        "| from | to | us | us | time saved | promised | |", "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]  # fmt: skip
    good = total = 0
    for case in cases:
        fixed = by_name.get(case.setting.get("fixed", ""))
        if fixed is None or case.setting.get("no_gain") or case.name in COVERED:
            continue
        before, after = case.setting["time_us"], fixed.setting["time_us"]
        saved = 1 - after / before
        found = next((f for f in case.analysis.findings if f.rule in case.setting["accept"] and f.estimate), None)
        promised = 1 - 1 / found.estimate.speedup if found is not None and found.estimate is not None else 0.0
        fits = abs(promised - saved) <= saved / 3
        good, total = good + fits, total + 1
        lines.append(
            f"| {case.name} | {fixed.name} | {before:.1f} | {after:.1f} | {100 * saved:.1f} % | "
            f"{100 * promised:.1f} % | {'' if fits else 'off by more than a third'} |"
        )
    text = f"Removing an exposed wait saves what was promised, within a third, in {percent(good, total)}."
    best = by_name.get("ws_gemm.best")
    for name in COVERED:
        if best is not None and name in by_name:
            change = by_name[name].setting["time_us"] / best.setting["time_us"] - 1
            text += f" A covered wait ({name}) changes the time by {100 * change:+.1f} %."
    return text + "\n\n" + "\n".join(lines)


def responses(cases: list[Case]) -> str:
    by_name = {c.name.removeprefix("ws_gemm."): c for c in cases}
    lines = ["| dial | lost to | settings | share of the time | monotone |", "| --- | --- | --- | --- | --- |"]
    for dial, what, names in SERIES:
        values = []
        for name in names:
            ws = by_name[name].analysis.warp_specialization if name in by_name else None
            if ws is not None and ws.lost is not None:
                values.append(ws.lost.fill + ws.lost.drain if what == "fill and drain" else getattr(ws.lost, what))
        monotone = all(b >= a - 0.01 for a, b in itertools.pairwise(values))
        lines.append(
            f"| {dial} | {what} | {', '.join(names)} | {', '.join(f'{100 * v:.1f} %' for v in values)} | "
            f"{'yes' if monotone else 'no'} |"
        )
    return "\n".join(lines)


def every(cases: list[Case], cells: list[Cell]) -> str:
    lines = [
        "| case | role | priming | issued | covered | exposed | drain |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        for time in case.plain.times if case.plain is not None else ():
            mine = {c.part: c for c in cells if c.case == case.name and c.role == time.role.name}
            if not mine:
                continue
            row = [written(mine.get(p)) for p in PARTS]
            if "waiting" in mine:
                row[3] = written(mine["waiting"]) + " (with covered)"
            name = case.name if next(iter(mine.values())).counts else f"({case.name})"
            lines.append(f"| {name} | {time.role.name} | {' | '.join(row)} |")
    return "\n".join(lines)


def written(cell: Cell | None) -> str:
    if cell is None:
        return ""
    marks = ("!" if cell.noise <= CLOSE else "~") * (cell.error > CLOSE) + "*" * (not cell.inside)
    return f"{cell.estimate:.1f} / {cell.truth:.1f} [{cell.low:.0f}, {min(100.0, cell.high):.0f}]{marks}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
