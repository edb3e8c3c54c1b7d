"""Counters of loops that are numbers once the loops are unrolled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from kscope.fixes.atomics.reading import statements
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.local.registers import _PRAGMA, Local, written

ROUNDS = 128  # of a loop in its loops: as much code as is worth it (judged)
_NAMES = 4  # names that are put in for others, one after the other
_LOOP = re.compile(
    r"\bfor\s*\(\s*(?P<kind>(?:unsigned|signed|long|short|int|char|size_t|u?int\d+_t|auto|const|\s)+?)\s+(?P<name>\w+)\s*="
    r"\s*(?P<start>[^;,]+);\s*(?P=name)\s*(?P<relation><=|>=|!=|<|>)\s*(?P<end>[^;]+);\s*(?P<step>[^;{}()]*)\)"
)


class Counter(Struct, frozen=True):
    """`for (kind name = start; name relation end; step)`. limit: where it ends at the latest, if its own end is no
    number (`ended`); sure: each of its rounds uses the array at the counter."""

    kind: str
    name: str
    start: str
    relation: str
    end: str
    step: str
    span: tuple[int, int]
    body: tuple[int, int]
    ended: bool = False
    limit: int = 0
    sure: bool = True


def counters(code: str, known: Mapping[str, int], arrays: Sequence[Local]) -> list[Counter]:
    """Loops, outermost first, that go the same few rounds each time, or no further than an array they index is long."""
    out: list[Counter] = []
    rounds: list[list[dict[str, int]]] = []
    for match in _LOOP.finditer(code):
        rest = code[match.end() :]
        first = match.end() + len(rest) - len(rest.lstrip())
        last = statement_end(code, first)
        asked = _PRAGMA.search(code[: match.start()])
        if last is None or (asked is not None and asked["few"]) or written(match["name"], code[first:last]):
            continue
        kind, start, end, step = (match[f].strip() for f in ("kind", "start", "end", "step"))
        one = Counter(kind, match["name"], start, match["relation"], end, step, match.span(), (first, last))
        outer = next((n for n in range(len(out) - 1, -1, -1) if out[n].body[0] <= match.start() < out[n].body[1]), None)
        given = rounds[outer] if outer is not None else [dict[str, int]()]
        if one.name in given[0]:
            continue
        made = _rounds(code, one, given, known)
        if made is None:
            longer = _as_long(code, one, arrays)
            made = _rounds(code, longer, given, known) if longer is not None else None
            one = longer or one
        if made:
            out.append(one)
            rounds.append(made)
    return [msgspec.structs.replace(x, sure=x.sure or _covered(code, x, out)) for x in out]


def _covered(code: str, loop: Counter, every: Sequence[Counter]) -> bool:
    """Whether the first loop in a loop, which goes to the same end from the round's own number on, uses the array in
    each of its rounds: the outer one's first round goes all along the array then."""
    inside = code[slice(*loop.body)]
    for x in every:
        ahead = code[loop.body[0] : x.span[0]] if loop.body[0] <= x.span[0] < loop.body[1] else "?"
        start = re.fullmatch(rf"{loop.name}(?:\s*\+\s*1)?", x.start)
        end = re.fullmatch(rf"({re.escape(x.end)})(?:\s*-\s*\d+)?", loop.end) if re.fullmatch(r"\w+", x.end) else None
        if re.search(r"\b(?:if|for|while|do|switch|break|continue|return|goto)\b|\?|&&|\|\|", ahead) is None and (
            x.ended and x.sure and x.limit <= loop.limit and start is not None and end is not None
            and x.relation == loop.relation == "<" and not written(x.end, inside)
        ):  # fmt: skip
            return True
    return False


def resolved(code: str, text: str) -> str:
    """An expression with what its names are defined as, of those that are given one value only."""
    for _ in range(_NAMES):
        for name in set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", text)):
            defined = re.findall(rf"\b(?:int|unsigned|size_t|auto)\s+{name}\s*=\s*([^;,=(){{}}[\]]+);", code)
            if len(defined) == 1 and not written(name, re.sub(rf"\b{name}\s*=\s*", "", code, count=1)):
                text = re.sub(rf"(?<![.\w]){name}\b", f"({defined[0].strip()})", text)
    return text


