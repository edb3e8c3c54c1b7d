"""How an access moves: from one round of its loop to the next, and from one block to the next.

Lanes that stand far apart are one symptom of different faults. A lane that walks a row byte by byte wants the row to be
given to a warp; lanes that step down a column, whose neighbours other blocks read, want their roles swapped with the
blocks'. The address is computed twice (`kscope.features.lanes.values`), one round or one block apart: the difference
tells. """

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES, MASK, Value
from kscope.features.lanes.values import Lanes
from kscope.features.sass.listing import Listing, once_per_code

SEEDS = (1, 2)
BLOCKS = {"x": "SR_CTAID.X", "y": "SR_CTAID.Y", "z": "SR_CTAID.Z"}
FILLED = 0.5  # of the bytes that a round steps over, from which the accesses of the round read on where they stopped
SECTOR = 32
HALF = 1 << 31


class Walks:
    """Steps of the accesses of one function, for one block shape. Each is computed once and asked by index."""

    def __init__(self, code: Listing, block: Sequence[int], *, interior: bool = False) -> None:
        """interior: of threads whose indices no border clamps."""
        self.code, self._interior = code, interior
        self._shape = (block[0], block[1], block[2])
        self._here = self._worlds()
        self._later: dict[int, list[Lanes]] = {}
        self._beside: dict[str, list[Lanes]] = {}
        self._last: list[Lanes] = []

    def renewed(self) -> bool:
        """See `Lanes.renewed`."""
        every = (self._here, self._last, *self._later.values(), *self._beside.values())
        return all(world.renewed() for worlds in every for world in worlds)

    def steps(self, index: int) -> list[int]:
        """Bytes by which an access moves in one round of its innermost loop, under each assumption: the same for all
        lanes, or not listed. Empty outside loops and where the code does not tell."""
        loop = self.code.cfg.loop_of[index]
        if loop is None:
            return []
        if loop not in self._later:
            self._later[loop] = self._worlds(later=loop)
        return self._moves(index, self._later[loop])

    def between_blocks(self, index: int, axis: str = "x") -> list[int]:
        """Bytes between what neighbouring blocks (of the grid's x, y or z) access, in the same way."""
        if axis not in self._beside:
            self._beside[axis] = self._worlds(along=BLOCKS[axis])
        return self._moves(index, self._beside[axis])

    def here(self, index: int) -> list[Value]:
        """The address of each lane of one of the block's first warps, under each assumption."""
        return [world.address(index) for world in self._here]

    def between_warps(self, index: int) -> list[int]:
        """Bytes between what neighbouring warps of a block access, if all of it lies evenly: under each assumption, or
        not listed. Empty where a block has one warp."""
        if not self._last:
            self._last = self._worlds(last=True)
        out = []
        for first, last in zip(self._here, self._last, strict=True):
            step, warps = _difference(first.address(index), last.address(index)), last.warp - first.warp
            if step is not None and warps > 0 and step % warps == 0:
                out.append(step // warps)
        return out

    def windows(self, asked: Mapping[int, float], grid: Mapping[str, int]) -> dict[int, float]:
        """How many times the blocks together read the bytes of an access, because their windows overlap; accesses that
        read them once are left out.

        asked: bytes that all blocks ask for, by access; grid: blocks along each axis that has more than one. A block's
        window is what its loop passes over, if its threads stand side by side and a round fills what it steps over.
        Neighbours along an axis whose windows
        start a few bytes apart (lags, offsets, sliding sums) read nearly all of it again."""
        groups: dict[tuple[int | None, int, tuple[int, ...]], list[int]] = {}
        for i in asked:
            moves = [self.steps(i), *(self.between_blocks(i, axis) for axis in grid)]
            if all(len(m) == len(SEEDS) and len({*m}) == 1 for m in moves) and self._side_by_side(i):
                step, *gaps = (abs(m[0]) for m in moves)
                groups.setdefault((self.code.cfg.loop_of[i], step, tuple(gaps)), []).append(i)
        out: dict[int, float] = {}
        for (_, step, between), members in groups.items():
            round_ = math.prod(self._shape) * sum(self.code.classes[i].bytes for i in members)
            if not FILLED * step <= round_ <= step / FILLED:
                continue
            window = sum(asked[i] for i in members) / math.prod(grid.values())
            pairs = zip(between, grid.values(), strict=True)
            times = math.prod(n * window / (window + (n - 1) * min(window, gap)) for gap, n in pairs)
            if times > 1:
                out |= dict.fromkeys(members, times)
        return out

    def _side_by_side(self, index: int) -> bool:
        """The lanes of a warp, and the warps of the block up to the last, access one piece of memory without gaps."""
        if not self._last:
            self._last = self._worlds(last=True)
        size = self.code.classes[index].bytes
        for first, last in zip(self._here, self._last, strict=True):
            here, there = first.address(index), last.address(index)
            if not isinstance(here, tuple) or not isinstance(there, tuple):
                return False
            if any((b - a) & MASK != size for a, b in pairwise(here)):
                return False
            if (there[0] - here[0]) & MASK != (last.warp - first.warp) * LANES * size:
                return False
        return True

    def on_and_on(self, indices: Iterable[int]) -> bool:
        """Each lane reads on where it stopped: in one of the loops around these accesses, what a round reads fills
        most of what it steps over, under every assumption."""
        loops: dict[int, list[int]] = {}
        for i in indices:
            loop = self.code.cfg.loop_of[i]
            if loop is not None:
                loops.setdefault(loop, []).append(i)
        for members in loops.values():
            moves = {i: self.steps(i) for i in members}
            for i in members:
                same = [m for m in members if moves[m] == moves[i]]
                bytes_read = sum(self.code.classes[m].bytes for m in same)
                if len(moves[i]) == len(SEEDS) and all(0 < step * FILLED <= bytes_read for step in moves[i]):
                    return True
        return False

    def columns(self, indices: Iterable[int]) -> bool:
        """Neighbouring blocks read the neighbouring elements: less than a sector lies between them."""
        for i in indices:
            found = self.between_blocks(i)
            if len(found) == len(SEEDS) and all(0 < step < SECTOR for step in found):
                return True
        return False

    def _worlds(self, later: int | None = None, along: str | None = None, last: bool = False) -> list[Lanes]:
        given = [
            Assumption(
                seed, self._shape, scattered=True, opaque=True, interior=self._interior, later=later, along=along,
                last=last,
            )
            for seed in SEEDS
        ]
        return [Lanes(self.code, assumption) for assumption in given]

    def _moves(self, index: int, elsewhere: Sequence[Lanes]) -> list[int]:
        pairs = zip(self._here, elsewhere, strict=True)
        found = [_difference(a.address(index), b.address(index)) for a, b in pairs]
        return [step for step in found if step is not None]


def _difference(before: Value, after: Value) -> int | None:
    """after - before, if it is the same in all lanes: signed 32 bits."""
    if before is None or after is None:
        return None
    first = before if isinstance(before, tuple) else (before,) * LANES
    then = after if isinstance(after, tuple) else (after,) * LANES
    steps = {(b - a) & MASK for a, b in zip(first, then, strict=True)}
    step = steps.pop()
    return None if steps else step - (1 << 32) if step >= HALF else step


@once_per_code
def _shared_worlds(code: Listing, shape: tuple[int, int, int]) -> list[Lanes]:
    return [Lanes(code, Assumption(seed, shape, scattered=True, opaque=True)) for seed in SEEDS]


def lane_stride(code: Listing, index: int, block: Sequence[int]) -> int | None:
    """Bytes between what neighbouring lanes access, the smallest that occurs; None where the code does not tell."""
    found = set()
    for world in _shared_worlds(code, (block[0], block[1], block[2])):
        address = world.anew().address(index)
        if not isinstance(address, tuple):
            return None
        gaps = {abs(b - a) for a, b in pairwise(address)} - {0}
        found.add(min(gaps, default=0))
    return found.pop() if len(found) == 1 else None


def astride(code: Listing, index: int, block: Sequence[int]) -> bool:
    """Whether cp.async of 16 bytes a lane lays some sectors across two 32-byte pieces of shared memory: rows that are
    padded by half a sector. Lanes that read the two halves of one sector then write into different pieces."""
    if code[index].opcode != "LDGSTS" or code.classes[index].bytes != SECTOR // 2:
        return False
    for seed in SEEDS:
        world = Lanes(code, Assumption(seed, (block[0], block[1], block[2])))
        source, target = world.address(index), world.shared_address(index)
        if not isinstance(source, tuple) or not isinstance(target, tuple):
            return False
        pairs = [n for n in range(0, LANES, 2) if source[n + 1] - source[n] == target[n + 1] - target[n] == SECTOR // 2]
        if len({target[n] % SECTOR for n in pairs}) < 2:
            return False
    return True
