"""What a round's copy calls, written out where it is called; addresses of tiles as numbers, taken where they are used:
a ring's tiles are other ones in each round."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kscope.fixes.atomics.effects import changed, touched
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, closing, outside, statement_end

Piece = tuple[int, int]
_LAMBDA = re.compile(r"\bauto\s+(?P<name>\w+)\s*=\s*\[\s*[&=]\s*\]\s*\(")
_FUNCTION = re.compile(
    r"(?:static\s+|inline\s+|__forceinline__\s+|__noinline__\s+)*__device__\s+"
    r"(?:static\s+|inline\s+|__forceinline__\s+)*void\s+(?P<name>\w+)\s*\("
)
_PARAMETER = re.compile(
    r"(?:const\s+)?(?P<kind>[A-Za-z_][\w\s]*?)(?P<star>\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?|\s+)(?P<name>\w+)"
)
_DECLARED = re.compile(
    r"(?:^|[;{}(])\s*(?:#[^\n]*\n\s*)*(?:const(?:expr)?\s+)?(?!return\b|else\b|asm\b)[A-Za-z_][\w:]*(?:<[\w, ]*>)?"
    r"(?:\s+(?:int|long|char))*(?:\s+|\s*[*&]\s*)(?=[A-Za-z_*])(?P<names>[^;{}]*)"
)
_ADDRESS = re.compile(
    r"(?<![\w(,])(?:const\s+)?(?:unsigned\s+int|unsigned|u?int32_t|int|auto)\s+(?:const\s+)?(?P<name>\w+)\s*="
    r"\s*(?P<value>[^;{},]*(?:\([^;{}]*\)[^;{},]*)*);"
)
_AS_NUMBER = r"__cvta_generic_to_shared"
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_TEMPLATE = r"template\s*<[^<>{};]*>\s*$"
_RETURNS = re.compile(r"\b(?:return|static|goto)\b")


class Body(Struct, frozen=True):
    """What is called: its name, where it stands in the kernel (-1: it does not), types and names of its parameters (no
    type: a pointer), the text in its braces and where that ends; whether it keeps values of the names that it sees."""

    name: str
    start: int
    parameters: tuple[tuple[str, str], ...]
    text: str
    end: int
    by_value: bool = False


def written_out(copy: str, code: str, loop: Loop, around: str) -> tuple[str, list[Piece]]:
    """A copy with what it calls in place, and where the lambdas stand that nobody else calls. around: the file."""
    gone: list[Piece] = []
    inside = {loop.name} | declared(code[slice(*loop.body)])
    for one in _bodies(code[: loop.span[0]], around):
        # A function sees none of the kernel's names, a lambda by value those that were there.
        taken = inside | (declared(code) | _given(code) if one.start < 0 else set())
        taken |= changed(code[one.end : loop.body[1]]) if one.by_value else set()
        for call in reversed(calls_of(copy, one.name)):
            new = _placed(one, call.arguments, taken)
            stop = call.end + len(copy[call.end :]) - len(copy[call.end :].lstrip())
            if new is None or copy[stop : stop + 1] != ";" or not re.search(r"(?:^|[;{})\n])\s*$", copy[: call.start]):
                continue
            copy = copy[: call.start] + new + copy[stop + 1 :]
            piece, mine = (one.start, one.end), one.start >= 0
            if mine and not re.search(rf"\b{one.name}\b", outside(code, [piece, loop.body])) and piece not in gone:
                gone.append(piece)
    return copy, gone


def _bodies(before: str, around: str) -> Iterator[Body]:
    """Lambdas in front of a loop, and a file's functions, that have one body and are no templates."""
    for pattern, text in ((_LAMBDA, before), (_FUNCTION, around)):
        found = list(pattern.finditer(text))
        for match in found:
            close = closing(text, match.end())
            opened = text.find("{", close) if close is not None else -1
            end = closing(text, opened + 1) if opened >= 0 else None
            several = sum(m["name"] == match["name"] for m in found) > 1 or re.search(_TEMPLATE, text[: match.start()])
            if close is None or end is None or several or text[close + 1 : opened].strip():
                continue
            given = [p for p in split_declarators(text[match.end() : close]) if p.strip()]
            parts = [_PARAMETER.fullmatch(" ".join(p.split())) for p in given]
            if all(parts) and not _RETURNS.search(text[opened:end]):
                takes = tuple(("" if "*" in m["star"] else m["kind"], m["name"]) for m in parts if m is not None)
                stop = end + 1 + (text[end + 1 : end + 2] == ";")
                start, by_value = (match.start() if pattern is _LAMBDA else -1), "=" in match[0].partition("[")[2]
                yield Body(match["name"], start, takes, text[opened : end + 1], stop, by_value)


