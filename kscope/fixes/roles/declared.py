"""What a text names before it is read as a tree: macros, constants of structures, members of those that are given to
a kernel, macros that stand for __device__."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import closing
from kscope.fixes.roles.macros import Macro, macros, parts

TRACE = "kscope_trace.cuh"
"""Our own header: without KSCOPE_TRACE its macros are nothing, and no instruction comes from it."""
MOST = 64  # constants within constants (judged)
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
_OURS = re.compile(r"\b(KSCOPE_[A-Z_]+)\s*\(")
_DEVICES = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+[^\n]*\b__device__\b[^\n]*$", re.M)
_STRUCT = re.compile(r"(?:\btemplate\s*<(?P<given>[^<>{}]*)>\s*)?\bstruct\s+(?P<name>\w+)\s*\{")
_CONSTANT = re.compile(r"\b(?:static\s+constexpr|constexpr\s+static|static\s+const)\s+(?:const\s+)?[\w: ]+?\s+"
                       r"(?P<all>\w+\s*=[^;{}]*);")  # fmt: skip
_MEMBER = re.compile(r"(?P<type>(?:const\s+)?[A-Za-z_][\w ]*?)(?P<star>[\s*]+(?:__restrict__\s+)?)"
                     r"(?P<names>\w+(?:\s*,\s*\**\s*\w+)*)\s*$")  # fmt: skip
_USING = re.compile(r"\busing\s+(?P<name>\w+)\s*=\s*(?P<is>\w+)\s*(?:<(?P<given>[^<>;]*)>)?\s*;")
_OF = re.compile(r"\b(?P<of>\w+)\s*(?:<(?P<given>[\w\s,+*/%-]*)>)?\s*::\s*(?P<name>\w+)\b")


def files(setting: Setting, file: str) -> list[list[str]]:
    """Lines of the files that a kernel's text names in quotes."""
    folder, out = PurePosixPath(file).parent, []
    for line in setting.lines(file):
        found = _INCLUDED.match(line)
        lines = list(setting.lines(str(folder / found[1]))) if found is not None else []
        out += [lines] if lines else []
    return out


def known_macros(setting: Setting, file: str, every: Sequence[Sequence[str]]) -> dict[str, Macro]:
    """Those of the files, and of those that the kernel's file names; of our own header, where it is off, that they
    are nothing."""
    found = macros([*every, *(one for one in files(setting, file) if one not in [list(x) for x in every])])
    named = {PurePosixPath(ins.file).name for ins in setting.code.program.instructions if ins.file is not None}
    asked = any((m := _INCLUDED.match(line)) is not None and m[1].endswith(TRACE) for line in setting.lines(file))
    if asked and TRACE not in named:
        for line in setting.lines(file):
            for call in _OURS.finditer(line):
                close = closing(line, call.end())
                given = parts(line[call.end() : close]) if close is not None else []
                found.setdefault(call[1], Macro(tuple(f"p{n}" for n in range(len(given))), ""))
    return found


def devices(code: str) -> list[str]:
    """Macros that say __device__."""
    return sorted({name for name in _DEVICES.findall(code) if name.isidentifier()})


def plain_devices(code: str) -> str:
    """With __device__ in place of macros that say so."""
    names = devices(code)
    return re.sub(rf"\b(?:{'|'.join(names)})\b", "__device__", code) if names else code


def with_constants(body: str, code: str, numbers: Mapping[str, int]) -> str:
    """A text with numbers in place of the constants of structures; those of templates are told by what the text gives
    them. Raises Unplayable where one is no number."""
    made = _structures(code)
    given = {m["name"]: (m["is"], m["given"]) for m in _USING.finditer(body) if m["is"] in made}
    body = _USING.sub(lambda m: ";" if m["is"] in made else m[0], body)

    def one(match: re.Match[str]) -> str:
        of, values = given.get(match["of"], (match["of"], match["given"]))
        return _number(made, of, values, match["name"], numbers) if of in made else match[0]

    return _OF.sub(one, body)


def _structures(code: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Structures by name: the names of their template's parameters, and their constants' texts."""
    out: dict[str, tuple[list[str], dict[str, str]]] = {}
    for match in _STRUCT.finditer(code):
        end = closing(code, match.end())
        inside = code[match.end() : end] if end is not None else ""
        found = {}
        for constant in _CONSTANT.finditer(inside):
            for part in parts(constant["all"]):
                name, _, text = part.partition("=")
                found[name.strip()] = text.strip()
        if found:
            named = [p.partition("=")[0].split()[-1] for p in (match["given"] or "").split(",") if p.strip()]
            out[match["name"]] = ([], {}) if match["name"] in out else (named, found)
    return out


def _number(made: Mapping[str, tuple[list[str], dict[str, str]]], of: str, given: str | None, name: str,
            numbers: Mapping[str, int]) -> str:  # fmt: skip
    names, constants = made[of]
    values = [evaluated(x, numbers) for x in (given or "").split(",") if x.strip()]
    if len(values) != len(names) or None in values or name not in constants:
        raise Unplayable(f"{of}::{name}")
    known = dict(numbers) | {n: v for n, v in zip(names, values, strict=True) if v is not None}
    found = _worth(constants[name], constants, known, MOST)
    return str(found) if found >= 0 else f"({found})"


def _worth(text: str, constants: Mapping[str, str], known: dict[str, int], left: int) -> int:
    if not left:
        raise Unplayable("constants")
    for word in dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*\b", text)):
        if word not in known and word in constants:
            known[word] = _worth(constants[word], constants, known, left - 1)
    choice = re.fullmatch(r"\s*(\w+)\s*(==|!=|>|<)\s*(\w+)\s*\?([^?:]+):([^?:]+)", text)
    if choice is not None:
        a, b = evaluated(choice[1], known), evaluated(choice[3], known)
        if a is None or b is None:
            raise Unplayable(text)
        text = choice[4] if {"==": a == b, "!=": a != b, ">": a > b, "<": a < b}[choice[2]] else choice[5]
    found = evaluated(text, known)
    if found is None:
        raise Unplayable(text)
    return found


def members(code: str, aliases: Mapping[str, str]) -> dict[str, list[tuple[str, str, bool]]]:
    """Structures of plain members: (name, type, whether it is a pointer)."""
    out: dict[str, list[tuple[str, str, bool]]] = {}
    for match in _STRUCT.finditer(code):
        end = closing(code, match.end())
        if match["given"] or end is None or match["name"] in out:
            out.pop(match["name"], None)
            continue
        mine: list[tuple[str, str, bool]] = []
        for part in code[match.end() : end].split(";"):
            one = _MEMBER.fullmatch(" ".join(part.split()))
            if one is None:
                continue  # who asks for it finds nothing
            kind = " ".join(w for w in one["type"].split() if w != "const")
            kind = aliases.get(kind, kind)
            for n, name in enumerate(one["names"].split(",")):
                star = "*" in name or (not n and "*" in one["star"])
                mine.append((name.replace("*", "").strip(), kind, star))
        out[match["name"]] = mine
    return out
