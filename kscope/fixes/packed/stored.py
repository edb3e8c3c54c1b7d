"""Stores of pairs that a counting loop moves: whether a round may store what the next ones will."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import Loop, closing, loops, plain

QUAD, PAIR, WHOLE = 4, 4, 16  # lanes, bytes that each stores, bytes that it may store at once
LONGEST = 200  # characters of an index, with what its names stand for: more are not evaluated
OF, N, ONE = "pairs_of", "quad_n", "pair_of"
_PAIRS = r"unsigned(?:\s+int)?|uint32_t|int|half2|__half2|__nv_bfloat162|nv_bfloat162|bf162"
_HALVES = r"__half|half|__nv_bfloat16|nv_bfloat16|bf16|short|unsigned short|uint16_t"
_STORE = re.compile(
    rf"\*\s*(?:\(\s*(?P<kind>{_PAIRS})\s*\*\s*\)\s*|reinterpret_cast\s*<\s*(?P<kind2>{_PAIRS})\s*\*\s*>\s*(?=\())(?=[(&])"
)
_PLACE = re.compile(rf"^(?:\(\s*(?:\(\s*(?:{_HALVES})\s*\*\s*\)\s*)?(?P<array>\w+)\s*\+(?P<at>.*)\)|"
                    r"\(?\s*&\s*(?P<array2>\w+)\s*\[(?P<at2>.*)\]\s*\)?)$", re.S)  # fmt: skip
_WIDE = re.compile(r"\*\s*(?:\([\w\s]+\*\s*\)|reinterpret_cast\s*<[^<>]*>)\s*(?=[(&])")
_STATEMENT = re.compile(r"(?:(?<=[;{})])|\belse\b)\s*(?P<name>\w+)(?:\s+volatile)?\s*(?:<[^;<>]*>)?\s*\([^;]*;")
_ELSE = re.compile(r"\s*else\b")
_ELEMENT = r"\s*(?:\[[^;={}]*\]\s*)?(?:\.\s*\w+\s*)?"
NAME = r"(?<![\w.])(?<!->)[A-Za-z_]\w*"


class Stored(Struct, frozen=True):
    """`*(kind*)place = value;` in rounds of `loop`, whose counter moves the place by eight elements."""

    span: tuple[int, int]
    kind: str
    place: str
    value: str
    loop: Loop


def stored(code: str) -> list[Stored]:
    """Stores of pairs whose values and places a counting loop moves, by eight elements of two bytes a round."""
    out: list[Stored] = []
    if {OF, N, ONE} & set(re.findall(NAME, code)):
        return out
    for match in _STORE.finditer(code):
        equals = _assigned(code, match.end())
        end = code.find(";", match.end())
        around = [x for x in loops(code) if x.body[0] <= match.start() < x.body[1]]
        if equals is None or end < 0 or re.search(r"[;{}]|\)|else$", code[: match.start()].rstrip()[-4:]) is None:
            continue
        place, value = code[match.end() : equals].strip(), code[equals + 1 : end].strip()
        for loop in around:
            one = Stored((match.start(), end + 1), match["kind"] or match["kind2"], place, value, loop)
            if _moves(code, one):
                out.append(one)
    return out


def _assigned(code: str, at: int) -> int | None:
    """Where the sign of an assignment stands behind a place."""
    n = at
    while n < len(code) and code[n] not in ";{}":
        if code[n] in "([":
            close = closing(code, n + 1)
            if close is None:
                return None
            n = close
        elif code[n] == "=":
            return n if code[n + 1 : n + 2] != "=" and code[n - 1] not in "+-*/|&^<>!" else None
        n += 1
    return None


def _moves(code: str, one: Stored) -> bool:
    """Whether the counter moves the place by eight elements, and the value by nothing that was made of it before."""
    j = one.loop.name
    if not re.search(rf"(?<![\w.])(?<!->){j}\b", one.value) or one.loop.start != "0" or "++" not in one.loop.step:
        return False
    body = code[one.loop.body[0] : one.span[0]]
    made = set(re.findall(rf"\b[A-Za-z_]\w*\s+\*?\s*({NAME})\s*(?:\[[^][]*\]\s*)*=(?!=)", body))
    made -= set(re.findall(rf"\bfor\s*\(\s*int\s+({NAME})\s*=", body))
    if made & set(re.findall(NAME, one.value)) or re.search(r"\+\+|--|=", one.value):
        return False
    place = _PLACE.match(one.place)
    array = (place["array"] or place["array2"]) if place is not None else ""
    if _changed(code, one) or (array and _read(code, one, array)):
        return False
    index = (place["at"] or place["at2"]) if place is not None else ""
    whole = re.search(rf"\(\s*(?:{_HALVES})\s*\*\s*\)\s*{array}\b", one.place) if array else None
    typed = re.search(rf"\b(?:{_HALVES})\s*\*\s*(?:__restrict__\s+)?{array}\b", code) if array else None
    return bool((whole or typed) and _step(code, index, j) == QUAD * PAIR // 2)


def _changed(code: str, one: Stored) -> bool:
    """Whether a round may leave before its end, or changes, or hands to a function, what the value is of: what a later
    round will store is not there yet; or whether an `else` follows, which the new test would take for its own."""
    start, end = one.loop.body
    body = re.sub(r'"[^"\n]*"', '""', f"{code[start : one.span[0]]} {code[one.span[1] : end]}")
    body = re.sub(r"\bfor\s*\(\s*(?:int|unsigned|size_t)\s+\w+\s*=[^;]*;[^;]*;[^;{}()]*\)", " ", body)
    handed = " ".join(m[0] for m in _STATEMENT.finditer(body) if m["name"] not in ("if", "for", "while", "switch"))
    for name in set(re.findall(rf"{NAME}(?!\s*\()", one.value)) - {one.loop.name}:
        writes = rf"(?<![\w.])(?<!->){name}\b{_ELEMENT}(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{name}\b"
        if re.search(writes, body) or re.search(rf"(?<!&)&\s*{name}\b", body) or re.search(rf"\b{name}\b", handed):
            return True
    leaves = re.search(r"\b(?:break|continue|return|goto)\b", body)
    return leaves is not None or _ELSE.match(code, one.span[1]) is not None


def _read(code: str, one: Stored, array: str) -> bool:
    """Whether a round asks for the array but to store to it: what a later one finds there may be stored by then."""
    start, end = one.loop.body
    rest, at = "", start
    for match in _WIDE.finditer(code, start, end):
        equals = _assigned(code, match.end())
        if equals is not None and match.start() >= at:
            rest, at = rest + code[at : match.start()], equals
    rest = rest + code[at:end].replace(code[one.span[0] : one.span[1]], "")
    return re.search(rf"(?<![\w.])(?<!->){array}\b", rest.replace(one.value, "")) is not None


def _step(code: str, index: str, j: str) -> int | None:
    """Elements that an index moves by in a round; None where that is not the same for all values of the other names."""
    text, made = plain(index), _made_of(code, j)
    for _ in range(len(made)):
        for name, value in made.items():
            text = re.sub(rf"(?<![\w.])(?<!->){name}\b", f"({plain(value)})", text)
        if len(text) > LONGEST:
            return None
    text = re.sub(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])\b", r"\1_\2", text)
    names = sorted(set(re.findall(NAME, text)) - {j})
    found = set()
    for times in (1, 2, 5):
        known = {name: (7 * n + 3) * times for n, name in enumerate(names)}
        ends = [evaluated(f"({text})", {**known, j: round_}) for round_ in (1, 2, 4)]
        if ends[0] is None or ends[1] is None or ends[2] is None or ends[2] - ends[1] != 2 * (ends[1] - ends[0]):
            return None
        found.add(ends[1] - ends[0])
    return found.pop() if len(found) == 1 else None


def _made_of(code: str, j: str) -> dict[str, str]:
    """Names that are set once, of a counter or of others that are made of it, with what they are."""
    found: dict[str, str] = {}
    set_ = re.findall(rf"({NAME})\s*=(?!=)\s*([^;,]*)[;,]", code)
    for _ in range(3):
        for name, value in set_:
            once = len([n for n, _ in set_ if n == name]) == 1
            again = re.search(rf"(?<![\w.])(?<!->){name}\s*(?:[-+*/]=|\+\+)", code)
            if name != j and once and not again and {j, *found} & set(re.findall(NAME, value)):
                found[name] = value
    return found
