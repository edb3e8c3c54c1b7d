"""The text of a kernel of tensor instructions as it is played: macros put in, an instance's types for those of its
template."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Played
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import declared_at, kernel_text
from kscope.fixes.roles.macros import Macro, expanded, macros, parts
from kscope.fixes.rows.function import Function, function, of_text
from kscope.fixes.tensor.given import Given, read, types, with_types
from kscope.fixes.tensor.played import Player
from kscope.fixes.warpgroup.machine import Program, play_program
from kscope.fixes.warpgroup.routines import routines

_TEMPLATE = re.compile(r"\s*template\s*<(?P<all>[^<>]*)>")
_TYPE = re.compile(r"(?:class|typename)\s+(\w+)")
_KNOWN = ("float", "__half", "half", "__nv_bfloat16", "int", "unsigned")


class Texts(Struct, frozen=True):
    """`files`: that the code is from, the kernel's own first. `head`: what stands in front of its body."""

    given: Given
    files: tuple[Sequence[str], ...]
    known: Mapping[str, Macro]
    head: str = ""

    def plain(self, text: str) -> str:
        alias = types([line for lines in self.files for line in lines])
        return with_types(expanded(text, dict(self.known)), alias)

    def player(self, dynamic: int, past: int = 0) -> Player:
        """dynamic: bytes of shared memory that the launch gives; past: by how many it begins behind a line."""
        program = Program(routines(self.files, self.given.body, self.plain), dynamic, past)
        factors = self.given.factors

        def played(text: str, grid: Any, block: Any, memory: dict[str, Any], *rules: Any) -> Played:
            before = {name: memory[name].copy() for name in factors}
            took: Played = play_program(text, grid, block, memory, *rules, program)
            if any((memory[name] != before[name]).any() for name in factors):
                raise Unplayable("a factor that is written")
            return took

        return played


def texts(setting: Setting) -> Iterator[Texts]:
    """The kernel's, where it is at hand."""
    fn = function(setting) or _typed(setting)
    if fn is None or fn.call is not None:
        return
    names = dict.fromkeys([fn.file, *(ins.file for ins in setting.code.program.instructions)])
    yield from ways(fn, [setting.lines(name) for name in names if name])


def ways(fn: Function, files: Sequence[Sequence[str]]) -> Iterator[Texts]:
    """A text in each way that it may be meant: what a result is of that has no type, and which pointer is the result's
    where none is to constants."""
    kinds = [kind for kind in ("float", *fn.pointers.values()) if kind != "void"]
    said = re.search(r"\bconst\b[^,()]*\*", fn.code[: fn.opened]) is not None
    for kind in kinds if "void" in fn.pointers.values() else [""]:
        for result in [""] if said else reversed(list(fn.pointers)):
            one = texts_of(_with_factors(_with_result(fn, kind), result), files)
            if one is not None:
                yield one


def _with_factors(fn: Function, result: str) -> Function:
    """Where no pointer is said to be to constants, all but one are: who plays it sees whether they are written."""
    head = fn.code[: fn.opened]
    others = [(name, kind) for name, kind in fn.pointers.items() if result not in ("", name)]
    for name, kind in others:
        head = re.sub(rf"([(,]\s*)({re.escape(kind)}\s*\*[^,()]*\b{name}\s*[,)])", r"\1const \2", head)
    return structs.replace(fn, code=head + fn.body, opened=len(head))


def _with_result(fn: Function, kind: str) -> Function:
    """Where a pointer leads to nothing in particular, to a type."""
    if not kind:
        return fn
    pointers = {name: kind if known == "void" else known for name, known in fn.pointers.items()}
    head = re.sub(r"\bvoid(?=\s*\*)", kind, fn.code[: fn.opened])
    return structs.replace(fn, pointers=pointers, code=head + fn.body, opened=len(head))


def texts_of(fn: Function, files: Sequence[Sequence[str]]) -> Texts | None:
    try:
        known = macros(files)
        given = read(structs.replace(fn, code=fn.code[: fn.opened] + expanded(fn.body, known)), files[0])
    except Unplayable:
        return None
    return Texts(given, tuple(files), known, fn.code[: fn.opened]) if given is not None else None


def made_of(lines: Sequence[str], name: str) -> Texts | None:
    """Of a kernel of no template that stands among lines."""
    fn = of_text(lines, name)
    return texts_of(fn, [lines]) if fn is not None else None


def _typed(setting: Setting) -> Function | None:
    """A kernel whose template has types, with those of its instance."""
    text = kernel_text(setting)
    if text is None:
        return None
    lines = list(setting.lines(text.file))
    first, last = declared_at(lines, text.first), text.first + text.code.count("\n")
    code = "\n".join(lines[first - 1 : last])
    template = _TEMPLATE.match(code)
    said = re.search(rf"\b{re.escape(setting.name)}<(.*?)>\(", setting.instance)
    named = [" ".join(x.split()) for x in parts(template["all"])] if template is not None else []
    values = [x.strip() for x in parts(said[1])] if said is not None else []
    if template is None or len(named) != len(values):
        return None
    pairs = list(zip(named, values, strict=True))
    given = {m[1]: value for one, value in pairs if (m := _TYPE.fullmatch(one)) is not None}
    numbers = {one.split(" ")[-1]: value for one, value in pairs if _TYPE.fullmatch(one) is None}
    if not given or not all(value in _KNOWN for value in given.values()):
        return None
    code = with_types(code[template.end() :], given)
    fixed = {name: m[1] for name, value in numbers.items() if (m := re.fullmatch(r"\(\w+\)(\d+)", value)) is not None}
    fn = of_text(code.split("\n"), setting.name)
    if fn is None or len(fixed) != len(numbers):
        return None
    return structs.replace(fn, file=text.file, values={name: int(value) for name, value in fixed.items()})
