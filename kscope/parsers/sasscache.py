"""Disassembly and line table kept between runs, by content: NVIDIA's disassembler takes 0.4 s to start, longer than all
else, its line table 13 ms.

The key is the hash of the ELF image that the report embeds and holds the function, so that a report of an unchanged
kernel is answered from the cache, and a recompiled one never is. Where that image cannot be told for certain (two
images with a function of the same name, a container that reads differently), nothing is cached.

KSCOPE_CACHE_DIR names another folder (default: $XDG_CACHE_HOME/kscope or ~/.cache/kscope); KSCOPE_CACHE_DIR= (empty)
turns the cache off.
"""

from __future__ import annotations

import mmap
import os
import struct
from hashlib import blake2b
from pathlib import Path

from kscope.parsers import container

TYPE_CHECKING = False  # see kscope.parsers.ncu_worker
if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[str, "str | None", "int | None"]
"""SASS text, source file and line."""
VERSION = b"2"  # part of the key: raise it when the stored text changes
KEEP = 4096  # files; the older half goes when there are more


def cache_dir() -> Path | None:
    """The folder, or None where caching is off or no home is known."""
    configured = os.environ.get("KSCOPE_CACHE_DIR")
    if configured is not None:
        return Path(configured) if configured else None
    home = os.environ.get("HOME")
    base = os.environ.get("XDG_CACHE_HOME") or (os.path.join(home, ".cache") if home else "")
    return Path(base) / "kscope" if base else None


class SassCache:
    """Cached SASS of the functions in one report: {offset from the entry: (text, file, line)}.

    On disk: a line `=` and the name for each source file, then tab-separated lines of offset (hexadecimal), number of
    the file or -, line or -, text.
    """

    def __init__(self, report: str, folder: Path | None = None) -> None:
        self._folder = folder or cache_dir()
        self._report = report
        self._images: dict[bytes, memoryview] | None = None
        self._holding: dict[str, bytes | None] = {}

    def load(self, function: str) -> dict[int, Row] | None:
        file = self._file(function)
        rows: dict[int, Row] = {}
        files: dict[str, str | None] = {"-": None}
        try:
            for row in file.read_text(encoding="utf-8").split("\n")[:-1] if file is not None else []:
                if row[0] == "=":
                    files[str(len(files) - 1)] = row[1:]
                else:
                    offset, name, line, text = row.split("\t", 3)
                    rows[int(offset, 16)] = (text, files[name], int(line) if line != "-" else None)
            return rows or None
        except (OSError, ValueError, KeyError, IndexError):
            return None  # absent or damaged: disassemble again

    def store(self, function: str, rows: dict[int, Row]) -> None:
        """Best effort: a read-only home or a full disk costs only time."""
        file = self._file(function)
        numbers = {name: i for i, name in enumerate(dict.fromkeys(name for _, name, _ in rows.values() if name))}
        if file is None or "\n" in "".join([*numbers, *(text for text, _, _ in rows.values())]):
            return
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_suffix(f".{os.getpid()}.tmp")
            head = "".join(f"={name}\n" for name in numbers)
            body = "".join(
                f"{offset:x}\t{numbers[name] if name else '-'}\t{line or '-'}\t{text}\n"
                for offset, (text, name, line) in rows.items()
            )
            temporary.write_text(head + body, encoding="utf-8", newline="\n")
            temporary.replace(file)
            _prune(file.parent)
        except (OSError, UnicodeEncodeError):
            return

    def _file(self, function: str) -> Path | None:
        image = self.image(function) if self._folder is not None else None
        if self._folder is None or image is None:
            return None
        key = blake2b(VERSION + image + function.encode(), digest_size=20)
        return self._folder / f"sass-{key.hexdigest()}.txt"

    def image(self, function: str) -> bytes | None:
        """Hash of the image that holds a function; None where there is no one such."""
        if self._images is None:
            self._images = embedded_images(self._report)
        if function not in self._holding:
            section = b".text." + function.encode() + b"\0"
            found = [key for key, image in self._images.items() if section in bytes(image)] if function else []
            self._holding[function] = found[0] if len(found) == 1 else None
        return self._holding[function]


def _prune(folder: Path) -> None:
    files = list(folder.glob("sass-*.txt"))
    if len(files) > KEEP:
        for file in sorted(files, key=lambda f: f.stat().st_mtime)[: KEEP // 2]:
            file.unlink(missing_ok=True)


def embedded_images(report: str) -> dict[bytes, memoryview]:
    """The distinct ELF images in a .ncu-rep by their hash; {} where the container does not read as expected.

    A block without results is a table of sources: u32 length + protobuf message, again and again, whose field 4 is
    the image. Seen so in reports of 2022.2 and 2025.3.
    """
    images: dict[bytes, memoryview] = {}
    try:
        with open(report, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            found = [b for b in container.blocks(f, size) if not b.results and b.end > b.payload]
            data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        for block in found:
            for image in _images(data[block.payload : block.end]):
                images[blake2b(image, digest_size=20).digest()] = image
    except (OSError, ValueError, IndexError, struct.error, container.Damage):
        return {}
    return images


def _images(payload: memoryview) -> list[memoryview]:
    out = []
    at = 0
    while at + 4 <= len(payload):
        size = int(struct.unpack_from("<I", payload, at)[0])
        for number, value in _fields(payload[at + 4 : at + 4 + size]):
            if number == 4 and bytes(value[:4]) == b"\x7fELF":
                out.append(value)
        at += 4 + size
    return out


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return result, at


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Top-level fields of a protobuf message that hold bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(data, at)
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, data[at : at + size]
        at += size
