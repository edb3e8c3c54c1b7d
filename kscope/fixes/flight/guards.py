"""The test that keeps threads behind the data from working: blocks more than the data need do nothing then."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.flight.held import Step
from kscope.fixes.given.text import closing

_DECLARES = re.compile(
    r"(?:const\s+)?(?:unsigned\s+)?[A-Za-z_][\w:]*(?:<[\w\s,]*>)?[\s*&]+[A-Za-z_]\w*\s*(?:=(?!=)|;|,|\()"
)
_LESS = re.compile(r"(?P<place>[^<>=!]+)<(?![<=])(?P<end>[^<>=!]+)")
_MORE = re.compile(r"(?P<place>[^<>=!]+)>=(?P<end>[^<>=!]+)")


def guard(code: str, inside: Sequence[tuple[int, int]], steps: Sequence[Step], axis: str) -> str:
    """The test that all of a kernel's statements but declarations are under, where a block's place along an axis is in
    it so that all blocks behind one that fails it fail, too."""
    spans = [s for s in inside if not _DECLARES.match(code[slice(*s)])]
    first = code[slice(*spans[0])] if spans else ""
    head = re.match(r"if\s*\(", first)
    close = closing(first, head.end()) if head is not None else None
    if head is None or close is None or re.search(r"\belse\b", first):
        return ""
    test, rest = first[head.end() : close], first[close + 1 :]
    leaves = re.fullmatch(r"\s*\{?\s*return\s*;\s*\}?\s*", rest) is not None
    if not leaves and len(spans) > 1:
        return ""
    for part in re.split(r"\|\|" if leaves else r"&&", test):
        bound = (_MORE if leaves else _LESS).fullmatch(part.strip())
        if bound is not None and ("&&" if leaves else "||") not in test and _grows(bound["place"], steps, axis):
            end = _made(bound["end"], steps)
            return "" if f"blockIdx.{axis}" in end else f"if ({' '.join(test.split())})"
    return ""


def _made(text: str, steps: Sequence[Step]) -> str:
    """A text with the values of names behind it, without blanks."""
    for step in reversed(steps):
        if step.name and not step.test and re.search(rf"(?<![\w.]){step.name}\b", text):
            text += f" + {step.text.partition('=')[2].rstrip(';')}"
    return re.sub(r"\s+", "", text)


def _grows(text: str, steps: Sequence[Step], axis: str) -> bool:
    """Whether a place is made of the block's number, and by sums and products alone."""
    made = _made(text, steps)
    return f"blockIdx.{axis}" in made and re.search(r"[-%/&|^~?\[!<>]", made) is None
