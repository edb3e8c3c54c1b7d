"""How matrices lie in the registers of a warp or a warpgroup, and in shared memory where a descriptor says (PTX ISA:
ldmatrix, mma.m16n8k16, wgmma, its matrix descriptor and the swizzle of 128 bytes)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import Values, Vector
from kscope.model.lazily import np

WARP, GROUP = 32, 128  # threads of a warp, of a warpgroup
SUMS, SIDE = 1 << 62, 30  # a word of two whole numbers that two bytes do not hold: no word of bits is as large
MIDDLE = 1 << SIDE - 1
ROW = 8  # two-byte numbers of a row of 16 bytes


class Tile(Struct, frozen=True):
    """A matrix in shared memory by its descriptor. start, leading, stride: bytes; across: whether rows of memory go
    along its own side and not along the depth."""

    start: int
    leading: int
    stride: int
    across: bool

    def places(self, side: int) -> Any:
        """Byte addresses of elements, by (row or column, depth), of a side x 16 matrix swizzled by 128 bytes."""
        n, k = np.arange(side)[:, None], np.arange(16)[None, :]
        if self.across:
            at = n // 64 * self.leading + k // 8 * self.stride + k % 8 * 128 + n % 64 * 2
        else:
            at = n // 8 * self.stride + n % 8 * 128 + k * 2
        at = at + self.start
        return at ^ ((at >> 7 & 7) << 4)


def tile(descriptor: int, *, across: bool) -> Tile:
    """Raises Unplayable for another swizzle than of 128 bytes, and for a base that is moved."""
    if descriptor >> 62 & 3 != 1 or descriptor >> 49 & 7:
        raise Unplayable("a descriptor of another layout")
    start, leading, stride = (((descriptor >> at) & 0x3FFF) << 4 for at in (0, 16, 32))
    return Tile(start, leading, stride, across)


def bits(value: Values, *, upper: bool) -> Any:
    """Two numbers of two bytes as the word that holds them. upper: bfloat16. Raises Unplayable where one is no such
    number."""
    if not isinstance(value, Vector):
        return value
    if value.size != 2 or len(value.parts) != 2:
        raise Unplayable("several numbers as one")
    low, high = (np.asarray(part, dtype=np.float64) for part in value.parts)
    try:
        return _bits(low, upper=upper) | _bits(high, upper=upper) << 16
    except Unplayable:  # sums, which are played as what they are and not rounded
        if max(np.abs(low).max(), np.abs(high).max()) >= MIDDLE or (low % 1).any() or (high % 1).any():
            raise
        return SUMS | low.astype(np.int64) + MIDDLE << SIDE | high.astype(np.int64) + MIDDLE


def _bits(numbers: Any, *, upper: bool) -> Any:
    if upper:
        words = numbers.astype(np.float32).view(np.uint32)
        found, back = words >> 16, (words & 0xFFFF0000).astype(np.uint32).view(np.float32)
    else:
        found, back = numbers.astype(np.float16).view(np.uint16), numbers.astype(np.float16)
    if not np.array_equal(back.astype(np.float64), numbers):
        raise Unplayable("a number that two bytes do not hold")
    return found.astype(np.int64)


def both(word: Any, *, upper: bool) -> tuple[Any, Any]:
    """The numbers that words hold, the lower first."""
    if isinstance(word, Vector):
        if word.size != 2 or len(word.parts) != 2:
            raise Unplayable("one number as two")
        return word.parts[0], word.parts[1]
    word = np.asarray(word)
    if word.dtype.kind != "i":
        raise Unplayable("one number as two")
    low, high = _number(word & 0xFFFF, upper=upper), _number(word >> 16 & 0xFFFF, upper=upper)
    low, high = np.asarray(low), np.asarray(high)
    sums = word >= SUMS
    return (
        np.where(sums, (word >> SIDE & 2 * MIDDLE - 1) - MIDDLE, low),
        np.where(sums, (word & 2 * MIDDLE - 1) - MIDDLE, high),
    )


def _number(half: Any, *, upper: bool) -> Any:
    if upper:
        return (half.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return half.astype(np.uint16).view(np.float16).astype(np.float64)


def handed_out(rows: Any, *, turned: bool) -> Any:
    """Of matrices of 8 x 8 (warp, matrix, row, column) both numbers of each lane (warp, lane, matrix, 2)."""
    lanes = np.arange(WARP)
    if turned:
        rows = rows.swapaxes(2, 3)
    pairs = rows.reshape(*rows.shape[:2], 8, 4, 2)
    return pairs[:, :, lanes // 4, lanes % 4].swapaxes(1, 2)


def multiplied(a: Any, b: Any, c: Any, *, upper: bool) -> Any:
    """mma.m16n8k16 or k8, of registers by (warp, lane, register); c: floats."""
    warps, deep = a.shape[0], 8 * b.shape[2]
    lanes = np.arange(WARP)
    group, part = lanes // 4, lanes % 4 * 2
    left, right, out = np.zeros((warps, 16, deep)), np.zeros((warps, deep, 8)), np.zeros((warps, 16, 8))
    for n in range(a.shape[2]):
        for half, numbers in enumerate(both(a[:, :, n], upper=upper)):
            left[:, group + n % 2 * 8, part + n // 2 * 8 + half] = numbers
    for n in range(b.shape[2]):
        for half, numbers in enumerate(both(b[:, :, n], upper=upper)):
            right[:, part + n * 8 + half, group] = numbers
    for n in range(4):
        out[:, group + n // 2 * 8, part + n % 2] = c[:, :, n]
    out = out + left @ right
    return np.stack([out[:, group + n // 2 * 8, part + n % 2] for n in range(4)], axis=2)


def of_group(registers: int) -> tuple[Any, Any]:
    """(row, column) of the numbers that each thread of a warpgroup has of a result, by (thread, register)."""
    thread, n = np.arange(GROUP)[:, None], np.arange(registers)[None, :]
    rows = thread // WARP * 16 + thread % WARP // 4 + n // 2 % 2 * 8
    return rows, n // 4 * 8 + thread % 4 * 2 + n % 2
