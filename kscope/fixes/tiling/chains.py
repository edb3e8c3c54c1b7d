"""Chains of a loop that need nothing of each other: values that a thread carries from round to round, each changed by
the same statements under other names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.functions import CALLS
from kscope.fixes.given.grammar import WORDS
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.given.type_names import TYPES
from kscope.fixes.given.whole_numbers import REAL

KINDS = ("float", "double", "int", "unsigned", "unsigned int", "uint32_t", "int32_t", "long long", "unsigned long long",
         "size_t", "uint64_t", "int64_t")  # fmt: skip
"""That __shfl_sync takes."""

_TYPE = r"(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|float|double|int|unsigned|size_t|u?int(?:32|64)_t)"
_DECLARED = re.compile(rf"^(?:const\s+)?(?P<type>{_TYPE}|auto)\s+(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>[^;]+);$")
_CHANGED = re.compile(r"^(?P<name>[A-Za-z_]\w*)\s*(?P<op>[-+*/%&|^]|<<|>>)?=(?!=)(?P<value>[^;]+);$")
_COUNTED = re.compile(r"^(?:(?:\+\+|--)\s*(?P<name>[A-Za-z_]\w*)|(?P<after>[A-Za-z_]\w*)\s*(?:\+\+|--))\s*;$")
_FOR = re.compile(r"(?:#\s*pragma[^\n]*\n\s*)*for\s*\(")
_BEFORE = re.compile(rf"(?:(?<=[;{{}}(,])|\n)\s*(?:const\s+)?(?P<type>{_TYPE})\s+(?P<rest>[A-Za-z_][^;{{}}]*)(?=[;{{])")
_SET = re.compile(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|([A-Za-z_]\w*)\s*(?:\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
_NAME, _NUMBER = re.compile(r"[A-Za-z_]\w*"), re.compile(r"\.?\d")
_STRANGE = {"[", "]", "{", "}", ".", "++", "--", "=", ";", "->", *(f"{op}=" for op in ("+", "-", "*", "/", "%", "&", "|", "^")),
            "<<=", ">>="}  # fmt: skip
_OPERATORS = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"}
PURE = {*CALLS, *REAL} - {"__threadfence"}


class Word(Struct, frozen=True):
    text: str
    at: int


class Step(Struct, frozen=True):
    """A statement of a round. kind: of a name that it declares. around: loops within the round that it is in."""

    target: str
    kind: str
    words: tuple[Word, ...]
    reads: frozenset[str]
    span: tuple[int, int]
    around: tuple[int, ...]


class Chains(Struct, frozen=True):
    """`loop`: from its pragmas on to its end. `states`: of each chain what it carries, in one order, and `kinds` their
    types. `parts`: spans of each chain's statements. `chosen`: words in which the chains differ, a place in the text and
    what stands there for each. `shared`: operations of a round that belong to no chain; `own`: of one chain."""

    loop: tuple[int, int]
    states: tuple[tuple[str, ...], ...]
    kinds: tuple[str, ...]
    parts: tuple[tuple[tuple[int, int], ...], ...]
    chosen: tuple[tuple[Word, ...], ...]
    shared: int
    own: int


class _OtherError(Exception):
    """A text that is more than this."""


def chains(code: str, opened: int) -> Chains | None:
    """Of the only loop of a function's text; None where it has none that are alike, or there is more than is understood.
    opened: where the body begins."""
    loops = list(re.finditer(r"\b(?:for|while|do)\b", code[opened:]))
    head = _FOR.search(code, opened)
    if not loops or head is None:
        return None
    start = head.start()
    end = statement_end(code, start)
    if end is None or any(not start <= opened + m.start() < end for m in loops):
        return None
    try:
        heads: list[tuple[str, frozenset[str]]] = []
        steps = _steps(code, start, end, heads, ())
        return _alike(code, opened, (start, end), steps, heads)
    except _OtherError:
        return None


def _steps(
    code: str, start: int, end: int, heads: list[tuple[str, frozenset[str]]], around: tuple[int, ...]
) -> list[Step]:  # fmt: skip
    """Statements one behind the other, those within loops and brackets too. heads: of the loops, with what they set."""
    found, at = list[Step](), start
    while code[at:end].strip():
        at += len(code[at:end]) - len(code[at:end].lstrip())
        stop, head = statement_end(code, at), _FOR.match(code, at)
        if stop is None or stop > end:
            raise _OtherError
        if head is not None:
            close = closing(code, head.end())
            if close is None:
                raise _OtherError
            text = code[head.end() : close]
            heads.append((text, frozenset(n for m in _SET.finditer(text) for n in m.groups() if n)))
            found += _steps(code, close + 1, stop, heads, (*around, at))
        elif code[at] == "{":
            found += _steps(code, at + 1, stop - 1, heads, around)
        elif code[at:stop] != ";":
            found.append(_step(code, at, stop, around))
        at = stop
    return found


def _step(code: str, start: int, end: int, around: tuple[int, ...]) -> Step:
    text = code[start:end]
    match = _DECLARED.match(text) or _CHANGED.match(text) or _COUNTED.match(text)
    if match is None:
        raise _OtherError
    groups = match.groupdict()
    name = groups["name"] or groups["after"]
    words = tuple(Word(m[0], start + m.start()) for m in WORDS.finditer(text) if m.lastgroup is not None)
    if "".join(w.text for w in words) != re.sub(r"\s+", "", text):
        raise _OtherError
    value = match.span("value") if groups.get("value") else (len(text), len(text))
    inside = [w for w in words if value[0] <= w.at - start < value[1]]
    if "," in [w.text for w in _outermost(inside)]:
        raise _OtherError
    for before, one, after in zip([Word("(", 0), *inside], inside, [*inside[1:], Word(")", 0)], strict=False):
        opens = not (_NAME.match(before.text) or _NUMBER.match(before.text) or before.text == ")")
        called = after.text == "(" and _NAME.match(one.text) and one.text not in PURE | TYPES
        if one.text in _STRANGE or (one.text in "*&" and opens) or called:
            raise _OtherError
    reads = {w.text for w in inside if _NAME.match(w.text)} - PURE - TYPES
    again = groups.get("op") is not None or "value" not in groups
    return Step(name, groups.get("type") or "", words, frozenset(reads | ({name} if again else set())), (start, end),
                around)  # fmt: skip


def _outermost(words: Sequence[Word]) -> list[Word]:
    out, depth = [], 0
    for one in words:
        depth += (one.text == "(") - (one.text == ")")
        out += [one] if depth == 0 else []
    return out


def _alike(
    code: str, opened: int, loop: tuple[int, int], steps: list[Step], heads: list[tuple[str, frozenset[str]]]
) -> Chains | None:  # fmt: skip
    counters = frozenset().union(*(names for _, names in heads))
    common = _common(steps)
    groups = _groups(steps, common)
    shapes: dict[object, list[tuple[dict[str, int], list[Step]]]] = {}
    for mine in groups:
        names: dict[str, int] = {}
        shape = tuple((s.around, *(_shown(w, {t.target for t in mine}, names, counters | common) for w in s.words))
                      for s in mine)  # fmt: skip
        shapes.setdefault(shape, []).append((names, mine))
    most = max(shapes.values(), key=len, default=[])
    targets = {s.target for _, mine in most for s in mine}
    asked = {n for text, _ in heads for n in _NAME.findall(text)}
    if len(most) < 2 or targets & asked or counters & {s.target for s in steps}:
        return None
    known = declared(code, opened, loop[0])
    states = tuple(tuple(n for n in sorted(names, key=names.__getitem__) if not _here(mine, n)) for names, mine in most)
    kinds = tuple(known.get(n, "") for n in states[0])
    same = all(tuple(known.get(n, "") for n in one) == kinds for one in states)
    if not states[0] or not same or not all(k in KINDS for k in kinds):
        return None
    chosen = _chosen([mine for _, mine in most], targets, known)
    if chosen is None:
        return None
    of = [s for s in steps if s.target not in targets]
    parts = tuple(tuple(s.span for s in mine) for _, mine in most)
    return Chains(loop, states, kinds, parts, chosen, _operations(of), _operations(most[0][1]))


def _here(steps: Sequence[Step], name: str) -> bool:
    return any(s.target == name and s.kind for s in steps)


def _common(steps: Sequence[Step]) -> set[str]:
    """Names that a round declares, of what is the same for all chains."""
    targets, found = {s.target for s in steps}, set[str]()
    while True:
        more = {s.target for s in steps if s.kind and s.target not in found
                and all(not t.reads & (targets - found) for t in steps if t.target == s.target)}  # fmt: skip
        if not more:
            return found
        found |= more


def _groups(steps: Sequence[Step], common: set[str]) -> list[list[Step]]:
    """Statements by what needs one another, in the order of the text."""
    own = {s.target for s in steps} - common
    of = {name: name for name in own}

    def root(name: str) -> str:
        while of[name] != name:
            name = of[name]
        return name

    for step in steps:
        for other in step.reads & own if step.target in own else ():
            of[root(other)] = root(step.target)
    found: dict[str, list[Step]] = {}
    for step in steps:
        if step.target in own:
            found.setdefault(root(step.target), []).append(step)
    return list(found.values())


def _shown(word: Word, own: set[str], names: dict[str, int], fixed: frozenset[str] | set[str]) -> str:
    """A word as its chain's shape has it: numbers, and names of what no round changes, may be others in each."""
    if word.text in own:
        return f"#{names.setdefault(word.text, len(names))}"
    number, name = _NUMBER.match(word.text), _NAME.match(word.text)
    return "?" if number or (name and word.text not in fixed | PURE | TYPES | {"const"}) else word.text


