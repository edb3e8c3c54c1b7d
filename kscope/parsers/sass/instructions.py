"""SASS text to instructions: opcode, guard, operands, and the registers that each instruction reads and writes.

Text comes from Nsight Compute's reports (`@!P0 LDG.E.128 R4, desc[UR6][R2.64+0x10]`) and from nvdisasm (text or
JSON operands). An opcode that is not known here is read by the rule that holds for nearly all of them: the first
register is the destination. Nothing here raises on odd text. Register widths live in `sass_shapes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import structs

from kscope.isa.operand_shapes import Shape, shape_of
from kscope.model.program import (
    PREDICATE_BASE,
    UNIFORM_BASE,
    UNIFORM_PREDICATE_BASE,
    Instruction,
    Program,
)

# nvdisasm's comments and scheduling notes: `;`, `(*"BRANCH_TARGETS .L_x_1"*)`, `&req={1}`, `?trans7`, `/* ... */`.
MNEMONIC = 64  # characters kept of an opcode with its modifiers; the longest of our captures has 35
_FOREIGN = re.compile(r"[^A-Z0-9_.x]")
_TAIL = re.compile(r"\s*(?:;|\(\*|/\*|\s[&?]\w|\s&).*$", re.DOTALL)
_PLAIN = re.compile(r"[^;&?*{}]*").fullmatch  # nothing to strip: the usual case
_REGISTER = re.compile(r"^[-+!~|]*(UR|UP|R|P)(\d{1,3})(?![\w\[])")
_ADDRESS = re.compile(r"\b(UR|UP|R|P)(\d{1,3})((?:\.(?:64|U32|S32|X\d+))*)")
_DESCRIPTOR = re.compile(r"\b(desc|gdesc|cx)\[UR(\d{1,3})\]")
_TARGETS = re.compile(r"BRANCH_TARGETS\s+([^\"*)]+)")
_LABEL = re.compile(r"`?\(([^)]+)\)")
_HEX = re.compile(r"^-?0x[0-9a-f]+$")
_LARGE = re.compile(r"\b(UR|UP|R|P)(\d+)(?![\w$])|0x[0-9a-fA-F]{17,}|\d{33,}")
_COUNTS = {"R": 256, "UR": 256, "P": 8, "UP": 8}  # eight bits name a register, three a predicate
_BASES = {"R": 0, "UR": UNIFORM_BASE, "P": PREDICATE_BASE, "UP": UNIFORM_PREDICATE_BASE}
_ALL_PREDICATES = tuple(range(PREDICATE_BASE, PREDICATE_BASE + 7))
_BRANCHES = frozenset({"BRA", "BRX", "JMP", "JMX", "CALL", "RET", "BSSY", "BRXU", "WARPSYNC", "LEPC", "SSY"})

Operand = tuple[str, int, tuple[int, ...], tuple[int, ...]]
"""Kind (R, UR, P, UP, PR, M for memory, "" for the rest), register number or -1, registers of an address read
with 32-bit bases, and with 64-bit bases."""


@lru_cache(maxsize=1 << 16)
def _operand(text: str) -> Operand:
    if "[" in text:
        return ("M", -1, _address(text, 1), _address(text, 2))
    match = _REGISTER.match(text)
    if match:
        kind = match[1]
        return (kind, _BASES[kind] + int(match[2]), (), ())
    bare = text.lstrip("-+!~|").partition(".")[0].rstrip("|")
    # RZ and PT occupy the place of a register without being one.
    kind = {"RZ": "R", "URZ": "UR", "PT": "P", "UPT": "UP", "PR": "PR", "SRZ": ""}.get(bare, "")
    return (kind, -1, (), ())


def _address(text: str, width: int) -> tuple[int, ...]:
    """Registers of a memory operand whose unmarked base registers are `width` words wide."""
    found: list[int] = []
    for match in _DESCRIPTOR.finditer(text):
        # 64 bits are certain; wgmma's pair of descriptors prints alike and is widened by its shape.
        found += range(UNIFORM_BASE + int(match[2]), UNIFORM_BASE + int(match[2]) + 2)
    for match in _ADDRESS.finditer(_DESCRIPTOR.sub("", text)):
        first = _BASES[match[1]] + int(match[2])
        marks = match[3]
        words = 2 if ".64" in marks else 1 if marks or match[1] in ("P", "UP") else width
        found += range(first, first + words)
    return tuple(dict.fromkeys(found))


def _possible(match: re.Match[str]) -> str:
    """A register or a number of an operand as it is, without its digits where no machine has it: sets of registers are
    as large as the largest one, and what is reckoned with as long as what stands in the text."""
    kind, digits = match[1], match[2]
    if kind is None:
        return "?"
    return match[0] if len(digits) < 4 and int(digits) < _COUNTS[kind] else f"{kind}?"


Decoded = tuple[str, tuple[str, ...], int | None, bool, tuple[str, ...], tuple[int, ...], tuple[int, ...], str]


@lru_cache(maxsize=1 << 16)
def decode(raw: str) -> Decoded:
    """The fields of an Instruction from `opcode` to `text`; the same text gives the same objects."""
    text = raw.strip()
    if not _PLAIN(text):
        text = _TAIL.sub("", text).strip("{} \t")
    guard: int | None = None
    negated = False
    never = False
    body = text
    if body.startswith("@"):
        mark, _, body = body.partition(" ")
        negated = mark.startswith("@!")
        _, number, _, _ = _operand(_LARGE.sub(_possible, mark[1:]))
        guard = number if number >= 0 else None
        never = guard is None and negated
    head, _, rest = body.lstrip().partition(" ")
    head = _FOREIGN.sub("?", head[:MNEMONIC])  # sentences name opcodes: nothing else may come that way
    opcode, *mods = head.split(".")
    operands = _split(opcode, _LARGE.sub(_possible, rest))
    shape = shape_of(head)
    if shape.texture:
        shape = _texture(shape, operands)
    defs, uses = _registers(shape, operands)
    if guard is not None:
        uses.append(guard)
    if never:  # @!PT: kept by the assembler as a placeholder, never executed
        defs, uses = [], []
    return (
        opcode, tuple(mods), guard, negated, operands,
        tuple(dict.fromkeys(defs)), tuple(dict.fromkeys(uses)), text,
    )  # fmt: skip


def _texture(shape: Shape, operands: tuple[str, ...]) -> Shape:
    """`TEX Rd2, Rd, Rcoord, ..., 2D, 0x9`: the mask's first two components go to Rd, the others to Rd2."""
    mask = int(operands[-1], 16) if operands and _HEX.match(operands[-1]) else 15
    count = (mask & 15).bit_count()
    kind = next((o for o in operands if o.endswith(("1D", "2D", "3D", "CUBE"))), "2D")
    coordinates = (3 if "CUBE" in kind else int(kind[-2])) + ("ARRAY" in kind)
    return structs.replace(shape, dests=(max(0, count - 2), min(2, count)), sources=(coordinates,))


