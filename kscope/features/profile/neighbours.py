"""Windows of threads that lie side by side: what one loads, the next ones load again (stencils, filters, moving sums).

The addresses of all lanes are computed (`kscope.features.lanes.values`), and how they move from lane to lane, row to
row and block to block. Where loads of one thread lie whole such steps apart, the thread so many steps on loads the same
with another of them. A thread that computes several outputs along that axis loads the union of their windows once: of a
window of W, (W + R - 1) / R loads an output for R outputs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from kscope.features.lanes.semantics import LANES, MASK, Value
from kscope.features.lanes.strides import HALF, SEEDS, Walks
from kscope.features.patterns.loop_parallelism import trips
from kscope.features.sass import slices
from kscope.features.sass.listing import Listing, once_per_code

LONG = 3  # places of a window that lie side by side, from which it is one
PLACES = 2048  # of a window that are looked at: longer ones save no more
SAME = 0.5  # of the executions of a window's loads, below which another one is no part of it (a border's)
_WRITING = frozenset({"store", "atomic", "reduction", "async_copy"})
_Along = tuple[tuple[int, ...], int]
"""Bytes from thread to thread along an axis, under each assumption, and how many threads lie there."""
_Group = tuple[str | None, str | None, int | None, int, int]
"""What the loads of one window have in common: space, parameter, loop, stretch between writes, bytes."""
_Row = tuple[int, int, int]
"""Bytes from lane to lane, lanes of a row, bytes from row to row; a row of 32 lanes has none behind it."""
_AT_SHARED = frozenset({"store", "atomic", "reduction"})


class Window(Struct, frozen=True):
    """Loads of one array in one stretch of code. `axis`: along which the next thread loads the same again: "lanes",
    "rows" (of the block), or the grid's "x", "y", "z"; `runs`: places that a thread loads, in threads along the axis,
    those that can meet together; `apart`: threads between outputs that share most (the dilation of a filter);
    `extent`: threads along the axis that share a block, or blocks of the grid."""

    loads: tuple[int, ...]
    axis: str
    runs: tuple[tuple[int, ...], ...]
    apart: int
    extent: int

    @property
    def asked(self) -> int:
        """Elements that a thread loads."""
        return sum(map(len, self.runs))

    @property
    def width(self) -> int:
        """Longest row of places side by side."""
        return max(_longest(run, self.apart) for run in self.runs)

    def kept(self, outputs: int) -> float:
        """Share of the loads that is left where one thread computes so many outputs along the axis, 0..1."""
        if not 0 < outputs * self.apart <= self.extent:
            return 1.0
        reach = range(0, outputs * self.apart, self.apart)
        together = sum(len({at + r for at in run for r in reach}) for run in self.runs)
        return together / (outputs * self.asked)


class _Access(Struct, frozen=True):
    """A load: its addresses under each assumption; by axis the steps under each, and the extent; how far it moves from
    round to round."""

    index: int
    at: tuple[int, ...]
    axes: dict[str, _Along]
    rounds: tuple[int, ...]


@once_per_code
def windows(code: Listing, walks: Walks, block: tuple[int, ...], grid: tuple[int, ...]) -> list[Window]:
    """Windows of executed loads of shared and global memory, each along every axis along which it is shared."""
    out: list[Window] = []
    for (space, _, loop, *_), members in _groups(code).items():
        again = space == "global" or loop is None or not _rewritten(code, loop)
        most = max(code.executed[i] for i in members)
        used = [i for i in members if code.executed[i] >= SAME * most]
        rounds = min(PLACES // len(used) + 1, round(trips(code, loop))) if loop is not None and again else 1
        if rounds * len(used) >= LONG:
            found = [_access(code, walks, i, block, grid) for i in used]
            out += _shared_by_neighbours([a for a in found if a is not None], rounds)
    return out


def _groups(code: Listing) -> dict[_Group, list[int]]:
    """Loads of values that nobody writes meanwhile, and that threads could keep."""
    out: dict[_Group, list[int]] = {}
    epoch = _stretches(code)
    written = {slices.pointer(code, i) for i in code.where(lambda ins, op: op.access in _WRITING) if _outside(code, i)}
    kept = code.where(
        lambda ins, op: op.access == "load" and op.space in ("shared", "global") and "STRONG" not in ins.mods
    )
    for i in code.ran(kept):
        space, pointer, stretch = code.classes[i].space, None, epoch[i]
        if space == "global":
            pointer, stretch = slices.pointer(code, i), 0
            if "CONSTANT" not in code[i].mods and (pointer is None or pointer in written):
                continue  # another thread may have written there meanwhile
        if not _staged(code, i):
            out.setdefault((space, pointer, code.cfg.loop_of[i], stretch, code.classes[i].bytes), []).append(i)
    return out


def _shared_by_neighbours(accesses: list[_Access], rounds: int) -> list[Window]:
    """The windows that these accesses form, by axis; those that move alike along it belong together."""
    out = []
    for axis in sorted({axis for a in accesses for axis in a.axes}):
        alike: dict[tuple[_Along, tuple[int, ...]], list[_Access]] = {}
        for a in accesses:
            if axis in a.axes:
                alike.setdefault((a.axes[axis], a.rounds), []).append(a)
        for (along, moves), members in alike.items():
            window = _window(axis, along, moves, members, rounds)
            if window is not None:
                out.append(window)
    return out


def _window(axis: str, along: _Along, moves: tuple[int, ...], members: list[_Access], rounds: int) -> Window | None:
    """The same under each assumption, or none: pitches and lengths that are parameters are invented."""
    steps, extent = along
    found = [
        _places([a.at[n] for a in members], step, moves[n] if moves else 0, rounds if moves else 1)
        for n, step in enumerate(steps)
    ]
    (runs, apart), *others = found
    made = Window(tuple(a.index for a in members), axis, runs, apart, extent)
    alike = all(d == apart and Window((), axis, r, d, extent).kept(2) == made.kept(2) for r, d in others)
    return made if alike and made.kept(2) < 1 and made.width >= LONG else None


def _places(at: list[int], step: int, move: int, rounds: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Places in steps along the axis, those of one remainder together, and how far most neighbours are apart."""
    runs: dict[int, set[int]] = {}
    for address in at:
        for r in range(rounds):
            place, rest = divmod(_signed(address - at[0]) + r * move, abs(step))
            runs.setdefault(rest, set()).add(place)
    ordered = tuple(tuple(sorted(run)) for run in runs.values())
    gaps = Counter(b - a for run in ordered for a, b in pairwise(run))
    return ordered, min(gaps, key=lambda gap: (-gaps[gap], gap), default=0)


