"""The text of a cubin's instructions, from NVIDIA's nvdisasm."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from kscope.model.errors import KscopeError
from kscope.parsers import listing, toolchain
from kscope.parsers.elf import Function, Image


class _Row(Struct):
    opcode: str
    operands: str = ""
    predicate: str = ""


class _Listed(Struct, rename={"name": "function-name", "rows": "sass-instructions"}):
    name: str
    rows: list[_Row]


_SPACED = ("BRX", "JMX", "RET", "CALL")  # `BRX R4 -0x220`: no comma before the target
_DECODER = msgspec.json.Decoder(tuple[msgspec.Raw, list[_Listed]])


def texts(image: Image, data: bytes, functions: Sequence[Function]) -> dict[str, list[str]]:
    """Instruction texts of some of an image's functions by name, one for each 16 bytes of code.

    Branch targets are offsets from the section's start. Raises KscopeError: "no-tool", "old-tool" (status 4),
    "disassembly" where nvdisasm refuses the image.
    """
    tool = toolchain.find("nvdisasm", image.sm)
    some = [] if len(functions) == len(image.functions) else ["-fun", ",".join(str(f.symbol) for f in functions)]
    with tempfile.TemporaryDirectory(prefix="kscope-") as folder:
        file = Path(folder, "image.cubin")
        file.write_bytes(data)
        found: dict[str, list[str]] = {}
        fault = ""
        if not image.relocatable:  # -json ends in a segmentation fault on some objects of separate compilation
            found, fault = _by_json(tool, [*some, str(file)])
        if not found:
            found, fault = _by_text(tool, [*some, str(file)])
    missing = [f.name for f in functions if len(found.get(f.name, ())) * 16 != len(f.code)]
    if missing:
        said = fault or f"nothing about {missing[0]}"
        message = f"{tool} does not disassemble this image: {said}"
        raise KscopeError("disassembly", message, "try the nvdisasm of another CUDA toolkit: KSCOPE_NVDISASM=PATH")
    return found


def _by_json(tool: toolchain.Tool, arguments: list[str]) -> tuple[dict[str, list[str]], str]:
    done = toolchain.run(tool, ["-json", *arguments])
    if done.status:
        return {}, done.fault or f"exit status {done.status}"
    try:
        _, functions = _DECODER.decode(done.stdout)
    except msgspec.DecodeError as error:
        return {}, f"-json printed no JSON that is known here ({error})"
    return {f.name: [_joined(row) for row in f.rows] for f in functions}, ""


def _joined(row: _Row) -> str:
    """One instruction as nvdisasm's listing prints it, but for labels."""
    operands = row.operands.replace(",", ", ")
    head = row.opcode
    if head.startswith(_SPACED):
        operands = row.operands.replace(",", " ")
    if row.predicate:
        if row.predicate[0] == "@":
            head = f"{row.predicate} {head}"
        else:  # the JSON of `P2R R27, PR, RZ, 0x1` has PR for its predicate
            first, _, rest = operands.partition(", ")
            operands = f"{first}, {row.predicate}, {rest}"
    return f"{head} {operands}".rstrip()  # `+QNAN ` has a blank behind it


def _by_text(tool: toolchain.Tool, arguments: list[str]) -> tuple[dict[str, list[str]], str]:
    done = toolchain.run(tool, ["-c", "-ndf", *arguments])
    functions = listing.parse_listing(done.stdout.decode("utf-8", "replace").splitlines())
    return {f.name: [row.text for row in f.rows] for f in functions}, done.fault
