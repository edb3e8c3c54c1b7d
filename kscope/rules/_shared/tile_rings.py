"""Copies that a loop waits for at once, or that travel ahead of it (LAT307): words for profiles and machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import Copy, Listing
from kscope.rules.base import counted

if TYPE_CHECKING:
    from kscope.features.facts import Code, Wait, Waits

EXPOSED = 0.1  # share of the samples that must wait for the tile
ANY = "cp.async or TMA into two to four shared-memory stages; or prefetch the next tile into registers"


def awaited_tiles(code: Code) -> dict[int, float]:
    """Global loads whose values a loop with barriers stores to shared memory in the same round, and the samples that
    wait for each of them at that store: nothing computes while the tile travels."""
    exposed: dict[int, float] = {}
    for (load, user), samples in code.blame.edges.get("long_scoreboard", {}).items():
        loop = code.cfg.loop_of[user]
        stored = "shared_write" in code.classes[user].kind and code.classes[load].space == "global"
        if not stored or loop is None or loop != code.cfg.loop_of[load]:
            continue
        if any(code[i].opcode == "BAR" for i in code.cfg.loops[loop].instructions):
            exposed[load] = exposed.get(load, 0.0) + samples
    return exposed


def before_barriers(code: Code, *, alone: bool) -> list[str]:
    """What warps wait for at barriers are others that wait for a tile: its way is to be hidden first. alone: part of
    the block works there, which is what the others wait for."""
    waiting = sum(awaited_tiles(code).values())
    return ["LAT307"] if not alone and waiting >= EXPOSED * max(1.0, sum(code.samples)) else []


def waited(copy: Copy) -> str:
    """How a loop of cp.async comes to wait for the copies that it has just started."""
    left = f"leaves {counted(copy.left, 'group')} of copies in flight" if copy.left else "leaves no copy in flight"
    if copy.ahead > copy.left:
        started = counted(copy.ahead, "group")
        return (
            f"the wait {left}, though {started} {'is' if copy.ahead == 1 else 'are'} started before the loop: the ring "
            "has room for tiles ahead, and none is under way while one is used"
        )
    return f"the wait {left}, and those of this round are what it is for"


def remedy(copy: Copy) -> str:
    """What overlaps a copy with the use of the tile before."""
    if copy.asynchronous and copy.ahead > copy.left:
        return (
            f"let the wait leave the newest groups in flight: cp.async.wait_group {copy.ahead} where it stands behind "
            "the commit of the round, one less before it"
        )
    return ANY


def ahead(code: Listing, waits: Waits, issued: Sequence[int], tries: Sequence[Wait]) -> bool:
    """Whether a ring of several stages is filled before the loop that waits for them: then one tile travels while
    another is used. issued: the bulk copies; tries: the waits for them."""
    rounds = {n for w in tries for n in code.cfg.loops_around(w.index)}
    before = [i for i in issued if rounds.isdisjoint(code.cfg.loops_around(i))]
    return (waits.stages or 1) > 1 and 0 < len(before) < len(issued)
