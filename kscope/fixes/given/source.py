"""Source text as far as a change needs it: declarations of shared arrays, their uses, calls on a line. Text alone:
where anything is unclear nothing is found, and the change is said in words or as a helper function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from kscope.model.contract.fixes import Edit

Lines = Callable[[str], Sequence[str]]
"""Text of a source file by its name in line information, as lines; empty where there is none."""

SIZES: Mapping[str, int] = {
    "char": 1, "unsigned char": 1, "signed char": 1, "uint8_t": 1, "int8_t": 1, "bool": 1, "short": 2,
    "unsigned short": 2, "half": 2, "__half": 2, "bf16": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2, "uint16_t": 2,
    "int16_t": 2, "int": 4, "unsigned": 4, "unsigned int": 4, "float": 4, "half2": 4, "__half2": 4,
    "__nv_bfloat162": 4, "uint32_t": 4, "int32_t": 4, "double": 8, "float2": 8, "int2": 8, "uint2": 8,
    "long long": 8, "unsigned long long": 8, "uint64_t": 8, "int64_t": 8, "size_t": 8, "float4": 16, "int4": 16,
    "uint4": 16, "double2": 16,
}  # fmt: skip
_SHARED = re.compile(
    r"(?<!extern )__shared__\s+((?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*|volatile\s+)*)"
    r"([\w:]+(?:\s+(?:int|char|short|long))*)\s+([^;(){}]+);", re.ASCII,
)
_NUMBER = re.compile(r"[\d\s+*/()%-]+")
_CONSTANT = re.compile(r"\bconstexpr\s+(?:static\s+)?(?:int|unsigned|size_t|auto)\s+([^;]+);")
_STRING = re.compile(r'"(?:\\.|[^"\\])*"|//')
_GIVEN = re.compile(r"[<(,]\s*(?:const\s+)?(?:int|unsigned|size_t|bool|long)\s+(\w+)\s*(?=[,>)=])", re.ASCII)
_AROUND = re.compile(r'\bnamespace\b[^=;()]*$|\bextern\s*$')


class Seen(list[str]):
    """A file's lines without comments and what is left out of them. raw: as they are; spans: of comments, by row, and
    whether each is the whole of one; dead: rows that are left out; run: lines (from 1) that the kernel's instructions
    are from, none where nobody knows; unless: rows that other macros would leave in."""

    def __init__(
        self, lines: Iterable[str], raw: Sequence[str], spans: Mapping[int, Sequence[tuple[int, int, bool]]],
        dead: frozenset[int], run: frozenset[int], unless: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(lines)
        self.raw, self.spans, self.dead, self.run, self.unless = raw, spans, dead, run, unless
        self.known: dict[str, int] | None = None



class Array(Struct, frozen=True):
    """A shared array as it is declared: the text of each dimension, and its number where the file says it."""

    name: str
    element: int
    dims: tuple[str, ...]
    numbers: tuple[int | None, ...]
    line: int
    row: int | None
    """Bytes of a row: of the last dimension."""


class Use(Struct, frozen=True):
    """`name[..][..]` on a line: where each index begins and ends."""

    line: int
    spans: tuple[tuple[int, int], ...]


def arrays(lines: Sequence[str]) -> list[Array]:
    """Shared arrays of fixed type that a file declares, each declaration on one line."""
    known = constants(lines)
    out = []
    for number, line in enumerate(lines, 1):
        for match in _SHARED.finditer(_without_comment(line)):
            size = SIZES.get(" ".join(match[2].split()))
            if size is None:
                continue
            for part in split_declarators(match[3]):
                name = re.match(r"\s*([A-Za-z_]\w*)\s*(?=\[)", part, re.ASCII)
                if name is None:
                    continue
                dims = tuple(part[a:b].strip() for a, b in _indices(part, name.end()))
                numbers = tuple(evaluated(d, known) for d in dims)
                row = numbers[-1] * size if dims and numbers[-1] else None
                out.append(Array(name[1], size, dims, numbers, number, row))
    return out


def constants(lines: Sequence[str]) -> dict[str, int]:
    """Whole numbers that a file names: `constexpr int ROWS = 2 * 32, COLS = ROWS;`. Those of functions that the kernel
    does not go through are none; a name of several numbers is none, but one of a function alone that hides a file's."""
    if not isinstance(lines, Seen):
        return _constants(lines, frozenset())
    if lines.known is None:
        lines.known = _constants(lines, lines.run)
    return dict(lines.known)


