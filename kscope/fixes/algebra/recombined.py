"""Places that divisions take apart and sums put together again: without them, or by one remainder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

from msgspec import Struct, structs

from kscope.arch import table
from kscope.features.patterns.math_functions import integer_divisions
from kscope.fixes.algebra.digits import WITHIN, Digits, Sum, Unknown, known, product_of, term
from kscope.fixes.algebra.rising import leaves, parsed
from kscope.fixes.algebra.stepped import stepped
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.rewrite import Call, calls_of, replaced
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import WRITES, Span, by_lines, closing, kernel_text, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

_WHOLE = r"(?:const\s+)?(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|int|unsigned|size_t|long|u?int(?:32|64)_t)"
_DECLARED = re.compile(rf"(?<=[;{{}}])\s*(?P<kind>{_WHOLE})\s+(?P<rest>[^;{{}}()]*(?:\([^;{{}}]*\)[^;{{}}()]*)*);")
_PARAMETER = re.compile(rf"[(,]\s*{_WHOLE}\s+(?P<name>\w+)\s*(?=[,)])")
_PLACE = re.compile(r"(?<=[\w\]])\s*\[")
_DIVIDES = re.compile(r"(?<![/*])[/%](?![/*=])\s*(?!\d)|\bDivider\b")
_DIMENSIONS = frozenset({"blockDim.x", "gridDim.x"})
Statement = tuple[int, int, str, list[tuple[str, str]]]
"""(start, end, type, [(name, value)])"""
CODE = f"""template <class T, class N> __device__ __forceinline__ T {WITHIN}(T a, N n) {{  // a % n, a >= 0
  if constexpr (sizeof(T) > 4 || sizeof(N) > 4) return a < n ? a : a % n;
  unsigned d = (unsigned)n, r = (unsigned)a - __umulhi((unsigned)a, 0xffffffffu / d) * d;
  return (T)(r >= d ? r - d : r);
}}"""
REMAINDER = 4  # its instructions, but for the division of n's own (nvcc 13.0, sm_90)
EDGES = (1, 2, 3, 5, 7, 10, 641, 65535, 65536, 65537, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1)
PLAYED = (2, 3, 4, 7)  # that sizes of the launch are taken for, each with each of the others
MOST = 4  # sizes


class Recombined(Struct, frozen=True):
    """The spans of the new text; what it takes remainders by; how many values of both were compared;
    whether the remainder is carried from round to round."""

    spans: tuple[Span, ...]
    compared: tuple[str, ...]
    ran: int
    carried: bool = False


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    divisions = integer_divisions(setting.code)
    one = recombined(text.code) if text is not None and divisions else None
    edits = spans_edited(setting, text, by_lines(text.code, one.spans)) if text is not None and one is not None else []
    if one is None or not edits:
        return []
    after = REMAINDER / len(divisions) if one.compared else 0
    twice = "2 * " * one.carried
    why = f"{'twice ' * one.carried}what is indexed"
    wide = [Condition(holds=f"{twice}{x} fits in its factors' type", state="check", why=why) for x in one.compared]
    checked, right = _right()
    exact = shown(right, "remainders are exact for 0 <= a < 2^32 and 1 <= n < 2^32", "values", checked,
                  "the quotient is at most one too small, and is corrected")  # fmt: skip
    positive = Condition(holds="no number that is divided is negative", state="check", why="its remainder is")
    cost = table("functions")["integer_division"]["instructions"]
    way = "a comparison a round" if one.carried else "a multiplication"
    ways = f": modulo {', '.join(one.compared)} by {way}" if one.compared else ""
    return [
        Fix(
            kind="divisor",
            title=f"places that divisions took apart and sums put together again, as they were{ways}",
            language="cuda",
            code=CODE if one.compared and not one.carried else "",
            edits=edits,
            conditions=[
                proved("each place is what it was", "values", one.ran,
                       "both expressions played for numbers up to three times the largest place, in several sizes"),
                *([exact] if one.compared and not one.carried else []),
                *([positive] if one.compared else []),
                *wide,
            ],
            proof=[
                Proof(what="instructions a division", before=cost, after=after, unit="inst",
                      how=f"compiled by nvcc 13.0 for sm_90; {len(divisions)} divisions before"),
                Proof(what="values that are the same", before=one.ran, after=one.ran, how="in several sizes"),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def recombined(code: str) -> Recombined | None:
    """The new text of a kernel; None where nothing of it divides less."""
    head = code[: code.find("{")]
    sizes = frozenset(m["name"] for m in _PARAMETER.finditer(head) if not _writes(m["name"], code)) | _DIMENSIONS
    names, statements = _defined(code)
    one = Recombined((), (), 0)
    for places in (_indices(code), _values(code, statements)):
        one = _with(code, one, places, names, sizes)
        one = _carried(code, one)
        one = structs.replace(one, spans=(*one.spans, *_unused(code, one.spans, statements)))
    text = code
    for start, end, new in sorted(one.spans, reverse=True):
        text = text[:start] + new + text[end:]
    fewer = len(_DIVIDES.findall(text)) < len(_DIVIDES.findall(code))
    return one if one.ran and fewer and WITHIN not in code else None


def _with(
    code: str, one: Recombined, places: Sequence[tuple[int, int]], names: Mapping[str, Node], sizes: frozenset[str]
) -> Recombined:  # fmt: skip
    """With the simpler ones of some places, those left out whose text is gone already."""
    spans, compared, ran = list(one.spans), list(one.compared), one.ran
    for start, end in places:
        gone = any(s[0] < end and start < s[1] for s in one.spans)
        found = _simpler(code[start:end], names, sizes) if not gone else None
        if found is None or not all(_steady(t.digit.base, code) for t in found[1] if t.digit is not None):
            continue
        count = _same(code[start:end], found[0], names, found[1])
        if count:
            spans.append((start, end, found[0]))
            compared += [e for e in found[2] if e not in compared]
            ran += count
    return structs.replace(one, spans=tuple(spans), compared=tuple(compared), ran=ran)


def _carried(code: str, one: Recombined) -> Recombined:
    """With the remainder carried along, where its number moves on by the same in each round of a loop."""
    mine = [(s, call) for s in one.spans for call in calls_of(s[2], WITHIN)]
    if len(mine) != 1:
        return one
    ((start, end, new), call), *_ = mine
    base, over = call.arguments
    found = stepped(code, base, over, start)
    if found is None:
        return one
    spans = [s for s in one.spans if s != (start, end, new)]
    spans.append((start, end, new[: call.start] + found.name + new[call.end :]))
    return structs.replace(one, spans=(*spans, *found.spans), ran=one.ran + found.ran, carried=True)


def _steady(name: str, code: str) -> bool:
    """Whether a number that is divided is given one value, or one for each round of a loop in that loop's head."""
    writes = _writes(name, code)
    if len(writes) == 1:
        return True
    for match in re.finditer(r"\bfor\s*\(", code):
        close = closing(code, match.end()) or match.end()
        declared = re.match(rf"\s*{_WHOLE}\s+{name}\s*=", code[match.end() : close])
        if declared is not None and writes and all(match.end() <= w.start() < close for w in writes):
            return True
    return False


