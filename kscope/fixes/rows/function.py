"""The function that does a kernel's work, with what it is called for: the kernel itself, or the one that it calls and
does nothing besides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import LONGEST, WIDEST, Span, Text, blanked, closing, declared_at, kernel_text

LINES = 200  # lines of a function, from its head to its end (judged)
_CALL = re.compile(r"\{\s*(?P<name>\w+)\s*(?:<(?P<values>[^<>;]*)>)?\s*\((?P<given>[^;{}]*)\)\s*;\s*\}\s*$")
_TEMPLATE = re.compile(r"\s*template\s*<(?P<names>[^<>]*)>")
_POINTER = re.compile(r"^(?:const\s+)?(?P<type>[\w ]+?)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)$")
_NUMBER = re.compile(
    r"^(?:const\s+)?(?:int|unsigned|unsigned int|size_t|long|long long|float|u?int(?:32|64)_t)\s+(\w+)$"
)
_CONSTANTS = (
    re.compile(r"^\s*(?:static\s+)?const(?:expr)?\s+(?:int|unsigned|size_t)\s+(\w+)\s*=\s*(\d+)\s*;"),
    re.compile(r"^\s*#\s*define\s+(\w+)\s+\(?(\d+)\)?\s*$"),
)
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?P<type>float|int|unsigned|double)\s+(?P<name>\w+)\s*\[\s*\]\s*;")
BYTES = {"float": 4, "int": 4, "unsigned": 4, "double": 8}
_VALUE = re.compile(r"^(?:\(\w+\))?(\d+)$")


class Function(Struct, frozen=True):
    """`code`: from `first` on, the line where it begins with its template, comments blanked. `opened`: where its body
    begins in it. `pointers`: their types by name. `values`: of its template's numbers. `call`: where the kernel calls
    it, with the values' span; None where it is the kernel. `sized`: the declaration of shared memory that the launch
    gives its size."""

    file: str
    name: str
    first: int
    code: str
    opened: int
    pointers: Mapping[str, str]
    numbers: tuple[str, ...]
    values: Mapping[str, int]
    call: tuple[int, Span] | None
    sized: tuple[int, int] = (-1, -1)

    @property
    def body(self) -> str:
        return self.code[self.opened :]


def function(setting: Setting) -> Function | None:
    """None where the text is not at hand, or where the kernel is neither a function of pointers and numbers nor a call
    of one."""
    text = kernel_text(setting) or wrapper(setting)
    if text is None:
        return None
    lines = setting.lines(text.file)
    inner = _CALL.search(text.code)
    if inner is None or inner.start() != text.code.find("{"):
        given = setting.instance.partition("<")[2].partition("(float")[0] if "<" in setting.instance else ""
        values = re.findall(r"\(\w+\)(\d+)(?=[,>])", given)
        return _read(text.file, lines, setting.name, text.first, values, None)
    found = [n for n, line in enumerate(lines, 1) if re.search(rf"__device__\b.*\b{inner['name']}\s*\(", blanked(line))]
    values = [v.strip() for v in (inner["values"] or "").split(",") if v.strip()]
    if len(found) != 1 or not all(_VALUE.match(v) for v in values):
        return None
    row = text.code.count("\n", 0, inner.start("name"))
    column = inner.start("name") - (text.code.rfind("\n", 0, inner.start("name")) + 1)
    end = inner.end("values") + 1 if inner["values"] is not None else inner.end("name")
    span = (column, column + end - inner.start("name"), "")
    return _read(text.file, lines, inner["name"], found[0], values, (text.first + row, span))


def of_text(lines: Sequence[str], name: str) -> Function | None:
    """A kernel of no template among lines."""
    head = next((n for n, x in enumerate(lines, 1) if "__global__" in x and re.search(rf"\b{name}\s*\(", x)), None)
    return _read("", lines, name, head, (), None) if head is not None else None


def wrapper(setting: Setting) -> Text | None:
    """A kernel on one line, which no instruction is said to be from: all are from what it calls."""
    files = {ins.file for ins in setting.code.program.instructions if ins.file is not None}
    pattern = re.compile(rf"__global__\b.*\b{re.escape(setting.name)}\s*\(.*\}}\s*$")
    lines = [(f, n, x) for f in sorted(files) for n, x in enumerate(map(blanked, setting.lines(f)), 1)]
    found = [Text(*one) for one in lines if len(one[2]) <= WIDEST and pattern.search(one[2])]
    return found[0] if len(found) == 1 else None


def _read(
    file: str, lines: Sequence[str], name: str, number: int, values: Sequence[str], call: tuple[int, Span] | None
) -> Function | None:  # fmt: skip
    first = declared_at(lines, number)
    code = "\n".join(blanked(line) for line in lines[first - 1 : first - 1 + LINES])
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), code, flags=re.S)
    head = re.search(rf"\b{re.escape(name)}\s*\(", code)
    close = closing(code, head.end()) if head is not None else None
    opened = code.find("{", close) if close is not None else -1
    end = closing(code, opened + 1) if opened >= 0 else None
    if head is None or close is None or end is None or code[close + 1 : opened].strip() or end > LONGEST:
        return None
    named = template_names(code[: head.start()])
    if named is None or len(named) != len(values):
        return None
    given = [" ".join(p.split()) for p in code[head.end() : close].split(",")]
    pointers = {m["name"]: m["type"] for p in given if (m := _POINTER.match(p)) is not None}
    numbers = tuple(m[1] for p in given if (m := _NUMBER.match(p)) is not None)
    if len(pointers) + len(numbers) != len(given) or not pointers:
        return None
    of = {p: int(v) for p, v in zip(named, values, strict=True)}
    return Function(file, name, first, code[: end + 1], opened, pointers, numbers, of, call)


def template_names(above: str) -> list[str] | None:
    """Names of a template's numbers, from what stands before a function's name; None where it has anything else."""
    template = _TEMPLATE.match(above)
    named = [" ".join(p.split()) for p in template["names"].split(",")] if template is not None else []
    known = all(re.match(r"^(?:int|unsigned|bool|size_t) \w+$", p) for p in named)
    return [p.split()[1] for p in named] if known else None


def sized(fn: Function, block: int, dynamic: int) -> Function | None:
    """With the array of shared memory that the launch gives its size declared for what that comes to, an element a
    thread; what stands behind it stays where it is. None where the size is another one, or there is no such array."""
    found = list(_DYNAMIC.finditer(fn.code))
    if not found and not dynamic:
        return fn
    if len(found) != 1 or dynamic != block * BYTES[found[0]["type"]]:
        return None
    (m,) = found
    put = f"__shared__ {m['type']} {m['name']}[{block}];"
    if len(put) > len(m[0]):
        return None
    return structs.replace(fn, code=fn.code[: m.start()] + put.ljust(len(m[0])) + fn.code[m.end() :], sized=m.span())


def constants(lines: Sequence[str], code: str) -> dict[str, int]:
    """Numbers that a file gives names to, of those that a text has, each one number."""
    found: dict[str, set[int]] = {}
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    for line in map(blanked, lines):
        for pattern in _CONSTANTS:
            for m in pattern.finditer(line):
                found.setdefault(m[1], set()).add(int(m[2]))
    return {name: values.pop() for name, values in found.items() if name in words and len(values) == 1}
