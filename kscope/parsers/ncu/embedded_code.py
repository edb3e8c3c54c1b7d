"""What a report's embedded ELF image knows about a kernel beyond the text of its SASS: scheduling fields, registers,
stack, spill marks, targets of indirect branches. The image is read directly, no tool is needed."""

from __future__ import annotations

import os
from functools import lru_cache

from msgspec import structs

from kscope.model.program import Instruction, Program, Site
from kscope.parsers.cubin import elf
from kscope.parsers.files.ncu_images import embedded_images
from kscope.parsers.sass import control_fields


def with_image(program: Program, report: str) -> Program:
    """The program with what the image says; unchanged where no one image of the report holds exactly this code."""
    found = _functions(report, _state(report)).get(program.name)
    if found is None:
        return program
    image, function = found
    controls = control_fields.controls(function.code)
    code = program.instructions
    if not code or not all(0 <= ins.pc // control_fields.BYTES < len(controls) for ins in code):
        return program
    instructions = tuple(
        structs.replace(ins, control=controls[ins.pc // control_fields.BYTES], inlined=_inlined(ins, function))
        for ins in code
    )
    return structs.replace(
        program, instructions=instructions, arch=image.arch, resources=function.resources, branches=function.branches,
        spills=function.spills, symbols=function.symbols, marks_spills=image.marks_spills,
    )  # fmt: skip


def _inlined(ins: Instruction, function: elf.Function) -> tuple[Site, ...]:
    """Call sites of the instruction's line, where the image and the report mean the same line."""
    row = function.lines.at(ins.pc) if function.lines is not None else None
    return row.inlined if row is not None and row.place.line == ins.line else ()


def _state(report: str) -> tuple[int, ...]:
    """Which file a path leads to now: unpacked reports have no name, and one's path is the next one's, too."""
    try:
        found = os.stat(report)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=2)
def _functions(report: str, state: tuple[int, ...]) -> dict[str, tuple[elf.Image, elf.Function]]:
    """Functions of the images by name; names that several images define differently are left out. state: `_state`."""
    out: dict[str, tuple[elf.Image, elf.Function]] = {}
    twice: set[str] = set()
    for image in embedded_images(report).values():
        data = bytes(image)
        if not elf.is_cuda(data):
            continue
        try:
            read = elf.read_image(data)
        except elf.Damage:
            continue
        for function in read.functions:
            if function.name in out and out[function.name][1].code != function.code:
                twice.add(function.name)
            out[function.name] = (read, function)
    return {name: found for name, found in out.items() if name not in twice}