def _constants(lines: Sequence[str], run: frozenset[int]) -> dict[str, int]:
    said = _said(lines, run)
    of_file = {name: values for name, values in _values(said.pop(-1, ()), {}).items() if len(values) == 1}
    known = {name: value for name, (value,) in of_file.items() if value is not None}
    own: dict[str, set[int | None]] = {}
    for parts in said.values():
        for name, values in _values(parts, known).items():
            own.setdefault(name, set()).update(values)
    hidden = {name: next(iter(values)) if len(values) == 1 else None for name, values in own.items()}
    given = {name for line in lines for name in _GIVEN.findall(_without_comment(line))} if known or own else set()
    return {n: value for n, value in {**known, **hidden}.items() if value is not None and n not in given}


def _said(lines: Sequence[str], run: frozenset[int]) -> dict[int, list[str]]:
    """What a file (-1) and each of its functions name, of those that were run, or of all."""
    bodies = list(_bodies(lines)) if sum("constexpr" in line for line in lines) > 1 or run else []
    said: dict[int, list[str]] = {}
    at = 0
    for line in lines:
        for match in _CONSTANT.finditer(_without_comment(line)):
            inside = next((n for n, (a, b, _, _) in enumerate(bodies) if a < at + match.start() < b), -1)
            if inside < 0 or not run or not run.isdisjoint(range(*bodies[inside][2:])):
                said.setdefault(inside, []).extend(split_declarators(match[1]))
        at += len(line) + 1
    return said


def _values(parts: Sequence[str], known: Mapping[str, int]) -> dict[str, set[int | None]]:
    """What names are given there; nothing where it is not one number."""
    found: dict[str, set[int | None]] = {}
    now = dict(known)
    for part in parts:
        name, _, text = part.partition("=")
        value = evaluated(text, now)
        found.setdefault(name := name.strip(), set()).add(value)
        if value is not None:
            now[name] = value
    return found


def in_functions(lines: Sequence[str], of: Sequence[int] = ()) -> set[int]:
    """Lines, from 1, of functions and records, with their heads; of: of those alone that have one of these."""
    every = [range(first, behind) for *_, first, behind in _bodies(lines)]
    return {n for one in every if not of or any(x in one for x in of) for n in one}


