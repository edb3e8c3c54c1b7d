"""Names as numbers: reports repeat a few names a million times."""

from __future__ import annotations

from typing import Any


class Interner(dict[Any, int]):
    """value -> its index, given on first sight; `list(interner)` is the table."""

    def __missing__(self, value: Any) -> int:
        index = self[value] = len(self)
        return index