def _writes(name: str, code: str) -> list[re.Match[str]]:
    return list(re.finditer(rf"{WRITES.replace('{x}', name)}|(?<!&)&\s*{name}\b", code))


def _defined(code: str) -> tuple[dict[str, Node], list[Statement]]:
    """What local whole numbers are that are given one value, and the statements that give it."""
    names, statements = dict[str, Node](), list[Statement]()
    for match in _DECLARED.finditer(code):
        parts = [p.partition("=") for p in split_declarators(match["rest"])]
        made = [(name.strip(), value.strip()) for name, _, value in parts]
        if not all(re.fullmatch(r"\w+", name) and value for name, value in made):
            continue
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        statements.append((start, match.end(), match["kind"], made))
        for name, value in made:
            node = parsed(value)
            if node is not None and len(_writes(name, code)) == 1:
                names[name] = node
    return names, statements


def _indices(code: str) -> list[tuple[int, int]]:
    """Where indices stand, those within others left out."""
    out = list[tuple[int, int]]()
    for match in _PLACE.finditer(code):
        close = closing(code, match.end())
        if close is not None and not (out and match.start() < out[-1][1]):
            out.append((match.end(), close))
    return out


def _values(code: str, statements: Sequence[Statement]) -> list[tuple[int, int]]:
    """Where the values of whole numbers stand that are given one."""
    found = [(code.find(v, start, end), v) for start, end, _, made in statements for _, v in made if "[" not in v]
    return [(at, at + len(value)) for at, value in found if at >= 0]


def _simpler(text: str, names: Mapping[str, Node], sizes: frozenset[str]) -> tuple[str, Sum, list[str]] | None:
    """(an expression with fewer divisions, as a sum, what it takes remainders by)."""
    node = parsed(text)
    if node is None or not {n for n, array in leaves(node) if not array}:
        return None
    digits = Digits(names, sizes)
    try:
        found = digits.of(node)
    except Unknown:
        return None
    left = [t.digit for t in found if t.digit is not None and t.digit.divided]
    if len(left) >= len(digits.used) or any(d.over for d in left) or not found:
        return None
    ends = [product_of(d.of) for d in left if d.of and not known(d.of)]
    plus, minus = ([term(t.by, t.digit) for t in found if t.sign == sign] for sign in (1, -1))
    return (" - ".join([" + ".join(plus), *minus]), found, ends) if plus else None


