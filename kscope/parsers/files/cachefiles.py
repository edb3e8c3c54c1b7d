"""Files of the cache folder: read only where nobody else can have written them, and written whole or not at all.

Nothing is left behind by a process that is killed: a file gets its name when it is complete (O_TMPFILE, Linux), or
elsewhere under another name that is removed after an hour.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from hashlib import blake2b
from pathlib import Path

LARGEST = 64 << 20
"""Bytes of an entry: the text of the largest functions known takes 8 MB."""
STALE = 3600.0  # seconds after which whoever wrote a temporary file is gone
_SEAL = 16  # bytes of a checksum


def trouble(folder: Path) -> str:
    """Why a folder's files cannot be trusted, and what to do; "" for one that is ours alone, or not there yet."""
    try:
        about = os.stat(folder)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return f"{folder}: cannot be opened ({getattr(error, 'strerror', None) or error}); set KSCOPE_CACHE_DIR"
    if not stat.S_ISDIR(about.st_mode):
        return f"{folder}: not a folder; set KSCOPE_CACHE_DIR to one"
    if not hasattr(os, "geteuid"):  # Windows: a folder of the user's profile is the user's
        return ""
    if about.st_uid not in (os.geteuid(), 0):
        return f"{folder}: belongs to another user; set KSCOPE_CACHE_DIR to a folder of your own"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{folder}: others can write to it; chmod go-w it"
    return ""


def read(file: Path) -> bytes | None:
    """The content of an entry; None where it is not there, not a file, or not what was written under this name."""
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)  # a pipe of this name has no writer
    try:
        with open(file, "rb", opener=lambda path, mode: os.open(path, mode | flags)) as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                return None
            seal, _, content = opened.read(LARGEST + 1).partition(b"\n")
    except (OSError, ValueError):
        return None
    return content if seal == _seal(file, content) else None


def write(file: Path, content: bytes) -> None:
    """Make or replace an entry. Raises OSError: a full disk, a folder that cannot be written."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sealed = _seal(file, content) + b"\n" + content
    if not _linked(file, sealed):
        _renamed(file, sealed)


def _seal(file: Path, content: bytes) -> bytes:
    """The checksum of an entry's content, another one under another name."""
    return blake2b(content, digest_size=_SEAL, key=file.name.encode()[:64]).hexdigest().encode()


def _linked(file: Path, data: bytes) -> bool:
    """Write a file without a name and name it; False where the system or the file system has none."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None:
        return False
    try:
        number = os.open(file.parent, os.O_WRONLY | flag, 0o600)
    except OSError:
        return False
    with os.fdopen(number, "wb") as opened:
        opened.write(data)
        opened.flush()
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            # a folder's number makes Python follow the link in /proc, which is how such a file is named: open(2)
            for _ in range(2):
                try:
                    os.link(f"/proc/self/fd/{number}", file.name, dst_dir_fd=folder)
                    return True
                except FileExistsError:  # damaged, or another process was first
                    file.unlink(missing_ok=True)
        except OSError:  # no /proc, a file system without links, a folder of that name
            return False
        finally:
            os.close(folder)
    return True


def _renamed(file: Path, data: bytes) -> None:
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(number, "wb") as opened:
            opened.write(data)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def prune(folder: Path, prefix: str, keep: int) -> None:
    """Remove the older half of the entries where there are more than `keep`, and what killed processes left."""
    stamped = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith(prefix):
                with contextlib.suppress(OSError):  # removed meanwhile
                    stamped.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
    entries = sorted(one for one in stamped if one[1].endswith(".txt"))
    old = [name for _, name in entries[: keep // 2]] if len(entries) > keep else []
    old += [name for at, name in stamped if name.endswith(".tmp") and at < time.time() - STALE]
    for name in old:
        with contextlib.suppress(OSError):  # another process was first, or it is a folder
            Path(folder, name).unlink()
