"""What lies behind lanes that stand apart, and what to do in each case: words that MEM101 takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from kscope.features.facts import Code, Column, Excess, Facts, Scale, total
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.model.units import counted
from kscope.rules._shared.own_records import ordered_words, split

MOST = 16  # accesses looked at, those that are waited for most
SHARED = 8  # bytes asked for over bytes from device memory, from which many threads walk the same rows
PROVEN, GATHERED, CHASED = 0.9, 0.35, 0.1  # confidences
CAUGHT, CAUGHT_SURE = 0.95, 0.5
"""Of what L2 is asked for, left without the excess, from which L1 caught all of it; and the confidence then, where L1
is not the fullest: of seven such findings that came first on libraries' kernels three named the cause, and two of three
steps gained (0.77x to 3.4x). Of 19 where L2 is asked for less, 16 named it, and none of their steps was slower."""
SLIGHT, SLIGHT_SURE = 1.6, 0.5
"""Gain, below which other places for lanes cost about what they save, and the confidence then. Such first suggestions
of lists nine and ten, built as told: 3 of 9 gained a tenth, 4 were slower (0.62x to 0.94x); of the larger all 5 gained.
Lists before: four of twelve below 1.35x gained, and all of 28 above, two of them in other words than the first."""
ROW, COLUMN, SWAPPED, PRODUCT, MOVED, PIECE, HIT = "row", "column", "swapped", "product", "moved", "piece", "hit"
OWN, SPLIT, ADDED = "own", "split", "added"
WHY = {
    "": "",
    ROW: " Each lane walks a row of its own.",
    COLUMN: " Neighbouring blocks read the neighbouring elements; the lanes of a warp stand a stride apart.",
    SWAPPED: " Each lane walks a row of one factor, while a warp reads single elements of the other.",
    PRODUCT: " Each lane walks a row of one factor of a product, and many threads walk the same row.",
}
FIX = {
    "indirect": (
        "the addresses are loaded data: sort or bin the indices before the launch, where they serve more than once (in "
        "the kernel it costs more than it saves); make each element as wide as its sector"
    ),
    PIECE: (
        "the addresses are loaded data, and a lane copies its element in pieces of 16 bytes: let neighbouring lanes "
        "take the pieces of one element (two lanes 32 bytes), so that a request has whole sectors"
    ),
    ROW: "one warp (long rows: one block) a row, lanes along it, partial results combined by shuffles",
    COLUMN: "neighbouring lanes on neighbouring columns; the long stride belongs in the loop or between warps",
    SWAPPED: "swap the thread indices: lanes along the columns of the other factor, one element of the row for all",
    PRODUCT: "stage tiles of both factors in shared memory, loaded with neighbouring lanes on neighbouring addresses",
    MOVED: (
        "struct of arrays where the lanes' bytes lie in records (device memory moves whole sectors: staging in shared "
        "memory saves none of them); else neighbouring lanes on neighbouring addresses"
    ),
    HIT: (
        "map neighbouring lanes to neighbouring addresses where that costs nothing: L1 brings the rest of each sector "
        "already (rows staged in shared memory took 1.7 times as long in a public kernel)"
    ),
    OWN: (
        "each lane stores words side by side, in an order that volatile fixes: without it, if nobody waits for one of "
        "them, one access of 8 or 16 bytes (float2, float4), aligned to as many"
    ),
    SPLIT: (
        "struct of arrays; where the layout stays, whole structures with one access (float2, float4), stores too if "
        "nobody else writes their other words: neighbouring lanes are on neighbouring structures already"
    ),
    ADDED: (
        "struct of arrays: neighbouring lanes are on neighbouring structures already; or, where several of a block go "
        "to one place, add them up first (registers, the warp, shared memory)"
    ),
    "": "map neighbouring lanes to neighbouring addresses, struct of arrays, or stage in shared memory",
}


LANES = 32
SHORTEST = 8  # elements of a row from which some lanes share it: fewer save less than joining their results costs
TWICE = 2.0  # times more threads than now, from which a warp a row is more than a change of addresses
BRIEF = 2  # elements a lane of a row that is shared, up to which joining them costs as much (judged: one kernel)
MOSTLY = 0.5  # of all samples, from which accesses are what a kernel waits for, and more warps its cure
PART, AROUND = 0.25, 0.75  # the same, where the loop around them has so much of the samples: its other loads go along
FULL, MORE = 0.85, 2 / 3  # device memory as full as CMP208 asks, moving half as much again as is needed, or quite full:
"""The gain is of bytes not moved. Judged on particles.aos and a public kernel that staging records slowed (0.83x)."""
WORD, WIDE = 4, 16  # bytes of an element, and of the widest access of a lane
WORTH = 1.1  # gain, from which another way is worth a line
WALKS = "A thread walks a whole row"
AS_GOOD = 0.95  # of the gain of lanes that share rows, from which their own rows are the better way (judged)
APART = "what lanes load side by side in the same loop would lie apart"
PADDED = "once rows are padded to start at multiples of 16 bytes (now loaded data says where)"
DEARER = "what is done once a row would be done by each of its lanes' warps, and the joining comes on top"
PIECES = "each lane goes on with its row, four elements of 4 bytes with one access (float4)"


class Rows(Struct, frozen=True):
    """What one thread walks. `elements`: of a row, by executions; `why_not`: the condition of "several lanes a row"
    that does not hold, empty where all do."""

    elements: float
    why_not: str

    @property
    def lanes(self) -> int:
        """Lanes that can share a row: a power of two."""
        return min(LANES, 1 << max(0, int(self.elements).bit_length() - 1))


def rows_of(facts: Facts, code: Code, members: list[int], share: float) -> Rows | None:
    """The rows that single lanes walk with these accesses, which `share` of all samples wait for; None where that is
    beside the point: rows of a tile on its way into shared memory, an epilogue."""
    walking = [i for i in members if code.cfg.loop_of[i] is not None and code.classes[i].access == "load"]
    worst = code.hottest(walking)[:1]
    loop = code.cfg.loop_of[worst[0]] if worst else None
    if loop is None:
        return None
    inside = code.cfg.loop_body(loop)
    around = total(code.samples, inside) / max(1.0, total(code.samples))
    if share < MOSTLY and (share < PART or around < AROUND):
        return None
    elements = _elements(facts, code, walking)
    why = ""
    if elements < SHORTEST:
        why = f"a row has {counted(elements, 'element', '.2g')}, and most lanes would idle"
    elif not facts.patterns.shareable(loop):
        why = "what a row carries from element to element, only one thread can compute"
    return Rows(elements, why)


def _elements(facts: Facts, code: Code, walking: list[int]) -> float:
    """Of a row, on average: what a lane that comes to the loops loads in them from one array, whose rounds may be
    unrolled and the rest a loop of their own. What the row's contents point at is no element."""
    by_array: dict[tuple[str | None, int], float] = {}
    for i in walking:
        if facts.addresses.gathers(i) and not facts.addresses.steps_from_loaded(i):
            continue
        loop = code.cfg.loop_of[i]
        before = code.cfg.idom[code.cfg.loops[loop].header] if loop is not None else None
        came = code.threads[code.cfg.blocks[before].start] if before is not None else 0.0
        array = facts.addresses.pointer(i)
        key = (array, -1 if array is not None else i)
        by_array[key] = by_array.get(key, 0.0) + (code.threads[i] / came if came else 0.0)
    return max(by_array.values(), default=0.0)


