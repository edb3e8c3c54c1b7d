"""A kernel's text and those of the functions that it calls, as trees that warps are played with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.functions import addressed
from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import SIZES, constants, split_declarators
from kscope.fixes.given.text import Text, blanked, closing, declared_at
from kscope.fixes.roles.assembly import CALL, Assembly, assembled
from kscope.fixes.roles.declared import known_macros, members, plain_devices, with_constants
from kscope.fixes.roles.macros import Macro, expanded
from kscope.fixes.rows.function import constants as defined
from kscope.fixes.rows.function import template_names

_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[\w:,. ]*>)?\s*\(")
_ALIAS = re.compile(r"\btypedef\s+(?P<is>[\w ]+?)\s+(?P<name>\w+)\s*;"
                    r"|\busing\s+(?P<name2>\w+)\s*=\s*(?P<is2>[\w ]+?)\s*;")  # fmt: skip
_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+((?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?(?P<type>[\w ]+?)\s+"
                      r"((?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?(?P<name>\w+)\s*\[\s*\]\s*;")  # fmt: skip
_NAME = re.compile(r"(?P<type>[\w:\s]*?)(?P<ref>[*&\s(]*)\b(?P<name>[A-Za-z_]\w*)\s*\)?\s*(?:\[[^\]]*\])*$")
_LAST = re.compile(r"\s*(?:__restrict__|__grid_constant__|const)\b")
_HEAD = re.compile(r"(?:template\s*<(?P<template>[^<>]*)>\s*)?(?:\b(?:static|inline|__forceinline__|constexpr)\s+)*"
                   r"\b__device__\b[^;{}()=]*?\b(?P<name>\w+)\s*\(")  # fmt: skip
MADE = "_of_template"
"""Behind the name of a function whose template is given arguments."""
MOST = 200  # lines of a function that is called (judged)
DYNAMIC = "dynamic shared memory"


class Parameter(Struct, frozen=True):
    name: str
    kind: str
    """Type without stars."""
    way: str
    """"*", "&" or ""."""
    sides: int = 0
    """Elements of an array that it is a reference of, where the text says them as a number."""


class Called(Struct, frozen=True):
    """A function: its template's parameters come first. `silent`: whether it is assembly alone that touches no more
    than its operands."""

    parameters: tuple[Parameter, ...]
    body: Node
    taken: frozenset[str]
    silent: bool


class Kernel(Struct, frozen=True):
    parameters: tuple[Parameter, ...]
    body: Node
    taken: frozenset[str]
    numbers: Mapping[str, int]
    """What names stand for that the file or the instance fixes."""
    called: Mapping[str, Sequence[Called]]
    """Of one name: those with other parameters too."""
    assembly: Sequence[Assembly]
    members: Mapping[str, Sequence[tuple[str, str, bool]]] = {}
    """Of structures: name, type, whether it is a pointer."""


class Unknown:
    """What no play can say: contents of memory, numbers that are no whole ones."""


UNKNOWN = Unknown()


def number(word: str) -> object:
    """A literal's value."""
    if word[:2].lower() == "0x":
        return int(word.rstrip("uUlL"), 16)
    return int(word.rstrip("uUlL")) if word.rstrip("uUlL").isdigit() else UNKNOWN


def opened(code: str, name: str) -> tuple[int, int, int] | None:
    """Where the parameters of a kernel begin and end, and where its body begins."""
    head = re.search(rf"\b{re.escape(name)}\s*\(", code)
    close = closing(code, head.end()) if head is not None else None
    start = code.find("{", close) if close is not None else -1
    return (head.end(), close, start) if head is not None and close is not None and start >= 0 else None


def kernel(setting: Setting, text: Text, body: str) -> Kernel:
    """The kernel with this body in place of its own. Raises Unplayable where something cannot be read."""
    at = opened(text.code, setting.name)
    if at is None:
        raise Unplayable("head")
    lines = setting.lines(text.file)
    files = sorted({ins.file for ins in setting.code.program.instructions if ins.file is not None} - {text.file})
    code = "\n".join(blanked(line) for f in (text.file, *files) for line in setting.lines(f))
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), code, flags=re.S)
    aliases = {(m["name"] or m["name2"]): (m["is"] or m["is2"]) for m in _ALIAS.finditer(code)}
    above = "\n".join(lines[declared_at(lines, text.first) - 1 : text.first - 1]) + "\n" + text.code[: at[0]]
    named, given = template_names(above), re.findall(r"\(\w+\)(\d+)(?=[,>])", setting.instance.partition("<")[2])
    if named is None or len(named) != len(given):
        raise Unplayable("template")
    every = [line for f in (text.file, *files) for line in setting.lines(f)]
    numbers = {n: v for n, v in (constants(every) | defined(every, code)).items() if _once(n, code)}
    numbers |= {n: int(v) for n, v in zip(named, given, strict=True)}
    code = plain_devices(code)
    macros = known_macros(setting, text.file, [setting.lines(f) for f in (text.file, *files)])
    body = expanded(body, macros)
    body = with_constants(body, code, numbers)
    return _kernel(setting, code, aliases, numbers, text.code[at[0] : at[1]], body, macros)


