"""Chains of a loop that need nothing of each other: values that a thread carries from round to round, each changed by
the same statements under other names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from kscope.fixes.given.c_types import TYPES
from kscope.fixes.given.functions import CALLS
from kscope.fixes.given.grammar import WORDS
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.given.whole_numbers import REAL
from kscope.fixes.tiling.declared import KINDS, TYPE, declared, kind_of

_DECLARED = re.compile(rf"^(?:const\s+)?(?P<type>{TYPE}|auto)\s+(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>[^;]+);$")
_CHANGED = re.compile(r"^(?P<name>[A-Za-z_]\w*)\s*(?P<op>[-+*/%&|^]|<<|>>)?=(?!=)(?P<value>[^;]+);$")
_COUNTED = re.compile(r"^(?:(?:\+\+|--)\s*(?P<name>[A-Za-z_]\w*)|(?P<after>[A-Za-z_]\w*)\s*(?:\+\+|--))\s*;$")
_FOR = re.compile(r"(?:#\s*pragma[^\n]*\n\s*)*for\s*\(")
_SET = re.compile(
    r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|([A-Za-z_]\w*)\s*(?:\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
_NAME, _NUMBER = re.compile(r"[A-Za-z_]\w*"), re.compile(r"\.?\d")
_STRANGE = {"[", "]", "{", "}", ".", "++", "--", "=", ";", "->", *(f"{op}=" for op in "+-*/%&|^"), "<<=", ">>="}
_OPERATORS = {op for one in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>") for op in (one, f"{one}=")}
_STORES = re.compile(
    r"\]\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*\(?\s*\*?\s*\w+\s*[\[.]|[;{}]\s*(?:[*(]|\+\+\s*[*(]|--\s*[*(])|->"
    r"|\)\s*\*\s*\w+\s*(?:\[|[-+*/%&|^]?=(?!=))|\.\s*\w+\s*[-+*/%&|^]?=(?!=)|\b\w+\s*&\s*\w+\s*=(?!=)"
    r"|\b(?:atomic\w*|else|switch|static|volatile|auto\s*&|struct)\b"
)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
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
    types. `parts`: spans of each chain's statements. `chosen`: words in which the chains differ, a place in the text
    and what stands there for each. `shared`: operations of a round that belong to no chain; `own`: of one chain."""

    loop: tuple[int, int]
    states: tuple[tuple[str, ...], ...]
    kinds: tuple[str, ...]
    parts: tuple[tuple[tuple[int, int], ...], ...]
    chosen: tuple[tuple[Word, ...], ...]
    shared: int
    own: int


class _OtherError(Exception):
    """A text that is more than this."""


def chains(code: str, opened: int, called: Collection[str] = ()) -> Chains | None:
    """Of the only loop of a function's text; None where it has none that are alike, or more than is understood.
    opened: where the body begins; called: functions of numbers that change nothing, besides those of CUDA."""
    loops = list(re.finditer(r"\b(?:for|while|do)\b", code[opened:]))
    head = _FOR.search(code, opened)
    if not loops or head is None:
        return None
    start, calls = head.start(), frozenset({*PURE, *called})
    end = statement_end(code, start)
    if end is None or any(not start <= opened + m.start() < end for m in loops):
        return None
    if not _alone(code, opened, start, end, calls):
        return None
    try:
        heads: list[tuple[str, frozenset[str]]] = []
        steps = _steps(code, start, end, heads, calls)
        return _alike(code, opened, (start, end), steps, heads)
    except _OtherError:
        return None


def _alone(code: str, opened: int, start: int, end: int, calls: frozenset[str]) -> bool:
    """Whether a loop is a statement of its own; nothing is stored in front of it, nothing comes behind its block."""
    before = code[opened + 1 : start]
    if not re.search(r"[;{}]\s*$", code[: start]) or _STORES.search(f";{before}"):
        return False
    if set(_CALLED.findall(before)) - calls - TYPES - {"if", "__ldg", "static_cast"}:
        return False
    depth, at = 0, end
    while at < len(code) and depth >= 0:
        depth += (code[at] == "{") - (code[at] == "}")
        at += 1
    return not code[at:].replace("}", "").strip()


