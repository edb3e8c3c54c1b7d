"""Source text as far as a change needs it: declarations of shared arrays, their uses, calls on a line. Text alone:
where anything is unclear nothing is found, and the change is said in words or as a helper function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

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
_VECTOR = re.compile(r"\b(?:float|int|uint|double|half|short|ushort|char|uchar|longlong|__half|__nv_bfloat16)[248]\b")
_NUMBER = re.compile(r"[\d\s+*/()%-]+")
_CONSTANT = re.compile(r"\bconstexpr\s+(?:static\s+)?(?:int|unsigned|size_t|auto)\s+([^;]+);")
_GIVEN = re.compile(r"[<(,]\s*(?:const\s+)?(?:int|unsigned|size_t|bool|long)\s+(\w+)\s*(?=[,>)=])", re.ASCII)
"""Parameters of templates and functions, and counters."""
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\(")
_DECLARATION = re.compile(
    r"(?:^|(?<=[;{}(,\n]))\s*(?:(?:const|static|volatile|constexpr|register)\s+)*(?P<type>[A-Za-z_]\w*)"
    r"(?:\s*[*&]+\s*|\s+)(?:(?:const|__restrict__)\s+)*(?=(?P<rest>[A-Za-z_][^;{}]*))", re.ASCII,
)
_NO_TYPES = ("return", "else", "new", "delete", "goto", "case", "typename", "do", "if", "while", "for", "switch")


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
    """Whole numbers that a file names: `constexpr int ROWS = 2 * 32, COLS = ROWS;`. Not those that are another one in
    another function, or given to one."""
    known, several = dict[str, int](), set[str]()
    for line in lines:
        for match in _CONSTANT.finditer(line):
            for part in split_declarators(match[1]):
                name, _, text = part.partition("=")
                name, value = name.strip(), evaluated(text, known)
                if value is None or known.get(name, value) != value:
                    several.add(name)
                if value is not None:
                    known[name] = value
    if known:
        several.update(*(_GIVEN.findall(_without_comment(line)) for line in lines))
    return {name: value for name, value in known.items() if name not in several}


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
        if depth > 0 and re.search(r"\b__(?:global|device)__\b", _joined(lines, number)):
            break
    depth, opened = 0, False
    for number in range(first, len(lines) + 1):
        text = _without_comment(lines[number - 1])
        depth += text.count("{") - text.count("}")
        opened = opened or "{" in text
        if opened and depth <= 0:
            return range(first, number + 1)
    return range(first, len(lines) + 1)


def _joined(lines: Sequence[str], number: int) -> str:
    """A line with the two before it: heads of functions are broken."""
    return " ".join(lines[max(0, number - 3) : number])


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


def declarations(code: str) -> list[tuple[str, str]]:
    """(last word of the type, name) of what a text declares, parameters and counters too."""
    out = []
    for match in _DECLARATION.finditer(code):
        for n, part in enumerate(split_declarators(re.sub(r"->| [<>]=? ", "  ", match["rest"]))):
            name = re.match(r"\s*[*&]*\s*([A-Za-z_]\w*)\s*(?=[=\[;{,:)(]|$)", part)
            if match["type"] not in _NO_TYPES and name is not None:
                out.append((match["type"], name[1]))
            elif not n:
                break
    return out


def calls(text: str) -> set[str]:
    """Names that are called on a line."""
    return set(_CALL.findall(text))


def vector(text: str) -> bool:
    """Whether a line names a vector type: what is wide there is wide by the author's hand."""
    return bool(_VECTOR.search(text))


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


def _without_comment(line: str) -> str:
    """A line with what follows // blanked, so that columns stay."""
    at = line.find("//")
    return line if at < 0 else line[:at]
