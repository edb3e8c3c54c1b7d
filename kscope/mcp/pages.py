"""Bounds of an answer: rows of a page as far as they fit, texts of one line and of a length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from kscope.model.errors import KscopeError, one_line

BUDGET = 40_000
"""Bytes of rows in an answer, some 15,000 tokens. Judged: overviews that people use are 4 to 6 KB, and a page of code
is looked at whole."""
LARGEST = 256_000  # bytes of any answer; one that is larger is refused
TEXT = 600  # characters of a text
LIST = 200  # entries of a list inside a row
Row = TypeVar("Row")


def page(rows: Sequence[Row], offset: int, limit: int) -> tuple[list[Row], int | None]:
    """Up to `limit` rows from `offset` on, as many as BUDGET holds (one at least), and where the next page begins."""
    kept: list[Row] = []
    size = 0
    for row in rows[offset : offset + limit]:
        size += len(msgspec.json.encode(tidy(msgspec.to_builtins(row))))
        if kept and size > BUDGET:
            break
        kept.append(row)
    after = offset + len(kept)
    return kept, after if kept and after < len(rows) else None


def tidy(value: Any, *, limit: int = TEXT) -> Any:
    """Builtins that a client can be shown: every text on one line and cut, no list without end, no NaN."""
    if isinstance(value, str):
        text = one_line(value.encode("utf-8", "replace").decode())
        return text if len(text) <= limit else f"{text[: limit - 3]}..."
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {tidy(k): tidy(v, limit=limit) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(v, limit=limit) for v in value[:LIST]]
    return value


def checked(encoded: bytes) -> bytes:
    """The answer itself. Raises KscopeError where it is over LARGEST."""
    if len(encoded) > LARGEST:
        message = f"the answer has {len(encoded):,} bytes, over {LARGEST:,}"
        raise KscopeError("too-large", message, "ask for fewer rows (limit)")
    return encoded


def having(texts: Iterable[str], words: str) -> list[int]:
    """Places of the texts that have all the words in them, whatever their case."""
    wanted = words.lower().split()
    return [i for i, text in enumerate(texts) if all(word in text.lower() for word in wanted)]
