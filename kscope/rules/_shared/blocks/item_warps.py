"""Warps that walk rows of fewer elements than they have lanes: what GRD405 says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts
from kscope.rules.base import counted, derived, percent

if TYPE_CHECKING:
    from kscope.features.facts import Demand, WarpRows
    from kscope.model.contract.analysis import Estimate, Finding
    from kscope.rules.base import ProfiledRule

LANES = 32
MOST = 16  # elements of a row, up to which half a warp or less has use for it
LEAST = 1.05  # gain below which they are not worth a word
SURE = 0.7  # judged: it is measured how many lanes load an element; the rows of one launch may differ much


def few_lanes(rule: ProfiledRule, facts: Facts, code: Code) -> Finding | None:
    """Where a warp has a row that half of its lanes would do, or fewer; None elsewhere."""
    rows = facts.profile.warp_rows(facts.lanes.stride, facts.lanes.strides.steps)
    if rows is None or not 0 < rows.elements <= MOST:
        return None
    lanes = max(2, 1 << max(0, round(rows.elements) - 1).bit_length())
    many = LANES // lanes
    estimate = _estimate(facts, code, rows, many)
    if estimate.speedup < LEAST:
        return None
    idle = 1 - rows.elements / LANES
    return rule.finding(
        title=f"A warp walks rows of {counted(rows.elements, 'element', '.2g')}",
        why=(
            f"Of the 32 lanes that share a row {percent(idle)} have no element of it, and each row takes a whole warp "
            f"through its bounds, its loop and five shuffles. {lanes} lanes a row have {many} rows in a warp at once, "
            f"as many loads in flight, and {lanes.bit_length() - 1} shuffles for all of them."
        ),
        fix=f"{lanes} lanes a row, {many} rows a warp: row = thread / {lanes}, shuffles of width {lanes}",
        evidence=[
            derived("elements of a row", rows.elements, "", "lanes that load one, over the rows that warps join"),
            derived("rows", rows.rows, "", "executions of the shuffles that join them"),
        ],
        locations=code.locations(list(rows.loads)),
        estimate=estimate, pulls=["-threads"], confidence=SURE,
    )


def _estimate(facts: Facts, code: Code, rows: WarpRows, many: int) -> Estimate:
    """All that a warp does serves `many` rows at once; gathers ask for as much as before."""
    spread = {
        i for i in code.where(lambda ins, op: op.space == "global" and op.access is not None)
        if facts.addresses.gathers(i) and i not in rows.loads
    }  # fmt: skip
    ran = [i for i in code.ran(range(len(code))) if i not in spread]
    scale: dict[Demand, float] = dict(facts.profile.demands_after(ran, 1 / many))
    scale["instructions"] = scale["blocks"] = 1 / many
    launch = facts.counters.launch
    # Where each warp has one row, as many blocks fewer hold them; where it goes from row to row, the same blocks do.
    alone = launch.waves / max(1.0, launch.waves / many) if launch.waves > 1 else 1.0
    return facts.estimate.overlap(many if rows.rows > 2 * launch.warps else alone, scale)