class Way(Struct, frozen=True):
    """What to do about lanes that stand apart: `layout` (of FIX), `why`; threads may become `more` times as many;
    `why_not`: why the rows that lanes walk are not to be shared among lanes, empty elsewhere; `short`: for they are;
    `walks`: they walk rows that are not; `brief`: a lane that shared one would have an element or two of it; `apart`:
    what neighbouring lanes load side by side from round to round would lie apart; `lanes`: those that are to share a
    row on a device that is full."""

    layout: str
    why: str
    more: float
    why_not: str
    short: bool = False
    walks: bool = False
    brief: bool = False
    apart: bool = False
    lanes: int = 1


def way_of(facts: Facts, code: Code, members: list[int], share: float, layout: str) -> Way:
    """layout: what lies behind; rows are shared among lanes only where they are what the kernel does, and long."""
    rows = rows_of(facts, code, members, share) if layout == ROW else None
    if rows is None or rows.why_not:
        why_not, short = (rows.why_not, rows.elements < SHORTEST) if rows is not None else ("", False)
        return Way("" if layout == ROW else layout, WHY[layout], 1.0, why_not, short, layout == ROW and not short)
    launch = facts.counters.launch
    more = launch.room(rows.lanes)
    if more < TWICE:
        brief, apart = rows.elements <= BRIEF * LANES, columns_beside(facts, code, members)
        return Way(layout, WHY[layout], 1.0, "", walks=True, brief=brief, apart=apart, lanes=rows.lanes)
    lanes = "a warp" if rows.lanes == LANES else f"{rows.lanes} lanes"
    why = (
        f" Each lane walks a row of its own ({rows.elements:,.0f} elements), and {launch.blocks:,} blocks leave the "
        f"device {more:.0f} times too empty: {lanes} a row mends both."
    )
    return Way(layout, why, more, "", walks=True)


