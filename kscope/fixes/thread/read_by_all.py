"""Places of an array that a kernel uses beside its elements: where all threads read a place before one of them would
write it as an element, without a barrier between, it is none of the elements."""

from __future__ import annotations

import re

from kscope.fixes.given.text import closing, plain
from kscope.fixes.thread.callees import Callees

_MEETS = re.compile(r"sync|\b(?:__shared__|return|goto|asm|for|while|do)\b|#")
_NAME = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*\b(?!\s*\.)")
_CAST = re.compile(r"(\b\w+_cast\s*<[\w\s:*]+>|\(\s*[\w\s:]+\*\s*\))\s*$")


def read_by_all(code: str, body: tuple[int, int], name: str, array: str, calls: Callees) -> list[str]:
    """Those places, if all uses of the array outside of the body are of them; else none. name: of the counter of the
    loop of which the body is."""
    opened = code.find("{")
    heads = [m.start() for m in re.finditer(rf"\bfor\s*\([^;]*\b{name}\s*=", code[: body[0]])]
    head = heads[-1] if heads else opened
    before, after = code[opened:head], code[body[1] :]
    if _MEETS.search(before) or re.search(r"sync", after):
        return []
    first, last = (_places(text, before, array, calls, code[:opened]) for text in (before, after))
    if first is None or last is None or not all(certain for _, certain in first):
        return []
    read = {place for place, _ in first}
    return sorted(read) if read and {place for place, _ in last} <= read else []


def _places(
    text: str, before: str, array: str, calls: Callees, head: str
) -> list[tuple[str, bool]] | None:  # fmt: skip
    """Each use's place, and whether every thread comes to it; None where one may be more than a place of its own that
    is the same for all threads of a block."""
    out = []
    for match in re.finditer(rf"(?<![\w.])(?<!->){array}\b", text):
        opened = text.rfind("(", 0, match.start())
        close = closing(text, opened + 1) if opened >= 0 else None
        if close is None or close < match.end():
            return None
        inside, cast = text[opened + 1 : close], _CAST.search(text[:opened])
        call = text[: cast.start()] if cast is not None else text[:opened]
        if cast is not None:
            call = call.rstrip().removesuffix("(")
        function = re.search(r"([A-Za-z_]\w*)\s*$", call)
        if function is None or not calls.first_alone(function[1]) or not re.match(rf"\s*{array}\s*(?:\+|$)", inside):
            return None
        made = plain(inside, before)
        names = set(_NAME.findall(re.sub(r"sizeof\(\w+\)", "1", made))) - {array}
        if "threadIdx.x" in made or "[" in made or not all(re.search(rf"\b{n}\s*(?:[,)]|$)", head) for n in names):
            return None
        start = max(text.rfind(c, 0, match.start()) for c in ";{}") + 1
        depth = text[:start].count("{") - text[:start].count("}")
        asked = re.search(r"\b(?:if|else)\b|\?|&&|\|\|", text[start : match.start()])
        certain = depth == (text is before) and asked is None
        out.append((" ".join(f"{cast[1] if cast is not None else ''}({inside})".split()), certain))
    return out
