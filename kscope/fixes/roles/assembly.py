"""Assembly in a kernel's text: what its instructions do to shared memory, to mbarriers and to the threads of a block.
They are read by what they say (PTX ISA), never by the name of the function around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing

CALL = "asm_of_"
"""In front of the number of an assembly statement, where the text calls it instead."""

RANKS = {"%cluster_ctarank": 0, "%cluster_nctarank": 1, "%cluster_ctaid.x": 0, "%cluster_nctaid.x": 1}
"""Registers that tell where a block is in its cluster, which is one along x: 0 that, 1 how many it has."""

_ASM = re.compile(r"\b(?:asm|__asm__)\b(?:\s+(?:volatile|__volatile__))?\s*\(")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r'\s*(?:\[\w+\]\s*)?"(?P<kind>[^"]*)"\s*\((?P<value>.*)\)\s*$', re.S)
_GUARD = re.compile(r"@(!?)%?\w+\s+")
_BITS = re.compile(r"\.[bsuf](\d+)\b")
_TRIES = ("mbarrier.try_wait", "mbarrier.test_wait")
_INSIDE = re.compile(r"fence\.(?:proxy\.(?:async|tensormap)|mbarrier_init|(?:acq_rel|sc)\.cta)|membar\.cta")
"""Fences for the block's own threads: others tell another block that something is there, which barriers go before."""
_OWN = ("wgmma.fence.sync.aligned",)  # of registers
_SILENT = ("mov", "cvt", "cvta", "selp", "setp", "mma", "setmaxnreg", "nanosleep", "ex2", "lg2", "rcp",
           "rsqrt", "sqrt", "tanh", "sin", "cos", "add", "sub", "mul", "mad", "fma", "min", "max", "shl", "shr", "and",
           "or", "xor", "not", "neg", "abs", "lop3", "prmt", "bfe", "bfi", "div", "dp4a", "elect", "prefetch",
           "createpolicy")  # fmt: skip
"""Instructions that touch neither memory nor a barrier, or order memory more than is needed here."""


class Step(Struct, frozen=True):
    """One instruction: its name with all modifiers, its operands as they are written, whether it has a guard."""

    name: str
    operands: tuple[str, ...]
    guarded: bool

    def bytes(self) -> int:
        """What a load or store moves."""
        bits = _BITS.search(self.name)
        times = 4 if ".v4" in self.name else 2 if ".v2" in self.name else 1
        if bits is None:
            raise Unplayable(self.name)
        return int(bits[1]) // 8 * times


class Assembly(Struct, frozen=True):
    """A statement: `results`: how many of its operands it writes; `repeats`: whether it goes back until a wait is over;
    `keeps`: whether the compiler leaves accesses of memory on their side of it."""

    steps: tuple[Step, ...]
    results: int
    repeats: bool
    keeps: bool = True

    @property
    def silent(self) -> bool:
        return all(_silent(s) for s in self.steps)


def _silent(step: Step) -> bool:
    first = step.name.split(".")[0]
    place = first == "mov" and any(o in RANKS for o in step.operands)
    return not place and (first in _SILENT or step.name in _OWN or _INSIDE.match(step.name) is not None)


def assembled(text: str, known: list[Assembly]) -> str:
    """A text with its assembly statements as calls with their operands; what they are is added to the known ones."""
    out, at = [], 0
    while (match := _ASM.search(text, at)) is not None:
        close = _close(text, match.end())
        one, operands = _statement(text[match.end() : close])
        out += [text[at : match.start()], f"{CALL}{len(known)}({', '.join(operands)})"]
        known.append(one)
        at = close + 1
    return "".join([*out, text[at:]])


def _close(text: str, at: int) -> int:
    """Where the bracket closes; brackets in strings are none."""
    bare = _STRING.sub(lambda m: '"' + "_" * len(m[1]) + '"', text[at:])
    end = closing(bare, 0)
    if end is None:
        raise Unplayable("asm")
    return at + end


def _statement(inside: str) -> tuple[Assembly, list[str]]:
    strings, at = [], 0
    while (one := re.compile(r"\s*" + _STRING.pattern).match(inside, at)) is not None:
        strings.append(one[1])
        at = one.end()
    sections = [*_sections(inside[at:]), "", "", ""][1:4]
    lists = [[p for p in split_declarators(s) if p.strip()] for s in sections[:2]]
    found = [[_OPERAND.match(p) for p in one] for one in lists]
    if not strings or any(m is None for one in found for m in one) or "%[" in "".join(strings):
        raise Unplayable("asm")
    code = "".join(strings).replace("\\n", "\n").replace("\\t", " ").replace("%%", "%")
    operands = [f"({m['value']})" for one in found for m in one if m is not None]
    return _read(code, len(found[0]), keeps='"memory"' in sections[2]), operands


def _sections(text: str) -> Iterator[str]:
    """Parts between colons that stand in no brackets and no strings."""
    depth, start, quoted = 0, 0, False
    for n, c in enumerate(text):
        quoted ^= c == '"'
        depth += (not quoted) * ((c in "([{") - (c in ")]}"))
        if c == ":" and not depth and not quoted:
            yield text[start:n]
            start = n + 1
    yield text[start:]


def _read(code: str, results: int, *, keeps: bool) -> Assembly:
    steps, jumps, labels = [], 0, set[str]()
    code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", code, flags=re.S)
    code = re.sub(r"(^|[;\n:])\s*[{}]", r"\1 ", code)  # brackets around statements, not around operands
    for part in re.split(r"[;\n]", code):
        line = part.strip()
        while label := re.match(r"([$\w%]+)\s*:(?!:)\s*", line):
            labels.add(label[1])
            line = line[label.end() :]
        if not line or line.startswith(".reg"):
            continue
        guard = _GUARD.match(line)
        line = line[guard.end() :] if guard is not None else line
        name, _, rest = line.partition(" ")
        if name.startswith("bra"):
            jumps += 1
            continue
        steps.append(Step(name, tuple(p.strip() for p in _operands(rest)), guard is not None))
    waits = [s for s in steps if s.name.startswith(_TRIES)]
    if jumps and (len(waits) != len(steps) or len(steps) != 1 or not labels):
        raise Unplayable("a branch in assembly")
    return Assembly(tuple(steps), results, jumps > 0, keeps)


def _operands(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for n, c in enumerate(text):
        depth += (c in "[{(") - (c in "]})")
        if c == "," and not depth:
            yield text[start:n]
            start = n + 1
    if text[start:].strip():
        yield text[start:]
