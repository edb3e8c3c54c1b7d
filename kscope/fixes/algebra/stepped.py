"""Remainders of a number that each round of a loop moves on by the same: carried along, and below their end again by
one comparison."""

from __future__ import annotations

import re
from itertools import product

from msgspec import Struct

from kscope.fixes.algebra.rising import declared
from kscope.fixes.algebra.search import BEGINS
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.text import WRITES, Span, loops, written
from kscope.model.lazily import np

ROUNDS = 9  # that are played
_FLOW = re.compile(r"\b(?:continue|goto|break|return)\b")


class Stepped(Struct, frozen=True):
    """`name` has the remainder in each round: `spans` put its start in front of the loop, and its step at the end."""

    name: str
    spans: tuple[Span, ...]
    ran: int


def stepped(code: str, base: str, end: str, use: int) -> Stepped | None:
    """Of a number `base` modulo `end` that is used at a place in a loop; None where it moves otherwise."""
    around = [one for one in loops(code) if one.body[0] < use < one.body[1]]
    if not around or code[around[-1].body[0]] != "{":
        return None
    loop = around[-1]
    body, counter = code[slice(*loop.body)], loop.name
    counts = loop.start == "0" and loop.step in (f"{counter}++", f"++{counter}", f"{counter} += 1")
    moved = _moved(code, body, base, counter)
    before = BEGINS.search(code[: loop.span[0]])
    if moved is None or before is None or not counts or written(counter, body) or _FLOW.search(body):
        return None
    kind, value, start, step = moved
    names, name, far = set(re.findall(r"[A-Za-z_]\w*", f"{value} {end}")) - {counter}, f"{base}_within", f"{base}_step"
    if any(written(n, body) or declared(n, body) for n in names) or re.search(rf"\b(?:{name}|{far})\b", code):
        return None
    stop = f"({end})"
    made = f"{kind} {name} = {_below(' + '.join(start), stop)}, {far} = {_below(step, stop)};"
    last = f"if (({name} += {far}) >= {stop}) {name} -= {stop};"
    ran = _same(value, counter, (made, name, last), end, start[0])
    pragma = code.rfind("#", 0, loop.span[0]) if "#" in before[0] else -1
    at, more = (pragma, "\n") if pragma >= 0 else (loop.span[0], " ")
    spans = ((at, at, made + more), (loop.body[1] - 1, loop.body[1] - 1, f"{last} "))
    return Stepped(name, spans, ran) if ran else None


def _moved(code: str, body: str, base: str, counter: str) -> tuple[str, str, list[str], str] | None:
    """(type, value, what it starts from, by what each round moves it) of a number that a round defines."""
    found = re.findall(rf"\b(int|unsigned|long long|size_t)\s+{base}\s*=\s*([^;,]+);", body)
    if len(found) != 1 or len(re.findall(WRITES.replace("{x}", base), code)) != 1:
        return None
    parts = [p.strip() for p in found[0][1].split("+")]
    moved = [p for p in parts if re.search(rf"\b{counter}\b", p)]
    by = re.fullmatch(rf"{counter}(?:\s*\*\s*(\w+))?|(\w+)\s*\*\s*{counter}", moved[0]) if len(moved) == 1 else None
    start = [p for p in parts if p not in moved]
    if by is None or not start or not all(re.fullmatch(r"\w+", p) for p in start):
        return None
    return found[0][0], found[0][1].strip(), start, by[1] or by[2] or "1"


def _below(text: str, end: str) -> str:
    value = text if re.fullmatch(r"\w+", text) else f"({text})"
    return f"{value} < {end} ? {value} : {value} % {end}"


def _same(value: str, counter: str, new: tuple[str, str, str], end: str, first: str) -> int:
    """How many remainders both have in common; 0 where they differ."""
    from kscope.fixes.given.played import play

    made, name, last = new
    if first.isdigit():
        return 0
    others = sorted(set(re.findall(r"[A-Za-z_]\w*", f"{value} {end}")) - {counter, first})
    ran = 0
    for chosen in list(product((2, 3, 4, 7), repeat=len(others)))[:: max(1, 4 ** len(others) // 64)]:
        numbers = dict(zip(others, chosen, strict=True))
        memory = {n: np.zeros(1024 * ROUNDS, dtype=np.int64) for n in ("old_n", "new_n")}
        place = f"threadIdx.x * {ROUNDS} + {counter}"
        loop = f"for (int {counter} = 0; {counter} < {ROUNDS}; {counter}++)"
        both = f"old_n[{place}] = ({value}) % ({end}); new_n[{place}] = {name};"
        try:
            text = f"{{ int {first} = threadIdx.x; {made} {loop} {{ {both} {last} }} }}"
            play(text, (1, 1), (1024, 1), memory, numbers)
        except Unplayable:
            return 0
        if not np.array_equal(memory["old_n"], memory["new_n"]):
            return 0
        ran += 1024 * ROUNDS
    return ran
