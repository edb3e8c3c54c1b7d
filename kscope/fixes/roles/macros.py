"""Macros of a file put into a text: what functions of instructions are often written as."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.text import LONGEST, blanked

DEEPEST = 8  # macros within macros (judged)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DEFINED = re.compile(r"[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?P<given>\([\w\s,]*\))?(?P<body>.*)", re.S)


class Macro(Struct, frozen=True):
    """parameters: None where it has none and no brackets."""

    parameters: tuple[str, ...] | None
    body: str


def macros(files: Sequence[Sequence[str]]) -> dict[str, Macro]:
    """Those that are defined once. What is plain text of a string, or a number, stays what it is."""
    found: dict[str, Macro] = {}
    twice: set[str] = set()
    for lines in files:
        code = re.sub(r"\\[ \t]*\n", " ", "\n".join(map(blanked, lines)))
        for line in code.split("\n"):
            m = _DEFINED.match(line)
            if m is None or "#" in m["body"] or "..." in line or len(m["body"]) > LONGEST:
                continue
            given = tuple(x.strip() for x in m["given"][1:-1].split(",") if x.strip()) if m["given"] else None
            if given is None and (not m["body"].strip() or re.fullmatch(r"\s*\(?\d+\)?\s*|.*__device__.*", m["body"])):
                continue
            twice |= {m["name"]} & found.keys()
            found[m["name"]] = Macro(given, m["body"].strip())
    return {name: one for name, one in found.items() if name not in twice}


def expanded(text: str, known: dict[str, Macro]) -> str:
    """Raises Unplayable where a macro is given another number of values than it takes, or has itself in it."""
    if not known:
        return text
    names = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(known)))})\b")
    for _ in range(DEEPEST):
        out, at = [], 0
        while (m := names.search(text, at)) is not None:
            one, end = known[m[0]], m.end()
            body = one.body
            if one.parameters is not None:
                opened = re.match(r"\s*\(", text[end:])
                if opened is None:
                    out.append(text[at:end])
                    at = end
                    continue
                close = closed(text, end + opened.end())
                given = [x.strip() for x in parts(text[end + opened.end() : close])]
                if len(given) != len(one.parameters):
                    raise Unplayable("a macro of other values")
                values = dict(zip(one.parameters, given, strict=True))
                body = _with(body, values)
                end = close + 1
            out += [text[at : m.start()], body]
            at = end
        if not out:
            return text
        text = "".join([*out, text[at:]])
        if len(text) > 4 * LONGEST:
            break
    if names.search(text):
        raise Unplayable("macros of macros")
    return text


def _with(body: str, values: dict[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda m: values.get(m[0], m[0]), body)


def parts(text: str, mark: str = ",") -> list[str]:
    """What stands between marks that are in no brackets and no strings."""
    out, depth, start = [], 0, 0
    for at, sign in _signs(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == mark and not depth:
            out.append(text[start:at])
            start = at + 1
    return [*out, text[start:]] if text.strip() else []


def _signs(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(text):
        string = STRING.match(text, at)
        if string is None:
            yield at, text[at]
        at = string.end() if string is not None else at + 1


def closed(text: str, start: int) -> int:
    depth = 0
    for at, sign in _signs(text[start:]):
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return start + at
    raise Unplayable("assembly without an end")
