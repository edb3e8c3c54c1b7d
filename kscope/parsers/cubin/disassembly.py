"""The text of a cubin's instructions, from NVIDIA's nvdisasm.

Library code repeats itself: a quarter of the encodings of a large cubin are distinct. So nvdisasm gets each distinct
encoding once, as raw instructions (`-b SM90`), and branch targets, which it prints relative to where an encoding
stands, are moved to where it really stands. That takes a fifth of the time of `nvdisasm -json` on the whole image
(`make bench`) and gives the same text. Code with relocations, whose text names symbols, goes through -json, and
objects of separate compilation through the text listing: -json ends in a segmentation fault on some of them.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct

from kscope.model.errors import KscopeError
from kscope.parsers import scratch, toolchain
from kscope.parsers.cubin.elf import Function, Image
from kscope.parsers.sass import control_fields, listing

_BASE = 1 << 40
"""Address that raw instructions are given: tells the addresses in their text from other constants."""
_NEAR = 1 << 32  # of a branch target to the base
_LINE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]{10,16}\b")
_ADDRESSES = re.compile(r"(?<!desc\[UR\d)(?<!desc\[UR\d\d)\]\[(?=R)")
_SPLIT = 20_000  # distinct encodings that are worth a second process
_SPACED = ("BRX", "JMX", "RET", "CALL")  # `BRX R4 -0x220`: no comma before the target


class _Row(Struct):
    opcode: str
    operands: str = ""
    predicate: str = ""


class _Listed(Struct, rename={"name": "function-name", "rows": "sass-instructions"}):
    name: str
    rows: list[_Row]


_DECODER = msgspec.json.Decoder(tuple[msgspec.Raw, list[_Listed]])

Texts = dict[str, list[str]]
"""Instruction texts by function, one for each 16 bytes of its code."""


def texts(image: Image, data: bytes, functions: Sequence[Function]) -> Texts:
    """Instruction texts of some of an image's functions, as nvdisasm's listing prints them, with labels as offsets
    from the section's start.

    Raises KscopeError: "no-tool", "old-tool" (status 4), "disassembly" where nvdisasm refuses the image.
    """
    tool = toolchain.find("nvdisasm", image.sm)
    patience = toolchain.Patience(len(data))
    found: Texts = {}
    fault = ""
    with scratch.folder() as folder:
        if not image.relocatable:
            found = _by_encoding(tool, image, [f for f in functions if not f.relocated], Path(folder), patience)
        rest = [f for f in functions if f.name not in found]
        if rest:
            file = Path(folder, "image.cubin")
            file.write_bytes(data)
            some = ["-fun", ",".join(str(f.symbol) for f in rest)] if len(rest) < len(image.functions) else []
            more: Texts = {}
            if not image.relocatable:
                more, fault = _by_json(tool, [*some, str(file)], patience)
            if not more:
                more, fault = _by_text(tool, [*some, str(file)], patience)
            found |= more
    missing = [f.name for f in functions if len(found.get(f.name, ())) * control_fields.BYTES != len(f.code)]
    if missing:
        message = f"{tool} does not disassemble this image: {fault or f'nothing about {missing[0]}'}"
        raise KscopeError("disassembly", message, "try the nvdisasm of another CUDA toolkit: KSCOPE_NVDISASM=PATH")
    return found


def _by_encoding(
    tool: toolchain.Tool, image: Image, functions: Sequence[Function], folder: Path, patience: toolchain.Patience
) -> Texts:
    """Texts through raw instructions; {} where nvdisasm does not take some of them."""
    places: dict[tuple[int, int], int] = {}  # distinct encodings without their control fields, but for reuse
    number = places.setdefault
    used: list[list[int]] = []
    raw = array("Q")
    for function in functions:
        words = control_fields.words(function.code)
        mine = []
        for low, high in zip(words[::2], words[1::2], strict=True):
            place = number((low, high & control_fields.SHOWN), len(places))
            if 2 * place == len(raw):
                raw.append(low)
                raw.append(high)
            mine.append(place)
        used.append(mine)
    distinct = _raw(tool, image, raw, folder, patience)
    if not distinct:
        return {}
    moving = {place: _Moving(text, place) for place, text in enumerate(distinct) if "0x" in text and _moves(text)}
    out: Texts = {}
    for function, mine in zip(functions, used, strict=True):
        rows = list(map(distinct.__getitem__, mine))
        names = {0: function.name, **dict(function.symbols)}
        for index, place in enumerate(mine):
            if place in moving:
                rows[index] = moving[place].at(control_fields.BYTES * index, names)
        out[function.name] = rows
    return out


def _raw(
    tool: toolchain.Tool, image: Image, raw: array[int], folder: Path, patience: toolchain.Patience
) -> list[str]:
    """Texts of raw instructions that stand at _BASE and behind; [] where nvdisasm refuses them."""
    count = len(raw) // 2
    parts = 2 if count >= _SPLIT and (os.cpu_count() or 1) > 1 else 1
    step = -(-count // parts)
    if not count:
        return []

    def part(start: int) -> list[str]:
        file = folder / f"raw-{start}.bin"
        file.write_bytes(control_fields.stored(raw[2 * start : 2 * (start + step)]))
        base = hex(_BASE + control_fields.BYTES * start)
        target = image.arch.upper().replace("_", "").replace("A", "a").replace("F", "")
        words = ["-b", target, "-ndf", "--base-address", base, str(file)]
        done = toolchain.run(tool, words, patience=patience)
        found = _LINE.findall(done.stdout.decode("utf-8", "replace")) if not done.status else []
        return found if len(found) == min(step, count - start) else []

    with ThreadPoolExecutor(parts) as pool:
        found = list(pool.map(part, range(0, count, step)))
    return [text for texts in found for text in texts] if all(found) else []


def _moves(text: str) -> bool:
    return any(abs(int(m, 16) - _BASE) < _NEAR for m in _ADDRESS.findall(text))


class _Moving:
    """An instruction whose text names an address relative to its own."""

    def __init__(self, text: str, place: int) -> None:
        match = next(m for m in _ADDRESS.finditer(text) if abs(int(m[0], 16) - _BASE) < _NEAR)
        self._head, self._tail = text[: match.start()], text[match.end() :]
        self._distance = int(match[0], 16) - _BASE - control_fields.BYTES * place
        self._names = re.sub(r"^@\S+ ", "", text).startswith(("CALL", "RET"))  # these print symbols, branches do not

    def at(self, pc: int, names: dict[int, str]) -> str:
        goal = pc + self._distance
        name = names.get(goal, "") if self._names else ""
        return f"{self._head}{name or hex(goal)}{self._tail}"


def _by_json(tool: toolchain.Tool, arguments: list[str], patience: toolchain.Patience) -> tuple[Texts, str]:
    done = toolchain.run(tool, ["-json", *arguments], patience=patience)
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
    elif head.startswith("LDGSTS"):  # the JSON of sm_80 leaves the comma between two addresses out
        operands = _ADDRESSES.sub("], [", operands)
    if row.predicate:
        if row.predicate[0] == "@":
            head = f"{row.predicate} {head}"
        else:  # the JSON of `P2R R27, PR, RZ, 0x1` has PR for its predicate
            first, _, rest = operands.partition(", ")
            operands = f"{first}, {row.predicate}, {rest}"
    return f"{head} {operands}".rstrip()  # `+QNAN ` has a blank behind it


def _by_text(tool: toolchain.Tool, arguments: list[str], patience: toolchain.Patience) -> tuple[Texts, str]:
    done = toolchain.run(tool, ["-c", "-ndf", *arguments], patience=patience)
    functions = listing.parse_listing(done.stdout.decode("utf-8", "replace").splitlines())
    return {f.name: [row.text for row in f.rows] for f in functions}, done.fault
