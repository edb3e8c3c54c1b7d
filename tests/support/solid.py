"""Many captures in one archive: what they have in common once, and their numbers by kind.

A file is taken apart into streams (solid_reports.py, solid_traces.py), which LZMA packs far better than the file:
values of a kind look alike. An archive is MAGIC, a number that says how long the index is, the index (JSON: name,
checksum and kind of each file; name, filter, bytes and packed bytes of each stream) and the streams. Nothing is lost:
`unpacked` gives the very bytes, and says so where it does not. Made by tools/solid_fixtures.py.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support import solid_reports, solid_traces
from tests.support.streams import Shared, Streams

MAGIC = b"KSSOLID1"
KINDS: tuple[Any, ...] = (solid_reports, solid_traces)
"""Modules with a MAGIC, by which their files are known, a Writer and a Reader."""
_BEST = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20}
FILTERS = [[{**_BEST, "lc": lc, "lp": 0, "pb": pb}] for lc, pb in ((4, 0), (0, 3))]
"""For bytes and texts; for numbers of eight bytes."""


def packed(files: Mapping[str, bytes]) -> bytes:
    """The archive of these files, similar ones best next to each other. Raises ValueError for what is none of KINDS."""
    streams, shared = Streams(), Shared()
    known = []
    for name, data in files.items():
        kind = _kind(name, data)
        KINDS[kind].Writer(streams, shared).file(data)
        known.append((name, _checksum(data), kind))
    parts, about = [], []
    for name, data in streams.data.items():
        tries = [lzma.compress(data, lzma.FORMAT_RAW, filters=filters) for filters in FILTERS]
        best = min(range(len(tries)), key=lambda i: len(tries[i]))
        about.append((name, best, len(data), len(tries[best])))
        parts.append(tries[best])
    index = json.dumps({"files": known, "streams": about}, separators=(",", ":")).encode()
    index = lzma.compress(index, lzma.FORMAT_RAW, filters=FILTERS[0])
    return MAGIC + struct.pack("<I", len(index)) + index + b"".join(parts)


def names(archive: bytes) -> list[str]:
    """Names of the files in it."""
    return [name for name, _, _ in _index(archive)[0]["files"]]


def unpacked(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """The files with their names, as they were. Raises ValueError where one is not what was packed."""
    index, at = _index(archive)
    given = {}
    for name, which, _, size in index["streams"]:
        given[name] = lzma.decompress(archive[at : at + size], lzma.FORMAT_RAW, filters=FILTERS[which])
        at += size
    streams, shared = Streams(given), Shared()
    for name, checksum, kind in index["files"]:
        data = KINDS[kind].Reader(streams, shared).file()
        if _checksum(data) != checksum:
            raise ValueError(f"{name}: the archive does not give the file back")
        yield name, data


def _index(archive: bytes) -> tuple[dict[str, Any], int]:
    if archive[: len(MAGIC)] != MAGIC:
        raise ValueError("no archive of captures")
    (size,) = struct.unpack_from("<I", archive, len(MAGIC))
    at = len(MAGIC) + 4
    return json.loads(lzma.decompress(archive[at : at + size], lzma.FORMAT_RAW, filters=FILTERS[0])), at + size


def _kind(name: str, data: bytes) -> int:
    for number, kind in enumerate(KINDS):
        if data.startswith(kind.MAGIC):
            return number
    raise ValueError(f"{name}: not a report, nor a dump of warps")


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
