"""The one exception a user can meet: it names the file, the fault and the remedy, and carries the exit status."""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False  # the typing module takes 9 ms, and the first reader starts behind this module
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXIT_OK = 0
EXIT_THRESHOLD = 1
EXIT_USAGE = 2
EXIT_INPUT = 3
EXIT_TOOL = 4

AGAIN = "copy it again, or make it again; if it is sound please report, with the traceback of KSCOPE_DEBUG=1"
_LONGEST = 300  # characters of a foreign message: some quote what they fell over


class KscopeError(Exception):
    """A fault that the user can act on.

    code: short machine-readable name (`missing-file`, `truncated`, ...), the `error.code` of the JSON contract.
    message: one line that names the file and what is wrong. hint: what to do about it.
    status: the process exit status of the contract (2 usage, 3 input, 4 missing tool).
    """

    def __init__(self, code: str, message: str, hint: str = "", status: int = EXIT_INPUT) -> None:
        super().__init__(message)
        self.code = code
        self.message = one_line(message)
        self.hint = one_line(hint)
        self.status = status

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type[KscopeError], tuple[str, str, str, int]]:
        return KscopeError, (self.code, self.message, self.hint, self.status)


def one_line(text: str) -> str:
    """Printable text on one line: reports are untrusted, and a control character could rewrite a terminal."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return text.strip()


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
    show_traceback(error)
    return KscopeError("unanalysable", f"{path}: cannot be analysed ({in_words(error)})", AGAIN)


def in_words(error: Exception) -> str:
    """An exception as part of a line."""
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return one_line(f"{type(error).__name__}: {error}")[:_LONGEST]


def show_traceback(error: BaseException) -> None:
    """Print where an exception that is kept as a line came from, where KSCOPE_DEBUG=1 asks for it."""
    if os.environ.get("KSCOPE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