def number(text: str, known: Mapping[str, int]) -> int | None:
    """An expression's number, with signs in front of numbers and with their suffixes."""
    bare = re.sub(r"(?<=\d)[uU]?[lL]{0,2}\b", "", text)
    put = re.sub(r"[A-Za-z_]\w*", lambda m: f"(0{known[m[0]]:+d})" if m[0] in known else m[0], bare)
    return evaluated(re.sub(r"(^|[(+*/%-])(\s*)-\s*(\d+)", r"\1\2(0-\3)", put.strip()), {})


def _rounds(
    code: str, one: Counter, given: list[dict[str, int]], known: Mapping[str, int]
) -> list[dict[str, int]] | None:
    """All values of a counter and those around it; None where they are not known, or too many."""
    by = _by(one)
    found: list[dict[str, int]] = []
    for values in given if by else ():
        names = {**known, **values}
        first = number(resolved(code, one.start), names)
        last = one.limit if one.ended else number(resolved(code, one.end), names)
        if first is None or last is None or (one.relation == "!=" and (last - first) % by):
            return None
        more = 0 if one.ended or one.relation not in ("<=", ">=") else 1 if by > 0 else -1
        found += [{**values, one.name: v} for v in range(first, last + more, by)]
        if len(found) > ROUNDS:
            return None
    return found if by else None


def _by(one: Counter) -> int:
    """By how much a counter grows each round, towards its end; 0 where that is not known."""
    up = re.fullmatch(rf"\+\+\s*{one.name}|{one.name}\s*\+\+|{one.name}\s*\+=\s*(\d+)", one.step)
    if up is not None:
        return int(up[1] or 1) if one.relation in ("<", "<=", "!=") else 0
    down = re.fullmatch(rf"--\s*{one.name}|{one.name}\s*--|{one.name}\s*-=\s*(\d+)", one.step)
    if down is None or one.relation not in (">", ">=", "!=") or re.match(r"unsigned|size_t|uint", one.kind):
        return 0
    return -int(down[1] or 1)


def _as_long(code: str, one: Counter, arrays: Sequence[Local]) -> Counter | None:
    """A loop that goes to any number, as one that ends with the array which it indexes."""
    inside = code[slice(*one.body)]
    ends = re.sub(r"\b(?:min|max)\s*\(", "", one.end)
    behind = re.match(r"\s*else\b", code[one.body[1] :])  # it would be the else of what is asked in the loop
    if one.relation not in ("<", "<=") or re.search(r"\(\s*\w*\s*\)|\w\s*\(|\+\+|--|=|\[", ends) or behind is not None:
        return None
    apart = "," in re.sub(r"\b(?:min|max)\s*\([^()]*\)", "", one.end)
    if apart or re.search(rf"\b{one.name}\b", one.end) or "__sync" in inside:
        return None
    sure = _limits(_always(inside), one.name, arrays)
    any_ = _limits(inside, one.name, arrays)
    if not any_ or (not sure and _compared(inside, one.name)):
        return None
    limit = min(sure) if sure else max(any_)
    return Counter(one.kind, one.name, one.start, one.relation, one.end, one.step, one.span, one.body, ended=True,
                   limit=limit, sure=bool(sure))  # fmt: skip


def _compared(inside: str, counter: str) -> bool:
    """Whether a loop asks for its own counter: then some of its rounds may be none of the array's."""
    sign = r"(?:[<>]=?|[=!]=)"
    return re.search(rf"(?<![\w.]){counter}\s*{sign}|{sign}\s*{counter}\b", inside) is not None


def _limits(text: str, counter: str, arrays: Sequence[Local]) -> list[int]:
    """Where a counter has to end so that it is an index of arrays in a text."""
    out = []
    for array in arrays:
        for m in re.finditer(rf"(?<![\w.]){array.name}\s*\[\s*{counter}\s*(?:([-+])\s*(\d+)\s*)?\]", text):
            more = int(m[2] or 0) * (-1 if m[1] == "-" else 1)
            out.append(array.count - more)
    return out


def _always(text: str) -> str:
    """What of a loop's body each of its rounds comes to."""
    text = text.strip()
    inside = text[1:-1] if text.startswith("{") else text
    parts = statements(inside, 0, len(inside))
    found = []
    for start, end in parts or ():
        one = inside[start:end].strip()
        head = re.match(r"(?:if|while|switch|for)\s*\(", one)
        close = closing(one, head.end()) if head is not None else None
        if head is not None:
            piece = one[head.end() : close] if not one.startswith("for") else ""
        else:
            piece = one if "{" not in one else ""
        found.append(re.split(r"\?|&&|\|\|", piece)[0])
        if re.search(r"\b(?:break|continue|return|goto)\b", one):
            break
    return ";".join(found)
