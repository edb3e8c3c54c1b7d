"""Many captures in one archive: what they have in common once, and their numbers by kind.

A file is taken apart into streams (solid_*.py), which LZMA packs far better than the file: values of a kind look
alike. Columns are streams named by a kind and a number, `double/17`, which are packed one after the other. An archive
is MAGIC, a number that says how long the index is, the index (JSON: name, checksum and kind of each file; name, filter,
packed bytes and sizes of each stream or kind of columns) and the streams. Nothing is lost: `unpacked` gives the very
bytes, and says so where it does not. Made by tools/solid_fixtures.py.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from tests.support import solid_images, solid_recordings, solid_reports, solid_traces
from tests.support.streams import Shared, Streams

MAGIC = b"KSSOLID2"
KINDS: tuple[Any, ...] = (solid_reports, solid_traces, solid_images, solid_recordings)
"""Modules with a MAGIC, by which their files are known, a Writer and a Reader."""
BEST = 9 | lzma.PRESET_EXTREME
_LZMA = {"id": lzma.FILTER_LZMA2, "dict_size": 64 << 20}
FILTERS = [
    [{**_LZMA, "lc": lc, "lp": lp, "pb": pb}] for lc, lp, pb in ((4, 0, 0), (0, 0, 3), (0, 4, 4), (1, 3, 3), (0, 0, 0))
]
"""For texts; for numbers of eight bytes; for instructions; for numbers that are all used; for numbers of any length."""


def packed(files: Mapping[str, bytes], preset: int = BEST) -> bytes:
    """The archive of these files, similar ones best next to each other; preset: of LZMA. Raises ValueError for what is
    none of KINDS."""
    streams, shared = Streams(), Shared()
    known = []
    for name, data in files.items():
        kind = _kind(name, data)
        KINDS[kind].Writer(streams, shared).file(data)
        known.append((name, _checksum(data), kind))
    blocks = _blocks(streams.data)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(partial(_best, preset=preset), (b"".join(columns) for columns in blocks.values())))
    about = [
        (name, which, len(data), [len(column) for column in columns] if name.endswith("/") else len(columns[0]))
        for (name, columns), (which, data) in zip(blocks.items(), done, strict=True)
    ]
    index = json.dumps({"files": known, "streams": about}, separators=(",", ":")).encode()
    index = lzma.compress(index, lzma.FORMAT_RAW, filters=FILTERS[0])
    return MAGIC + struct.pack("<I", len(index)) + index + b"".join(data for _, data in done)


def names(archive: bytes) -> list[str]:
    """Names of the files in it."""
    return [name for name, _, _ in _index(archive)[0]["files"]]


def unpacked(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """The files with their names, as they were. Raises ValueError where one is not what was packed."""
    index, at = _index(archive)
    given = {}
    for name, which, size, sizes in index["streams"]:
        data = lzma.decompress(archive[at : at + size], lzma.FORMAT_RAW, filters=FILTERS[which])
        at += size
        if not name.endswith("/"):
            given[name] = data
            continue
        start = 0
        for number, length in enumerate(sizes):
            given[f"{name}{number}"] = data[start : start + length]
            start += length
    streams, shared = Streams(given), Shared()
    for name, checksum, kind in index["files"]:
        data = KINDS[kind].Reader(streams, shared).file()
        if _checksum(data) != checksum:
            raise ValueError(f"{name}: the archive does not give the file back")
        yield name, data


def _blocks(streams: Mapping[str, bytearray]) -> dict[str, list[bytes]]:
    """Name of a stream -> it alone; kind of columns and a slash -> all of them by number."""
    out: defaultdict[str, list[bytes]] = defaultdict(list)
    for name, data in streams.items():
        kind, slash, number = name.partition("/")
        if not slash:
            out[kind].append(bytes(data))
            continue
        columns = out[f"{kind}/"]
        columns += [b""] * (int(number) + 1 - len(columns))
        columns[int(number)] = bytes(data)
    return out


def _best(data: bytes, preset: int) -> tuple[int, bytes]:
    tries = [lzma.compress(data, lzma.FORMAT_RAW, filters=[{**one, "preset": preset}]) for (one,) in FILTERS]
    best = min(range(len(tries)), key=lambda i: len(tries[i]))
    return best, tries[best]


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
    raise ValueError(f"{name}: neither a report, a recording, a dump of warps nor code")


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
