"""Loops of a kernel whose rounds need nothing of each other, as its text says, and the same taken in turn by blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from msgspec import Struct

from kscope.fixes.given.grammar import Parser, Unplayable
from kscope.fixes.given.text import Span, closing, outside, plain, statement_end
from kscope.fixes.given.whole_numbers import NUMBERS
from kscope.fixes.tiling.carried import Round

_WIDE = "size_t|long|long long|unsigned long|unsigned long long|int64_t|uint64_t"
_KIND = rf"(?:const\s+)?(?P<kind>auto|int|unsigned|unsigned int|uint|u?int32_t|{_WIDE})"
_FOR = re.compile(
    rf"\bfor\s*\((?:\s*(?:{_KIND}\s+)?(?P<name>\w+)\s*=\s*(?P<start>[^;,=]+))?;\s*(?P<counter>\w+)\s*<=?(?![<=])"
    r"(?P<end>[^;=]+);\s*"
)
_WHILE = re.compile(r"\bwhile\s*\(\s*(?P<counter>\w+)\s*<=?(?![<=])(?P<end>[^;={}]+)\)\s*\{")
_STEP = re.compile(
    r"(?P<name>\w+)\s*\+=(?P<by>[^;,=]+)|(?P<same>\w+)\s*=\s*(?P=same)\s*\+(?P<more>[^;,=]+)|(?P<up>\w+)\s*\+\+"
    r"|\+\+\s*(?P<one>\w+)"
)
_PLAIN = re.compile(r"[\w\s+\-*/%&|^<>().]+")
_ADDED = re.compile(r"[\w.\s*+]+")
_ARRAY = re.compile(r"\b(?:[A-Za-z_]\w*)\s+(?P<names>\w+\s*(?:\[[^;={}]*)[^;{}]*);")


DEEPEST = 3  # loops within loops


class Turn(Struct, frozen=True):
    """A loop: `whole` from its head to its end, `body` of its statement. `start`, `by`: where its counter begins and
    by how much it goes on, with the text of each; `end`: what it is compared with. A `while` goes on in its last
    statement."""

    name: str
    kind: str
    end: str
    whole: tuple[int, int]
    body: tuple[int, int]
    start: Span
    by: Span

    def round(self, code: str) -> str:
        """The statement that a round is, but for what goes on."""
        start, end = self.body
        return code[start:end] if self.by[0] < start else f"{code[start:self.by[0]]}}}"


def turns(code: str, opened: int, plainly: Callable[[str], str]) -> list[list[Turn]]:
    """Such loops of a kernel's text whose body begins at `opened`: the outermost, then in place of each the next ones
    within, and so on. plainly: a text with types that can be played."""
    every = [one for m in _FOR.finditer(code, opened) if (one := _turn(code, opened, m)) is not None]
    every += [one for m in _WHILE.finditer(code, opened) if (one := _while(code, opened, m)) is not None]
    every.sort(key=lambda one: one.whole)
    every = [one for one in every if not _side_by_side(code, opened, one) and _apart(code, opened, one, plainly)]
    out, level = list[list[Turn]](), _outermost(every)
    while level and level not in out and len(out) < DEEPEST:
        out.append(level)
        level = [x for one in level for x in _outermost([t for t in every if _in(t, one)]) or [one]]
    return [level for level in out if all(
        _within(code, one, outside(code, [(0, opened), *(x.whole for x in level)]), opened, plainly) for one in level)]


def _outermost(some: list[Turn]) -> list[Turn]:
    return [one for one in some if not any(_in(one, other) for other in some)]


def _in(one: Turn, other: Turn) -> bool:
    return other.whole[0] < one.whole[0] and one.whole[1] <= other.whole[1]


def _side_by_side(code: str, opened: int, one: Turn) -> bool:
    """Whether a thread goes along neighbours in memory: rounds in turn would leave each block parts of sectors."""
    if re.search(r"\b(?:threadIdx|blockDim)\b", plain(plain(f"{one.start[2]} + {one.by[2]}", code), code)):
        return False
    body = code[slice(*one.body)]
    if re.search(r"\b(?:for|while|do)\b", body) or one.by[2] not in ("1", "2", "3", "4"):
        return False
    return any(re.search(rf"(?:^|[+(\[]\s*){one.name}\s*(?:$|[+)])", at) for at in re.findall(r"\[([^\[\]]*)\]", body))


def spans(found: list[Turn], axis: str) -> list[Span]:
    """The loops' heads where blocks along an axis take the rounds in turn."""
    out = list[Span]()
    for one in found:
        start, by = one.start[2], one.by[2]
        times = "" if by == "1" else f" * {by}" if re.fullmatch(r"[\w.]+", by) else f" * ({by})"
        wide = f"({one.kind})" if re.fullmatch(_WIDE, one.kind) else ""
        first = f"{wide}blockIdx.{axis}{times}"
        if start != "0":
            first = f"{start if _ADDED.fullmatch(start) else f'({start})'} + {first}"
        out += [(*one.start[:2], first), (*one.by[:2], f"{one.name} += gridDim.{axis}{times}")]
    return out


