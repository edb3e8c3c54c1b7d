"""The one exception a user can meet: it names the file, the fault and the remedy, and carries the exit status."""

from __future__ import annotations

EXIT_OK = 0
EXIT_THRESHOLD = 1
EXIT_USAGE = 2
EXIT_INPUT = 3
EXIT_TOOL = 4


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
