"""Choose the constants of the estimates from the labelled captures, and say how they hold on kernels left out.

    python tools/fit.py [FOLDER]          (default: fixtures/h200; `make eval` puts the result into reports/eval.md)

What is fitted: constants of kscope/arch/estimates.toml (how caps add up, when a unit is full, the width of
the range), the overlap that LAT302 counts on, the loads from which the regime calls a unit full or used, and the
attainable rates of kscope/arch/units.toml (the busiest that a unit was ever seen). Each constant is tried over VALUES,
one at a time, the others as they are; the best of them by `loss` is what a fit would choose.

Leave one family out: for each family of kernels (a case's name before its dot; all matrix products are one), the
constants and rates are chosen on all other families, and the family is diagnosed
with these. The figures over all families are those of kernels that the fit had not seen.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from eval import Case, Promise, figures, load, ours  # noqa: E402

from kscope.arch import table  # noqa: E402
from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.features.counters.units import units  # noqa: E402

VALUES: dict[str, tuple[float, ...]] = {
    "estimates.smooth": (2.0, 2.5, 3.0, 4.0, 6.0),
    "estimates.full": (0.8, 0.85, 0.9, 0.95),
    "estimates.free": (0.4, 0.5, 0.6, 0.7),
    "estimates.relieved": (0.6, 0.7, 0.8, 0.9),
    "estimates.yields": (0.5, 0.65, 0.75, 0.85, 1.0),
    "estimates.low": (0.3, 0.4, 0.5, 0.6, 0.7),
    "estimates.rise": (1.0, 1.15, 1.35, 1.6, 1.8),
    "kscope.rules.latency.warp_divergence.LEFT": (0.0, 0.05, 0.1, 0.15),
    "kscope.rules.latency.exposed_memory_latency.AHEAD": (2.0, 3.0, 4.0, 6.0, 8.0),
    "estimates.full_unit": (0.7, 0.75, 0.8, 0.85, 0.9),
    "estimates.used_unit": (0.5, 0.55, 0.6, 0.65, 0.7),
    "estimates.idle_sms": (0.7, 0.75, 0.8, 0.85, 0.9),
}
INSIDE = 0.9  # of the known gains should lie in the promised range: of those first met fewer did (first_sight.toml)
SEEN = 0.85  # of peak, from which a unit was seen near its limit and its attainable rate counts as measured
PRODUCTS = ("sgemm", "gemm_f32", "gemm_bf16", "mm", "hgemm", "triton_matmul", "triton_deep")
KIN = {"triton_softmax": "softmax_rows", "triton_rowsum": "uncoalesced", "rowsum_roof": "uncoalesced",
       "transpose_roof": "bank_conflict", "wgmma_flight": "tensor_loop"}  # fmt: skip
"""Cases of other names that are the same kernel in other clothes: one family."""

Setting = tuple[str, float]
Row = tuple[list[Promise], str]


def family(case: str) -> str:
    name = case.partition(".")[0]
    return "products" if name in PRODUCTS else KIN.get(name, name)


def value_of(name: str) -> float:
    """A constant: `estimates.<key>` of the table, or an attribute of a module."""
    path, _, key = name.rpartition(".")
    return float(table(path)[key]["value"] if path == "estimates" else getattr(importlib.import_module(path), key))


def put(name: str, value: float) -> None:
    path, _, key = name.rpartition(".")
    if path == "estimates":
        table(path)[key]["value"] = value
    else:
        setattr(importlib.import_module(path), key, value)


@contextmanager
def using(setting: Setting | None, rates: Mapping[str, float] | None = None) -> Iterator[None]:
    """The constants, and attainable rates, replaced for a while."""
    kept = {name: spec["attainable"] for name, spec in table("units").items()}
    before = value_of(setting[0]) if setting is not None else 0.0
    if setting is not None:
        put(*setting)
    for unit, rate in (rates or {}).items():
        table("units")[unit]["attainable"] = rate
    try:
        yield
    finally:
        if setting is not None:
            put(setting[0], before)
        for unit, rate in kept.items():
            table("units")[unit]["attainable"] = rate


def diagnose(cases: Sequence[Case], setting: Setting | None, rates: Mapping[str, float] | None = None) -> list[Row]:
    with using(setting, rates):
        done = [analyze_kernel(c.kernel, c.name) for c in cases]
    return [(ours(a), a.verdict.regime) for a in done]


def loss(cases: Sequence[Case], rows: Sequence[Row]) -> float:
    """Median log2 error of the gain, plus what coverage and regime accuracy lack."""
    found = figures(cases, [p for p, _ in rows], [r for _, r in rows])
    error, inside, regime = found["median log2 error"], found["truth in bounds"], found["regime"]
    return float(error + 2 * max(0.0, INSIDE - inside) + 2 * (1 - regime))


def rates(cases: Sequence[Case]) -> dict[str, float]:
    """The busiest that each unit was seen, where it was seen near its limit; rounded up to a hundredth."""
    seen: dict[str, float] = {}
    for case in cases:
        for name, unit in units(case.kernel.metrics).items():
            seen[name] = max(seen.get(name, 0.0), unit.busy)
    return {name: math.ceil(busy * 100 - 1e-6) / 100 for name, busy in seen.items() if busy >= SEEN}


class Fit(msgspec.Struct, frozen=True):
    """tried: constant -> value -> loss on all cases. kept, chosen: the loss of the constants as they are, and of the
    best single change. left_out: figures when each family is judged by a fit without it. picks: constant -> how many
    of those fits changed it, and to what. measured: unit -> attainable rate seen in all cases, and the lowest that
    leaving one family out gives."""

    tried: dict[str, dict[float, float]]
    kept: float
    families: int
    in_sample: dict[str, Any]
    left_out: dict[str, Any]
    picks: dict[str, dict[float, int]]
    measured: dict[str, tuple[float, float, float]]


def fit(cases: Sequence[Case]) -> Fit:
    settings: list[Setting | None] = [None]
    for name, values in VALUES.items():
        now = value_of(name)
        settings += [(name, value) for value in values if value != now]
    results = {setting: diagnose(cases, setting) for setting in settings}
    losses = {setting: loss(cases, rows) for setting, rows in results.items()}
    names = sorted({family(c.name) for c in cases})
    rows: list[Row] = [([], "")] * len(cases)
    picks: dict[str, dict[float, int]] = {}
    lowest = rates(cases)
    for left in names:
        others = [i for i, c in enumerate(cases) if family(c.name) != left]
        mine = [i for i, c in enumerate(cases) if family(c.name) == left]
        seen = [cases[i] for i in others]
        best = min(settings, key=lambda s: (loss(seen, [results[s][i] for i in others]), s is not None))
        if best is not None:
            counts = picks.setdefault(best[0], {})
            counts[best[1]] = counts.get(best[1], 0) + 1
        without = rates(seen)
        lowest = {unit: min(rate, without.get(unit, rate)) for unit, rate in lowest.items()}
        for i, row in zip(mine, diagnose([cases[i] for i in mine], best, without), strict=True):
            rows[i] = row
    tried: dict[str, dict[float, float]] = {}
    for setting in settings:
        if setting is not None:
            tried.setdefault(setting[0], {})[setting[1]] = losses[setting]
    now_rates = {name: float(spec["attainable"]) for name, spec in table("units").items()}
    return Fit(
        tried, losses[None], len(names), figures(cases, [p for p, _ in results[None]], [r for _, r in results[None]]),
        figures(cases, [p for p, _ in rows], [r for _, r in rows]), picks,
        {unit: (now_rates[unit], rate, lowest[unit]) for unit, rate in rates(cases).items()},
    )  # fmt: skip


def report(found: Fit) -> list[str]:
    """Markdown: the figures of left-out families, each constant with the loss of its other values, the rates."""
    keys = [k for k in found.in_sample if k != "cases"]
    lines = [
        "| | " + " | ".join(keys) + " |", "|---|" + "---|" * len(keys),
        "| constants as they are | " + " | ".join(f"{found.in_sample[k]:.2f}" for k in keys) + " |",
        f"| fitted without the family, {found.families} families | "
        + " | ".join(f"{found.left_out[k]:.2f}" for k in keys) + " |",
        "", f"Loss of the constants as they are: {found.kept:.3f} (median log2 error, plus twice what truth in bounds "
        f"lacks of {INSIDE} and regime accuracy of 1). A value in bold would have a lower loss.", "",
        "| constant | value: loss | chosen by how many of the fits |", "|---|---|---|",
    ]  # fmt: skip
    for name, values in found.tried.items():
        path, _, constant = name.rpartition(".")
        shown = ", ".join(
            f"**{v:g}: {x:.3f}**" if x < found.kept - 5e-4 else f"{v:g}: {x:.3f}" for v, x in sorted(values.items())
        )
        picked = ", ".join(f"{v:g} in {n}" for v, n in sorted(found.picks.get(name, {}).items())) or "none"
        now = value_of(name)
        lines.append(f"| {path.removeprefix('kscope.')}.{constant} = {now:g} | {shown} | {picked} |")
    lines += [
        "", "| unit | attainable share of peak | busiest seen | busiest without the family that shows it |",
        "|---|---|---|---|",
    ]  # fmt: skip
    lines += [f"| {unit} | {now:.2f} | {seen:.2f} | {low:.2f} |" for unit, (now, seen, low) in found.measured.items()]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "fixtures" / "h200")
    args = parser.parse_args()
    print("\n".join(report(fit(load(args.folder)))))


if __name__ == "__main__":
    main()
