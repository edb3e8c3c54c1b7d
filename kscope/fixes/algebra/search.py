"""Searches in the rounds of a loop, which go up one by one until they find what they look for."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.fixes.algebra.rising import Moves, Rounds, each, rounds
from kscope.fixes.given.text import WRITES, Span, closing, statement_end

_HEAD = re.compile(r"\b(for|while)\s*\(")
_STEP = r"(?P<name>[A-Za-z_]\w*)\s*(?:\+\+|\+=\s*\d+)|\+\+\s*(?P<next>[A-Za-z_]\w*)"
_LEAVES = re.compile(r"\b(?:break|continue|return|goto)\b")
_BETWEEN = re.compile(r"[{}#]|\b(?:if|for|while|else|do|switch|return|break|continue|goto)\b")
_SIMPLE = re.compile(r"[\w\s+-]+")
BEGINS = re.compile(r"(?:^|[;{}])\s*(?:#\s*pragma\s+unroll[^\n]*\n\s*)?$")
_KINDS = r"(?:int|unsigned|unsigned\s+int|size_t|long|long\s+long|u?int(?:32|64)_t)"
_COMPARED = re.compile(r"^(?P<left>[^<>=!]*[^<>=!\s-])\s*(?P<op><=?|>=?)\s*(?P<right>[^<>=!]+)$")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Search(Struct, frozen=True):
    """`for (name = start; go on; step)` within a loop. `goes`: what each step asks, all of which must hold. `spans`:
    what becomes of its start; `head`: where it begins."""

    name: str
    kind: str
    start: str
    goes: tuple[str, ...]
    step: str
    spans: tuple[Span, ...]
    head: int
    loop: Rounds
    hopes: tuple[str, ...]


def searches(code: str) -> list[Search]:
    """Those of a kernel's text, outermost loops first."""
    found = []
    for loop in rounds(code):
        for match in _HEAD.finditer(code, *loop.body):
            if (one := _search(code, match, loop)) is not None:
                found.append(one)
    return found


def _search(code: str, match: re.Match[str], loop: Rounds) -> Search | None:
    made = _steps(code, match)
    step = re.fullmatch(_STEP, made[2]) if made is not None else None
    if made is None or step is None:
        return None
    parts, stops, stepped, end = made
    name, init = step["name"] or step["next"], parts[0].strip()
    moves = Moves(code, loop, name)
    goes = _all(each(parts[1], "&&"), [c for stop in stops for c in each(stop, "||")], moves)
    changed = len(_writes(name, moves.body)) != 2 or re.search(rf"(?<!&)&\s*{name}\b", code) or name == loop.name
    if goes is None or changed:
        return None
    start = _in_head(code, name, init, match, (loop, end)) if init else _in_front(code, name, match, loop)
    if start is None or not moves.stays(start[1]) or not _SIMPLE.fullmatch(start[1]) or uses(name, start[1]):
        return None
    return Search(name, start[0], start[1], goes, stepped, start[2], match.start(), loop, moves.hopes)


def _steps(code: str, match: re.Match[str]) -> tuple[list[str], list[str], str, int] | None:
    """(start and condition of a loop's head, tests that end it, its step, where it ends)."""
    close = closing(code, match.end())
    end = statement_end(code, _behind(code, close)) if close is not None else None
    if close is None or end is None:
        return None
    parts = code[match.end() : close].split(";") if match[1] == "for" else ["", code[match.end() : close], ""]
    inside = _inside(code[_behind(code, close) : end])
    if inside is None or len(parts) != 3:
        return None
    steps = [s for s in (parts[2].strip(), inside[1]) if s]
    return (parts, inside[0], steps[0], end) if len(steps) == 1 else None


def _behind(code: str, close: int) -> int:
    """Where the statement begins that follows a bracket."""
    rest = code[close + 1 :]
    return close + 1 + len(rest) - len(rest.lstrip())


def _all(asks: list[str], stops: list[str], moves: Moves) -> tuple[str, ...] | None:
    """What a step asks, if all of it holds on, and the loop's variable is in it."""
    goes = [_goes(c, moves, stop=False) for c in asks if c] + [_goes(c, moves, stop=True) for c in stops]
    said = [g for g in goes if g is not None]
    return tuple(t for t, _ in said) if len(said) == len(goes) and any(rising for _, rising in said) else None


