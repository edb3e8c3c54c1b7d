"""Two listings side by side, registers and addresses renamed: what is left is what the compiler did differently.

Instructions are aligned by their form (opcode, modifiers, operands with registers reduced to their kind, branch
targets to nothing), then register names are followed through the aligned pairs: a definition binds a register of one
side to one of the other, a use that breaks the binding marks the instruction as changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from kscope.isa.families import family
from kscope.model.operand import ends_with
from kscope.model.program import Instruction, Program

LONG = 4000  # lines from which rare forms alone anchor the alignment
_REGISTERS = re.compile(r"(?<![A-Za-z0-9_.])(UR|UP|R|P|B)(\d+)(?:\.reuse)?")
_BRANCHES = family("takes_target")
_TARGET = re.compile(r"(?<![\w.])-?0x[0-9a-f]+|`\([^)]*\)")

Pair = tuple["int | None", "int | None", bool]
"""Instruction of the one side, of the other, and whether both do the same with the same values."""


def form(ins: Instruction) -> str:
    """An instruction's text without what a renaming changes: register numbers, reuse flags, branch targets."""
    text = _REGISTERS.sub(lambda m: m[1], ins.text)
    return _TARGET.sub("@", text) if ins.opcode in _BRANCHES else text


Shape = Counter[tuple[str, str]]
"""How often each form follows each other one: what of a listing survives renaming and, largely, moving."""

ALIKE = 0.6
"""Likeness from which on two kernels are versions of one. Measured over all pairs of the captures in fixtures/h200: of
24,844 pairs of different families 8 are at least this alike, all of them the same algorithm under two names; the median
of two versions in one family is 0.28, so that most rewrites are not told by their code."""


def shape(instructions: Sequence[Instruction]) -> Shape:
    """The pairs of neighbouring forms, padding left out."""
    forms = [form(ins) for ins in _unpadded(instructions)]
    return Counter(pairwise(forms))


def likeness(one: Shape, two: Shape) -> float:
    """Dice's coefficient of two shapes, 0..1; 0 where either is empty."""
    if not one or not two:
        return 0.0
    return 2 * (one & two).total() / (one.total() + two.total())


def code_of(program: Program) -> list[Instruction]:
    """The instructions without the padding behind the last one that counts."""
    return _unpadded(program.instructions)


def _unpadded(instructions: Sequence[Instruction]) -> list[Instruction]:
    code = list(instructions)
    while code and (code[-1].opcode == "NOP" or _endless(code[-1])):
        code.pop()
    return code


def _endless(ins: Instruction) -> bool:
    return ins.opcode == "BRA" and ins.guard is None and ends_with(ins.operands, ins.pc)


def align(before: Sequence[Instruction], after: Sequence[Instruction]) -> list[Pair]:
    """The lines of both sides in order; indices into the sequences, None where a side has nothing."""
    left, right = [form(i) for i in before], [form(i) for i in after]
    names: dict[int, int] = {}
    back: dict[int, int] = {}
    out: list[Pair] = []
    for tag, a, a_end, b, b_end in _runs(left, right):
        if tag == "equal":
            for x, y in zip(range(a, a_end), range(b, b_end), strict=True):
                out.append((x, y, _follows(before[x], after[y], names, back)))
        else:
            out += [(x, None, False) for x in range(a, a_end)]
            out += [(None, y, False) for y in range(b, b_end)]
            for ins in before[a:a_end]:
                for r in ins.defs:
                    names.pop(r, None)
            for ins in after[b:b_end]:
                for r in ins.defs:
                    back.pop(r, None)
    return out


def _runs(left: Sequence[str], right: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """Equal and differing runs, as difflib's opcodes. Equal ends are taken off first: most of two listings is equal,
    and the matcher takes quadratic time on code that repeats itself."""
    shorter = min(len(left), len(right))
    head = next((n for n in range(shorter) if left[n] != right[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if left[-1 - n] != right[-1 - n]), rest)
    inner = left[head : len(left) - tail], right[head : len(right) - tail]
    matcher = SequenceMatcher(None, *inner, autojunk=max(map(len, inner)) > LONG)
    out = [("equal", 0, head, 0, head)]
    out += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    return [*out, ("equal", len(left) - tail, len(left), len(right) - tail, len(right))]


def _follows(old: Instruction, new: Instruction, names: dict[int, int], back: dict[int, int]) -> bool:
    """Whether the new instruction reads what the old one reads, by the names bound so far; binds what it writes."""
    same = len(old.uses) == len(new.uses) and len(old.defs) == len(new.defs)
    if same:
        for a, b in zip(old.uses, new.uses, strict=True):
            if names.get(a, b) != b or back.get(b, a) != a:
                same = False
            elif a not in names and b not in back:
                names[a], back[b] = b, a
    for a, b in zip(old.defs, new.defs, strict=False):
        if a in names:
            back.pop(names[a], None)
        if b in back:
            names.pop(back[b], None)
        names[a], back[b] = b, a
    return same