def _given(code: str) -> set[str]:
    """Names of a kernel's parameters."""
    head = code[: code.find("{")]
    opened = head.rfind("(", 0, head.rfind(")"))
    return set(re.findall(r"(\w+)\s*(?=[,)])", head[opened:]))


def _placed(one: Body, given: Sequence[str], taken: set[str]) -> str | None:
    """A body with what it is given for its parameters; None where a name would come to mean another thing. taken: what
    is declared in the loop around the call."""
    body, own = one.text, declared(one.text)
    mine = {name for _, name in one.parameters}
    said = {w for text in given for w in _WORD.findall(text)}
    strange = any(re.search(r"\+\+|--|(?<![<>=!])=(?!=)", text) for text in given)
    captured = set(_WORD.findall(body)) - own - mine
    clash = own & (said | mine) or said & mine or captured & taken or changed(body) & mine
    if len(given) != len(mine) or clash or strange:
        return None
    for (kind, name), text in zip(one.parameters, given, strict=True):
        put = text if re.fullmatch(r"\w+", text) else f"({text})"
        put = f"({kind}){put}" if kind and not text.isdigit() else put
        body = re.sub(rf"(?<![\w.]){name}\b", put.replace("\\", ""), body)
    return body


def declared(text: str) -> set[str]:
    """Names that a text declares, or may."""
    out = set()
    for match in _DECLARED.finditer(text):
        for part in split_declarators(match["names"]):
            name = re.match(r"[\s*&]*(\w+)", part)
            out |= {name[1]} if name is not None else set()
    return out


def moved_in(code: str, loop: Loop, names: Sequence[str], around: str) -> tuple[str, list[Piece]]:
    """Declarations in front of a loop of numbers that are addresses of tiles, which nobody takes but the loop: as text
    for each round, and where they stand. names: of the tiles."""
    found, gone, known = [], list[Piece](), set[str]()
    numbers, tiles, own = numbered(around), set(names), {loop.name} | declared(code[slice(*loop.body)])
    altered = touched(as_numbers(code[slice(*loop.body)], around), code, around) - tiles
    for match in _ADDRESS.finditer(code, 0, loop.span[0]):
        used, value = set(_WORD.findall(match["value"])), match["value"]
        for name in numbers:
            for call in reversed(calls_of(value, name)):
                value = value[: call.start] + "0" + value[call.end :]
        bare = set(_WORD.findall(value))
        if not used & (tiles | known) or bare & tiles or used & own:
            continue
        rest = outside(code, [match.span(), loop.body, *gone])
        steady = not (used | {match["name"]}) & (altered | changed(code[match.end() : loop.span[0]]))
        if re.search(rf"(?<![\w.]){match['name']}\b", rest) or not steady:
            continue
        known.add(match["name"])
        found.append(" ".join(match[0].split()))
        gone.append(match.span())
    return " ".join(found), gone


def as_numbers(use: str, around: str) -> str:
    """A text in which addresses that become numbers are none that anything is stored through: what assembly does with
    them the machine code shows."""
    return re.sub(rf"\b({'|'.join(sorted(numbered(around)))})\s*\(\s*&", r"\1(", use)


def numbered(around: str) -> set[str]:
    """Functions that give an address of shared memory as a number."""
    named = {_AS_NUMBER}
    for match in re.finditer(r"__device__[^;{}()]*\b(\w+)\s*\((?:const\s+)?\w+\s*\*\s*(\w+)\s*\)\s*\{", around):
        end = statement_end(around, match.end() - 1)
        inner = around[match.end() : end]
        if re.fullmatch(rf"\s*return\s+[^;{{}}]*{_AS_NUMBER}\s*\(\s*{match[2]}\s*\)[^;{{}}]*;\s*\}}", inner):
            named.add(match[1])
    return named
