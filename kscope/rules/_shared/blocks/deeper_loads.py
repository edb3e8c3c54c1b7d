"""More loads of later rounds in flight, in the words of what a loop has already (LAT302)."""

from __future__ import annotations

import itertools

from kscope.features.facts import Code, Facts
from kscope.rules._shared.waits_in_row import FETCHES, named

UNROLL = "several loads before the first use (unroll), prefetch an iteration ahead, cp.async or TMA"
SIMPLY = "several fetches before the first use (unroll), or prefetch an iteration ahead"
ORDERED = f"{UNROLL}, if no round reads what another one stores"
WRITTEN = "the loop is unrolled already, but each load is used before the next"
TESTED = f"{WRITTEN}: all loads of a pass first (their tests too), prefetch a pass ahead, cp.async or TMA"
HELD = f"{WRITTEN}, for it may alias the stores between: __restrict__, or all loads of a pass before its stores"
GUARDS = 1.15  # times the instructions with tests and addresses kept for a batch (measured: one public kernel, 0.90x)
DEALT = (
    "each lane loads one of 32 rounds' values that all lanes want, a batch ahead, and hands it out by shuffles; then "
    "several of the loads that need them before the first use: whole batches, and a loop for the rounds that are left"
)
DEEPER = (UNROLL, ORDERED, SIMPLY, TESTED, HELD, DEALT)
ROUNDS = 32  # of a loop's entry, from which a value a lane is one of the loop's own


def deeper(facts: Facts, code: Code, hot: list[int]) -> str:
    """What brings more of these loads' rounds into flight."""
    way = unrolled(facts, code.cfg.loop_of[hot[0]] if hot else None)
    if way != UNROLL:
        return way
    if hot and dealt(facts, code, hot[0]):
        return DEALT
    return written_out(facts, code, hot) or (SIMPLY if named(code, hot) == FETCHES else way)


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
    if loop is None or facts.patterns.trips(loop) < ROUNDS:
        return []
    body = sorted(code.cfg.loop_body(loop))
    loads = [i for i in body if code.classes[i].access == "load" and code.classes[i].space == "global"]
    same = [i for i in loads if isinstance(facts.lanes.addresses(i), int)]
    if not any(facts.addresses.gathers(i) for i in loads if i not in same):
        return []
    pieces: dict[object, int] = {}
    for i in same:
        pieces[facts.addresses.pointer(i)] = pieces.get(facts.addresses.pointer(i), 0) + code.classes[i].bytes
    return [i for i in same if set(facts.lanes.strides.steps(i)) == {pieces[facts.addresses.pointer(i)]}]
