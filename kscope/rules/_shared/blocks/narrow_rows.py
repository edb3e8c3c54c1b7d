"""Blocks whose rows are shorter than a line of memory: what GRD404 says where L2 has more requests than bytes."""

from __future__ import annotations

from kscope.features.facts import Code, Demand, Facts, longer_rows, total
from kscope.rules._shared.blocks.idle_warps import Empty
from kscope.rules.base import counted, derived, measured, percent

LINE = 128  # bytes that one request to L2 can ask for
WARP = 32
A_LINE = "threads of a row that is a line"
MOST = 0.9  # of the executions of global accesses, from which all are in rows (judged)
ANSWERED = 0.5  # of the sectors in L1, from which the block's shape is what brings them together (judged)
APART = 1.5  # times as busy as any other part, from which requests are what fills L2 (judged)


def narrow_rows(facts: Facts) -> Empty | None:
    """None where rows are whole lines or all the data there is, where lanes do not lie side by side in them, where
    the block has a reason for its shape, and where requests are not what is full."""
    code, block = facts.code, facts.kernel.launch.block
    if code is None or block[0] >= WARP or block[1] * block[2] == 1:
        return None
    accesses = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    rows = _in_rows(facts, code, accesses, block[0])
    if not rows:
        return None
    width = max(code.classes[i].bytes for i in rows)
    long = min(WARP, LINE // width)
    times = long // block[0]
    if times < 2 or block[0] * facts.kernel.launch.grid[0] < long:
        return None
    full, beside = _busy(facts)
    if not full or full < APART * beside or _has_reason(facts, code):
        return None
    pieces = WARP // block[0] * total(code.executed, rows) + total(code.executed, set(accesses) - set(rows))
    left = 1 - (1 - 1 / times) * (WARP // block[0]) * total(code.executed, rows) / pieces
    fewer: dict[Demand, float] = {"l2_requests": 1 / times, "l1_wavefronts": left}  # one pass a line
    once = "once" if long == WARP else f"{WARP // long} times"
    shape = " x ".join(str(n) for n in longer_rows(block, times) if n > 1)
    return Empty(
        title=f"Rows of {block[0]} threads: L2 is asked for {block[0] * width} bytes at a time",
        why=(
            f"A warp of {' x '.join(map(str, block))} threads lies in {counted(WARP // block[0], 'row')}: each access "
            f"asks L2 {WARP // block[0]} times for {block[0] * width} bytes where rows of {long} threads ask "
            f"{once} for {long * width}. L2 takes requests in {percent(full)} of its cycles, and "
            f"moves bytes in {percent(beside)}."
        ),
        evidence=[
            measured(facts, "launch__block_size"),
            derived("cycles in which L2 takes a request", full, "", "fullest part of L2 (tag requests)"),
            derived("cycles in which L2 moves bytes", beside, "", "the fullest of its other parts"),
            derived(A_LINE, long, "", "bytes of a line over those of an access, at most a warp"),
        ],
        locations=code.locations(rows),
        estimate=facts.estimate.relieve(code.blamed_share(accesses), 1.0, fewer),
        fix=f"blocks of {shape} threads: a warp's lanes in one row, or in as few as can be",
        remedies=(),
    )  # fmt: skip


def _in_rows(facts: Facts, code: Code, accesses: list[int], side: int) -> list[int]:
    """Those of the accesses whose lanes lie side by side in rows of so many threads, each less than a line; none where
    others are more than a few, those of one address a warp apart: they are one request in any shape."""
    each = {i: code.classes[i].bytes for i in accesses if not isinstance(facts.lanes.addresses(i), int)}
    rows = [i for i in each if facts.lanes.stride(i) == each[i] and side * each[i] < LINE]
    return rows if rows and total(code.executed, rows) >= MOST * total(code.executed, each) else []


def _has_reason(facts: Facts, code: Code) -> bool:
    """Threads meet at barriers, and what they share has the block's shape; or L1 answers most of what they ask, because
    neighbours in all directions load the same."""
    meet = any("barrier" in code.classes[i].kind for i in code.ran(range(len(code))))
    return meet or (facts.counters.traffic.l1_hit or 0.0) >= ANSWERED


def _busy(facts: Facts) -> tuple[float, float]:
    """(requests, the fullest other part) of L2, shares of its cycles; 0 where another unit is fuller or they were not
    counted."""
    unit = facts.estimate.units.get("l2")
    if unit is None or facts.estimate.next_limit({}, skip=("blocks",))[1] != unit.title:
        return 0.0, 0.0
    full = max((p.busy for p in unit.parts if p.demand == "l2_requests"), default=0.0)
    return full, max((p.busy for p in unit.parts if p.demand not in ("l2_requests", "l2_internal")), default=0.0)
