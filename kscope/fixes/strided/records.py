"""Records that threads store, each its own, as the text says it: whole ones, and words or fields side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from kscope.fixes.atomics.names import alike
from kscope.fixes.atomics.reading import changed
from kscope.fixes.given.source import evaluated, split_declarators
from kscope.fixes.given.text import closing, loops, statement_end
from kscope.fixes.thread.side_by_side import pointers

FIELDS = "xyzw"
LONGEST = 16  # words of a record that are stored one by one: they are registers (judged)
_VECTOR = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)([234])")
_STORED = re.compile(r"(?P<before>[;{})])\s*(?P<place>(?P<name>[A-Za-z_]\w*)\s*\[)")
_ANY = re.compile(
    r"(?:[;{})]|\belse\b)\s*(?!(?:if|for|while|switch|else|return|do)\b)"
    r"(?P<left>(?:\*\s*)?[A-Za-z_(](?:[\w:.\[\]()<>*+,&%/ \t-])*?)\s*=(?!=)\s*"
)
_DECLARED = re.compile(r"\w\s+[\w*&]|[\w>]\s*[*&]\s+\w|>\s+\w|\)\s*\w")
_GIVEN = re.compile(r"\s*((?:\.\s*[A-Za-z_]\w*\s*)*)=(?!=)\s*")
_BETWEEN = re.compile(
    r"[{}#]|\b(?:if|else|for|while|do|switch|case|default|return|break|continue|goto|asm|atomic\w*|__\w*sync\w*|"
    r"__threadfence\w*|__shfl\w*)\b"
)
_ADDED = re.compile(r"(.*?)\+\s*(\d+)[uU]?", re.S)
_SUM = re.compile(r"(?:[\w\s+*/%().\-]|->)*")
_PARAMETER = re.compile(r"\s*([^*]*)\*\s*(?:const\s+)?(?:__restrict(?:__)?\s+)?(\w+)\s*", re.S)


class Part(Struct, frozen=True):
    """`name[at + word] = value;` or `name[at].field = value;`: `left` of what is before the field, `place` of all that
    is before the value; `end` of the statement; alone: the whole of what is done on a condition."""

    name: str
    index: str
    at: str
    word: int
    field: str
    place: tuple[int, int]
    end: int
    alone: bool
    left: str


class Stored(Struct, frozen=True):
    """What a thread stores to one record. kind: of the elements of `name`; `words` of it that are stored one by one, 0
    for the record as a whole. `counter` of the loop whose rounds store the words, and the loop's span."""

    name: str
    kind: str
    words: int
    parts: tuple[Part, ...]
    counter: str = ""
    loop: tuple[int, int] = (0, 0)

    @property
    def fields(self) -> bool:
        return self.words > 0 and bool(self.parts[0].field)

    @property
    def first(self) -> str:
        """The index of the record's first word."""
        return next((p.index for p in self.parts if not p.word), self.parts[0].index)


def vector_of(kind: str) -> bool:
    """Whether a type is one of CUDA's vectors."""
    return _VECTOR.fullmatch(kind) is not None


def stored(code: str, numbers: Mapping[str, int] | None = None) -> list[Stored]:
    """All records that a kernel's text stores to. numbers: what names stand for in it when it is compiled."""
    opened = code.find("{")
    known = _arrays(code, opened) if opened >= 0 else {}
    out = list(_in_rounds(code, known, numbers or {}))
    counted = [(x.name, *x.body) for x in loops(code) if x.step in (f"{x.name}++", f"++{x.name}")]

    def word(part: Part) -> bool:
        """Whether it is another one in each round: a word of a record, not a record."""
        return any(a <= part.place[0] < b and re.search(rf"\b{k}\b", part.index) for k, a, b in counted)

    parts = [x for x in _parts(code, opened) if x.name in known and not word(x)] if known else []
    out += _in_words(code, parts, known)
    taken = {p.place[0] for x in out for p in x.parts} | {x.place[0] for x in parts if x.field}
    out += [x for x in _others(code, opened) if x.parts[0].place[0] not in taken and not word(x.parts[0])]
    return [x for x in out if x.words or not _several(code, x.parts[0])]


def _in_words(code: str, parts: list[Part], known: Mapping[str, str]) -> Iterator[Stored]:
    """Words and fields that fill a record together, and what is stored alone."""
    for run in _runs(code, parts):
        kind = known[run[0].name]
        if _whole(code, run, kind):
            yield Stored(run[0].name, kind, len(run), tuple(run))
        else:
            yield from (Stored(x.name, kind, 0, (x,)) for x in run if not x.field)


def _several(code: str, part: Part) -> bool:
    """Whether a statement does more than to store: what stands behind a comma is no part of the value."""
    return len(list(split_declarators(code[part.place[1] : part.end]))) > 1


