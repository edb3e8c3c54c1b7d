"""Angles that are only sorted into eighths of a turn: comparisons of the direction's two parts instead of atan2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.algebra.turns import Eighths, Strange, computed, eighths, number
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import WRITES, Span, by_lines, closing, kernel_text, outside, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

_NAME = re.compile(r"-?\s*[A-Za-z_]\w*")
_DECLARED = re.compile(r"(?<=[;{}])\s*(?P<kind>(?:const\s+)?(?:float|int|unsigned))\s+(?P<rest>[^;{}]+);")
_ROUNDS = ("floorf", "truncf", "rintf", "roundf", "__float2int_rn", "__float2int_rd", "__float2int_rz")


class Sorted(Struct, frozen=True):
    """The spans of the new text; y and x of the direction; what the angle becomes; hypotf calls that go, too."""

    spans: tuple[Span, ...]
    y: str
    x: str
    eighths: Eighths
    lengths: int


class _Declared(Struct, frozen=True):
    """`kind name = value;` with its declarators: (name, value)."""

    start: int
    end: int
    kind: str
    parts: tuple[tuple[str, str], ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code, text = asked.setting, asked.setting.code, kernel_text(asked.setting)
    one = sorted_out(text.code) if text is not None else None
    edits = spans_edited(setting, text, by_lines(text.code, one.spans)) if text is not None and one is not None else []
    if one is None or not edits:
        return []
    said = next((e.value for e in asked.finding.evidence if e.metric == "instructions of the math functions"), 0)
    before = float(said or total(code.executed, range(len(code))))
    y, x = one.y, one.x
    squares = Condition(holds=f"the squares of {y} and {x} neither overflow nor vanish", state="check",
                        why="hypotf scales them; sqrtf of their sum does not, and has an ulp more")  # fmt: skip
    return [
        Fix(
            kind="math_function",
            title=f"the eighth of a turn of {y} and {x} by comparisons" + ", sqrtf" * bool(one.lengths),
            language="cuda",
            edits=edits,
            conditions=[
                proved("each direction has the number that the angle gave", "values", one.eighths.ran,
                       "both computed in floats for directions of all eighths, in several lengths, axes and zeros"),
                Condition(holds="directions an ulp beside an end of an eighth may have either number", state="check",
                          why="atan2f rounds there"),
                Condition(holds=f"{y} and {x} are numbers, and zeros of them positive", state="check",
                          why="atan2f tells -0 from 0"),
                *([squares] if one.lengths else []),
            ],
            proof=[
                Proof(what="instructions of math functions", before=before, after=0, unit="inst",
                      how="executions counted; a dozen comparisons and selections a direction in their place")
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def sorted_out(code: str) -> Sorted | None:
    """The new text of a kernel whose one angle is only sorted; None for any other."""
    calls = calls_of(code, "atan2f")
    if len(calls) != 1 or len(calls[0].arguments) != 2 or not all(_NAME.fullmatch(a) for a in calls[0].arguments):
        return None
    y, x = (a.replace(" ", "") for a in calls[0].arguments)
    names = [n.lstrip("-") for n in (y, x)]
    if names[0] == names[1] or any(_writes(code, n) > 1 for n in names):
        return None
    made = _chain(code, calls[0].start)
    for end in range(len(made), -1, -1):  # the last of the definitions that are of the angle alone
        found = _replaced(code, y, x, made[:end])
        if found is not None:
            between = code[calls[0].start : max(b for _, b, _ in found.spans)]
            return None if any(_writes(between, n) for n in names) else found
    return None


def _declarations(code: str) -> list[_Declared]:
    out = []
    for m in _DECLARED.finditer(code):
        pairs = [p.partition("=") for p in split_declarators(m["rest"])]
        parts = tuple((n.strip(), v.strip()) for n, _, v in pairs)
        out.append(_Declared(m.start() + len(m[0]) - len(m[0].lstrip()), m.end(), " ".join(m["kind"].split()), parts))
    return out


def _chain(code: str, at: int) -> list[tuple[str, str]]:
    """(name, value) of definitions that are made of the angle at a place and numbers alone, one of another."""
    out, known = list[tuple[str, str]](), set[str]()
    for one in _declarations(code):
        for name, value in one.parts:
            node = _parsed(value)
            words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", value))
            angle = one.start <= at < one.end and "atan2f" in words
            more, kind = _wrapped(code, name, one.end), "float" if one.kind.endswith("float") else "int"
            alone = _writes(code, name) == 1 + len(more) and _at_once(code, name, one.end, more)
            if node is not None and alone and (angle or words & known):
                known.add(name)
                out += [(name, f"({kind})({v})") for v in (value, *(text for _, _, text in more))]
    return out


def _writes(code: str, name: str) -> int:
    return len(re.findall(rf"{WRITES.replace('{x}', name)}|(?<!&)&\s*{name}\b", code))


def _wrapped(code: str, name: str, after: int) -> list[Span]:
    """Where a name is moved by a turn under a condition, `if (t < 0) t += c;`, and what it is then."""
    found = re.finditer(rf"if\s*\((?P<test>[^;{{}}()]*)\)\s*{name}\s*(?P<op>[-+])=\s*(?P<by>[^;,]+);", code)
    return [(m.start(), m.end(), f"({m['test']}) ? {name} {m['op']} ({m['by']}) : {name}") for m in found
            if m.start() >= after]  # fmt: skip


def _at_once(code: str, name: str, after: int, more: Sequence[Span]) -> bool:
    """Whether a name is moved wherever it is defined, by statements of the same block, before anybody asks for it."""
    for start, end, _ in more:
        between = outside(code[after:start], [(a - after, b - after) for a, b, _ in more if b <= start])
        if re.search(rf"\b{name}\b", between) or not re.search(r"[;{}]\s*$", code[:start]):
            return False
        if re.match(r"\s*else\b", code[end:]) or between.count("{") != between.count("}") or "return" in between:
            return False
    return True


def _replaced(code: str, y: str, x: str, made: Sequence[tuple[str, str]]) -> Sorted | None:
    """With the last definition's value, or roundings of it, by comparisons, and those before it gone."""
    for start, end in _candidates(code, made):
        found = _eighths(code[start:end], made, y, x)
        if found is None:
            continue
        rounded = any(code.startswith(f, start) for f in _ROUNDS if f.endswith("f"))  # a float, as it was
        spans = [(start, end, f"(float){found.text}" if rounded else found.text)]
        gone = _gone(code, [n for n, _ in made], (start, end))
        if gone is None:
            continue
        lengths = [c for c in calls_of(code, "hypotf") if sorted(c.arguments) == sorted((y, x))]
        spans += [(c.start, c.end, f"sqrtf({x} * {x} + {y} * {y})") for c in lengths]
        return Sorted((*spans, *gone), y, x, found, len(lengths))
    return None


