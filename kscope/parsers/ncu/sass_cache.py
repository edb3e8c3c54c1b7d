"""Disassembly and line table kept between runs, by content: NVIDIA's disassembler takes 0.4 s to start, longer than all
else, its line table 13 ms.

The key is the hash of the ELF image that the report embeds and holds the function, so that a report of an unchanged
kernel is answered from the cache, and a recompiled one never is. Where several images have a function of the name (one
that was tuned), each launch says whose it is. Where that cannot be told for certain (a report joined from those of
several processes, a container that reads differently), nothing is cached.

KSCOPE_CACHE_DIR names another folder (default: $XDG_CACHE_HOME/kscope or ~/.cache/kscope); KSCOPE_CACHE_DIR= (empty)
turns the cache off. So does a folder that others can write to: what it says becomes a verdict.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from kscope.parsers.files import cachefiles
from kscope.parsers.files.ncu_images import UNNUMBERED, numbered_images, target

Row = tuple[str, "str | None", "int | None"]
"""SASS text, source file and line."""
VERSION = b"4"  # part of the key: raise it when the stored text changes
KEEP = 4096  # files; the older half goes when there are more
HERE = 16  # functions that are remembered in memory, those disassembled last


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

    On disk, in lines: how many source files there are, their names; offsets, files (by number, -1 for none) and source
    lines (0 for none) of all instructions, one line each; then their texts. Columns are read faster than rows.
    """

    def __init__(self, report: str, folder: Path | None = None) -> None:
        self._folder = folder or cache_dir()
        if self._folder is not None and cachefiles.trouble(self._folder):
            self._folder = None
        self._report = report
        self.source = UNNUMBERED
        """The number of the source that the kernel in turn was made from."""
        self._images: dict[bytes, memoryview] | None = None
        self._numbers: dict[int, bytes] = {}
        self._holding: dict[tuple[str, int], bytes | None] = {}
        self._last: tuple[tuple[str, int], dict[int, Row] | None] = (("", UNNUMBERED), None)
        self._here: dict[tuple[bytes, str], dict[int, Row]] = {}

    def load(self, function: str) -> dict[int, Row] | None:
        """None where it is not there. The answer about one function is kept: it is asked for ahead and in its turn."""
        asked = (function, self.source)
        if self._last[0] != asked:
            self._last = (asked, self._read(function))
        return self._last[1]

    def _read(self, function: str) -> dict[int, Row] | None:
        file = self._file(function)
        content = cachefiles.read(file) if file is not None else None
        if content is None:
            return self._here.get((self.image(function) or b"", function))
        try:
            count, *rest = content.decode("utf-8").split("\n")
            files: list[str | None] = [*rest[: int(count)], None]
            offsets, numbers, lines = (list(map(int, row.split())) for row in rest[int(count) : int(count) + 3])
            texts = rest[int(count) + 3 : -1]
            places = zip(texts, map(files.__getitem__, numbers), (n or None for n in lines), strict=True)
            return dict(zip(offsets, places, strict=True)) or None
        except (ValueError, IndexError):
            return None  # of another version: disassemble again

    def store(self, function: str, rows: dict[int, Row]) -> None:
        """Best effort: a read-only home or a full disk costs only time, and that once a report."""
        self._last = (("", UNNUMBERED), None)
        self._keep(function, rows)
        file = self._file(function)
        numbers = {name: i for i, name in enumerate(dict.fromkeys(name for _, name, _ in rows.values() if name))}
        if file is None or "\n" in "".join([*numbers, *(text for text, _, _ in rows.values())]):
            return
        columns = (
            rows, (numbers[name] if name else -1 for _, name, _ in rows.values()),
            (line or 0 for _, _, line in rows.values()),
        )  # fmt: skip
        head = [str(len(numbers)), *numbers, *(" ".join(map(str, column)) for column in columns)]
        try:
            cachefiles.write(file, "\n".join([*head, *(text for text, _, _ in rows.values()), ""]).encode("utf-8"))
            cachefiles.prune(file.parent, "sass-", KEEP)
        except (OSError, UnicodeEncodeError):
            return

    def _keep(self, function: str, rows: dict[int, Row]) -> None:
        """For the launches to come, where the folder cannot."""
        image = self.image(function)
        if image is not None:
            self._here[image, function] = rows
            if len(self._here) > HERE:
                del self._here[next(iter(self._here))]

    def _file(self, function: str) -> Path | None:
        image = self.image(function) if self._folder is not None else None
        if self._folder is None or image is None:
            return None
        key = blake2b(VERSION + image + function.encode(), digest_size=20)
        return self._folder / f"sass-{key.hexdigest()}.txt"

    def target(self, function: str) -> int:
        """The architecture, 90 for sm_90, of the image that holds a function; 0 where there is no one such."""
        image = self.image(function)
        return target(bytes(self._images[image][:64]))[0] if self._images and image is not None else 0

    def image_of(self, function: str) -> bytes | None:
        """The ELF image that holds a function; None where there is no one such."""
        image = self.image(function)
        return bytes(self._images[image]) if self._images and image is not None else None

    def image(self, function: str) -> bytes | None:
        """Hash of the image that holds a function of the kernel in turn; None where there is no one such."""
        if self._images is None:
            self._images, self._numbers = numbered_images(self._report)
        asked = (function, self.source)
        if asked not in self._holding:
            section = b".text." + function.encode() + b"\0"
            found = [key for key, image in self._images.items() if section in bytes(image)] if function else []
            own = self._numbers.get(self.source)
            self._holding[asked] = own if own in found else found[0] if len(found) == 1 else None
        return self._holding[asked]