def _steps(
    code: str, start: int, end: int, heads: list[tuple[str, frozenset[str]]], calls: frozenset[str],
    around: tuple[int, ...] = (),
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
            found += _steps(code, close + 1, stop, heads, calls, (*around, at))
        elif code[at] == "{":
            found += _steps(code, at + 1, stop - 1, heads, calls, around)
        elif code[at:stop] != ";":
            found.append(_step(code, at, stop, calls, around))
        at = stop
    return found


def _step(code: str, start: int, end: int, calls: frozenset[str], around: tuple[int, ...]) -> Step:
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
    if not _plain([w.text for w in inside], calls):
        raise _OtherError
    reads = {w.text for w in inside if _NAME.match(w.text)} - PURE - TYPES
    again = groups.get("op") is not None or "value" not in groups
    return Step(name, groups.get("type") or "", words, frozenset(reads | ({name} if again else set())), (start, end),
                around)  # fmt: skip


def _plain(words: Sequence[str], calls: frozenset[str]) -> bool:
    """Whether an expression is of numbers alone, and changes nothing: no memory, no other functions, no commas."""
    depth = 0
    for before, one, after in zip(["(", *words], words, [*words[1:], ")"], strict=False):
        depth += (one == "(") - (one == ")")
        opens = not (_NAME.match(before) or _NUMBER.match(before) or before == ")")
        called = after == "(" and _NAME.match(one) and one not in calls | TYPES
        if one in _STRANGE or (one in "*&" and opens) or called or (one == "," and depth == 0):
            return False
    return True


def _alike(
    code: str, opened: int, loop: tuple[int, int], steps: list[Step], heads: list[tuple[str, frozenset[str]]]
) -> Chains | None:  # fmt: skip
    counters = frozenset().union(*(names for _, names in heads))
    most = _most(_groups(steps, common := _common(steps)), counters | common)
    targets = {s.target for _, mine in most for s in mine}
    asked = {n for text, _ in heads for n in _NAME.findall(text)}
    if len(most) < 2 or targets & asked or counters & {s.target for s in steps}:
        return None
    known = declared(code, opened, loop[0])
    carried = _carried(most, known)
    chosen = _chosen([mine for _, mine in most], targets, known)
    if carried is None or chosen is None:
        return None
    rest = [s for s in steps if s.target not in targets]
    parts = tuple(tuple(s.span for s in mine) for _, mine in most)
    return Chains(loop, *carried, parts, chosen, _operations(rest), _operations(most[0][1]))


def _carried(
    most: Sequence[tuple[dict[str, int], Sequence[Step]]], known: Mapping[str, str]
) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]] | None:  # fmt: skip
    """What each chain carries from round to round, and the types of it; None where these differ."""
    states = tuple(tuple(n for n in sorted(names, key=names.__getitem__) if not _here(mine, n)) for names, mine in most)
    kinds = {tuple(known.get(n, "") for n in one) for one in states}
    one = kinds.pop()
    return (states, one) if not kinds and one and all(k in KINDS for k in one) else None


def _most(
    groups: Sequence[Sequence[Step]], fixed: frozenset[str]
) -> list[tuple[dict[str, int], Sequence[Step]]]:  # fmt: skip
    """Most of the groups that have one shape, each with its names in the order of that. fixed: names that are the same
    in all."""
    shapes: dict[object, list[tuple[dict[str, int], Sequence[Step]]]] = {}
    for mine in groups:
        names: dict[str, int] = {}
        own = {s.target for s in mine}
        shape = tuple((s.around, *(_shown(w.text, own, names, fixed) for w in s.words)) for s in mine)
        shapes.setdefault(shape, []).append((names, mine))
    return max(shapes.values(), key=len, default=[])


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


def _shown(word: str, own: set[str], names: dict[str, int], fixed: frozenset[str]) -> str:
    """A word as its chain's shape has it: numbers, and names of what no round changes, may be others in each."""
    if word in own:
        return f"#{names.setdefault(word, len(names))}"
    number, name = _NUMBER.match(word), _NAME.match(word)
    return "?" if number or (name and word not in fixed | PURE | TYPES | {"const"}) else word


def _chosen(
    chains: Sequence[Sequence[Step]], own: set[str], known: Mapping[str, str]
) -> tuple[tuple[Word, ...], ...] | None:  # fmt: skip
    """Words that differ, for each chain; None where they are not of one type."""
    found = []
    rows = [[w for s in mine for w in s.words] for mine in chains]
    for words in zip(*rows, strict=True):
        if words[0].text in own or len({w.text for w in words}) == 1:
            continue
        kinds = {kind_of(w.text, known) for w in words}
        if len(kinds) != 1 or not kinds <= set(KINDS):
            return None
        found.append(words)
    return tuple(found)


def _operations(steps: Sequence[Step]) -> int:
    """Operators, and functions that are called: an opening bracket behind a name."""
    words = [[w.text for w in s.words] for s in steps]
    called = sum(b == "(" and bool(_NAME.match(a)) and a not in TYPES for one in words for a, b in pairwise(one))
    return called + sum(w in _OPERATORS for one in words for w in one)
