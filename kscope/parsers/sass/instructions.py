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

from kscope.isa.families import family
from kscope.isa.operand_shapes import Shape, shape_of
from kscope.model.operand import PREDICATE_BASE, Operand
from kscope.model.program import Instruction, Program
from kscope.parsers.sass.operands import operand

# nvdisasm's comments and scheduling notes: `;`, `(*"BRANCH_TARGETS .L_x_1"*)`, `&req={1}`, `?trans7`, `/* ... */`.
MNEMONIC = 64  # characters kept of an opcode with its modifiers; the longest of our captures has 35
_FOREIGN = re.compile(r"[^A-Z0-9_.x]")
_TAIL = re.compile(r"\s*(?:;|\(\*|/\*|\s[&?]\w|\s&).*$", re.DOTALL)
_PLAIN = re.compile(r"[^;&?*{}]*").fullmatch  # nothing to strip: the usual case
_TARGETS = re.compile(r"BRANCH_TARGETS\s+([^\"*)]+)")
_LABEL = re.compile(r"`?\(([^)]+)\)")
_LARGE = re.compile(r"\b(UR|UP|R|P)(\d+)(?![\w$])|0x[0-9a-fA-F]{17,}|\d{33,}")
_COUNTS = {"R": 256, "UR": 256, "P": 8, "UP": 8}  # eight bits name a register, three a predicate
_ALL_PREDICATES = tuple(range(PREDICATE_BASE, PREDICATE_BASE + 7))
_BRANCHES = family("takes_target")

def _possible(match: re.Match[str]) -> str:
    """A register or a number of an operand as it is, without its digits where no machine has it: sets of registers are
    as large as the largest one, and what is reckoned with as long as what stands in the text."""
    kind, digits = match[1], match[2]
    if kind is None:
        return "?"
    return match[0] if len(digits) < 4 and int(digits) < _COUNTS[kind] else f"{kind}?"


Decoded = tuple[str, tuple[str, ...], int | None, bool, tuple[Operand, ...], tuple[int, ...], tuple[int, ...], str]


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
        number = operand(_LARGE.sub(_possible, mark[1:])).register
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


def _texture(shape: Shape, operands: tuple[Operand, ...]) -> Shape:
    """`TEX Rd2, Rd, Rcoord, ..., 2D, 0x9`: the mask's first two components go to Rd, the others to Rd2."""
    mask = operands[-1].value if operands and operands[-1].kind == "integer" else 15
    count = (mask & 15).bit_count()
    kind = next((o.text for o in operands if o.text.endswith(("1D", "2D", "3D", "CUBE"))), "2D")
    coordinates = (3 if "CUBE" in kind else int(kind[-2])) + ("ARRAY" in kind)
    return structs.replace(shape, dests=(max(0, count - 2), min(2, count)), sources=(coordinates,))


def _split(opcode: str, rest: str) -> tuple[Operand, ...]:
    rest = rest.strip()
    if not rest:
        return ()
    parts = [part.strip() for part in rest.split(",")]
    if opcode in _BRANCHES:  # `BRX R4 -0x220`, `RET.REL.NODEC R20 `(name)`: nvdisasm leaves the comma out
        parts = [word for part in parts for word in part.split(" ") if word]
    return tuple([operand(part) for part in parts])


def _span(number: int, words: int) -> range:
    return range(number, number + words) if number >= 0 else range(0)


def _registers(shape: Shape, operands: tuple[Operand, ...]) -> tuple[list[int], list[int]]:
    defs: list[int] = []
    uses: list[int] = []
    start = _destinations(shape, operands, defs) if shape.writes else 0
    widths, default = shape.sources, shape.source
    for place, one in enumerate(operands[start:]):
        kind = one.kind
        if kind == "register":
            uses += _span(one.register, widths[place] if place < len(widths) else default)
        elif kind in ("memory", "constant"):
            if not one.bases and one.descriptor < 0:
                continue
            found = _address(one, 2 if shape.wide and not (shape.shared_first and place == 0) else 1)
            uses += found
            extra = shape.address_words
            if extra and place < len(extra):
                uses += range(found[0], found[0] + extra[place])
        elif one.register >= 0:
            uses.append(one.register)
        elif kind == "predicates":
            uses += _masked(operands)
    return defs, uses


def _address(one: Operand, width: int) -> list[int]:
    """Registers of an address whose unmarked base registers are `width` words wide."""
    found = [one.descriptor, one.descriptor + 1] if one.descriptor >= 0 else []
    for base in one.bases:
        found += range(base.register, base.register + (base.words or width))
    return found


def _destinations(shape: Shape, operands: tuple[Operand, ...], defs: list[int]) -> int:
    """Append the destination registers to `defs`; return the place of the first source."""
    n = len(operands)
    # `SHFL.UP P0, R19, ...`: predicates, then at most one register
    at = _predicates(operands[: shape.predicates_first], defs)
    if at >= n or (at and not shape.register_after):
        return at
    kind = operands[at].kind
    if kind == "predicates":
        defs += _masked(operands)
        return at + 1
    if kind == "predicate":
        # An opcode that is not expected to set predicates: two at most, and never the last operand.
        return at or _predicates(operands[: min(2, n - 1)], defs)
    if kind != "register":
        return at + (0 if kind in ("memory", "constant") else 1)
    widths = shape.dests
    defs += _span(operands[at].register, widths[0])
    at += 1
    for words in widths[1:]:  # TEX and 256-bit loads have a second destination register
        if at < n and operands[at].kind == "register":
            defs += _span(operands[at].register, words)
            at += 1
    # Carry-out of IADD3, LEA; the predicate half of VOTE R18, PT, PT (whose last operand is always the source).
    last = n - 1 if shape.last_is_source else n
    while at < last and operands[at].kind == "predicate" and not operands[at].negated and not shape.plain:
        defs += _span(operands[at].register, 1)
        at += 1
    return at


def _predicates(operands: tuple[Operand, ...], defs: list[int]) -> int:
    """Append the predicates that operands begin with; return how many these are."""
    at = 0
    while at < len(operands) and operands[at].kind == "predicate":
        defs += _span(operands[at].register, 1)
        at += 1
    return at


def _masked(operands: tuple[Operand, ...]) -> tuple[int, ...]:
    """P0..P6 selected by the mask that R2P and P2R end with (all of them where it is not a constant)."""
    last = operands[-1]
    if last.kind != "integer":
        return _ALL_PREDICATES
    return tuple(p for bit, p in enumerate(_ALL_PREDICATES) if (last.value >> bit) & 1)


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
