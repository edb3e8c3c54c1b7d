"""Records that threads store, each its own, as the text says it: whole ones, and words or fields side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.thread.side_by_side import pointers

FIELDS = "xyzw"
LONGEST = 16  # words of a record that are stored one by one: they are registers (judged)
_VECTOR = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)([234])")
_STORED = re.compile(r"(?P<before>[;{})])\s*(?P<place>(?P<name>[A-Za-z_]\w*)\s*\[)")
_GIVEN = re.compile(r"\s*(?:\.\s*([xyzw])\b)?\s*=(?!=)\s*")
_ADDED = re.compile(r"(.*?)\+\s*(\d+)[uU]?", re.S)
_SUM = re.compile(r"(?:[\w\s+*/%().\-]|->)*")
_PARAMETER = re.compile(r"\s*([^*]*)\*\s*(?:const\s+)?(?:__restrict(?:__)?\s+)?(\w+)\s*", re.S)


class Part(Struct, frozen=True):
    """`name[at + word] = value;` or `name[at].field = value;`: `place` of what is on the left and of the sign, up to
    the value; `end` of the statement; alone: the whole of what is done on a condition."""

    name: str
    index: str
    at: str
    word: int
    field: str
    place: tuple[int, int]
    end: int
    alone: bool


class Stored(Struct, frozen=True):
    """What a thread stores to one record. kind: of the elements of `name`; `words` of it that are stored one by one, 0
    for the record as a whole."""

    name: str
    kind: str
    words: int
    parts: tuple[Part, ...]

    @property
    def first(self) -> str:
        """The index of the record's first word."""
        return next((p.index for p in self.parts if not p.word), self.parts[0].index)


def stored(code: str) -> list[Stored]:
    """All records that a kernel's text stores to."""
    opened = code.find("{")
    known = _arrays(code, opened) if opened >= 0 else {}
    out: list[Stored] = []
    for run in _runs(code, [x for x in _parts(code, opened) if x.name in known]) if known else ():
        kind = known[run[0].name]
        if _whole(code, run, kind):
            out.append(Stored(run[0].name, kind, len(run), tuple(run)))
        else:
            out += [Stored(x.name, kind, 0, (x,)) for x in run if not x.field]
    return out


def _arrays(code: str, opened: int) -> dict[str, str]:
    """Pointers through which a kernel may store, with the types of their elements."""
    found = {name: kind for name, (kind, const) in pointers(code).items() if not const}
    close = code.rfind(")", 0, opened)
    depth, start = 0, close
    while start >= 0:
        depth += (code[start] == ")") - (code[start] == "(")
        if not depth:
            break
        start -= 1
    for one in split_declarators(code[start + 1 : close]) if start >= 0 else ():
        named = _PARAMETER.fullmatch(one)
        if named is not None and not re.search(r"\b(?:const|volatile)\b", named[1]):
            found.setdefault(named[2], " ".join(named[1].split()))
    return {name: kind for name, kind in found.items() if "volatile" not in kind}


def _parts(code: str, opened: int) -> Iterator[Part]:
    at = opened
    while (match := _STORED.search(code, at)) is not None:
        at = match.end("name")
        close = closing(code, match.end())
        given = _GIVEN.match(code, close + 1) if close is not None else None
        end = statement_end(code, match.start("place")) if given is not None else None
        if close is None or given is None or end is None:
            continue
        index = code[match.end() : close].strip()
        base, word = split(index)
        place = (match.start("place"), given.end())
        yield Part(match["name"], index, base, word, given[1] or "", place, end, match["before"] == ")")
        at = end - 1


def split(index: str) -> tuple[str, int]:
    """(what is before the number that is added last, that number)"""
    added = _ADDED.fullmatch(index)
    if added is not None and _SUM.fullmatch(index):
        return re.sub(r"\s+", "", added[1]), int(added[2])
    return ("", int(index)) if index.isdecimal() else (re.sub(r"\s+", "", index), 0)


def _runs(code: str, found: list[Part]) -> Iterator[list[Part]]:
    """Stores to words of one record that follow each other."""
    run: list[Part] = []
    for one in found:
        last = run[-1] if run else None
        if last is None or (
            (one.name, one.at) == (last.name, last.at) and not one.alone and not last.alone
            and not code[last.end : one.place[0]].strip() and (not one.field or one.word == last.word)
        ):  # fmt: skip
            run.append(one)
            continue
        yield run
        run = [one]
    if run:
        yield run


def _whole(code: str, run: list[Part], kind: str) -> bool:
    """Whether stores that follow each other are of all words of a record, none made of what is stored."""
    vector = _VECTOR.fullmatch(kind)
    if run[0].field:
        words = [FIELDS.index(x.field) for x in run if x.field]
        count = int(vector[1]) if vector is not None else 0
    else:
        words, count = [x.word for x in run if not x.field], len(run)
    values = " ".join(code[x.place[1] : x.end] for x in run)
    again = re.search(rf"(?<![\w.>]){run[0].name}\b", values) is not None
    return 1 < count <= LONGEST and not again and len(words) == len(run) and sorted(words) == list(range(count))
