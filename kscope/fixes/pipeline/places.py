"""Places in memory as a text has them: `p[i]`, `*(T*)(p + i)`, `((const T*)p)[i]`, `__ldg(&p[i])`."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.fixes.given.text import closing

_CAST = re.compile(r"\(\s*(?:const\s+)?(\w+)\s*\*\s*\)\s*")
_CAST_AS = re.compile(r"reinterpret_cast\s*<\s*(?:const\s+)?(\w+)\s*\*\s*>\s*\(")
_CALLS = re.compile(r"\b(?!min\b|max\b|size_t\b|int\b|unsigned\b)[A-Za-z_]\w*\s*\(")
_LOADS = re.compile(r"\[|(?:^|[-+(,*/%<>=?:])\s*\*|&|\+\+|--|(?<![<>=!])=(?!=)")


class Place(Struct, frozen=True):
    """`base`: the name of the array or pointer; `kind`: of the cast that gives its type, if any; `subscripts`: of the
    array itself; `inner`: what its address is computed from; `address`: of it, as text."""

    base: str
    kind: str | None
    subscripts: int
    inner: str
    address: str


def place(text: str) -> Place | None:
    """None where it is anything else, or where its address takes more than arithmetic: a call, a load, a change."""
    text = text.strip()
    direct = re.fullmatch(r"__ldg\s*\((.+)\)", text, re.S)
    if direct is not None and closing(text, direct.start(1)) == len(text) - 1:
        found, address = _pointer(direct[1]), direct[1].strip()
    elif text.startswith("*"):
        found, address = _pointer(text[1:], True), text[1:].strip()
    else:
        found, address = _element(text), f"&{text}"
    if found is None:
        return None
    base, kind, subscripts, inner = found
    if _CALLS.search(inner) or _LOADS.search(_CAST.sub("", inner)):
        return None
    return Place(base, kind, subscripts, inner, address)


_Found = tuple[str, str | None, int, str] | None


def _element(text: str) -> _Found:
    """`name[i][j]`, or a pointer's `[i]`."""
    name = re.match(r"([A-Za-z_]\w*)\s*(?=\[)", text)
    if name is not None:
        inner = _subscripts(text[name.end() :])
        return (name[1], None, len(inner), " , ".join(inner)) if inner else None
    start = re.match(r"\(|reinterpret_cast\b[^(]*\(", text)
    close = closing(text, start.end()) if start is not None else None
    inner = _subscripts(text[close + 1 :]) if close is not None else []
    found = _pointer(text[: close + 1], True) if close is not None and len(inner) == 1 else None
    return (found[0], found[1], found[2], f"{found[3]} , {inner[0]}") if found is not None else None


def _subscripts(text: str) -> list[str]:
    out, at = [], 0
    text = text.strip()
    while at < len(text):
        close = closing(text, at + 1) if text[at] == "[" else None
        if close is None:
            return []
        out.append(text[at + 1 : close])
        at = close + 1 + len(text[close + 1 :]) - len(text[close + 1 :].lstrip())
    return out


def _pointer(text: str, unary: bool = False) -> _Found:
    """A pointer's value: `(T*)` before one, `&place`, `(pointer)`, `name`, and where it is no operand `name + i`."""
    text = text.strip()
    if (cast := _CAST.match(text)) is not None:
        found = _pointer(text[cast.end() :], True)
        return (found[0], cast[1], found[2], found[3]) if found is not None else None
    if (cast := _CAST_AS.match(text)) is not None and closing(text, cast.end()) == len(text) - 1:
        found = _pointer(text[cast.end() : -1])
        return (found[0], cast[1], found[2], found[3]) if found is not None else None
    if text.startswith("("):
        return _pointer(text[1:-1]) if closing(text, 1) == len(text) - 1 else None
    if text.startswith("&"):
        return _element(text[1:].strip())
    match = re.fullmatch(r"([A-Za-z_]\w*)\s*(?:\+(.*))?", text, re.S)
    if match is None or (unary and match[2] is not None):
        return None
    return match[1], None, 0, match[2] or ""
