"""Loops of a kernel whose rounds can load ahead: what they load whatever the rounds before them made of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kscope.fixes.atomics.names import pointers
from kscope.fixes.flight.heads import Goes, Head, going, heads
from kscope.fixes.flight.held import Held, Step
from kscope.fixes.flight.reader import AHEAD, N, Reader
from kscope.fixes.given.text import closing

_NEVER = re.compile(
    r"\b(?:break|return|goto|asm|volatile|\w*sync\w*|__shared__|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__threadfence\w*|"
    r"co_\w+|atomicCAS|atomicExch|operator)\b|/\*|\[\s*[&=]?\s*\]|\bauto\s*&{0,2}\s*\[|#(?!\s*pragma\s+unroll)"
)


class Rounds(Struct, frozen=True):
    """`on`: what the loop goes on by, each with its statement's span; `steps`: what rounds ahead do, in order."""

    head: Head
    on: tuple[tuple[Goes, tuple[int, int]], ...]
    held: tuple[Held, ...]
    steps: tuple[Step, ...]


def rounds(code: str, name: str, lines: Sequence[str]) -> Iterator[Rounds]:
    """Loops of a kernel whose rounds can load ahead. lines: of the whole file, for the functions that it calls."""
    start = re.search(rf"\b{re.escape(name)}\s*\(", code)
    close = closing(code, start.end()) if start is not None else None
    if start is None or close is None or (opening := code.find("{", close)) < 0:
        return
    for head in heads(code, opening):
        body = code[slice(*head.body)]
        on = going(code, head)
        if not on or _NEVER.search(body) or N in code or AHEAD in code or "_now" in code:
            continue
        known = pointers(code[start.end() : close], code[opening : head.span[0]], code[opening:])
        reader = Reader(code, head, on, known, lines)
        if reader.tested() and reader.read(head.inside):
            yield Rounds(head, tuple(on), tuple(reader.held), tuple(reader.steps))