def columns_beside(facts: Facts, code: Code, members: list[int]) -> bool:
    """Whether the loop of the rows loads something else side by side, another part each round: lanes along a row would
    find it a stride apart."""
    walks, loop = facts.lanes.strides, code.cfg.loop_of[code.hottest(members)[0]]
    others = [
        i for i in (code.cfg.loop_body(loop) if loop is not None else ())
        if code.classes[i].space == "global" and code.classes[i].access == "load" and code.executed[i]
        and i not in members and facts.profile.compact(i)
    ]  # fmt: skip
    beside = [all(isinstance(a, tuple) and 0 < a[1] - a[0] <= WIDE for a in walks.here(i)) for i in others]
    return any(so and min(map(abs, walks.steps(i)), default=0) > WIDE for i, so in zip(others, beside, strict=True))


def in_pieces(
    facts: Facts, bad: Excess, scale: Scale, walking: list[int], touched: Column,
    relieved: Callable[[Excess, Scale], Estimate], *, returns: bool,
) -> list[Remedy]:  # fmt: skip
    """Lanes that go on with rows of their own, 16 bytes at a time: as many requests fewer, and where later rounds do
    not find the rest of a sector in L1, as many sectors. scale: what is left of each demand with neighbouring lanes on
    neighbouring addresses; walking: the accesses that go along rows, for what these point at stays where it is;
    relieved: the estimate of less excess. rows.single: 2.45x."""
    code = facts.code
    if code is None or not walking or any(code.classes[i].bytes != WORD for i in walking):
        return []
    gone = (1 - WORD / WIDE) * total(touched, walking) / max(1.0, total(touched, bad.members))
    kept = {
        demand: 1 - gone * (1 - left)
        for demand, left in scale.items() if not returns or demand in ("l1_wavefronts", "l2_requests")
    }  # fmt: skip
    anywhere = any(facts.addresses.steps_from_loaded(i) for i in walking)
    why = PADDED if anywhere else "where rows start at multiples of 16 bytes"
    share = code.blamed_share(walking)
    estimate = relieved(msgspec.structs.replace(bad, ideal=(1 - gone) * bad.actual, share=share), kept)
    return [Remedy(step=PIECES, applies=True, estimate=estimate, why=why)] if estimate.speedup >= WORTH else []


class Lead(Struct, frozen=True):
    """What is told first of lanes that stand apart, and what else would do."""

    title: str | None
    fix: str
    estimate: Estimate
    remedies: list[Remedy]


def leading(way: Way, fix: str, estimate: Estimate, own: list[Remedy]) -> Lead:
    """Lanes that go on with their own rows (`own`) lead where they bring as much as lanes that share them, for then
    there is nothing to join, and where a lane's part of a shared row would be no more than what joining takes. A public
    kernel with rows of 16 elements: 1.97x, shared 0.63x."""
    if way.layout != ROW:
        return Lead(None, fix, estimate, own)
    least = WORTH if way.brief or way.apart else AS_GOOD * estimate.speedup
    if way.more > 1 or not own or (alone := own[0].estimate) is None or alone.speedup < least:
        return Lead(f"{WALKS}: give each row a warp", fix, estimate, own)
    shared = Remedy(step=fix, applies=True, estimate=estimate, why="where rows are long: joining their parts costs")
    if estimate.speedup < WORTH:
        shared = Remedy(step=fix, applies=False, why=DEARER)
    if way.apart:  # a public kernel (means of a million samples against their centres): 0.96x, in pieces 3.4x
        shared = Remedy(step=fix, applies=False, why=APART)
    return Lead(WALKS, f"{PIECES}, {own[0].why}", alone, [shared])


