"""Words for copies that a loop waits for at once (LAT307), in profiles and in machine code alone."""

from __future__ import annotations

from kscope.features.copies import Copy
from kscope.rules.base import counted

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