def _turn(code: str, opened: int, match: re.Match[str]) -> Turn | None:
    close = closing(code, code.index("(", match.start()) + 1)
    if close is None:
        return None
    at = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
    end = statement_end(code, at)
    if end is None or (match["name"] or match["counter"]) != match["counter"]:
        return None
    first = match if match["name"] else _begun(code, opened, match)
    return _made(code, opened, match, first, (match.start(), end), (at, end), (match.end(), close))


def _while(code: str, opened: int, match: re.Match[str]) -> Turn | None:
    """One whose last statement goes on."""
    end = closing(code, match.end())
    step = re.search(rf"[;{{}}]\s*(?P<step>(?:{match['counter']}|\+\+)[^;{{}}]*);\s*$", code[match.end() - 1 : end])
    if end is None or step is None or re.search(r"\b(?:continue|do)\b", code[match.end() : end]):
        return None
    at, begun = match.end() - 1 + step.start("step"), _begun(code, opened, match)
    return _made(code, opened, match, begun, (match.start(), end + 1), (match.end() - 1, end + 1),
                 (at, at + len(step["step"])))  # fmt: skip


def _begun(code: str, opened: int, match: re.Match[str]) -> re.Match[str] | None:
    """Where a counter is set in front of its loop."""
    start = re.compile(rf"\b{match['counter']}\s*=\s*(?P<start>[^;,=]+)[;,]")
    return start.search(code, opened, match.start())


def _made(
    code: str, opened: int, match: re.Match[str], first: re.Match[str] | None, whole: tuple[int, int],
    body: tuple[int, int], goes: tuple[int, int],
) -> Turn | None:  # fmt: skip
    step, name = _STEP.fullmatch(code[slice(*goes)].strip()), match["counter"]
    if step is None or first is None or name not in (step["name"], step["same"], step["up"], step["one"]):
        return None
    if re.search(rf"&&|\|\||[?<>,]|\b{name}\b", match["end"]):
        return None  # it may end at what a round finds, which blocks would find later, or not at all
    by, start = (step["by"] or step["more"] or "1").strip(), first["start"].strip()
    declared = re.search(rf"{_KIND}\s+(?:[^;(){{}}]*,\s*)?{name}\s*[=,;]", code[opened : first.end() + 1])
    kind, at = declared["kind"] if declared is not None else "", first.start("start")
    if not kind or not _PLAIN.fullmatch(start) or not _PLAIN.fullmatch(by) or re.search(r"\w\s*\(", f"{start} {by}"):
        return None
    if re.search(r"\bgridDim\b", plain(plain(by, code), code)) or re.search(rf"\b{name}\b", f"{by} {start}"):
        return None
    return Turn(name, kind, match["end"], whole, body, (at, at + len(start), start), (*goes, by))


def _apart(code: str, opened: int, one: Turn, plainly: Callable[[str], str]) -> bool:
    """Whether a round hands nothing on, and ends where it ends."""
    rest = outside(code, [(0, opened), one.whole])
    arrays = {n for m in _ARRAY.finditer(rest) for n in re.findall(r"(\w+)\s*\[", m["names"])
              if not re.match(r"\s*(?:return|else)\b", m[0])}  # fmt: skip
    walk = _walked(code, one, plainly, arrays)
    if walk is None:
        return False
    steady = set(re.findall(r"[A-Za-z_]\w*", f"{one.start[2]} {one.by[2]} {one.end}"))
    return not (walk.jumps or walk.changed & (walk.early | steady | {one.name}))


def _walked(code: str, one: Turn, plainly: Callable[[str], str], arrays: Collection[str] = ()) -> Round | None:
    walk = Round(arrays)
    try:
        walk.walk(Parser(plainly(one.round(code)), NUMBERS["drawn"]).body(), set())
    except Unplayable:
        return None
    return walk


def _within(code: str, one: Turn, rest: str, opened: int, plainly: Callable[[str], str]) -> bool:
    """Whether what a round sets by name is asked for in no other place but where it is declared."""
    walk = _walked(code, one, plainly)
    if walk is None:
        return False
    own = re.match(rf"for\s*\(\s*{_KIND}\s", code[slice(*one.whole)]) is not None
    given = set(re.findall(r"\w+", code[:opened]))
    names = walk.changed if own else walk.changed | {one.name}
    return all(len(re.findall(rf"(?<![\w.])(?<!->){n}\b", rest)) <= (n not in given) for n in names)
