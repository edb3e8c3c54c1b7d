"""Layouts of a tile in shared memory as maps of byte offsets: padded rows, swizzled rows. Each has an inverse.

Nothing here knows a kernel: patterns of addresses go in, the smallest layout that clears them all comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from kscope.features.lanes.bank_conflicts import BANKS, WORD, matrix_wavefronts, wavefronts

SPAN = BANKS * WORD
SECTOR = 32
HALVED = 0.5  # of the excess that a layout may leave, from which it is still worth its price (judged)


class Pattern(Struct, frozen=True):
    """One access of one warp: byte offsets within the tile, bytes a lane, the lanes that take part, and whether each
    lane names a row of a matrix (LDSM, STSM). `weight`: how often it runs, relative to the others.
    `copied`: by cp.async, which delivers sectors."""

    offsets: tuple[int, ...]
    width: int
    active: tuple[int, ...]
    rows: bool = False
    weight: float = 1.0
    copied: bool = False


class Padding(Struct, frozen=True):
    """Rows of `pitch` bytes, each followed by `pad` unused ones."""

    pitch: int
    pad: int

    def __call__(self, offset: int) -> int:
        return offset + offset // self.pitch * self.pad

    def inverse(self, offset: int) -> int:
        row, column = divmod(offset, self.pitch + self.pad)
        return row * self.pitch + column

    def size(self, used: int) -> int:
        """Bytes of a tile that took `used` bytes."""
        return used + -(-used // self.pitch) * self.pad

    def keeps(self, offset: int, width: int) -> bool:
        """Whether an access stays whole and aligned: in one row, at a multiple of its width (LDSM: of 16 bytes)."""
        return offset % self.pitch + width <= self.pitch and self(offset) % width == 0


class Swizzle(Struct, frozen=True):
    """Pieces of `chunk` bytes change places within their row: piece c of row r goes to c ^ ((r >> shift) & mask).
    `pitch`: bytes of a row; a multiple of (mask + 1) * chunk, or any larger power of two than `chunk`: then bits are
    changed by higher ones of which some are changed too, which maps back from the highest on."""

    pitch: int
    chunk: int
    mask: int
    shift: int

    def __call__(self, offset: int) -> int:
        return offset ^ ((offset // self.pitch >> self.shift) & self.mask) * self.chunk

    def inverse(self, offset: int) -> int:
        found = self(offset)  # where the row, which decides, stays what it is
        while self(found) != offset:  # else bits settle from the highest on, some in each round
            found = offset ^ ((found // self.pitch >> self.shift) & self.mask) * self.chunk
        return found

    def size(self, used: int) -> int:
        span = (self.mask + 1) * self.chunk
        return -(-used // span) * span

    @property
    def overlaps(self) -> bool:
        """Whether bits that decide are changed themselves."""
        return self.pitch % ((self.mask + 1) * self.chunk) != 0

    def keeps(self, offset: int, width: int) -> bool:
        return width <= self.chunk and offset % width == 0


Layout = Padding | Swizzle


class Cost(Struct, frozen=True):
    """Wavefronts, weighted: needed, and the fewest that the widths allow."""

    needed: float
    least: float

    @property
    def excess(self) -> float:
        return self.needed - self.least


def cost(pattern: Pattern, layout: Callable[[int], int] | None = None) -> tuple[int, int]:
    """(wavefronts, the fewest possible) of one access, under a layout."""
    offsets = pattern.offsets if layout is None else tuple(map(layout, pattern.offsets))
    if not pattern.rows:
        return wavefronts(offsets, pattern.width, pattern.active)
    return matrix_wavefronts(offsets, pattern.active)


def total(patterns: Sequence[Pattern], layout: Callable[[int], int] | None = None) -> Cost:
    needed = least = 0.0
    for p in patterns:
        a, b = cost(p, layout)
        needed, least = needed + a * p.weight, least + b * p.weight
    return Cost(needed, least)


def clears(patterns: Sequence[Pattern], layout: Layout) -> bool:
    """Whether no access conflicts under a layout, all stay whole and aligned."""
    for p in patterns:
        if not _whole(p, layout):
            return False
        needed, least = cost(p, layout)
        if needed > least:
            return False
    return True


def _whole(pattern: Pattern, layout: Layout) -> bool:
    """Whether an access stays as it is but for its banks: whole, aligned, and the two halves of a sector that cp.async
    delivers in one piece of 32 bytes. Rows padded by half a sector tear those: measured, 950,272 wavefronts on an H100
    where the banks alone make 524,288."""
    lanes = zip(pattern.offsets, pattern.active, strict=True)
    if not all(layout.keeps(offset, pattern.width) for offset, active in lanes if active):
        return False
    if not pattern.copied:
        return True
    pairs = zip(pattern.offsets[::2], pattern.offsets[1::2], strict=True)
    return all(layout(a) // SECTOR == layout(b) // SECTOR for a, b in pairs if a // SECTOR == b // SECTOR)


def paddings(pitches: Sequence[int], element: int, used: int) -> Iterator[Padding]:
    """Paddings by the bytes that they cost, smallest first; the least padding of a row decides between equals."""
    found = [Padding(pitch, pad) for pitch in pitches for pad in range(element, SPAN, element)]
    yield from sorted(found, key=lambda p: (p.size(used), p.pad))


def swizzles(pitches: Sequence[int], widest: int, row: int | None = None) -> Iterator[Swizzle]:
    """Swizzles, fewest bits first, those within rows before those of offsets alone, then the largest pieces and the
    smallest shift. row: bytes of a declared row, if there is one: within it, what lies behind a shorter pitch is
    exchanged by the column alone."""
    bits = SPAN.bit_length() - 1
    lowest = max(widest, WORD).bit_length() - 1
    for count in range(1, bits - lowest + 1):
        for flat in (False, True) if row is None else (False,):
            for pitch in pitches:
                for low in range(bits - count, lowest - 1, -1):
                    within = pitch % (1 << (low + count)) == 0
                    if within is flat or (flat and (pitch.bit_count() > 1 or pitch <= 1 << low)):
                        continue
                    for shift in range(6):
                        if row is None or pitch == row or (row // pitch) % (1 << (count + shift)) == 0:
                            yield Swizzle(pitch, 1 << low, (1 << count) - 1, shift)


def first_clear(patterns: Sequence[Pattern], layouts: Iterator[Padding] | Iterator[Swizzle]) -> Layout | None:
    """The first layout that clears all patterns; the worst patterns are asked first, so that most layouts fail soon."""
    worst = sorted(patterns, key=lambda p: -(cost(p)[0] - cost(p)[1]))
    return next((one for one in layouts if clears(worst, one)), None)


def best(patterns: Sequence[Pattern], layouts: Iterator[Padding] | Iterator[Swizzle]) -> Layout | None:
    """Where nothing clears all: the layout that leaves the least, if it leaves at most HALVED of the excess and makes
    no access worse than it was."""
    was = [cost(p)[0] for p in patterns]
    left, found = HALVED * total(patterns).excess, None
    for one in layouts:
        excess = 0.0
        for p, before in zip(patterns, was, strict=True):
            needed, least = cost(p, one) if _whole(p, one) else (before + 1, 0)
            excess += (needed - least) * p.weight
            if needed > before or excess >= left:
                break
        else:
            left, found = excess, one
    return found
