"""What lanes of a warp do together where a kernel's text is played: they wait for each other, and take values of one
another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.model.lazily import np

WARP = 32
WHOLE = (-1, 2**32 - 1)  # masks that name all lanes, as ~0u is played and as it is written
SHUFFLES = ("__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync")


def all_or_none(on: Any, alive: Any, of: Any) -> bool:
    """Whether of each group of threads all that have not returned are here, or none. of: the group of each thread."""
    missed = np.zeros(int(of.max()) + 1, dtype=bool)
    come = missed.copy()
    missed[of[alive & ~on]] = True
    come[of[on]] = True
    return not (missed & come).any()


def shuffled(name: str, given: Sequence[Any], place: Any, on: Any, alive: Any, warp: Any) -> Any:
    """The value of __shfl*_sync(mask, value, by, width) in each thread. place: of a thread among those of its block.
    Raises Unplayable where lanes are missing, or a value comes from a lane that is not here."""
    mask, value, by, width = (*given, WARP)[:4]
    lanes = sum(1 << n for n in {*(place[alive] % WARP).tolist()})
    if width not in (1, 2, 4, 8, 16, WARP) or np.any(np.asarray(by) < 0):
        raise Unplayable("a shuffle of no group")
    lane = place % WARP
    first = lane - lane % width
    if isinstance(mask, int):
        named = (mask in WHOLE or mask & 2**32 - 1 == lanes) and all_or_none(on, alive, warp)
    else:
        named = _grouped(mask, width, first, warp, on)
    if not named:
        raise Unplayable("a shuffle of some lanes")
    target = {
        "__shfl_sync": first + by % width, "__shfl_xor_sync": lane ^ by, "__shfl_down_sync": lane + by,
        "__shfl_up_sync": lane - by,
    }[name]  # fmt: skip
    inside = (target < first + width) & ((target >= 0) if name == "__shfl_xor_sync" else (target >= first))
    each = np.arange(len(place))
    source = np.where(inside, each - lane + target, each)
    here = source[on]
    if here.size and not (here.max() < len(each) and on[here].all() and (warp[here] == warp[on]).all()):
        raise Unplayable("a value of a lane that is not here")
    return np.broadcast_to(value, each.shape)[np.where(on, source, each)]


def _grouped(mask: Any, width: int, first: Any, warp: Any, on: Any) -> bool:
    """Whether each thread's mask names its group of so many lanes, and these are all here. first: of each group."""
    group = (warp * WARP + first)[on]
    wanted = ((1 << width) - 1) << first
    return bool((np.broadcast_to(mask, on.shape) == wanted)[on].all() and (np.bincount(group)[group] == width).all())


def voted(given: Sequence[Any], place: Any, on: Any, alive: Any, warp: Any) -> Any:
    """__ballot_sync(mask, value): in each thread a bit for each lane of its warp. Raises Unplayable where lanes are
    missing."""
    mask, value = given
    if not (isinstance(mask, int) and mask in WHOLE) or not all_or_none(on, alive, warp):
        raise Unplayable("a vote of some lanes")
    bits = np.where(on & (np.broadcast_to(value, on.shape) != 0), np.int64(1) << (place % WARP), 0)
    return np.bincount(warp, weights=bits, minlength=int(warp.max()) + 1).astype(np.int64)[warp]  # exact: below 2^53


def bits_of(value: Any) -> Any:
    """__popc."""
    return sum((np.asarray(value) >> n) & 1 for n in range(WARP))
