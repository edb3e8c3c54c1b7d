"""Rows that are given more threads than they have use for, blocks or the lanes of warps: what GRD405 says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts
from kscope.rules._shared.blocks.item_blocks import a_warp_each
from kscope.rules.base import counted, derived, percent

if TYPE_CHECKING:
    from kscope.features.facts import Demand, WarpRows
    from kscope.model.contract.analysis import Estimate, Finding
    from kscope.rules.base import ProfiledRule

LANES = 32
MOST = 16  # elements of a row, up to which half a warp or less has use for it
LEAST = 1.05  # gain below which they are not worth a word
SURE = 0.7  # judged: it is measured how many lanes load an element; the rows of one launch may differ much


def a_warp_an_item(rule: ProfiledRule, facts: Facts, code: Code, sure: float) -> Finding | None:
    """Where each block joins what its threads found in one item, and they had few elements of it."""
    found = a_warp_each(facts)
    if found is None or found[1].speedup < LEAST:
        return None
    work, estimate = found
    share = code.issue_share(work.once)
    each = work.elements / work.threads
    return rule.finding(
        title=f"{counted(work.threads, 'thread')} join what each found in {counted(each, 'element', '.2g')}",
        why=(
            f"A block has {counted(work.elements, 'element', '.4g')} of an item for {work.threads} threads. "
            f"{percent(share)} of all instructions are run by every thread however few it gets: indices, "
            "parameters, its part in joining the results. A warp an item runs them once, and joins without "
            "barriers."
        ),
        fix=f"a warp an item, {work.threads // 32} items a block: {work.rounds(32)} elements a lane, then shuffles",
        evidence=[
            derived("elements a thread", each, "", "lanes with an element, a thread"),
            derived("instructions paid once a thread", share, "", "outside what is dealt out"),
        ],
        locations=code.locations(work.once),
        estimate=estimate, pulls=["-threads"], confidence=sure,
    )


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
            f"through its bounds, its loop and the shuffles that join it. With {lanes} lanes a row a warp has {many} "
            f"rows, {many} times the loads in flight, and joins all of them in {lanes.bit_length() - 1} steps."
        ),
        fix=f"{lanes} lanes a row and {many} rows a warp: row = thread / {lanes}; shuffles of width {lanes}",
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