def _bodies(lines: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Functions and records of a file: where their brackets open and close in its text, and their lines, from their
    head's to the one behind them, from 1. What stands in a namespace is the file's."""
    clear = ("" if x.strip()[:1] == "#" else _STRING.sub(lambda m: " " * len(m[0]), _without_comment(x)) for x in lines)
    code = "\n".join(x.ljust(len(y)) for x, y in zip(clear, lines, strict=True))
    stack: list[bool] = []
    head, opened, since, row, counted = 0, 0, 0, 1, 0
    for m in re.finditer(r"[{};]", code):
        outside = not any(stack)
        if m[0] == "{":
            stack.append(_AROUND.search(code[head : m.start()]) is None)
            if outside and stack[-1]:
                opened, since = m.start(), head + len(code[head:]) - len(code[head:].lstrip())
        elif m[0] == "}" and stack and stack.pop() and not any(stack):
            row, counted = row + code.count("\n", counted, since), since
            yield opened, m.start(), row, row + code.count("\n", since, m.start()) + 1
        head = m.end()


def evaluated(text: str, known: Mapping[str, int]) -> int | None:
    """The number that an expression of numbers, names, + - * / % and brackets stands for; None for any other."""
    words = re.sub(r"[A-Za-z_]\w*", lambda m: str(known.get(m[0], m[0])), text)
    if not _NUMBER.fullmatch(words) or len(words) > 80 or "**" in words:
        return None
    tokens = re.findall(r"\d+|[-+*/%()]", words)
    try:
        value, rest = _sum(tokens)
    except (IndexError, ValueError, ZeroDivisionError):
        return None
    return value if not rest else None


def _sum(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in "+-":
        other, rest = _product(tokens[1:])
        value, tokens = value + other if tokens[0] == "+" else value - other, rest
    return value, tokens


def _product(tokens: list[str]) -> tuple[int, list[str]]:
    value, tokens = _atom(tokens)
    while tokens and tokens[0] in "*/%":
        other, rest = _atom(tokens[1:])
        value = value * other if tokens[0] == "*" else value // other if tokens[0] == "/" else value % other
        tokens = rest
    return value, tokens


def _atom(tokens: list[str]) -> tuple[int, list[str]]:
    if tokens[0] == "(":
        value, tokens = _sum(tokens[1:])
        if tokens[0] != ")":
            raise ValueError(tokens[0])
        return value, tokens[1:]
    return int(tokens[0]), tokens[1:]


def body(lines: Sequence[str], line: int) -> range:
    """Lines (from 1) of the function around a declaration: from the line before it that opens the function to the one
    that closes it."""
    depth, first = 0, line
    for number in range(line, 0, -1):
        text = _without_comment(lines[number - 1])
        part = text[: text.find("__shared__")] if number == line and "__shared__" in text else text
        depth += part.count("{") - part.count("}")
        first = number
        head = " ".join(lines[max(0, number - 3) : number])  # which is broken over lines
        if depth > 0 and re.search(r"\b__(?:global|device)__\b", head):
            break
    depth, opened = 0, False
    for number in range(first, len(lines) + 1):
        text = _without_comment(lines[number - 1])
        depth += text.count("{") - text.count("}")
        opened = opened or "{" in text
        if opened and depth <= 0:
            return range(first, number + 1)
    return range(first, len(lines) + 1)


def uses(lines: Sequence[str], within: range, name: str) -> list[Use]:
    """Every place in a function that names an array, but its declaration."""
    pattern = re.compile(rf"(?<![\w.])(?<!->){re.escape(name)}\b")
    out = []
    for number in within:
        text = _without_comment(lines[number - 1])
        declared = [m.span() for m in _SHARED.finditer(text)]
        for match in pattern.finditer(text):
            if any(a <= match.start() < b for a, b in declared):
                continue
            out.append(Use(number, tuple(_indices(text, match.end()))))
    return out


def named_on(lines: Sequence[str], number: int, names: Sequence[str]) -> set[str]:
    """Which of some arrays a line indexes."""
    text = _without_comment(lines[number - 1]) if 0 < number <= len(lines) else ""
    return {n for n in names if re.search(rf"(?<![\w.])(?<!->){re.escape(n)}\s*\[", text)}


def edited(file: str, lines: Sequence[str], changes: Mapping[int, Sequence[tuple[int, int, str]]]) -> list[Edit]:
    """Edits from (start, end, new text) by line; spans do not overlap, insertions (start = end) lie where they will."""
    out = []
    for number in sorted(changes):
        text = before = lines[number - 1]
        for start, end, new in sorted(changes[number], reverse=True):
            text = text[:start] + new + text[end:]
        if text != before:
            out.append(Edit(file=file, line=number, was=before, becomes=text))
    return out


def _indices(text: str, at: int) -> list[tuple[int, int]]:
    """Spans of the texts in the brackets that follow a name."""
    found: list[tuple[int, int]] = []
    while True:
        opening = re.match(r"\s*\[", text[at:])
        end = _closing(text, at + opening.end()) if opening is not None else None
        if opening is None or end is None:
            return found
        found.append((at + opening.end(), end))
        at = end + 1


def _closing(text: str, at: int) -> int | None:
    depth = 1
    for n in range(at, len(text)):
        depth += {"[": 1, "]": -1}.get(text[n], 0)
        if not depth:
            return n
    return None


def split_declarators(text: str) -> Iterator[str]:
    """Declarators: commas outside of brackets part them."""
    depth, start = 0, 0
    for n, c in enumerate(re.sub("<<|>>", "  ", text)):  # shifts are no brackets
        depth += (c in "[({<") - (c in "])}>")
        if c == "," and not depth:
            yield text[start:n]
            start = n + 1
    yield text[start:]


def comment_at(line: str) -> int:
    """Where a comment to the line's end begins, which is none within a string; -1 where there is none."""
    at = line.find("//")
    if at < 0 or '"' not in line[:at]:
        return at
    return next((m.start() for m in _STRING.finditer(line) if m[0] == "//"), -1)


def _without_comment(line: str) -> str:
    """A line without what follows //."""
    at = comment_at(line)
    return line if at < 0 else line[:at]
