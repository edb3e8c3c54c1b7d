"""More loads of later rounds in flight, in the words of what a loop has already (LAT302)."""

from __future__ import annotations

import itertools

from kscope.features.facts import Code, Facts
from kscope.model.operand import memory_operand
from kscope.rules._shared.waits_in_row import FETCHES, named

UNROLL = "several loads before the first use (unroll), prefetch an iteration ahead, cp.async or TMA"
SIMPLY = "several fetches before the first use (unroll), or prefetch an iteration ahead"
ORDERED = f"{UNROLL}, if no round reads what another one stores"
WRITTEN = "the loop is unrolled already, but each load is used before the next"
TESTED = f"{WRITTEN}: all loads of a pass first (their tests too), prefetch a pass ahead, cp.async or TMA"
HELD = f"{WRITTEN}, for it may alias the stores between: __restrict__, or all loads of a pass before its stores"
LANES = 32
GUARDS = 1.15  # times the instructions with tests and addresses kept for a batch (measured: one public kernel, 0.90x)
DEALT = (
    "each lane loads one of 32 rounds' values that all lanes want, a batch ahead, and hands it out by shuffles; then "
    "several of the loads that need them before the first use: whole batches, and a loop for the rounds that are left"
)
DEEPER = (UNROLL, ORDERED, SIMPLY, TESTED, HELD, DEALT)
HOPS = "fewer hops: a hop's data in one place, nodes that hold their next ones, several probes a round of a search"
SIDE = "follow several chains at once a thread"
CHAINS = f"{SIDE}; fewer hops"
IN_FLIGHT = "less than a wave: all chains are in flight already"
UNEVEN = "lanes follow chains of uneven lengths: side by side each waits for the longest of several"
LEVEL = 0.75  # of a warp's lanes that are still in a chain's rounds on average, below which lengths are uneven (judged)
ROUNDS = 32  # of a loop's entry, from which a value a lane is one of the loop's own


def deeper(facts: Facts, code: Code, hot: list[int]) -> str:
    """What brings more of these loads' rounds into flight."""
    way = unrolled(facts, code.cfg.loop_of[hot[0]] if hot else None)
    if way != UNROLL:
        return way
    if hot and (words := dealt(facts, code, hot[0])) and any(i in words or _by_them(code, i, words) for i in hot):
        return DEALT
    return written_out(facts, code, hot) or (SIMPLY if named(code, hot) == FETCHES else way)


def chains(facts: Facts, code: Code, load: int, *, again: bool) -> tuple[str, list[str]]:
    """What helps where each address comes from the load before, and why several chains a thread do not; again: a loop
    around the chain's goes from one to the next."""
    few = [IN_FLIGHT] if not again and facts.counters.launch.waves < 1 else []
    why = [UNEVEN] if uneven(code, load) else few
    return (HOPS if why else CHAINS), why


def uneven(code: Code, load: int) -> bool:
    """Lanes leave the loop of this load one after the other (a search in rows of many lengths: four of them at once a
    thread took 1.12 times as long, public)."""
    number = code.cfg.loop_of[load]
    if number is None or not code.executed[load]:
        return False
    loop = code.cfg.loops[number]
    into = [code.cfg.blocks[p].end - 1 for p in code.cfg.blocks[loop.header].predecessors if p not in loop.blocks]
    entered = max((code.threads[i] / code.executed[i] for i in into if code.executed[i]), default=float(LANES))
    return 0 < code.threads[load] / code.executed[load] < LEVEL * entered


def unrolled(facts: Facts, loop: int | None) -> str:
    return ORDERED if loop is not None and facts.addresses.exchanges(loop) else UNROLL


def written_out(facts: Facts, code: Code, hot: list[int]) -> str:
    """What is to be done where the compiler has made several rounds of the loads' loop one, each with a load of one
    array, and uses each before it loads the next: a test of each round's own lies between them, or a store, past which
    it may move no load. Nothing elsewhere: other loads of a line are the line's own."""
    loop = code.cfg.loop_of[hot[0]] if hot else None
    if loop is None:
        return ""
    body = code.cfg.loop_body(loop)
    same = sorted(i for i in body if code.classes[i].access == "load" and code[i].line == code[hot[0]].line)
    if len(same) < 2 or {facts.addresses.pointer(i) for i in same} != {facts.addresses.pointer(hot[0])}:
        return ""
    pairs = list(itertools.pairwise(same))
    if not all(any(a < c < b for c in code.defuse.consumers(a)) for a, b in pairs):
        return ""
    if len({code.cfg.block_of[i] for i in same}) == len(same):
        return TESTED
    stores = [i for i in body if code.classes[i].access == "store" and code.classes[i].space in ("global", "generic")]
    return HELD if all(any(a < s < b for s in stores) for a, b in pairs) else ""


def dealt(facts: Facts, code: Code, load: int) -> list[int]:
    """Loads of one address a warp in this one's loop, by which others of it go: words that follow each other from round
    to round, which a lane each can load at once (sparse rows: 1.56x, where a batch of them a lane was 0.64x)."""
    loop = code.cfg.loop_of[load]
    if loop is None:
        return []
    body = sorted(code.cfg.loop_body(loop))
    loads = [i for i in body if code.classes[i].access == "load" and code.classes[i].space == "global"]
    same = [i for i in loads if isinstance(facts.lanes.addresses(i), int)]
    if not same or _ends_by_them(code, body, same):
        return []
    pieces: dict[object, int] = {}
    for i in same:
        pieces[facts.addresses.pointer(i)] = pieces.get(facts.addresses.pointer(i), 0) + code.classes[i].bytes
    found = [i for i in same if set(facts.lanes.strides.steps(i)) == {pieces[facts.addresses.pointer(i)]}]
    if not any(_by_them(code, i, found) for i in loads if i not in found):
        return []
    copies = max((pieces[facts.addresses.pointer(i)] / code.classes[i].bytes for i in found), default=0.0)
    return found if copies * facts.patterns.trips(loop) >= ROUNDS else []


def _ends_by_them(code: Code, body: list[int], others: list[int]) -> bool:
    """Whether one of these values tells that the list is over: what is behind it may not be there to be loaded."""
    tests = [(i, guard) for i in body if "branch" in code.classes[i].kind and (guard := code[i].guard) is not None]
    starts = [p for i, guard in tests for p in code.defuse.sources(i).get(guard, ())]
    return not set(others).isdisjoint(code.slices.bringing(starts, "load"))


def _by_them(code: Code, load: int, others: list[int]) -> bool:
    """Whether a load's address comes from one of these others."""
    at = memory_operand(code[load].operands)
    sources = code.defuse.sources(load)
    starts = [p for b in (at.bases if at is not None else ()) for p in sources.get(b.register, ())]
    return not set(others).isdisjoint(code.slices.bringing(starts, "load"))