def _candidates(code: str, made: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Where values stand that may be one for each eighth: of definitions, and what is rounded."""
    out = []
    for one in _declarations(code):
        for name, value in one.parts:
            if made and name == made[-1][0]:
                at = code.index(value, one.start)
                out.append((at, at + len(value)))
    last = made[-1][0] if made else "atan2f"
    for name in _ROUNDS:
        out += [(c.start, c.end) for c in calls_of(code, name) if re.search(rf"\b{last}\b", code[c.start : c.end])]
    for match in re.finditer(r"\(\s*int\s*\)\s*\(", code):
        close = closing(code, match.end())
        if close is not None and re.search(rf"\b{last}\b", code[match.start() : close]):
            out.append((match.start(), close + 1))
    return out


def _eighths(text: str, made: Sequence[tuple[str, str]], y: str, x: str) -> Eighths | None:
    nodes = [(name, _parsed(value)) for name, value in made]
    last = _parsed(text)
    if last is None or any(node is None for _, node in nodes):
        return None

    def of(first: Any, second: Any) -> Any:
        names = {y.lstrip("-"): -first if y[0] == "-" else first, x.lstrip("-"): -second if x[0] == "-" else second}
        for name, node in nodes:
            if node is not None:
                names[name] = computed(node, names)
        return computed(last, names)

    try:
        return eighths(of, y, x)
    except (Strange, TypeError, ValueError):
        return None


def _gone(code: str, names: Sequence[str], kept: tuple[int, int]) -> list[Span] | None:
    """The declarators of names that nobody else asks for; None where somebody does."""
    out, mine = list[Span](), set[str]()
    for one in _declarations(code):
        left = [(n, v) for n, v in one.parts if n not in names]
        if len(left) == len(one.parts):
            continue
        spans = [(a, b, "") for n, _ in one.parts if n in names for a, b, _ in _wrapped(code, n, one.end)]
        if one.start <= kept[0] < one.end:
            if any(n in names and code[slice(*kept)] != v for n, v in one.parts):
                return None
            mine |= {n for n, _ in one.parts}  # it is the value that changes
        else:
            new = f"{one.kind} {', '.join(f'{n} = {v}' if v else n for n, v in left)};" if left else ""
            spans.append((one.start, one.end, new))
        out += spans
    rest = outside(code, [kept, *((a, b) for a, b, _ in out)])
    return out if all(n in mine or not re.search(rf"(?<![\w.])(?<!->){n}\b", rest) for n in names) else None


def _parsed(text: str) -> Node | None:
    try:
        parser = Parser(text, number)
        node = parser.expression()
    except (Unplayable, ValueError):
        return None
    return node if parser.at == len(parser.words) else None