def _once(name: str, code: str) -> bool:
    """Whether a constant has one value in all of the files."""
    said = re.findall(rf"(?:\bconst(?:expr)?\b[^;(){{}}]*?|#\s*define\s+)\b{name}\b\s*=?\s*([^,;\n]*)", code)
    return len({" ".join(one.split()) for one in said}) <= 1


def _kernel(
    setting: Setting, code: str, aliases: Mapping[str, str], numbers: Mapping[str, int], head: str, body: str,
    macros: dict[str, Macro],
) -> Kernel:  # fmt: skip
    known: list[Assembly] = []
    found: dict[str, list[Called]] = {}
    dynamic = setting.launch.shared_dynamic if setting.launch is not None else 0
    body = _plain(body, aliases, dynamic)
    heads = _heads(code)
    templates = {name.removesuffix(MADE) for name in heads if name.endswith(MADE)}
    body = assembled(_given(body, templates), known)
    asked = set(_CALLED.findall(body))
    while asked:
        name = asked.pop()
        for template, at in heads.get(name, ()) if name not in found else ():
            close = closing(code, at)
            start = code.find("{", close) if close is not None else -1
            end = closing(code, start + 1) if start >= 0 else None
            if close is None or end is None or code.count("\n", start, end) > MOST:
                raise Unplayable(name)
            inside = with_constants(expanded(_plain(code[start : end + 1], aliases, 0), macros), code, numbers)
            inside = assembled(_given(inside, templates), known)
            tree = Parser(inside, number).body()  # type: ignore[arg-type]
            mine = [Parameter(p.split()[-1], "int", "") for p in template.split(",") if p.strip()]
            mine += parameters(code[at:close], aliases)
            one = Called(tuple(mine), tree, frozenset(addressed(tree)), _silent(tree, known))
            found.setdefault(name, []).append(one)
            asked |= set(_CALLED.findall(inside)) - found.keys()
    tree = Parser(body, number).body()  # type: ignore[arg-type]
    mine = parameters(head, aliases)
    return Kernel(tuple(mine), tree, frozenset(addressed(tree)), numbers, found, known, members(code, aliases))


def _heads(code: str) -> dict[str, list[tuple[str, int]]]:
    """Functions of a text: (parameters of its template, where its own begin); those of templates under a name that
    says so."""
    found: dict[str, list[tuple[str, int]]] = {}
    for match in _HEAD.finditer(code):
        close = closing(code, match.end())
        if close is not None and code[close + 1 :].lstrip()[:1] == "{":
            name = match["name"] + (MADE if match["template"] is not None else "")
            found.setdefault(name, []).append((match["template"] or "", match.end()))
    return found


def _silent(tree: Node, known: Sequence[Assembly]) -> bool:
    inside = tree[1] if tree[0] == "block" else []
    if len(inside) != 1 or inside[0][0] != "do" or inside[0][1][0] != "call":
        return False
    name = inside[0][1][1]
    return name.startswith(CALL) and known[int(name[len(CALL) :])].silent


def _plain(code: str, aliases: Mapping[str, str], dynamic: int) -> str:
    """With built-in types in place of others, and shared memory of the launch's size."""
    for name, real in aliases.items():
        code = re.sub(rf"\b{name}\b(?!\s*::)", real, code)
    code = re.sub(r"\bvoid\s*\*", "char*", code)
    code = re.sub(r"\b(?:std::)?u?intptr_t\b", "size_t", code)
    return _DYNAMIC.sub(
        lambda m: f"__shared__ {m['type']} {m['name']}[{max(1, dynamic // SIZES.get(m['type'], 1))}];", code
    )


def _given(code: str, templates: set[str]) -> str:
    """Arguments of a template as the first ones of the call."""

    def one(match: re.Match[str]) -> str:
        more = ", " * (match["first"] != ")")
        return f"{match['name']}{MADE}({match['given']}{more}" if match["name"] in templates else match[0]

    return re.sub(r"\b(?P<name>\w+)\s*<(?P<given>[\w:,.*+/ ]*)>\s*\(\s*(?=(?P<first>\S))", one, code)


def parameters(head: str, aliases: Mapping[str, str]) -> list[Parameter]:
    out = []
    for part in split_declarators(head):
        text = _LAST.sub(" ", f" {part.partition('=')[0]}").strip()
        for name, real in aliases.items():
            text = re.sub(rf"\b{name}\b", real, text)
        match = _NAME.match(text)
        if not text:
            continue
        if match is None or not match["name"]:
            raise Unplayable(text)
        rows = "[" in text
        way = "*" if rows or "*" in match["ref"] else "&" if "&" in match["ref"] else ""
        sides = re.search(r"\[\s*(\d+)\s*\]$", text)
        out.append(Parameter(match["name"], " ".join(match["type"].split()), way, int(sides[1]) if sides else 0))
    return out