def _inside(text: str) -> tuple[list[str], str] | None:
    """(tests that end the search, its step if it stands last) of a loop's body; None where it does anything else."""
    inner = text.strip()
    inner = inner[1:-1].strip() if inner.startswith("{") else inner
    stops = []
    while (match := re.match(r"if\s*\(", inner)) is not None:
        close = closing(inner, match.end())
        end = statement_end(inner, _behind(inner, close)) if close is not None else None
        if close is None or end is None:
            return None
        then = re.fullmatch(r"\{(?P<more>.*?)\bbreak\s*;\s*\}|break\s*;", inner[_behind(inner, close) : end], re.S)
        if then is None or _LEAVES.search(then["more"] or ""):
            return None
        stops.append(inner[match.end() : close])
        inner = inner[end:].strip()
        if re.match(r"else\b", inner):
            return None
    inner = inner.removesuffix(";").strip()
    return (stops, inner) if not inner or re.fullmatch(_STEP, inner) else None


def _goes(text: str, moves: Moves, *, stop: bool) -> tuple[str, bool] | None:
    """(what a step asks, whether it holds on as the loop's variable grows and that is in it); None where it may hold in
    one round and no more in a later one."""
    asks = f"!({text})" if stop else f"({text})"
    if moves.stays(text):
        return asks, False
    compared = _COMPARED.match(text)
    if compared is None:
        return None
    for place, other, op in (("left", "right", compared["op"]), ("right", "left", _TURNED[compared["op"]])):
        if op.startswith(">" if stop else "<") and moves.stays(compared[place]) and moves.rises(compared[other]):
            return f"!({moves.plain(text)})" if stop else f"({moves.plain(text)})", True
    return None


def _writes(name: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(WRITES.replace("{x}", name), text))


def uses(name: str, text: str) -> int:
    return len(re.findall(rf"(?<![\w.])(?<!->){name}\b", text))


def _in_head(
    code: str, name: str, init: str, match: re.Match[str], of: tuple[Rounds, int]
) -> tuple[str, str, tuple[Span, ...]] | None:  # fmt: skip
    """(type, or nothing where it has been declared, value, what becomes of it) of a start in the search's own head."""
    loop, end = of
    made = re.fullmatch(rf"(?:(?P<kind>{_KINDS})\s+)?{name}\s*=\s*(?P<value>[^=,]+)", init)
    if made is None:
        return None
    at = code.index(init, match.end())
    spans = ((at, at + len(init), ""),)
    before, after = code[loop.body[0] : match.start()], code[end : loop.body[1]]
    if made["kind"]:
        return None if uses(name, before + after) else (made["kind"], made["value"], spans)
    return ("", made["value"], spans) if _alone(code, name, loop) and not uses(name, before) else None


def _in_front(code: str, name: str, match: re.Match[str], loop: Rounds) -> tuple[str, str, tuple[Span, ...]] | None:
    """The same of a start that is a statement in front of the search."""
    before = code[: match.start()]
    made = rf"(?<=[;{{}}])\s*(?:(?P<kind>{_KINDS})\s+)?(?P<all>[^;{{}}=]*\b{name}\s*=[^;{{}}]*);"
    found = list(re.finditer(made, before))
    if not found or found[-1].start() < loop.body[0] or not BEGINS.search(before):
        return None
    start, between = found[-1], before[found[-1].end() :]
    kind, parts = start["kind"] or "", _apart(start["all"], name)
    if parts is None or (parts[1] and not kind) or uses(name, code[loop.body[0] : start.start()]):
        return None
    if _BETWEEN.search(between) or uses(name, between):
        return None
    at = start.start() + len(start[0]) - len(start[0].lstrip())
    left = f"{kind} {', '.join(parts[1])};" if parts[1] else ""
    end = start.end() + (not left and between[:1] == " ")
    elsewhere = uses(name, code[_scope(code, match.start()) : loop.body[1]]) if kind else not _alone(code, name, loop)
    return (kind, parts[0], ((at, end, left),)) if not elsewhere else None


def _apart(text: str, name: str) -> tuple[str, list[str]] | None:
    """(the value of a name, the other declarators) of a statement without brackets."""
    parts = [p.strip() for p in text.split(",")]
    mine = [p for p in parts if re.match(rf"{name}\s*=", p)]
    others = [p for p in parts if p not in mine]
    if len(mine) != 1 or uses(name, " ".join(others)) or "(" in text:
        return None
    return mine[0].partition("=")[2].strip(), others


def _alone(code: str, name: str, loop: Rounds) -> bool:
    """Whether all that stands outside a loop about a name is its declaration."""
    outside = code[: loop.start] + code[loop.body[1] :]
    made = re.search(rf"\b{_KINDS}\s+(?:[^;{{}}()]*,\s*)?{name}\s*[;,]", code[: loop.start])
    return made is not None and uses(name, outside) == 1


def _scope(code: str, at: int) -> int:
    """Where the innermost braces around a place close."""
    depth = 0
    for n in range(at, len(code)):
        depth += (code[n] == "{") - (code[n] == "}")
        if depth < 0:
            return n
    return len(code)
