"""Fences: what goes wrong inside one input, kernel or function becomes one line about it, and the rest goes on."""

from __future__ import annotations

import contextlib
import errno
import os

from kscope.model.errors import KscopeError
from kscope.model.quoted import quoted

TYPE_CHECKING = False  # the typing module takes 9 ms, and the first reader starts behind this module
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGAIN = "copy it again, or make it again; if it is sound please report, with the traceback of KSCOPE_DEBUG=1"
NO_CODE = "the report embeds no machine code, or it is damaged"
ROOM = "make room, or set TMPDIR"
_FULL = {errno.EDQUOT, errno.EFBIG, errno.ENOSPC}
_NO_FOLDER = "No usable temporary directory"  # the tempfile module, which tries them by writing
_LONGEST = 300  # characters of a foreign message: some quote what they fell over


@contextlib.contextmanager
def fenced(path: Path | str) -> Iterator[None]:
    """Whatever goes wrong inside is a fault of this input: a KscopeError passes, any other exception becomes one
    (status 3). Interrupts and exits pass."""
    try:
        yield
    except KscopeError:
        raise
    except Exception as error:
        raise fault(path, error) from error


def fault(path: Path | str, error: Exception) -> KscopeError:
    """What a reader or analysis that fell over an input says of it: the file, and the exception in words. With
    KSCOPE_DEBUG=1 the traceback goes to standard error."""
    if isinstance(error, KscopeError):
        return error
    if isinstance(error, OSError) and (error.errno in _FULL or _NO_FOLDER in str(error)):
        why = f"({error.strerror})" if error.errno in _FULL else "(no folder can be written)"
        return KscopeError("no-room", f"{path}: no room for temporary files {why}", ROOM)
    show_traceback(error)
    return KscopeError("unanalysable", f"{path}: cannot be analysed ({in_words(error)})", AGAIN)


def in_words(error: Exception) -> str:
    """An exception as part of a line."""
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error)
    return f"{type(error).__name__}: {quoted(text, _LONGEST)}" if text else type(error).__name__


def show_traceback(error: BaseException) -> None:
    """Print where an exception that is kept as a line came from, where KSCOPE_DEBUG=1 asks for it."""
    if os.environ.get("KSCOPE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
