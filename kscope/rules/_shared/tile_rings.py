"""Copies that a loop waits for at once, or that travel ahead of it (LAT307): words for profiles and machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import Copy, Listing
from kscope.rules.base import counted

if TYPE_CHECKING:
    from kscope.features.facts import Wait, Waits

ANY = "cp.async or TMA into two to four shared-memory stages; or prefetch the next tile into registers"


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
