"""Functions that a kernel of tensor instructions calls, with their parameters by reference and their templates, and the
statements of assembly in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.text import LONGEST, blanked, closing
from kscope.fixes.roles.macros import STRING, closed, parts

MOST = 60  # functions of a kernel (judged)
ASSEMBLY = "__asm_"
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[^<>;{}]*>)?\s*\(")
_PARAMETER = re.compile(
    r"(?:const\s+)?(?P<type>[A-Za-z_][\w ]*?)\s*(?:\(\s*&\s*(?P<row>\w+)\s*\)\s*(?:\[[^\[\]]*\])+"
    r"|(?P<sign>[*&]?)\s*(?:const\s+)?(?:__restrict__\s+)?\b(?P<name>\w+)(?:\s*\[[^\[\]]*\])?)"
)
_NUMBERS = re.compile(r"template\s*<(?P<all>[^<>]*)>[^<>;{}]*$")
_NUMBER = re.compile(r"\s*(?:int|unsigned|bool|size_t)\s+(\w+)\s*")
_ASM = re.compile(r"\b(?:asm|__asm__)\s*(?:(?:volatile|__volatile__)\s*)?\(")
_OPERAND = re.compile(r'\s*"(?P<how>[^"]*)"\s*\((?P<what>.*)\)\s*$', re.S)


class Routine(Struct, frozen=True):
    """A function of the device. parameters: names, "&" in front of those by reference; its template's numbers come
    first."""

    parameters: tuple[str, ...]
    body: str


class Assembly(Struct, frozen=True):
    """A statement of it. hows: of its operands ("=r", "+f", "r"), those that are written first."""

    text: str
    hows: tuple[str, ...]


def routines(files: Sequence[Sequence[str]], body: str, plain: Callable[[str], str]) -> dict[str, Routine]:
    """Those that a text calls, and those that they call, each defined once in all files. plain: what makes a text one
    without macros."""
    code = "\n".join(_expanded([blanked(line) for line in lines]) for lines in files)
    found: dict[str, Routine] = {}
    asked = set(_CALLED.findall(body))
    while asked and len(found) < MOST:
        name = asked.pop()
        heads = list(re.finditer(rf"__device__[^;{{}}()]*\b{name}\s*\(", code)) if name not in found else []
        one = _read(code, heads[0], plain) if len(heads) == 1 else None
        if one is not None:
            found[name] = one
            asked |= set(_CALLED.findall(one.body)) - found.keys()
    return found


def _expanded(lines: Sequence[str]) -> str:
    """With names of the file for what stands in front of functions."""
    named = [m for x in lines if (m := re.match(r"\s*#\s*define\s+(\w+)\s+(.*\b__device__\b.*)$", x)) is not None]
    code = "\n".join(x for x in lines if not re.match(r"\s*#\s*define\b", x))
    for m in named:
        code = re.sub(rf"\b{m[1]}\b", m[2].strip(), code)
    return code


def _read(code: str, head: re.Match[str], plain: Callable[[str], str]) -> Routine | None:
    close = closing(code, head.end())
    opened = code.find("{", close) if close is not None else -1
    end = closing(code, opened + 1) if opened >= 0 else None
    if close is None or end is None or code[close + 1 : opened].strip() or end - opened > LONGEST:
        return None
    given = parameters(code[head.end() : close])
    above = _NUMBERS.search(code, max(0, head.start() - 300), head.start())
    numbers = [_NUMBER.fullmatch(x) for x in parts(above["all"])] if above is not None else []
    if given is None or not all(numbers):
        return None
    return Routine((*(m[1] for m in numbers if m is not None), *given), plain(code[opened : end + 1]))


def parameters(text: str) -> tuple[str, ...] | None:
    """Names of a function's parameters; None where one is of another kind."""
    found = [_PARAMETER.fullmatch(" ".join(p.split())) for p in parts(text)]
    named = [(("&" if m["sign"] == "&" else "") + m["name"]) if m["name"] else m["row"] for m in found if m is not None]
    return tuple(named) if len(named) == len(found) else None


def with_calls(text: str, known: dict[str, Assembly]) -> str:
    """A text whose statements of assembly are calls of names that `known` then holds."""
    while (head := _ASM.search(text)) is not None:
        end = closed(text, head.end())
        sections = parts(text[head.end() : end], ":")
        if not sections or STRING.sub("", sections[0]).strip():
            raise Unplayable("assembly of another kind")
        operands = [_OPERAND.match(x) for section in sections[1:3] for x in parts(section)]
        if not all(operands):
            raise Unplayable("an operand of another kind")
        given = [(m["how"], m["what"]) for m in operands if m is not None]
        said = Assembly(_said(sections[0]), tuple(how for how, _ in given))
        name = next((n for n, one in known.items() if one == said), f"{ASSEMBLY}{len(known)}")
        known[name] = said
        call = f"{name}({', '.join(f'({what})' for _, what in given)})"
        text = text[: head.start()] + call + text[end + 1 :]
    return text


def _said(strings: str) -> str:
    """One string of several, in which types of numbers are instructions' again."""
    text = "".join(m[1] for m in STRING.finditer(strings))
    return re.sub(r"\b__half\b", "f16", re.sub(r"\b__nv_bfloat16\b", "bf16", text))


def numbered(known: Mapping[str, Assembly]) -> str:
    return f"{ASSEMBLY}{len(known)}"
