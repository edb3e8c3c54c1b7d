"""Divisions of 64-bit integers whose operands fit in 32 bits: what the profiled launch shows, as each such division
asks whether they do, and goes another way where they do not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from kscope.features.patterns.math_functions import integer_divisions
from kscope.features.sass.branches import targets_of
from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.fixes.compute.widths import made, plainly
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, split_declarators
from kscope.fixes.given.text import Span, kernel_text, spans_edited
from kscope.fixes.rows.function import constants as defined
from kscope.isa.families import family
from kscope.model.contract.fixes import Condition, Fix, Proof

_WIDE = r"(?:(?:unsigned\s+)?long(?:\s+long)?(?:\s+int)?|u?int64_t|size_t|ptrdiff_t)"
_PARAMETER = re.compile(rf"[(,]\s*(?:const\s+)?(?P<type>{_WIDE})\s+(?:const\s+)?(?P<name>\w+)\s*(?=[,)])", re.ASCII)
_LOCAL = re.compile(rf"(?<=[;{{}}(])\s*(?:const\s+)?(?P<type>{_WIDE})\s+(?P<rest>[^;{{}}]+);", re.ASCII)
_NARROW = re.compile(
    r"\b(?:int|unsigned|short|char|bool|u?int(?:8|16|32)_t)\s+(?:const\s+)?(?P<rest>\w+(?:\s*=[^;,(){}]*)?"
    r"(?:,\s*\w+(?:\s*=[^;,(){}]*)?)*)\s*(?=[=;,)>])", re.ASCII
)  # fmt: skip
_OTHER = r"\b(?:int|unsigned|short|char|bool|float|double|uint32_t|int32_t|auto)\s+{name}\b"
_CHAIN = re.compile(r"(?<!\*)[/%](?![=/*])")
_ASSIGNED = re.compile(r"[/%]=")
_BOUND = re.compile(r"(?:[*)~!.]|(?:^|[^\w\s)\]]|return)\s*[-+])\s*$", re.ASCII)  # binds an operand from in front of it
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DIMENSION = r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]\b"
_LAUNCH = re.compile(_DIMENSION)
_PLAIN = re.compile(rf"(?:{_DIMENSION}|[\w\s*+-])*", re.ASCII)
_FLOAT = re.compile(r"\b\d+[eE]\d+|\b\d+[fF]\b", re.ASCII)
_FLOATS = (
    r"\b(?:float|double|half|__half|\w*bfloat16)[\s*&]+(?:(?:const|__restrict__)\s+)*"
    r"(?:[*&]?\w+(?:\[\w*\]|\s*=[^;,(){{}}]*)?\s*,\s*)*[*&]?{name}\s*[=;,)\[]"
)


class _Chain(Struct, frozen=True):
    """`a / b % c`: where it stands, its first operand, (operator, divisor) of the others."""

    span: tuple[int, int]
    first: str
    rest: tuple[tuple[str, str], ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    tests = short_ways(code)
    text = kernel_text(setting)
    if text is None or setting.launch is None or not tests:
        return []
    lines, read = setting.lines(text.file), plainly(setting, text)
    by_value = made(read)
    wide = _wide_names(read) | {n: kind for n, kind in by_value.items() if "long" in kind}
    spans = _spans(text.code, wide, {*constants(lines), *defined(lines, text.code), *by_value}, read)
    edits = spans_edited(setting, text, spans) if spans else []
    if not edits:
        return []
    return [
        Fix(
            kind="index_width",
            title="divisions of 64-bit integers by 32-bit ones: all operands fit",
            language="cuda",
            edits=edits,
            conditions=[
                proved("no operand of this launch is negative or takes more than 32 bits", "code", tests,
                       "each 64-bit division asks for it, and the way of those that do not fit was never executed"),
                Condition(holds="other launches are no larger", state="check", why="2^32 and more no longer fit"),
            ],
            proof=[
                Proof(
                    what="questions of warps whether operands fit", before=total(code.executed, tests), after=0,
                    unit="inst", how=f"branches around the 64-bit way of {len(tests)} divisions, executions counted",
                )
            ],
        )
    ]  # fmt: skip


def short_ways(code: Listing) -> list[int]:
    """Branches around the 64-bit way of an integer division, where none of these ways was ever gone; none where one
    was, so that not all operands fit in 32 bits, or where none was looked for."""
    wide = code.where(lambda ins, op: ins.opcode in family("integer_to_float") and "U64" in ins.mods)
    if not wide or code.ran(wide) or not integer_divisions(code):
        return []
    targets, calls, _ = targets_of(code.program)
    entries = {max((to for to in calls.values() if to <= w), default=w) for w in wide}
    slow = {i for i, to in calls.items() if to in entries} | set(wide)
    out = []
    for i in code.ran(code.where(lambda ins, op: ins.opcode == "BRA")):
        inside = range(i + 1, max(targets.get(i, [0])))
        if slow & set(inside) and not code.ran(inside):
            out.append(i)
    return out


def _wide_names(code: str) -> dict[str, str]:
    """Names of 64-bit integers with their types, those left out that something else is called, too."""
    found = {m["name"]: m["type"] for m in _PARAMETER.finditer(code)}
    for match in _LOCAL.finditer(code):
        for part in split_declarators(match["rest"]):
            name = re.match(r"\s*(\w+)\s*(?:=|$)", part)
            if name is not None:
                found[name[1]] = match["type"]
    return {n: " ".join(t.split()) for n, t in found.items() if not re.search(_OTHER.format(name=n), code)}


def _spans(code: str, wide: dict[str, str], known: Collection[str] = (), read: str = "") -> list[Span]:
    """Every division of 64-bit integers by a number that the compiler does not know, in 32 bits; none where one of
    them is not understood: what is left in 64 bits would be computed beside it. known: names of other integers. read:
    the code with the types that it has."""
    out: list[Span] = []
    whole = {*wide, *known, *_narrow_names(read or code)}
    if any(n in wide for m in _ASSIGNED.finditer(code) for n in _NAME.findall(_around(code, m.start()))):
        return []
    for chain in _chains(code):
        if isinstance(chain, str):
            if any(n in wide for n in _NAME.findall(chain)):
                return []
            continue
        taken = _taken(chain, read or code, wide, whole)
        if taken is None:
            return []
        if taken:
            out.append(_in_32_bits(code, chain, [wide[n] for n in _names(chain) if n in wide]))
    return out


def _names(chain: _Chain) -> list[str]:
    return [n for part in (chain.first, *(d for _, d in chain.rest)) for n in _NAME.findall(_LAUNCH.sub("", part))]


def _taken(chain: _Chain, code: str, wide: Collection[str], whole: Collection[str]) -> bool | None:
    """Whether divisions are of 64-bit integers by what the compiler does not know; None where that is not clear."""
    parts, names = (chain.first, *(d for _, d in chain.rest)), _names(chain)
    if any(_FLOAT.search(part) for part in parts) or any(re.search(_FLOATS.format(name=n), code) for n in names):
        return False  # of floats
    if all(d.isdigit() for d in parts[1:]):
        return False
    if not any(n in wide for part in parts[:2] for n in _NAME.findall(part)):
        return None if any(n in wide for n in names) else False
    return True if all(_NAME.search(d) for d in parts[1:]) and all(n in whole for n in names) else None


def _in_32_bits(code: str, chain: _Chain, kinds: Sequence[str]) -> Span:
    """kinds: of the 64-bit integers; what is divided stays of the type that it was of, wherever that is asked."""
    new = f"(unsigned){chain.first}" + "".join(f" {op} (unsigned){d}" for op, d in chain.rest)
    before, after = code[: chain.span[0]].rstrip(), code[chain.span[1] :].lstrip()
    alone = re.search(r"(?<![=<>!+*/%&|^-])=$", before) and after[:1] in (",", ";")
    kind = next((k for k in kinds if k.startswith(("u", "size_t"))), kinds[0])
    deduced = re.search(r"\bauto\b", re.split(r"[;{}]", before)[-1])
    return (*chain.span, new if alone and not deduced else f"({kind})({new})")


def _narrow_names(code: str) -> set[str]:
    """Names of integers of 32 bits and less, of the text and of its template."""
    return {n for m in _NARROW.finditer(code) for part in split_declarators(m["rest"]) for n in _NAME.findall(part)[:1]}


def _chains(code: str) -> Iterator[_Chain | str]:
    """Divisions one behind the other; what stands around one whose operands are more than names, and brackets around
    sums and products, indices left out."""
    done = 0
    for match in _CHAIN.finditer(code):
        if match.start() < done:
            continue
        first, at, rest = _before(code, match.start()), match.start(), list[tuple[str, str]]()
        while first is not None and (sign := re.match(r"\s*([/%])(?![=/*])\s*", code[at:])) is not None:
            divisor = _after(code, at + sign.end())
            if divisor is None:
                break
            rest.append((sign[1], code[at + sign.end() : divisor]))
            at = divisor
        done = at
        more = re.match(r"\s*(?:\*|[/%](?!=))", code[at:])
        if first is None or not rest or more is not None or _BOUND.search(code[max(0, first - 8) : first]):
            yield _around(code, match.start())
        else:
            yield _Chain((first, at), code[first : match.start()].strip(), tuple(rest))


def _around(code: str, at: int) -> str:
    """The part of a statement that a place is in, without what stands in square brackets."""
    start = max(code.rfind(c, 0, at) for c in ";{}")
    end = min((n for c in ";{}" if (n := code.find(c, at)) >= 0), default=len(code))
    text = code[start + 1 : end]
    while (less := re.sub(r"\[[^][]*\]", "", text)) != text:
        text = less
    return text


def _before(code: str, at: int) -> int | None:
    """Where the operand begins that ends in front of a place."""
    end = len(code[:at].rstrip())
    if code[end - 1 : end] == ")":
        depth = 0
        for n in range(end - 1, -1, -1):
            depth += (code[n] == ")") - (code[n] == "(")
            if not depth:
                inner = code[n + 1 : end - 1]
                return n if _PLAIN.fullmatch(inner) and not re.search(r"[\w>\]]\s*$", code[:n]) else None
        return None
    name = re.search(rf"(?:{_DIMENSION}|(?<![\w.>\]])[A-Za-z_]\w*)$", code[:end], re.ASCII)
    return name.start() if name is not None else None


def _after(code: str, at: int) -> int | None:
    """Where the operand ends that begins at a place."""
    if code[at : at + 1] == "(":
        close = code.find(")", at)
        return close + 1 if close > 0 and _PLAIN.fullmatch(code[at + 1 : close]) else None
    name = re.match(rf"{_DIMENSION}|\w+(?!\w|\s*[(\[.]|\s*->)", code[at:], re.ASCII)
    return at + name.end() if name is not None else None
