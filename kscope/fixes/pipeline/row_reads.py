"""Arrays that a loop reads row by row, the same in every thread: found in the text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.atomics.effects import changed, touched
from kscope.fixes.given.source import SIZES, evaluated
from kscope.fixes.given.text import Loop, loops, plain

SHORTEST = 8  # elements of a row: of shorter ones a load from L1 costs no more than one from shared memory (judged)
_SEEN = ("size_t", "int", "unsigned", "long", "blockIdx", "blockDim", "gridDim")  # anywhere in a kernel
_WAYS = re.compile(r"\b(?:break|return|goto|asm|volatile)\b|__sync|\bbar")
_POINTER = re.compile(r"\bconst\s+(?P<kind>\w+)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)\s*(?=[,)])")


class Read(Struct, frozen=True):
    """An array that is read row by row: its type, elements of a row (as written, and how many), where the first row of
    a tile begins, and its uses in the loop's body as (start, end, the place in the row)."""

    name: str
    kind: str
    wide: str
    words: int
    begin: str
    uses: tuple[tuple[int, int, str], ...]


def alike(code: str, loop: Loop, known: Mapping[str, int], around: str) -> list[Read]:
    """Arrays that a loop of the kernel's outermost text reads by rows; none where a thread may leave it, or its bounds
    may differ from thread to thread."""
    body, before = code[slice(*loop.body)], code[: loop.span[0]]
    opening = code.find("{")
    step = re.fullmatch(rf"{loop.name}\s*\+=\s*1|{loop.name}\s*\+\+|\+\+\s*{loop.name}", loop.step)
    outermost = before.count("{") - before.count("}") == 1 and before.rstrip()[-1:] in (";", "}", "{")
    if step is None or not outermost or _WAYS.search(body) or re.search(r"\b(?:return|goto)\b", before[opening:]):
        return []
    bounds = set(re.findall(r"[A-Za-z_]\w*", f"{loop.start} {loop.end}"))
    fixed = all(n in known or _given(code, n) for n in bounds)
    taken = re.search(rf"\b(?:{loop.name}_first|e|\w+_rows)\b", code)
    if not fixed or taken or re.search(r"[<>=!&|?,\[]", f"{loop.start} {loop.end}"):
        return []
    altered = touched(re.sub(r"(\bconst\s+\w+\s*\*[^;={}]*=\s*)&", r"\1", body), code, around)
    out = []
    for pointer in _POINTER.finditer(code[:opening]):
        one = _read(code, loop, pointer["name"], pointer["kind"], known)
        if one is None:
            continue
        held = {pointer["name"], loop.name, *re.findall(r"[A-Za-z_]\w*", f"{one.wide} {one.begin}")}
        if not altered & held:
            out.append(one)
    return out


def _given(code: str, name: str) -> bool:
    """Whether a name is a number that the kernel is given, and leaves as it is."""
    opening = code.find("{")
    number = re.search(rf"\b(?:int|unsigned|size_t|long long|u?int(?:32|64)_t)\s+{name}\s*[,)]", code[:opening])
    return number is not None and name not in changed(code[opening:]) and not re.search(rf"&\s*{name}\b", code)


class _Use(Struct, frozen=True):
    """A use with the place in its row, the last one that it comes to, elements of a row, and where rows begin: as text
    and for some numbers."""

    span: tuple[int, int]
    column: str
    last: int
    words: int
    begins: tuple[int, ...]
    first: str


def _read(code: str, loop: Loop, name: str, kind: str, known: Mapping[str, int]) -> Read | None:
    """An array whose every use in the loop is at `.. + j * W + c`, c below W, the last place of a row among them."""
    body, j = code[slice(*loop.body)], loop.name
    found = _uses(body, name, kind) or []
    uses = [u for one in found if (u := _use(code, loop, one, known)) is not None]
    if not uses or len(uses) < len(found) or kind not in SIZES or not _always(body[: uses[-1].span[0]], known):
        return None
    words, begins = uses[0].words, uses[0].begins
    if not _agree(uses):
        return None
    factor = next((n for n in re.findall(r"[A-Za-z_]\w*", found[0][2]) if known.get(n) == words), str(words))
    begin = next(u.first for u in uses if u.first) if any(begins) else f"{j}_first * {factor}"
    outside = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", begin)) - {f"{j}_first", *_SEEN, *known}
    seen = outside <= set(re.findall(r"\w+", code[: loop.span[0]]))
    if not seen or any(re.search(r"&\s*$", body[: u.span[0]]) for u in uses):
        return None
    return Read(name, kind, factor, words, begin, tuple((*u.span, u.column) for u in uses))


def _agree(uses: Sequence[_Use]) -> bool:
    """Whether all uses are of the same rows, long ones, and come to their end."""
    words, begins = uses[0].words, uses[0].begins
    same = all((u.words, u.begins) == (words, begins) and u.last >= 0 for u in uses)
    return same and words >= SHORTEST and max(u.last for u in uses) == words - 1