def _chosen(chains: Sequence[Sequence[Step]], own: set[str], known: Mapping[str, str]) -> tuple[tuple[Word, ...], ...] | None:
    """Words that differ, for each chain; None where they are not of one type."""
    found = []
    rows = [[w for s in mine for w in s.words] for mine in chains]
    for words in zip(*rows, strict=True):
        if words[0].text in own or len({w.text for w in words}) == 1:
            continue
        kinds = {_kind(w.text, known) for w in words}
        if len(kinds) != 1 or not kinds <= set(KINDS):
            return None
        found.append(words)
    return tuple(found)


def _kind(word: str, known: Mapping[str, str]) -> str:
    """The type of a number, or of a name."""
    if not _NUMBER.match(word):
        return known.get(word, "")
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", word):
        return "int" if int(word, 0) < 2**31 else ""
    if re.fullmatch(r"(?:0[xX][0-9a-fA-F]+|\d+)[uU]", word):
        return "unsigned" if int(word[:-1], 0) < 2**32 else ""
    if re.fullmatch(r"(?![xX])[\d.]+(?:[eE][-+]?\d+)?[fF]", word):
        return "float"
    return "double" if re.fullmatch(r"[\d.]+(?:[eE][-+]?\d+)?", word) else ""


def declared(code: str, opened: int, at: int) -> dict[str, str]:
    """Types of numbers that a place of a text may name: each declared once, and not left since."""
    found: dict[str, str] = {}
    twice = set[str]()
    given = code[:opened].rfind("(", 0, code.rfind(")", 0, opened))
    given = next((n for n in range(opened, -1, -1) if code[n] == "(" and closing(code, n + 1) == code.rfind(")", 0, opened)), given)
    for part in code[given + 1 : code.rfind(")", 0, opened)].split(","):
        match = re.fullmatch(rf"\s*(?:const\s+)?({_TYPE})\s+([A-Za-z_]\w*)\s*", part)
        if match is not None:
            found[match[2]] = " ".join(match[1].split())
    for m in _BEFORE.finditer(code, opened, at):
        depth = least = 0
        for c in code[m.end() : at]:
            depth += (c == "{") - (c == "}")
            least = min(least, depth)
        for part in split_declarators(m["rest"]):
            name = re.match(r"\s*([A-Za-z_]\w*)\s*(?:=(?!=)|$)", part)
            if name is not None:
                twice |= {name[1]} & found.keys()
                if least == 0:
                    found[name[1]] = " ".join(m["type"].split())
    again = [n for n in found if len(re.findall(rf"{_TYPE}\s+(?:[^;{{}}()]*,\s*)?{n}\b\s*[=;,)]", code[opened:])) > 1]
    return {n: k for n, k in found.items() if n not in twice and n not in again}


def _operations(steps: Sequence[Step]) -> int:
    return sum(w.text in _OPERATORS or w.text in PURE for s in steps for w in s.words)
