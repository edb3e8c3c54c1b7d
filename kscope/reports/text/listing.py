"""Machine code as it is, without analysis: the quick listing of `kscope sass`. It goes over hundreds of thousands of
instructions, so it writes them straight from the parser's programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from kscope.isa.control import words
from kscope.model.errors import one_line

if TYPE_CHECKING:
    from kscope.model.program import Control, Cubin, Program

COLUMN = 60
"""Where scheduling fields begin."""


def render(cubins: Sequence[Cubin], *, control: bool = False, source: bool = False) -> str:
    """The listing of every function. `control`: scheduling fields in words; `source`: file and line where they
    change."""
    parts: list[str] = []
    for cubin in cubins:
        for program in cubin.functions:
            parts.append(_heading(cubin, program))
            parts += _lines(program, control=control, source=source)
            parts.append("")
    return "\n".join(parts)


def _heading(cubin: Cubin, program: Program) -> str:
    found = program.resources
    facts = [program.arch or cubin.arch, *([cubin.member] if cubin.member else [])]
    if found is not None:
        facts += [f"{found.registers} registers"] if found.registers is not None else []
        facts += [f"{found.stack} B stack"] if found.stack else []
        facts += [f"{found.shared} B shared"] if found.shared else []
    facts += [f"{len(program.spills)} spill instructions"] if program.spills else []
    facts.append(f"{len(program)} instructions")
    name = one_line(program.demangled or program.name)
    return f"{name}   " + " · ".join(one_line(f) for f in facts)


def _lines(program: Program, *, control: bool, source: bool) -> Iterator[str]:
    width = max(4, len(f"{program.instructions[-1].pc:x}")) if program.instructions else 4
    inside = dict(program.symbols)
    place = None
    for ins in program.instructions:
        if inside and ins.pc in inside:
            yield f"  {one_line(inside[ins.pc])}:"
        if source and ins.line is not None and (ins.file, ins.line) != place:
            place = (ins.file, ins.line)
            chain = "".join(f" < {one_line(site.file)}:{site.line}" for site in ins.inlined)
            yield f"      {one_line(ins.file or '')}:{ins.line}{chain}"
        text = f"  {ins.pc:0{width}x}  {ins.text}"
        if control and ins.control is not None:
            text = f"{text:{COLUMN}}  {_words(ins.control)}"
        yield text if text.isprintable() else "  " + one_line(text)


@lru_cache(maxsize=1 << 14)
def _words(control: Control) -> str:
    return words(control)
