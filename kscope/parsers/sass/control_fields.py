"""Control fields from the 128-bit encodings of SASS instructions, sm_70 to sm_12x.

Bits of the 128: stall 108:105, yield 109 (0 yields), write barrier 112:110 and read barrier 115:113 (7: none), wait
mask 121:116, reuse of operand slots A, B, C 122, 123, 124. Source: Jia et al., arXiv 1804.06826, section 2.1; checked
against the `.reuse` text of every instruction of the fixtures.
"""

from __future__ import annotations

import sys
from array import array
from functools import lru_cache

from kscope.model.program import Control

BYTES = 16
"""Size of an instruction."""
_SHIFT, _MASK = 105 - 64, (1 << 20) - 1
SHOWN = ~(((1 << 17) - 1) << _SHIFT) & ((1 << 64) - 1)
"""Bits of the high half that the text shows: all but the control fields other than reuse."""


@lru_cache(maxsize=1 << 14)
def control(bits: int) -> Control:
    """The fields from bits 124:105."""
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(
        bits & 15, not bits >> 4 & 1, write if write != 7 else None, read if read != 7 else None,
        bits >> 11 & 63, bits >> 17 & 7,
    )  # fmt: skip


def of_words(high: int) -> Control:
    """The fields from the high half of an encoding."""
    return control(high >> _SHIFT & _MASK)


def descriptor(low: int, high: int) -> int | None:
    """Number of the uniform register pair with the memory descriptor of a global or generic access; None without one.

    From sm_90 on the text shows it (`desc[UR4][R2.64]`), on sm_80 to sm_89 it does not (`[R2.64]`) although the
    encoding is the same: bit 91 says that there is one; it is in bits 37:32 of loads and 69:64 of everything else.
    Found by comparing the text of sm_90 with its encodings (LD, LDG, ST, STG, ATOM, ATOMG, RED, LDGSTS).
    """
    if not high >> 27 & 1:
        return None
    register = (low >> 32 if low & 0xFFF in (0x980, 0x981) else high) & 63
    return register if register != 63 else None


def words(code: bytes) -> array[int]:
    """Low and high half of every instruction, one after the other."""
    found = array("Q", code[: len(code) // BYTES * BYTES])
    if sys.byteorder == "big":
        found.byteswap()
    return found


def stored(found: array[int]) -> bytes:
    """The bytes that `words` came from."""
    if sys.byteorder == "big":
        found = array("Q", found)
        found.byteswap()
    return found.tobytes()


def controls(code: bytes) -> list[Control]:
    """One Control for every 16 bytes of code."""
    return [control(high >> _SHIFT & _MASK) for high in words(code)[1::2]]
