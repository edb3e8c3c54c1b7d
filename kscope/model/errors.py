"""The one exception a user can meet: it names the file, the fault and the remedy, and carries the exit status."""

from __future__ import annotations

import re

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


_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What Python calls printable and nobody sees: fillers, joiners, variation selectors (Unicode's
Default_Ignorable_Code_Point without what `isprintable` refuses already) and the empty Braille pattern. They can carry
a message to a language model."""


def one_line(text: str) -> str:
    """Text to be seen, on one line: reports are untrusted, a control character could rewrite a terminal, and what is
    invisible could speak to a language model."""
    return printable(text).strip()


def printable(text: str) -> str:
    """The same with a space for every character that cannot be seen; outer spaces stay."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return text if text.isascii() else _UNSEEN.sub(" ", text)
