"""Compressed files: sound ones, several streams, layers, and faults in the stream."""

from __future__ import annotations

import gzip
import lzma
from random import Random

from tools.fuzz.mutators import raw

SUFFIXES = (".gz", ".xz", ".zst")


def pack(rng: Random, data: bytes, suffix: str) -> bytes:
    """The data in one or two streams, quickly."""
    cut = rng.randrange(len(data) + 1) if rng.random() < 0.1 else len(data)
    return b"".join(_stream(rng, part, suffix) for part in (data[:cut], data[cut:]) if part or not data)


def mutate(rng: Random, packed: bytes) -> bytes:
    match rng.randrange(6):
        case 0:
            return packed + rng.choice((b"\0" * 64, b"x", b"\0" * 5 + packed))
        case 1:
            return packed[: rng.randrange(len(packed) + 1)]
        case 2:
            at = rng.randrange(min(len(packed), 24))
            return packed[:at] + bytes([rng.getrandbits(8)]) + packed[at + 1 :]
        case _:
            return raw.mutate(rng, packed)


def _stream(rng: Random, data: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(data, rng.choice((0, 1)), mtime=0)
    if suffix == ".xz":
        check = rng.choice((lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64))
        return lzma.compress(data, check=check, preset=0)
    return zstd(data)


def zstd(data: bytes) -> bytes:
    try:
        from compression import zstd as standard

        return standard.compress(data, 1)
    except ImportError:
        import zstandard

        return zstandard.ZstdCompressor(level=1).compress(data)