def _others(code: str, opened: int) -> Iterator[Stored]:
    """What else is stored as a whole: elements of a structure's arrays, of what a cast or an accessor leads to."""
    for match in _ANY.finditer(code, max(opened, 0)) if opened >= 0 else ():
        left, end = match["left"].strip(), statement_end(code, match.start("left"))
        bare, more = left, True
        while more:  # without brackets, from the inner ones on
            bare, more = (new := re.sub(r"\([^()\[\]]*\)|\[[^()\[\]]*\]", "#", bare)), new != bare
        whole = left.endswith("]") or left.startswith("*")
        if end is None or not whole or _DECLARED.search(bare) or re.search(r"[()\[\],]", re.sub(r"<[^<>]*>", "", bare)):
            continue
        part = Part(left, left, left, 0, "", (match.start("left"), match.end()), end, False, left)
        yield Stored(left, "", 0, (part,))


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
        field = re.sub(r"\s+", "", given[1]).removeprefix(".")
        left = code[match.start("place") : close + 1]
        yield Part(match["name"], index, base, word, field, place, end, match["before"] == ")", left)
        at = end - 1


def split(index: str) -> tuple[str, int]:
    """(what is before the number that is added last, that number)"""
    added = _ADDED.fullmatch(index)
    if added is not None and _SUM.fullmatch(index):
        return re.sub(r"\s+", "", added[1]), int(added[2])
    return ("", int(index)) if index.isdecimal() else (re.sub(r"\s+", "", index), 0)


def _in_rounds(code: str, known: Mapping[str, str], numbers: Mapping[str, int]) -> Iterator[Stored]:
    """`for (int k = 0; k < 3; k++) name[at + k] = value;`"""
    for loop in loops(code):
        count, k = evaluated(loop.end, numbers), loop.name
        before = re.sub(r"#\s*pragma\s+unroll\b[^\n]*\s*$", "", code[: loop.span[0]])
        counts = loop.start == "0" and loop.step in (f"{k}++", f"++{k}")
        if count is None or not 1 < count <= LONGEST or not counts or before.rstrip()[-1:] not in ("{", "}", ";"):
            continue
        one = next(_parts(code, loop.span[1] - 1), None)
        if one is None or one.name not in known or one.field or not loop.body[0] <= one.place[0] < loop.body[1]:
            continue
        rest = code[loop.body[0] : one.place[0]] + code[one.end : loop.body[1]]
        at = re.fullmatch(rf"(.*?)\s*\+\s*{k}|{k}\s*\+\s*(.*)|{k}", one.index, re.S)
        value = code[one.place[1] : one.end]
        if at is None or rest.strip(" \t\n{}") or not _SUM.fullmatch(one.index) or re.search(rf"\b{one.name}\b", value):
            continue
        base = at[1] or at[2] or "0"
        if not re.search(rf"\b{k}\b", base):
            whole = (len(before.rstrip()), loop.body[1])
            yield Stored(one.name, known[one.name], count, (structs.replace(one, index=base, word=0),), k, whole)


def _runs(code: str, found: list[Part]) -> Iterator[list[Part]]:
    """Stores to words of one record, with nothing between that matters to them."""
    open_: dict[str, list[Part]] = {}
    for one in found:
        run = open_.get(one.name)
        if run is not None and _follows(code, run, one):
            run.append(one)
            continue
        if run is not None:
            yield run
        open_[one.name] = [one]
    yield from open_.values()


def _follows(code: str, run: list[Part], one: Part) -> bool:
    last = run[-1]
    between = code[last.end : one.place[0]]
    if one.at != last.at or one.alone or last.alone or bool(one.field) != bool(last.field) or _BETWEEN.search(between):
        return False
    names = re.findall(r"[A-Za-z_]\w*", one.at)
    made = any(changed(between, n) or re.search(rf"\b{n}\s*=(?!=)", between) for n in names)
    same = "|".join(alike(code, one.name, pointers(code)))
    again = re.search(rf"(?<![\w.])(?<!->)(?:{same})\b", between) is not None
    return not made and not again and (not one.field or one.word == last.word)


def _whole(code: str, run: list[Part], kind: str) -> bool:
    """Whether such stores are of all words of a record, as far as the text tells, none made of what is stored."""
    values = " ".join(code[x.place[1] : x.end] for x in run)
    if not 1 < len(run) <= LONGEST or re.search(rf"(?<![\w.])(?<!->){run[0].name}\b", values):
        return False
    if not run[0].field:
        return sorted(x.word for x in run) == list(range(len(run)))
    vector = _VECTOR.fullmatch(kind)
    names = {x.field for x in run}
    return len(names) == len(run) and (vector is None or names == set(FIELDS[: int(vector[1])]))
