"""A function's text with small arrays of a thread as variables, and the loops that go through them written out."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import structs

from kscope.fixes.given.source import evaluated, split_declarators
from kscope.fixes.given.text import LONGEST, closing, statement_end
from kscope.fixes.rows.function import Function
from kscope.fixes.tiling.declared import TYPE

MOST = 32  # elements of an array (judged)
_ARRAY = re.compile(rf"(?<![\w,])(?<!__shared__ )(?P<type>{TYPE})\s+(?P<rest>[^;()={{}}]*\[[^;()]*);")
_ONE = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*\[(?P<size>[^][]+)\]\s*(?:=\s*\{(?P<values>[^{}]*)\}\s*)?")
_LOOP = re.compile(
    r"(?:#\s*pragma\s+unroll[^\n]*\n\s*)?\bfor\s*\(\s*(?P<type>int|unsigned)\s+(?P<name>\w+)\s*=\s*(?P<first>\w+)\s*;"
    r"\s*(?P=name)\s*<\s*(?P<end>\w+)\s*;\s*(?:\+\+\s*(?P=name)|(?P=name)\s*\+\+)\s*\)\s*"
)
_LOCAL = re.compile(rf"(?<![\w,])(?:const\s+)?{TYPE}\s+([A-Za-z_][^;()]*?(?:\([^;]*\)[^;]*)?);")
_LEAVES = re.compile(r"\b(?:break|continue|goto|return)\b")


def written_out(fn: Function, known: Mapping[str, int]) -> Function | None:
    """None where there are no such arrays, or an index is no number. known: constants of the file."""
    body = fn.code[fn.opened :]
    arrays: dict[str, int] = {}
    for m in _ARRAY.finditer(body):
        for part in split_declarators(m["rest"]):
            one = _ONE.fullmatch(part)
            size = evaluated(one["size"], dict(known)) if one is not None else None
            if one is None or size is None or not 1 < size <= MOST or one["name"] in arrays:
                return None
            arrays[one["name"]] = size
    words = set(re.findall(r"\w+", fn.code))
    if not arrays or any(f"{name}_{n}" in words for name, size in arrays.items() for n in range(size)):
        return None
    text = _unrolled(body, arrays, known)
    text = _ARRAY.sub(lambda m: _declared(m, arrays), text) if text is not None else None
    text = _named(text, arrays, known) if text is not None else None
    return structs.replace(fn, code=fn.code[: fn.opened] + text) if text is not None else None


def _unrolled(body: str, arrays: Mapping[str, int], known: Mapping[str, int]) -> str | None:
    """With each loop that has an array in it and goes to a number as its rounds, one behind the other."""
    at = 0
    while (loop := _LOOP.search(body, at)) is not None:
        end = statement_end(body, loop.end())
        inside = body[loop.end() : end]
        first, last = (evaluated(loop[side], dict(known)) for side in ("first", "end"))
        of = rf"(?<![\w.])(?:{'|'.join(arrays)})\s*\[[^][]*\b{loop['name']}\b"
        if end is None or first is None or last is None or not re.search(of, inside):
            at = loop.start() + len(loop[0])
            continue
        if not 0 < last - first <= MOST or _LEAVES.search(inside) or _changed(inside, loop["name"]):
            return None
        rounds = _rounds(body, inside, loop["name"], range(first, last), "u" if loop["type"] == "unsigned" else "")
        if rounds is None:
            return None
        put = "\n".join(rounds)
        if not re.search(r"[;{}]\s*$", body[: loop.start()]):  # another's statement
            put = f"{{ {put} }}"
        body, at = body[: loop.start()] + put + body[end:], loop.start()
        if len(body) > LONGEST:
            return None
    return body


def _rounds(body: str, inside: str, counter: str, numbers: range, suffix: str) -> list[str] | None:
    """A loop's statement for each number, with names of its own for what it declares; None where one is taken."""
    inside = inside[1:-1] if inside.startswith("{") else inside
    own = _own(inside)
    if set(re.findall(r"\w+", body)) & {f"{name}_{n}" for name in own for n in numbers}:
        return None
    rounds = []
    for n in numbers:
        text = re.sub(rf"(?<![\w.]){counter}\b", f"{n}{suffix}", inside)
        for name in own:
            text = re.sub(rf"(?<![\w.]){name}\b", f"{name}_{n}", text)
        rounds.append(" ".join(text.split()) if "#" not in text else text.strip())
    return rounds


def _changed(inside: str, name: str) -> bool:
    sets = rf"\b{name}\s*(?:[-+*/%]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{name}\b|&\s*{name}\b|\b{TYPE}\s+{name}\b"
    return bool(re.search(sets, inside))


def _own(inside: str) -> list[str]:
    """Names that a round declares."""
    found = []
    for m in _LOCAL.finditer(inside):
        parts = (re.match(r"\s*([A-Za-z_]\w*)", part) for part in split_declarators(m[1]))
        found += [p[1] for p in parts if p is not None]
    return found


def _declared(match: re.Match[str], arrays: Mapping[str, int]) -> str:
    made = []
    for part in split_declarators(match["rest"]):
        one = _ONE.fullmatch(part)
        assert one is not None
        values = [v.strip() for v in split_declarators(one["values"] or "")]
        for n in range(arrays[one["name"]]):
            value = f" = {values[n]}" if n < len(values) and values[n] else " = 0" if one["values"] is not None else ""
            made.append(f"{one['name']}_{n}{value}")
    return f"{match['type']} {', '.join(made)};"


def _named(text: str, arrays: Mapping[str, int], known: Mapping[str, int]) -> str | None:
    """With a variable for each element; None where which one is not told."""
    for name, size in arrays.items():
        use = re.compile(rf"(?<![\w.]){name}\b")
        at = 0
        while (m := use.search(text, at)) is not None:
            opened = re.match(r"\s*\[", text[m.end() :])
            close = closing(text, m.end() + opened.end()) if opened is not None else None
            if opened is None or close is None:
                return None
            given = re.sub(r"(?<=\d)u\b", "", text[m.end() + opened.end() : close])
            index = evaluated(given, dict(known))
            if index is None or not 0 <= index < size:
                return None
            text = f"{text[: m.start()]}{name}_{index}{text[close + 1 :]}"
            at = m.start()
    return text
