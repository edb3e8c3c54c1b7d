"""Text of local arrays that are to stay in registers: each index of them a number once loops are unrolled."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import evaluated, split_declarators
from kscope.fixes.given.text import Span, Text, loops
from kscope.fixes.local.unrolled import pragma

TYPES = ("unsigned long long", "long long", "unsigned int", "unsigned short", "unsigned", "int", "short", "float",
          "double", "uint32_t", "int32_t", "uint64_t", "int64_t", "uint")  # fmt: skip
_ARRAY = re.compile(rf"(?<![\w,(])({'|'.join(TYPES)})\s+([^;(){{}}]*\[[^;(){{}}]*);", re.ASCII)
_WRITTEN = r"(?<![\w.])(?<!->){0}\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)|(?:\+\+|--|&)\s*{0}\b"
_PRAGMA = re.compile(r"#\s*pragma\s+unroll(?P<few>[ \t]*\(?[ \t]*\w+)?[^\n]*\n\s*$")


class Local(Struct, frozen=True):
    """`kind name[size]`, declared up to `end`; the number that its size is; elements of each place, if it has rows."""

    kind: str
    name: str
    count: int
    end: int
    size: str = ""
    row: int = 1


def arrays(code: str, known: dict[str, int]) -> Iterator[Local]:
    for match in _ARRAY.finditer(code, code.find("{")):
        if re.search(r"__shared__[^;{}]*$", code[: match.start()]):
            continue
        for part in split_declarators(match[2]):
            declared = re.fullmatch(r"\s*(\w+)\s*\[([^][]+)\]\s*", part)
            if declared is not None:
                yield Local(match[1], declared[1], evaluated(declared[2], known) or 0, match.end(), declared[2].strip())


def in_registers(code: str, array: Local, span: tuple[int, int], known: dict[str, int]) -> list[Span] | None:
    """What unrolls the loops over an array outside of a piece of text; None where a use there is at an index that is
    no number then."""
    counted = [
        x for x in loops(code)
        if None not in (evaluated(x.start, known), evaluated(x.end, known))
        and not written(x.name, code[slice(*x.body)])
    ]  # fmt: skip
    spans: list[Span] = []
    for use in re.finditer(rf"(?<![\w.])(?<!->){array.name}\b", code[array.end :]):
        place = array.end + use.start()
        if span[0] <= place < span[1]:
            continue
        index = re.match(r"\s*\[([^][]*)\]", code[place + len(array.name) :])
        around = {x.name: x for x in counted if x.body[0] <= place < x.body[1]}
        names = set(re.findall(r"[A-Za-z_]\w*", index[1])) - set(known) if index is not None else set()
        if index is None or not names <= set(around):
            return None
        for at in sorted(around[name].span[0] for name in names):
            asked = _PRAGMA.search(code[:at])
            if asked is not None and asked["few"]:
                return None
            one = (at, at, pragma(code, at))
            if one[2] and one not in spans:
                spans.append(one)
    return spans


def instead(code: str, span: tuple[int, int], new: str) -> list[Span] | None:
    """Statements in place of one, line by line, with the pragma in front of it; None where it is the body of another
    one, which has room for one statement."""
    start, end = span
    asked = _PRAGMA.search(code[:start])
    first = asked.start() if asked is not None else start
    if not re.search(r"[;{}]\s*$", code[:first]):
        return None
    line = code[code.rfind("\n", 0, start) + 1 : start]
    pad = " " * (len(line) - len(line.lstrip()))
    put = new.replace("\n", f"\n{pad}")
    if line.strip() and new.startswith("#"):
        put = f"\n{pad}{put}"
    spans: list[Span] = [(first, code.index("\n", first), "")] if first < start else []
    at = start
    for n, piece in enumerate(code[start:end].split("\n")):
        spans.append((at, at + len(piece), "" if n else put))
        at += len(piece) + 1
    return spans


def written(name: str, code: str) -> bool:
    """Whether a name is given a value, or its address taken."""
    return re.search(_WRITTEN.replace("{0}", name), code) is not None


def on_lines(setting: Setting, text: Text, span: tuple[int, int], local: list[int]) -> bool:
    """Whether local memory is used on the lines of a piece of text."""
    first, last = (text.first + text.code.count("\n", 0, at) for at in span)
    return any(file == text.file and first <= line <= last for i in local for file, line in setting.sites(i))