def _unused(code: str, spans: Sequence[Span], statements: Sequence[Statement]) -> list[Span]:
    """Statements whose names nobody asks for any more, without these names."""
    gone = set[str]()
    before = {name for _, _, _, made in statements for name, _ in made}
    while True:
        asked = {n for n in before - gone if _asks(code, spans, statements, gone, n)}
        if before - gone == asked:
            break
        gone = before - asked
    out: list[Span] = []
    for start, end, kind, made in statements:
        kept = [(name, value) for name, value in made if name not in gone]
        inside = [s for s in spans if start <= s[0] < end]
        if len(kept) < len(made) and not inside:
            new = f"{kind} {', '.join(f'{n} = {v}' for n, v in kept)};" if kept else ""
            out.append((start, end + (not kept and code[end : end + 1] == " "), new))
    return out


def _asks(code: str, spans: Sequence[Span], statements: Sequence[Statement], gone: set[str], name: str) -> bool:
    """Whether the new text uses a name that it declares."""
    text, cut = code, list(spans)
    for start, end, _, made in statements:
        if any(n in gone for n, _ in made) and not any(start <= s[0] < end for s in spans):
            kept = [f"{n} = {v}" for n, v in made if n not in gone]
            cut.append((start, end, f"int {', '.join(kept)};" if kept else ""))
    for start, end, new in sorted(cut, reverse=True):
        text = text[:start] + new + text[end:]
    return len(re.findall(rf"(?<![\w.])(?<!->){name}\b", text)) > 1


def _same(old: str, new: str, names: Mapping[str, Node], found: Sum) -> int:
    """How many values both have in common; 0 where they differ."""
    from kscope.fixes.given.played import play

    node = parsed(old)
    bases = sorted({t.digit.base for t in found if t.digit is not None})
    if node is None or len(bases) != 1:
        return 0
    (base,) = bases
    whole = _text(node, {n: v for n, v in names.items() if n != base})
    others = sorted(set(re.findall(r"[A-Za-z_]\w*", f"{whole} {new}")) - {base})
    ran = 0
    for chosen in list(product(PLAYED, repeat=len(others)))[:: max(1, 4 ** len(others) // 64)]:
        numbers = dict(zip(others, chosen, strict=True))
        step = max(1, 3 * int(np.prod(chosen)) // 4096)
        memory = {"old_n": np.zeros(4096, dtype=np.int64), "new_n": np.zeros(4096, dtype=np.int64)}
        start = f"{{ int at_n = blockIdx.x * 1024 + threadIdx.x; int {base} = at_n * {step} + at_n % {step};"
        both = f"old_n[at_n] = {whole}; new_n[at_n] = {replaced(new, WITHIN, _within)}; }}"
        try:
            play(f"{start} {both}", (4, 1), (1024, 1), memory, numbers)
        except Unplayable:
            return 0
        if not np.array_equal(memory["old_n"], memory["new_n"]):
            return 0
        ran += 4096
    return ran


def _within(call: Call) -> str:
    return f"({call.arguments[0]} % ({call.arguments[1]}))"


def remainder(a: int, d: int) -> int:
    """What the printed code computes, in 32 bits."""
    r = a - (a * (0xFFFFFFFF // d) >> 32) * d & 0xFFFFFFFF
    return r - d & 0xFFFFFFFF if r >= d else r


def _right() -> tuple[int, bool]:
    pairs = {(n + o & 0xFFFFFFFF, d) for d in EDGES for n in (0, *EDGES, *(k * d for k in EDGES)) for o in (-1, 0, 1)}
    return len(pairs), all(remainder(n, d) == n % d for n, d in pairs)


def _text(node: Node, names: Mapping[str, Node]) -> str:
    """An expression as text, names that have one value put in."""
    if node[0] == "number":
        return str(int(node[1]))
    if node[0] == "name":
        return _text(names[node[1]], names) if node[1] in names else str(node[1])
    if node[0] == "cast":
        return _text(node[2], names)
    if node[0] == "unary":
        return f"({node[1]}{_text(node[2], names)})"
    return f"({_text(node[2], names)} {node[1]} {_text(node[3], names)})" if node[0] == "binary" else "0 / 0"
