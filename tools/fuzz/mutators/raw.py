"""Faults that know nothing of the format, and values that are odd in all of them."""

from __future__ import annotations

from random import Random

INTEGERS = (
    0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
    1 << 32, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
)  # fmt: skip
NAMES = (
    "", " ", "a" * 5000, "\x1b[31mred\x1b]8;;x\x07", "</script><script>alert(1)</script>", "`` ``` `",
    "\u202e\u2066\u200b", "\n\n# heading\n", "%s%n%d", "{0}{kernel}", "\x00", "\U000e0041", "../../etc/x",
    "![x](http://x.example)", "|||", "_Z" + "N1a" * 500, "void f<(int)1>(T1 *)", "é" * 300, "nan", "1e999",
)  # fmt: skip


def integer(rng: Random) -> int:
    """An integer that limits are made of."""
    return rng.choice(INTEGERS) if rng.random() < 0.7 else rng.getrandbits(rng.choice((4, 8, 16, 32, 64)))


def mutate(rng: Random, data: bytes) -> bytes:
    """One fault of bytes: flipped, overwritten, cut out, repeated, moved, or the end missing."""
    if not data:
        return bytes([rng.getrandbits(8)])
    out, at = bytearray(data), rng.randrange(len(data))
    length = min(len(data) - at, 1 << rng.randrange(12))
    match rng.randrange(8):
        case 0 | 1:
            for _ in range(rng.choice((1, 1, 4, 32))):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        case 2:
            out[at : at + 1] = bytes([rng.choice((0, 0xFF, 0x7F, 0x80, rng.getrandbits(8)))])
        case 3:
            size = rng.choice((1, 2, 4, 8))
            out[at : at + size] = (integer(rng) % (1 << 8 * size)).to_bytes(size, rng.choice(("little", "big")))
        case 4:
            del out[at : at + length]
        case 5:
            out[at:at] = out[at : at + length] * rng.choice((1, 1, 3))
        case 6:
            piece = bytes(out[at : at + length])
            del out[at : at + length]
            to = rng.randrange(len(out) + 1)
            out[to:to] = piece
        case _:
            del out[at:]
    return bytes(out)


def often(rng: Random) -> int:
    """How many faults one input gets: mostly few, so that the rest of it is read."""
    return rng.choice((1, 1, 1, 2, 2, 3, 5, 12))