def spread_out(
    facts: Facts, way: Way, alone: Estimate, scale: Scale, step: str
) -> tuple[Estimate, list[Remedy], list[str]]:  # fmt: skip
    """(what the lanes' new way brings with the lanes that fill the device, what the order of lanes brings alone, the
    codes to follow first: that the device is empty is the larger part of it)."""
    if way.more <= 1:
        return alone, [Remedy(step=step, applies=False, why=way.why_not)] if way.why_not else [], []
    both = facts.estimate.spread(alone, way.more, scale)
    other = Remedy(step=step, applies=True, estimate=alone, why="the device stays as empty as it is")
    filled = facts.estimate.overlap(way.more).speedup
    return both, [other], ["GRD401"] if max(alone.speedup, both.speedup / filled) ** 2 < both.speedup else []


def layout_of(facts: Facts, code: Code, members: list[int], sectors: Column) -> str:
    """What lies behind lanes that stand apart: rows or columns, or a product whose rows many threads read; empty where
    the code does not tell."""
    loads = facts.profile.scattered((i for i in members if code.classes[i].access == "load"), sectors)
    loads = [i for i in code.hottest(loads)[:MOST] if code.blamed[i] > 0]
    walks = facts.lanes.strides
    if not walks.on_and_on(loads):
        return COLUMN if walks.columns(loads) else ""
    asked = sum(code.threads[i] * code.classes[i].bytes for i in members)
    factors = facts.patterns.product(loads)
    if factors is None or asked < SHARED * (facts.counters.traffic.dram_bytes or asked):
        return ROW
    others = [i for i in factors.loads if i not in members]
    return PRODUCT if not others or walks.on_and_on(others) else SWAPPED


def kind_of(
    facts: Facts, sectors: Column, scale: Scale, layout: str, gathered: Sequence[int] | None, members: Sequence[int]
) -> str:
    """Which of FIX. gathered: the loads of what loaded data points at, where they are most of what is waited for; PIECE
    (two lanes an element of 32 bytes: 1.18x in a public kernel, indices sorted in each block: 0.94x) where a quarter of
    their sectors are of such. MOVED where what lanes leave out comes from device memory, and takes the time."""
    if gathered is not None:
        halves = total(sectors, facts.profile.halves(gathered))
        return PIECE if halves > PART * total(sectors, gathered) else "indirect"
    if layout:
        return layout
    if members and facts.code is not None and ordered_words(facts, facts.code, members):
        return OWN
    if members and facts.code is not None and split(facts, facts.code, members):
        return ADDED if any(facts.code.classes[i].access == "reduction" for i in members) else SPLIT
    if caught(facts, scale):
        return HIT
    dram = facts.counters.units.get("dram")
    load = dram.load if dram is not None else 0.0
    return MOVED if load >= 1 or (load >= FULL and scale["dram_bytes"] <= MORE) else ""


def caught(facts: Facts, scale: Scale) -> bool:
    """Whether L1 answers all that lanes leave of their sectors, and others are busier than it is."""
    busiest = facts.counters.busiest
    return scale.get("l2_sectors", 0.0) >= CAUGHT and busiest is not None and busiest.name != "l1"


def sure(facts: Facts, scale: Scale, worst: int, *, gain: float, indirect: bool) -> float:
    """Confidence. gain: of the time; indirect: loaded data are the addresses, of which `worst` is waited for most."""
    if indirect:
        return CHASED if facts.addresses.chases(worst) else GATHERED
    return CAUGHT_SURE if caught(facts, scale) else SLIGHT_SURE if gain < SLIGHT else PROVEN
