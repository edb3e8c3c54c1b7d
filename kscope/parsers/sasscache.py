"""Disassembly kept between runs, by content: NVIDIA's disassembler takes 0.4 s to start, longer than all else.

The key is the hash of the ELF image that the report embeds and holds the function, so that a report of an unchanged
kernel is answered from the cache, and a recompiled one never is. Where that image cannot be told for certain (two
images with a function of the same name, a container that reads differently), nothing is cached.

KSCOPE_CACHE_DIR names another folder (default: $XDG_CACHE_HOME/kscope or ~/.cache/kscope); KSCOPE_CACHE_DIR= (empty)
turns the cache off.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from hashlib import blake2b
from pathlib import Path

MAGIC = b"NVR\0"
VERSION = b"1"  # part of the key: raise it when the stored text changes
KEEP = 4096  # files; the older half goes when there are more


def cache_dir() -> Path | None:
    """The folder, or None where caching is off or no home is known."""
    configured = os.environ.get("KSCOPE_CACHE_DIR")
    if configured is not None:
        return Path(configured) if configured else None
    base = os.environ.get("XDG_CACHE_HOME") or (os.path.join(os.environ["HOME"], ".cache") if "HOME" in os.environ else "")
    return Path(base) / "kscope" if base else None


class SassCache:
    """Cached SASS of the functions in one report: {offset from the entry: text}."""

    def __init__(self, report: str, folder: Path | None = None) -> None:
        self._folder = folder or cache_dir()
        self._report = report
        self._images: list[memoryview] | None = None

    def load(self, function: str) -> dict[int, str] | None:
        file = self._file(function)
        try:
            return {int(k): v for k, v in json.loads(file.read_bytes()).items()} if file is not None else None
        except (OSError, ValueError, AttributeError):
            return None  # absent or damaged: disassemble again

    def store(self, function: str, texts: dict[int, str]) -> None:
        """Best effort: a read-only home or a full disk costs only time."""
        file = self._file(function)
        if file is None:
            return
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_bytes(json.dumps(texts).encode())
            temporary.replace(file)
            _prune(file.parent)
        except OSError:
            return

    def _file(self, function: str) -> Path | None:
        if self._folder is None or not function:
            return None
        if self._images is None:
            self._images = embedded_images(self._report)
        section = b".text." + function.encode() + b"\0"
        holding = [i for i in self._images if section in bytes(i)]
        if len(holding) != 1:
            return None
        key = blake2b(VERSION + function.encode() + b"\0", digest_size=20)
        key.update(holding[0])
        return self._folder / f"sass-{key.hexdigest()}.json"


def _prune(folder: Path) -> None:
    files = list(folder.glob("sass-*.json"))
    if len(files) > KEEP:
        for file in sorted(files, key=lambda f: f.stat().st_mtime)[: KEEP // 2]:
            file.unlink(missing_ok=True)


def embedded_images(report: str) -> list[memoryview]:
    """The distinct ELF images in a .ncu-rep; [] where the container does not read as expected.

    Layout, seen in reports of 2023.3 to 2025.4: "NVR\\0", u32 length + file header, then blocks of u32 length + block
    header (protobuf: 1 = number of sources, 5 = payload size) + payload; a source payload is u32 length + message
    whose field 4 is the image.
    """
    try:
        with open(report, "rb") as f:
            data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        if bytes(data[:4]) != MAGIC:
            return []
        at = 8 + _u32(data, 4)
        images: dict[bytes, memoryview] = {}
        while at < len(data):
            header = dict(_fields(data[at + 4 : at + 4 + _u32(data, at)]))
            start = at + 4 + _u32(data, at)
            at = start + _number(header.get(5))
            if _number(header.get(1)) and at <= len(data):
                for image in _images(data[start:at]):
                    images[blake2b(image, digest_size=16).digest()] = image
        return list(images.values())
    except (OSError, ValueError, IndexError, struct.error):
        return []


def _images(payload: memoryview) -> list[memoryview]:
    out = []
    at = 0
    while at + 4 <= len(payload):
        size = _u32(payload, at)
        for number, value in _fields(payload[at + 4 : at + 4 + size]):
            if number == 4 and isinstance(value, memoryview) and bytes(value[:4]) == b"\x7fELF":
                out.append(value)
        at += 4 + size
    return out


def _u32(data: memoryview, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _number(value: int | memoryview | None) -> int:
    return value if isinstance(value, int) else 0


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return result, at


def _fields(data: memoryview) -> list[tuple[int, int | memoryview]]:
    """Top-level fields of a protobuf message: (number, varint or bytes)."""
    out: list[tuple[int, int | memoryview]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: int | memoryview
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        out.append((tag >> 3, value))
    return out