def _split(opcode: str, rest: str) -> tuple[str, ...]:
    rest = rest.strip()
    if not rest:
        return ()
    parts = [part.strip() for part in rest.split(",")]
    if opcode in _BRANCHES:  # `BRX R4 -0x220`, `RET.REL.NODEC R20 `(name)`: nvdisasm leaves the comma out
        parts = [word for part in parts for word in part.split(" ") if word]
    return tuple(parts)


def _span(number: int, words: int) -> range:
    return range(number, number + words) if number >= 0 else range(0)


def _registers(shape: Shape, operands: tuple[str, ...]) -> tuple[list[int], list[int]]:
    parsed = [_operand(text) for text in operands]
    defs: list[int] = []
    uses: list[int] = []
    start = _destinations(shape, parsed, operands, defs) if shape.writes else 0
    widths, default = shape.sources, shape.source
    for place, (kind, number, narrow, wide) in enumerate(parsed[start:]):
        if kind == "M":
            uses += wide if shape.wide and not (shape.shared_first and place == 0) else narrow
            extra = shape.address_words
            if extra and place < len(extra) and narrow:
                uses += range(narrow[0], narrow[0] + extra[place])
        elif kind in ("R", "UR"):
            uses += _span(number, widths[place] if place < len(widths) else default)
        elif number >= 0:
            uses.append(number)
        elif kind == "PR":
            uses += _masked(operands)
    return defs, uses


