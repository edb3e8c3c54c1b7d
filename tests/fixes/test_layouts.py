"""Layouts that are synthesised: for random tiles, strides and widths they have the wavefronts that they claim, played
by an independent count, and their inverse maps back."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kscope.fixes.tile import layouts
from kscope.fixes.tile.layouts import Padding, Pattern, Swizzle

LANES = range(32)
ALL = (1,) * 32


def pattern(offsets: list[int], width: int, *, rows: bool = False) -> Pattern:
    return Pattern(tuple(offsets), width, ALL, rows)


def most_in_a_bank(offsets: list[int], width: int) -> int:
    """Wavefronts of one group of lanes, counted word by word."""
    words = {w for o in offsets for w in range(o // 4, -(-(o + width) // 4))}
    return max(Counter(w % 32 for w in words).values())


@st.composite
def tiles(draw: st.DrawFn) -> tuple[int, int, list[Pattern]]:
    """(bytes of a row, rows, accesses): a tile that is written along its rows and read down its columns."""
    width = draw(st.sampled_from([4, 8, 16]))
    row = width * draw(st.sampled_from([2, 4, 8, 16, 32, 64]))
    rows = draw(st.sampled_from([8, 16, 32, 64]))
    along = [(n * width) % (row * rows) for n in LANES]
    column = draw(st.integers(0, row // width - 1)) * width
    step = draw(st.sampled_from([1, 2]))
    down = [(n * step % rows) * row + column for n in LANES]
    return row, rows, [pattern(along, width), pattern(down, width)]


def _every_row(row: int, patterns: list[Pattern]) -> bool:
    """Rows are read one after the other: every second one has an even distance, whatever the padding."""
    return patterns[1].offsets[1] - patterns[1].offsets[0] == row


@given(tiles())
def test_what_clears_has_the_least_wavefronts(tile: tuple[int, int, list[Pattern]]) -> None:
    row, rows, patterns = tile
    width = patterns[0].width
    padded = layouts.first_clear(patterns, layouts.paddings([row], max(4, width), row * rows))
    swizzled = layouts.first_clear(patterns, layouts.swizzles([row], width, row))
    if row >= 32 * width and _every_row(row, patterns):  # what lies along one row stays free of conflicts
        assert padded is not None and swizzled is not None
    for layout in filter(None, (padded, swizzled)):
        for p in patterns:
            offsets = [layout(o) for o in p.offsets]
            group = 32 * 4 // max(4, width)
            for first in range(0, 32, group):
                assert most_in_a_bank(offsets[first : first + group], width) == 1


@given(tiles())
def test_smaller_paddings_conflict(tile: tuple[int, int, list[Pattern]]) -> None:
    row, rows, patterns = tile
    element = max(4, patterns[0].width)
    found = layouts.first_clear(patterns, layouts.paddings([row], element, row * rows))
    if found is None:
        assert row < 32 * patterns[0].width or not _every_row(row, patterns)
        return
    assert isinstance(found, Padding)
    for pad in range(element, found.pad, element):
        assert not layouts.clears(patterns, Padding(row, pad))


@given(tiles())
def test_inverses_map_back(tile: tuple[int, int, list[Pattern]]) -> None:
    row, rows, patterns = tile
    padded = layouts.first_clear(patterns, layouts.paddings([row], 4, row * rows))
    swizzled = layouts.first_clear(patterns, layouts.swizzles([row], patterns[0].width, row))
    for layout in filter(None, (padded, swizzled)):
        taken = {layout(o) for o in range(row * rows)}
        assert len(taken) == row * rows
        assert max(taken) < layout.size(row * rows)
        assert all(layout.inverse(layout(o)) == o for o in range(row * rows))


@given(st.sampled_from([32, 64, 128, 256, 512]), st.integers(0, 7))
def test_matrix_rows_are_cleared(row: int, piece: int) -> None:
    """ldmatrix of 8 by 8 matrices of 16 bits from rows of any power of two, written 16 bytes a lane."""
    piece %= row // 16
    written = pattern([n * 16 for n in LANES], 16)
    read = pattern([(n % 16) * row + (piece + n // 16) % (row // 16) * 16 for n in LANES], 16, rows=True)
    swizzled = layouts.first_clear([written, read], layouts.swizzles([row], 16, row))
    padded = layouts.first_clear([written, read], layouts.paddings([row], 16, 16 * row))
    assert swizzled is not None and (padded is not None or row < layouts.SPAN)
    for layout in filter(None, (swizzled, padded)):
        for first in range(0, 32, 8):
            assert most_in_a_bank([layout(o) for o in read.offsets[first : first + 8]], 16) == 1


def test_descriptor_swizzles_are_what_the_hardware_does() -> None:
    """128 bytes: bits 4 to 6 by bits 7 to 9 (PTX ISA, swizzling modes)."""
    assert [Swizzle(128, 16, 7, 0)(128 * r) for r in range(9)] == [128 * r + 16 * (r % 8) for r in range(9)]
    assert [Swizzle(64, 16, 3, 1)(64 * r) for r in range(4)] == [0, 64, 144, 208]
    assert [Swizzle(32, 16, 1, 2)(32 * r) for r in range(8)] == [0, 32, 64, 96, 144, 176, 208, 240]


def test_a_vector_stays_whole() -> None:
    along = pattern([n * 16 for n in LANES], 16)
    assert not layouts.clears([along], Padding(128, 4))  # rows of floats padded by one are not 16-byte aligned
    assert not layouts.clears([along], Swizzle(128, 4, 31, 0))  # pieces of 4 bytes tear a float4


def test_what_makes_an_access_worse_is_not_proposed() -> None:
    good = pattern([n * 4 for n in LANES], 4)
    assert layouts.best([good], layouts.paddings([64], 4, 4096)) is None


@given(st.sampled_from([4, 8, 16]), st.integers(1, 5), st.integers(1, 4), st.integers(0, 3))
def test_swizzles_whose_bits_overlap_map_back(chunk: int, count: int, above: int, shift: int) -> None:
    layout = Swizzle(chunk << above, chunk, (1 << count) - 1, shift)
    size = 1 << 13
    taken = {layout(o) for o in range(0, size, 4)}
    assert taken == set(range(0, size, 4))
    assert all(layout.inverse(layout(o)) == o for o in range(0, size, 4))


def test_sectors_of_asynchronous_copies_are_not_torn() -> None:
    """Rows of 128 bytes padded by 16: banks alone say that it clears, the hardware took 1.8 times the wavefronts."""
    read = pattern([n % 16 * 128 + n // 16 * 16 for n in LANES], 16, rows=True)
    along = [n * 16 for n in LANES]
    stored, copied = pattern(along, 16), Pattern(tuple(along), 16, ALL, copied=True)
    assert layouts.clears([read, stored], Padding(128, 16))
    assert not layouts.clears([read, copied], Padding(128, 16))
    assert layouts.clears([read, copied], Swizzle(128, 16, 7, 0))
    assert layouts.first_clear([read, copied], layouts.paddings([128], 16, 4096)) is None
