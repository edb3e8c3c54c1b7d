"""`kscope sass`: the machine code of a binary, read as an expert would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kscope.model.program import Cubin, Program

FORMATS = ("text", "json")


@click.command()
@click.argument("path")
@click.option("--arch", metavar="SM", help="Only the code for one target, such as sm_90.")
@click.option("--function", metavar="REGEX", help="Only functions whose name (mangled or C++) matches.")
@click.option("--control", is_flag=True, help="Show the scheduling fields in words.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
def sass(path: str, arch: str | None, function: str | None, control: bool, format_: str) -> None:
    """Show the machine code of a binary: listing, loops, resources, what each instruction waits for.

    PATH is a .cubin, an .o, .a, .so or executable with device code, the text of nvdisasm or cuobjdump -sass, or an
    .ncu-rep (the code that it embeds).

    Exit status: 0 shown, 2 wrong usage, 3 unreadable input, 4 missing tool.
    """
    try:
        re.compile(function or "")
    except re.error as error:
        raise click.BadParameter(f"{function!r} is no regular expression: {error}", param_hint="--function") from None

    from kscope.cli._output import write_stdout
    from kscope.parsers.cubin import read_programs

    cubins = read_programs(path, arch, function)
    if format_ == "json":
        import json

        write_stdout(json.dumps([_json(path, cubin) for cubin in cubins], indent=1) + "\n")
    else:
        write_stdout("\n".join(_text(program, control) for cubin in cubins for program in cubin.functions))


def _text(program: Program, control: bool) -> str:
    from kscope.features.control import words

    lines = [f"{program.demangled or program.name}  ({program.arch})"]
    for ins in program.instructions:
        note = f"  ; {words(ins.control)}" if control and ins.control is not None else ""
        lines.append(f"  {ins.pc:04x}  {ins.text:50}{note}".rstrip())
    return "\n".join(lines) + "\n"


def _json(path: str, cubin: Cubin) -> dict[str, Any]:
    """`programs` of the contract."""
    return {"input": path, "arch": cubin.arch, "functions": [_function(program) for program in cubin.functions]}


def _function(program: Program) -> dict[str, Any]:
    from kscope.features.cfg import build_cfg

    resources = program.resources
    spills = [ins for ins in program.instructions if ins.pc in program.spills]
    return {
        "name": program.name,
        "demangled": program.demangled,
        "registers": resources.registers if resources else None,
        "stack": resources.stack if resources else None,
        "shared": resources.shared if resources else None,
        "spill_stores": sum(ins.opcode == "STL" for ins in spills),
        "spill_loads": sum(ins.opcode == "LDL" for ins in spills),
        "instructions": len(program),
        "loops": [
            {"start": program.instructions[loop.instructions[0]].pc, "depth": loop.depth,
             "instructions": len(loop.instructions)}
            for loop in build_cfg(program).loops
        ],
        "findings": [],
    }  # fmt: skip
