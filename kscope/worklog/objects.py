"""Files named by their content: reports, analyses, patches. Written whole or not at all, never changed, so that copies
of a folder merge by adding files, and every row of a worklog can be made again.

An object is zstd of its content, in `objects/AB/SHA256.SUFFIX.zst`, where AB is how the hash begins; `kscope analyze`
reads such a file as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import tempfile
import time
from pathlib import Path

from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.parsers.files.decompress import pieces, stream_errors

LEVEL = 9  # judged: 7 MB of report take 0.2 s and a tenth of the room
LARGEST = 4 << 30
STALE = 3600.0  # seconds after which whoever wrote a temporary file is gone


class Objects:
    """The objects beside a worklog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes, suffix: str) -> str:
        """Keep a content; its name. Raises KscopeError (status 2) where it cannot be written."""
        name = f"{hashlib.sha256(content).hexdigest()}.{suffix}"
        path = self.path(name)
        try:
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                self._sweep(path.parent)
                _write(path, _packed(content))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise KscopeError("unwritable", f"{path}: {reason}", "free some room, or --worklog elsewhere",
                              EXIT_USAGE) from None  # fmt: skip
        return name

    def get(self, name: str) -> bytes:
        """The content. Raises KscopeError (status 3): not there, or not what was written."""
        path = self.path(name)
        out, size = io.BytesIO(), 0
        damaged: tuple[type[Exception], ...] = (EOFError, *stream_errors())
        try:
            with path.open("rb") as packed:
                for piece in pieces(packed, "zstd"):
                    size += len(piece)
                    if size > LARGEST:
                        raise KscopeError("bad-object", f"{path}: unpacks to more than {LARGEST:,} bytes")
                    out.write(piece)
        except OSError as error:
            hint = "copy the objects folder of the worklog that it came from"
            raise KscopeError("missing-object", f"{path}: {error.strerror or error}", hint) from None
        except damaged:
            raise KscopeError("bad-object", f"{path}: damaged", "copy it again") from None
        content = out.getvalue()
        if hashlib.sha256(content).hexdigest() != name.partition(".")[0]:
            raise KscopeError("bad-object", f"{path}: not what its name says", "copy it again")
        return content

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def path(self, name: str) -> Path:
        """Where an object lies. Names come from a database that may be another's: nothing but a hash and a suffix is
        one. Raises KscopeError (status 3)."""
        digest, _, suffix = name.partition(".")
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef") or not suffix.replace("-", "").isalnum():
            raise KscopeError("bad-worklog", f"{name!r} names no object", "the worklog is damaged")
        return self.folder / digest[:2] / f"{name}.zst"

    def adopt(self, name: str, other: Objects) -> bool:
        """Copy an object of another worklog as it is; False where that lacks it, or holds something else."""
        if self.has(name):
            return True
        try:
            content = other.get(name)
        except KscopeError:
            return False
        self.put(content, name.partition(".")[2])
        return True

    def _sweep(self, folder: Path) -> None:
        """Remove what killed writers left."""
        for path in folder.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink()


def _write(path: Path, data: bytes) -> None:
    """The content is on disk before the name is: whoever sees the name sees all of it."""
    number, temporary = tempfile.mkstemp(prefix=f".{os.getpid()}-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _packed(content: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return bytes(zstd.compress(content, LEVEL))
    import zstandard

    return bytes(zstandard.ZstdCompressor(level=LEVEL).compress(content))
