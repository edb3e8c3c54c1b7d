"""Layouts that are synthesised: for random tiles, strides and widths they have the wavefronts that they claim, played
by an independent count, and their inverse maps back."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.fixes.given.source import arrays, edited
from kscope.fixes.tile import layouts
from kscope.fixes.tile.code import _edits
from kscope.fixes.tile.layouts import Padding, Pattern, Swizzle
from kscope.fixes.tile.placed import Placed

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


def phases_of(width: int) -> int:
    """Lanes that are served together: 32 of up to 4 bytes, 16 of 8, 8 of 16 (CUDA C++ Programming Guide)."""
    return 32 * 4 // max(4, width)


@st.composite
def odd_rows(draw: st.DrawFn) -> tuple[int, int, list[Pattern]]:
    """(bytes of a row, rows, accesses) of tiles whose rows are no power of two, with narrow and wide elements, written
    along the rows by whole warps and read down a column, by columns of vectors or in blocks of 8 x 4."""
    width = draw(st.sampled_from([2, 4, 8, 16]))
    each = draw(st.sampled_from([3, 5, 6, 7, 12, 20, 24, 33, 36, 40, 48, 72, 96]))
    row = width * each
    if row % 4:
        row += 4 - row % 4
    rows = draw(st.sampled_from([8, 16, 24, 32, 48]))
    group = draw(st.integers(0, 3))
    along = [(n + 32 * group) % (row // width * rows) for n in LANES]
    written = [n // (row // width) * row + n % (row // width) * width for n in along]
    column = draw(st.integers(0, row // width - 1)) * width
    down = [n % rows * row + column for n in LANES]
    block = [n // 4 % rows * row + (column + n % 4 * width) % (row // width * width) for n in LANES]
    return row, rows, [pattern(written, width), pattern(draw(st.sampled_from([down, block])), width)]


@given(odd_rows())
def test_layouts_of_rows_of_any_length_are_what_an_independent_count_says(
    tile: tuple[int, int, list[Pattern]],
) -> None:
    """What is said to clear has one wavefront a phase, word by word; nothing is torn; no byte is lost or shared."""
    row, rows, patterns = tile
    width = patterns[0].width
    padded = layouts.first_clear(patterns, layouts.paddings([row], max(4, width), row * rows))
    swizzled = layouts.first_clear(patterns, layouts.swizzles([row], width, row))
    for layout in filter(None, (padded, swizzled)):
        for p in patterns:
            moved = [layout(o) for o in p.offsets]
            size = phases_of(width)
            for first in range(0, 32, size):
                words = {w for o in moved[first : first + size] for w in range(o // 4, -(-(o + width) // 4))}
                assert max(Counter(w % 32 for w in words).values()) == 1
            for o in p.offsets:
                assert [layout(o + k) for k in range(width)] == [layout(o) + k for k in range(width)], "torn"
                assert layout(o) % width == 0
        taken = [layout(o) for o in range(row * rows)]
        assert len(set(taken)) == row * rows
        assert all(layout.inverse(at) == o for o, at in enumerate(taken))


@given(odd_rows())
def test_no_padding_or_swizzle_is_missed(tile: tuple[int, int, list[Pattern]]) -> None:
    """Where none is found, trying every padding of one to 31 words, and every swizzle, finds none either."""
    row, rows, patterns = tile
    element = max(4, patterns[0].width)
    if layouts.first_clear(patterns, layouts.paddings([row], element, row * rows)) is None:
        assert not any(layouts.clears(patterns, Padding(row, pad)) for pad in range(element, 128, element))
    if layouts.first_clear(patterns, layouts.swizzles([row], patterns[0].width, row)) is None:
        low = element.bit_length() - 1
        tried = [
            Swizzle(row, 1 << chunk, (1 << count) - 1, shift)
            for chunk in range(low, 7) for count in range(1, 8 - chunk) for shift in range(6)
            if row % (1 << (chunk + count)) == 0
        ]  # fmt: skip
        assert not any(layouts.clears(patterns, one) for one in tried)


@given(tiles())
def test_padding_and_swizzle_agree_where_both_can_clear(tile: tuple[int, int, list[Pattern]]) -> None:
    """Either leaves the least wavefronts that the widths allow; half warps that want the same words go as one."""
    row, rows, patterns = tile
    padded = layouts.first_clear(patterns, layouts.paddings([row], max(4, patterns[0].width), row * rows))
    swizzled = layouts.first_clear(patterns, layouts.swizzles([row], patterns[0].width, row))
    costs = [layouts.total(patterns, one) for one in (padded, swizzled) if one is not None]
    assert all(c.needed == c.least <= layouts.total(patterns).needed for c in costs)
    if swizzled is not None:
        assert swizzled.size(row * rows) <= row * rows + row  # a swizzle takes no memory, but for a row not filled


@given(
    st.sampled_from([32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512]), st.integers(0, 7),
    st.sampled_from([1, 2, 4]), st.booleans(),
)  # fmt: skip
def test_matrix_rows_of_any_length_are_cleared(row: int, piece: int, matrices: int, copied: bool) -> None:
    """ldmatrix x1, x2, x4 beside writes of 16 bytes a lane, by stores or cp.async: each matrix of eight rows in one
    wavefront under every layout that is said to clear."""
    pieces = row // 16
    written = Pattern(tuple(n // pieces * row + n % pieces * 16 for n in LANES), 16, ALL, copied=copied)
    active = tuple(int(n < 8 * matrices) for n in LANES)
    at = [n % 16 * row + (piece + n // 16) % pieces * 16 for n in LANES]
    offsets = tuple(o if on else 0 for o, on in zip(at, active, strict=True))
    read = Pattern(offsets, 16, active, rows=True)
    swizzled = layouts.first_clear([written, read], layouts.swizzles([row], 16, row))
    padded = layouts.first_clear([written, read], layouts.paddings([row], 16, 16 * row))
    assert row & (row - 1) or swizzled is not None
    for layout in filter(None, (swizzled, padded)):
        for first in range(0, 8 * matrices, 8):
            assert most_in_a_bank([layout(o) for o in offsets[first : first + 8]], 16) == 1
        if copied:
            pairs = zip(written.offsets[::2], written.offsets[1::2], strict=True)
            assert all(layout(a) // 32 == layout(b) // 32 for a, b in pairs if a // 32 == b // 32)


HEAD = "__global__ void k(float* x, int n) {"
ROWS, OTHER = "__shared__ float t[32][32];", "x[1] = t[threadIdx.x][0];"
FLAT, ONE = "__shared__ float t[1024];", "x[1] = t[threadIdx.x];"
PADDED, SWIZZLED = Padding(128, 4), Swizzle(128, 4, 31, 0)


def edited_as(layout: Padding | Swizzle, declared: str, use: str, above: str = "") -> str | None:
    """The kernel under another layout; None where its lines are not changed."""
    lines = [above, HEAD, declared, use, "}"]
    (array,) = arrays(lines)
    setting = SimpleNamespace(lines=lambda file: lines)
    got = _edits(setting, Placed((), layout, (array,), "k.cu"), array)  # type: ignore[arg-type]
    changed = {e.line: e.becomes for e in edited("k.cu", lines, got[1])} if got is not None else {}
    return "\n".join(changed.get(n, line) for n, line in enumerate(lines, 1)) if got is not None else None


@pytest.mark.parametrize(
    ("layout", "declared", "use", "new"),
    [
        (PADDED, ROWS, f"t[0][threadIdx.x] = 1; {OTHER}", "t[32][33];"),
        (PADDED, ROWS, f"for (int i = 0; i < 32; i++) t[0][i] = x[i]; {OTHER}", "t[32][33];"),
        (PADDED, "__shared__ float t[32][1 << 5];", OTHER, "t[32][(1 << 5) + 1];"),
        (Swizzle(128, 16, 7, 0), ROWS, f"*(float4*)&t[n][4 * n] = *(float4*)x; {OTHER}", "[(4 * n) ^ ((n) & 7) * 4]"),
        (SWIZZLED, ROWS, f"*reinterpret_cast<float*>(&t[n][n]) = 1; {OTHER}", "[(n) ^ ((n) & 31)]"),
        (Swizzle(128, 16, 7, 0), ROWS, f"reinterpret_cast<float4*>(&t[n][n])[0] = *(float4*)x; {OTHER}", "[(n) ^ ("),
        (SWIZZLED, ROWS, f"atomicAdd(&t[n][n], 1.f); {OTHER}", "atomicAdd(&t[n][(n) ^"),
        (SWIZZLED, FLAT, f"t[n] = x[0] > 1 & t[2]; {ONE}", "t[swizzled_t(n)]"),
        (SWIZZLED, ROWS, f"unsigned at = __cvta_generic_to_shared(&t[n][n]); read(at); {OTHER}", "(&t[n][(n) ^"),
    ],
)
def test_elements_are_found_in_other_layouts(layout: Padding | Swizzle, declared: str, use: str, new: str) -> None:
    text = edited_as(layout, declared, use)
    assert text is not None and new in text


@pytest.mark.parametrize("layout", [PADDED, SWIZZLED])
@pytest.mark.parametrize(
    ("declared", "use"),
    [
        # Addresses that lead on to elements which lie elsewhere then.
        (ROWS, f"float* p = &t[0][0]; p[threadIdx.x] = x[0]; {OTHER}"),
        (ROWS, f"(&t[0][0])[threadIdx.x] = 1; {OTHER}"),
        (ROWS, f"fill(&t[0][0], n); {OTHER}"),
        (ROWS, f"*(float4*)(&t[n][0] + 4) = *(float4*)x; {OTHER}"),
        (ROWS, f"unsigned at = __cvta_generic_to_shared(&t[n][0]); read(at + 16); {OTHER}"),
        (ROWS, f"for (int i = threadIdx.x; i < 1024; i += 256) t[0][i] = x[i]; {OTHER}"),
        (ROWS, f"reinterpret_cast<float4*>(&t[n][0])[n] = *(float4*)x; {OTHER}"),
        (FLAT, f"float4* q = (float4*)&t[n * 32]; q[1] = *(float4*)x; {ONE}"),
        (FLAT, f"float s = *(&t[n * 32] + 1); {ONE}"),
        (FLAT, "for (const float *p = &t[n]; p < x; p++) x[2] = *p;"),
    ],
)
def test_addresses_that_lead_on_keep_the_layout(layout: Padding | Swizzle, declared: str, use: str) -> None:
    assert edited_as(layout, declared, use) is None


@pytest.mark.parametrize(
    ("layout", "declared", "use", "above"),
    [
        (SWIZZLED, ROWS, f"int r = 0; t[r++][n] = 1; {OTHER}", ""),  # the row is asked twice
        (SWIZZLED, "__shared__ float t[1000];", ONE, ""),  # places behind the array's end
        (SWIZZLED, ROWS, f"T(n, n) = 1; {OTHER}", "#define T(i, j) t[i][j]"),
        (PADDED, FLAT, f"T(n) = 1; {ONE}", "#define T(i) t[i]"),
    ],
)
def test_uses_that_are_not_seen_keep_the_layout(
    layout: Padding | Swizzle, declared: str, use: str, above: str
) -> None:
    assert edited_as(layout, declared, use, above) is None
