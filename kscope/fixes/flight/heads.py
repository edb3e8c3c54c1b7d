"""Loops of a kernel as they are written, whatever they count by: how each begins, how long it goes on, by what."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, changed, statements
from kscope.fixes.given.text import closing, whole_end

_HEAD = re.compile(r"\b(?:for|while)\s*\(")
_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+unroll\b[^\n]*\n\s*$")
_STEP = re.compile(r"(?:\+\+|--)\s*(?P<a>\w+)|(?P<b>\w+)\s*(?:(?P<sign>[-+])=\s*(?P<by>[^=;]+)|\+\+|--)")
_CHOSEN = re.compile(r"(?P<name>\w+)\s*=\s*(?P<when>[^?;=]+)\?(?P<then>[^?:;]+):(?P<other>[^?:;]+)")


class Goes(Struct, frozen=True):
    """A statement by which a loop goes on, without its semicolon: of which name, and that name's next value."""

    name: str
    text: str
    next: str


class Head(Struct, frozen=True):
    """`for (first; test; step)` or `while (test)`. `span`: from its word to its bracket; `body`: of the statement that
    follows, `inside` its statements; `pragma`: where one that asks to unroll begins, or the loop."""

    first: str | None
    test: str
    step: str
    span: tuple[int, int]
    body: tuple[int, int]
    inside: tuple[tuple[int, int], ...]
    pragma: int


def heads(code: str, opening: int) -> Iterator[Head]:
    """Loops of a text from a place on, outermost first."""
    for match in _HEAD.finditer(code, opening):
        close = closing(code, match.end())
        if close is None or _ends_do(code, match.start()):
            continue
        parts = [p.strip() for p in code[match.end() : close].split(";")]
        at = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
        end = whole_end(code, at)
        if end is None or len(parts) != (3 if code.startswith("for", match.start()) else 1):
            continue
        braces = code[at] == "{"
        inside = statements(code, at + 1, end - 1) if braces else [(at, end)]
        pragma = _PRAGMA.search(code[: match.start()])
        first, test, step = parts if len(parts) == 3 else (None, parts[0], "")
        if inside:
            begin = pragma.start() if pragma is not None else match.start()
            yield Head(first, test, step, (match.start(), close + 1), (at, end), tuple(inside), begin)


def _ends_do(code: str, at: int) -> bool:
    """Whether a while there ends a do."""
    if not code[:at].rstrip().endswith("}"):
        return False
    close = code.rfind("}", 0, at)
    depth = 0
    for n in range(close, -1, -1):
        depth += (code[n] == "}") - (code[n] == "{")
        if not depth:
            return re.search(r"\bdo\s*$", code[:n]) is not None
    return False


def goes(statement: str) -> Goes | None:
    """What a statement goes on by: an addition, or one that is made or left."""
    text = statement.strip().rstrip(";").strip()
    step = _STEP.fullmatch(text)
    if step is not None:
        name = step["a"] or step["b"]
        sign = "-" if "--" in text or step["sign"] == "-" else "+"
        by = (step["by"] or "1").strip()
        if by.isdigit():
            return Goes(name, text, f"({name} {sign} {by})")
        return Goes(name, text, f"static_cast<decltype({name})>({name} {sign} {_alone(by)})")
    chosen = _CHOSEN.fullmatch(text)
    if chosen is not None and re.search(rf"(?<![\w.])(?<!->){chosen['name']}\b", chosen["then"] + chosen["other"]):
        return Goes(chosen["name"], text, f"({text.partition('=')[2].strip()})")
    return None


def _alone(by: str) -> str:
    return by if re.fullmatch(r"[\w.]+", by) else f"({by})"


def going(code: str, head: Head) -> list[tuple[Goes, tuple[int, int]]]:
    """What a loop goes on by: its step, and the statements at its end that change names which nothing else in it
    changes. Spans: of the statements; of the step's none."""
    body = code[slice(*head.body)]
    out = []
    for part in head.step.split(",") if head.step else []:
        one = goes(part)
        if one is None or _moved(body, one.name) or not _steady(body, one):
            return []
        out.append((one, (0, 0)))
    if re.search(r"\bcontinue\b", body):  # it passes the end of a round by
        return out
    for span in reversed(head.inside):
        one = goes(code[slice(*span)])
        if one is None or not _steady(body, one):
            break
        if _moved(body, one.name) == 1:
            out.append((one, span))
    names = {one.name for one, _ in out}
    apart = all(not names & set(re.findall(r"[A-Za-z_]\w*", one.next)) - {one.name} for one, _ in out)
    return out if apart else []  # what goes on by another one has its turn, which rounds ahead do not keep


def _moved(body: str, name: str) -> int:
    """How often a name itself is given a value, or its address taken; what it leads to may be."""
    given = rf"(?<![\w.>*])(?<!\*\s){name}\b{MODIFIED}|\*\s*{name}\s*(?:\+\+|--)"
    return len(re.findall(given, body)) + len(re.findall(rf"(?:\+\+|--|[(,=;{{?:]\s*&)\s*{name}\b(?!\s*\[)", body))


def _steady(body: str, one: Goes) -> bool:
    """Whether what a name goes on by stays the same in all rounds: a sum over data goes on by what is loaded."""
    by = one.text.partition("=")[2]
    others = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", by)) - {one.name}
    return not re.search(r"\[|->|\w\s*\(|(?:^|[(=+\-?:])\s*\*", by) and not any(changed(body, n) for n in others)
