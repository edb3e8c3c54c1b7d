"""Tables and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    lines = [head, ["---:" if i in right else "---" for i in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
