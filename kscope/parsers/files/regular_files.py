"""What is opened: regular files, and standard input where it is asked for. A pipe would wait for a writer, a device
need not end."""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from pathlib import Path
from typing import IO

from kscope.model.errors import KscopeError
from kscope.parsers.files.decompress import limit as unpack_limit
from kscope.parsers.files.decompress import memory_file

STDIN = Path("-")


def regular(path: Path) -> None:
    """Refuse what is not a file: opening a pipe would wait for a writer."""
    if path == STDIN:
        return
    _regular(path, stat_of(path).st_mode)


def _regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise KscopeError("not-a-file", f"{path}: {what}, not a file", "save the report to a file and name that")


def stat_of(path: Path) -> os.stat_result:
    """os.stat. Raises KscopeError (input) where there is no such path."""
    try:
        return path.stat()
    except FileNotFoundError:
        raise KscopeError("missing-file", f"{path}: no such file or folder", "check the path") from None
    except PermissionError:
        raise _denied(path) from None
    except (OSError, ValueError) as e:  # a loop of links, a name that is too long, a null byte
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise KscopeError("missing-file", f"{path}: cannot be opened ({reason})", "check the path") from None


def opened(path: Path) -> IO[bytes]:
    """The file's bytes from their start; standard input, which can be read only once, from a copy of it. Raises
    KscopeError where the path is no regular file: nothing else is opened, and nothing waits for a pipe that took a
    file's place meanwhile."""
    if path == STDIN:
        file = os.fdopen(os.dup(_standard_input().fileno()), "rb")
        file.seek(0)
        return file
    regular(path)
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        file = os.fdopen(number, "rb")
        try:
            _regular(path, os.fstat(number).st_mode)
        except KscopeError:
            file.close()
            raise
        return file
    except FileNotFoundError:
        raise KscopeError("missing-file", f"{path}: no such file or folder", "check the path") from None
    except PermissionError:
        raise _denied(path) from None
    except OSError as e:
        raise KscopeError("unreadable", f"{path}: cannot be read ({e.strerror})", "check the path") from None


@cache
def _standard_input() -> IO[bytes]:
    if sys.stdin is None or sys.stdin.isatty():
        raise KscopeError("missing-file", "-: nothing is piped to standard input", "name a file, or pipe one")
    copy, size, bound = memory_file(), 0, unpack_limit()
    while piece := sys.stdin.buffer.read(1 << 20):
        size += len(piece)
        if size > bound:
            raise KscopeError("too-large", f"-: more than {bound:,} bytes", "raise KSCOPE_UNPACK_LIMIT (bytes)")
        copy.write(piece)
    copy.flush()
    return copy


def _denied(path: Path) -> KscopeError:
    return KscopeError("no-permission", f"{path}: no permission to read it", "chmod +r it, or run as its owner")