def _use(code: str, loop: Loop, one: tuple[int, int, str], known: Mapping[str, int]) -> _Use | None:
    """None where the index is no place in a row that goes on with the loop."""
    (start, end, index), j, at = one, loop.name, loop.body[0]
    flat = re.sub(r"(\w)\.(?=[A-Za-z_])", r"\1_", plain(index))  # a member is a name like others
    names = set(re.findall(r"[A-Za-z_]\w*", flat))
    counted = [x.name for x in loops(code) if x.span[0] > loop.span[1] and x.body[0] <= at + start < x.body[1]]
    inner = [c for c in counted if c in names]
    row = _row(flat, j, inner[0] if len(inner) == 1 else "", known)
    if row is None or len(inner) > 1 or (not inner and names - known.keys() - {j}):
        return None
    words, begins = row
    if not inner:
        last = _last(code, at + start, loop, str(begins[0]), str(words), known)
        return _Use((start, end), str(begins[0]), last, words, (0,) * len(begins), "")
    zeroed = re.sub(rf"(?<![\w.]){inner[0]}\b", "0", index)
    first = re.sub(rf"(?<![\w.]){j}\b", f"{j}_first", zeroed)
    last = _last(code, at + start, loop, inner[0], str(words), known)
    return _Use((start, end), inner[0], last, words, begins, first)


def _uses(body: str, name: str, kind: str) -> list[tuple[int, int, str]] | None:
    """(start, end, index) of an array's uses, also by a pointer that a round sets to a row of it; None where it is used
    in any other way."""
    out, at = [], []
    setting = rf"\bconst\s+{kind}\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(\w+)\s*=\s*"
    for m in re.finditer(rf"{setting}(?:{name}\s*\+\s*([^;,]+)|&\s*{name}\s*\[([^][]+)\])\s*;", body):
        mine = _uses(body[m.end() :], m[1], kind)
        if not mine or re.search(rf"(?<![\w.])(?<!->){m[1]}\b", body[: m.start(1)]):
            return None
        out += [(m.end() + s, m.end() + e, f"{m[2] or m[3]} + {index}") for s, e, index in mine]
        at.append(m.span())
    for use in re.finditer(rf"(?<![\w.])(?<!->){name}\b", body):
        if any(start <= use.start() < end for start, end in at):
            continue
        inside = re.match(r"\s*\[([^][]*)\]", body[use.end() :])
        if inside is None:
            return None
        out.append((use.start(), use.end() + inside.end(), inside[1].strip()))
    return sorted(out)


def _row(index: str, j: str, c: str, known: Mapping[str, int]) -> tuple[int, tuple[int, ...]] | None:
    """(elements of a row, where the rows begin, for numbers that other names may have) of an index that goes on by a
    row with j and by an element with c; None of any other."""
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", index)) - {j, c} - known.keys())
    steps, begins = set(), []
    for draw in ((3, 5, 7, 11, 13, 17), (101, 29, 31, 2, 43, 1), (8, 64, 1, 19, 4, 77)):
        others = {**known, **dict(zip(names, draw, strict=False))}
        if len(names) > len(draw):
            return None
        at = {(n, m): evaluated(index, {**others, j: n, c: m}) for n in (0, 1, 2, 9) for m in (0, 1, 5)}
        begin, row, one = at[0, 0], at[1, 0], at[0, 1]
        if begin is None or row is None or one is None:
            return None
        by, step = row - begin, one - begin
        if step != bool(c) or any(v != begin + n * by + m * step for (n, m), v in at.items()):
            return None
        steps.add(by)
        begins.append(begin)
    return (steps.pop(), tuple(begins)) if len(steps) == 1 else None


def _always(text: str, known: Mapping[str, int]) -> bool:
    """Whether what follows a text of a round runs in every round: rows that a test keeps from being read may not be
    there."""
    bounds = re.findall(r"\bfor\s*\([^;]*=([^;]*);\s*\w+\s*<([^;]*);", text)
    ends = [(evaluated(a, known), evaluated(b, known)) for a, b in bounds]
    once = all(a is not None and b is not None and a < b for a, b in ends)
    ways = re.search(r"\b(?:if|while|switch|continue|do)\b|\?|&&|\|\|", text)
    return once and ways is None and len(ends) == len(re.findall(r"\bfor\b", text))


def _last(code: str, at: int, loop: Loop, column: str, words: str, known: Mapping[str, int]) -> int:
    """The last place in a row that a use reads: a number, or where its name counts up to around it; -1 where that is
    not within the row."""
    number, length = evaluated(column, known), evaluated(words, known)
    if length is None or number is not None:
        return number if number is not None and length is not None and 0 <= number < length else -1
    around = [x for x in loops(code) if x.span[0] > loop.span[1] and x.body[0] <= at < x.body[1] and x.name == column]
    for one in around[-1:]:
        start, end = evaluated(one.start, known), evaluated(one.end, known)
        step = re.fullmatch(rf"{column}\s*\+\+|\+\+\s*{column}", one.step)
        counts = start == 0 and step is not None and column not in changed(code[slice(*one.body)])
        return end - 1 if counts and end is not None and 0 < end <= length else -1
    return -1