def _destinations(shape: Shape, parsed: list[Operand], operands: tuple[str, ...], defs: list[int]) -> int:
    """Append the destination registers to `defs`; return the place of the first source."""
    n = len(parsed)
    at = 0
    if shape.predicates_first:  # `SHFL.UP P0, R19, ...`: predicates, then at most one register
        while at < n and at < shape.predicates_first and parsed[at][0] in ("P", "UP"):
            defs += _span(parsed[at][1], 1)
            at += 1
        if at and not shape.register_after:
            return at
    if at >= n:
        return at
    kind, number, _, _ = parsed[at]
    if kind == "PR":
        defs += _masked(operands)
        return at + 1
    if kind in ("P", "UP"):
        if at:
            return at
        # An opcode that is not expected to set predicates: two at most, and never the last operand.
        while at < n - 1 and at < 2 and parsed[at][0] in ("P", "UP"):
            defs += _span(parsed[at][1], 1)
            at += 1
        return at
    if kind not in ("R", "UR"):
        return at + (0 if kind == "M" else 1)
    widths = shape.dests
    defs += _span(number, widths[0])
    at += 1
    for words in widths[1:]:  # TEX and 256-bit loads have a second destination register
        if at < n and parsed[at][0] in ("R", "UR"):
            defs += _span(parsed[at][1], words)
            at += 1
    # Carry-out of IADD3, LEA; the predicate half of VOTE R18, PT, PT (whose last operand is always the source).
    last = n - 1 if shape.last_is_source else n
    while at < last and parsed[at][0] in ("P", "UP") and not operands[at].startswith("!") and not shape.plain:
        defs += _span(parsed[at][1], 1)
        at += 1
    return at


def _masked(operands: tuple[str, ...]) -> tuple[int, ...]:
    """P0..P6 selected by the mask that R2P and P2R end with (all of them where it is not a constant)."""
    last = operands[-1]
    if not _HEX.match(last):
        return _ALL_PREDICATES
    mask = int(last, 16)
    return tuple(p for bit, p in enumerate(_ALL_PREDICATES) if (mask >> bit) & 1)


def parse_instruction(text: str, index: int, pc: int, file: str | None = None, line: int | None = None) -> Instruction:
    """One instruction from its text. `index` is its place in the program, `pc` its byte offset from the entry."""
    opcode, mods, guard, negated, operands, defs, uses, clean = decode(text)
    return Instruction(index, pc, opcode, mods, guard, negated, operands, defs, uses, clean, file, line)


def parse_program(
    name: str,
    sm: int,
    rows: Iterable[tuple[int, str, str | None, int | None]],
    *,
    entry: int = 0,
    labels: Mapping[str, int] | None = None,
) -> Program:
    """A program from (pc offset, text, file, line) rows in address order.

    `entry` is the absolute address of the kernel where branch targets are printed as absolute addresses; `labels`
    maps `.L_x_1` to offsets where they are printed as labels. Both end up as `0x290`, an offset from the entry.
    """
    out: list[Instruction] = []
    for index, (pc, text, file, line) in enumerate(rows):
        if (entry or labels) and _opcode(text) in _BRANCHES:
            text = _resolve(text, entry, labels or {})
        out.append(parse_instruction(text, index, pc, file, line))
    return Program(name, sm, tuple(out))


def _opcode(text: str) -> str:
    words = text.split(None, 2)
    at = 1 if words and words[0].startswith("@") else 0
    return words[at].partition(".")[0] if len(words) > at else ""


def _resolve(text: str, entry: int, labels: Mapping[str, int]) -> str:
    """Branch targets of one instruction's text as offsets from the entry."""
    targets = _TARGETS.search(text)
    text = _LABEL.sub(lambda m: hex(labels[m[1]]) if m[1] in labels else m[0], _TAIL.sub("", text))
    if targets:  # nvdisasm knows an indexed branch's targets: keep them as further operands
        known = [labels[name.strip()] for name in targets[1].split(",") if name.strip() in labels]
        text = ", ".join([text, *map(hex, known)])
    if entry:
        text = re.sub(r"\b0x[0-9a-f]{6,}\b", lambda m: hex(int(m[0], 16) - entry), text)
    return text