def _longest(run: tuple[int, ...], apart: int) -> int:
    places, longest = set(run), 0
    for at in run:
        if at - apart not in places:
            n = 1
            while at + n * apart in places:
                n += 1
            longest = max(longest, n)
    return longest


def _access(code: Listing, walks: Walks, index: int, block: Sequence[int], grid: Sequence[int]) -> _Access | None:
    here = walks.here(index)
    lanes = [found for address in here if (found := _lanes(address)) is not None]
    if len(lanes) < len(SEEDS):
        return None
    axes = _of_block(lanes, walks.between_warps(index), math.prod(block) // LANES)
    if code.classes[index].space == "global":
        for axis, blocks in zip("xyz", grid, strict=True):
            gaps = walks.between_blocks(index, axis) if blocks > 1 else []
            if len(gaps) == len(SEEDS) and all(gaps):
                axes[axis] = tuple(gaps), blocks
    at = tuple(a[0] if isinstance(a, tuple) else a or 0 for a in here)
    steps = tuple(walks.steps(index))
    return _Access(index, at, axes, steps if len(steps) == len(SEEDS) else ())


def _of_block(lanes: list[_Row], warp: list[int], warps: int) -> dict[str, _Along]:
    """Axes within a block: from lane to lane, and from row to row, which are shorter than a warp, a warp, or none.
    warp: bytes from warp to warp under each assumption; warps: of a block."""
    axes: dict[str, _Along] = {}
    first, second = tuple(f[0] for f in lanes), tuple(f[2] for f in lanes)
    n = lanes[0][1]
    if any(f[1] != n for f in lanes):
        return axes
    if n == LANES and len(warp) == len(SEEDS):
        if all(w == LANES * s for w, s in zip(warp, first, strict=True)):
            n = LANES * warps
        elif all(warp):
            axes["rows"] = tuple(warp), warps
    elif n < LANES and all(second):
        axes["rows"] = second, LANES // n * max(1, warps)
    if all(first):
        axes["lanes"] = first, n
    return axes


def _lanes(address: Value) -> _Row | None:
    """Of evenly placed lanes; None for others."""
    if address is None:
        return None
    if isinstance(address, int):
        return 0, LANES, 0
    first = _signed(address[1] - address[0])
    n = next((i for i in range(1, LANES) if _signed(address[i] - address[i - 1]) != first), LANES)
    second = _signed(address[n] - address[0]) if n < LANES else 0
    even = all((address[0] + i % n * first + i // n * second) & MASK == a for i, a in enumerate(address))
    return (first, n, second) if even and n > 1 and LANES % n == 0 else None


def _signed(difference: int) -> int:
    low = difference & MASK
    return low - (1 << 32) if low >= HALF else low


def _stretches(code: Listing) -> list[int]:
    """By instruction: how many barriers and writes to shared memory stand before it."""
    out, now = [], 0
    for op in code.classes:
        written = op.space in ("shared", "generic") and op.access in _AT_SHARED
        now += "orders_threads" in op.kind or op.access == "async_copy" or written
        out.append(now)
    return out


def _rewritten(code: Listing, loop: int) -> bool:
    """Shared memory may hold something else in the next round."""
    inside = code.cfg.loops[loop].instructions
    epoch = _stretches(code)
    return len({epoch[i] for i in inside}) > 1


def _staged(code: Listing, index: int) -> bool:
    """What is loaded goes into shared memory: a tile, which a thread does not keep in its registers."""
    readers = code.defuse.consumers(index)
    return any(code.classes[c].space == "shared" and code.classes[c].access in _AT_SHARED for c in readers)


def _outside(code: Listing, index: int) -> bool:
    return code.classes[index].space in ("global", "generic")
