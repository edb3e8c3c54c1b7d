"""Addresses as sums: constant + coefficient x unknown, followed backwards over def-use.

A shared-memory address of a pipelined kernel is window base + offset + 8 x stage. The window and the stage are
unknown and stay symbols; the constant tells barrier groups apart (`kscope.features.specialized.wait_sites`). Values
that a loop carries are given by what they start from, marked as varying.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kscope.features.sass.defuse import DefUse
from kscope.isa.families import family
from kscope.model.operand import Operand
from kscope.model.program import Instruction, Program

DEPTH = 60
_LEAVES, _SPECIAL, _LOGIC = family("leaves_straight_line"), family("special_read"), family("logic")


AND = 0xC0  # LOP3's table for a & b
PEER = 1 << 24
"""Bit of a shared-memory address in the cluster's window that tells the two blocks of a pair apart (sm_100: products of
two blocks as one signal the barriers of the first). Source: SASS of fixtures/sass/clusters.cu, and the mask 0xFEFFFFFF
that libraries write."""
ALIGNED = 0x3FF  # bits that the compiler leaves out of the mask where it knows that they are 0 (operands lie on 1024)


class Sum(Struct, frozen=True):
    """constant + sum of coefficient x symbol. `varying`: a loop changes it in a way that the sum leaves out."""

    constant: int
    terms: Mapping[str, int] = {}
    varying: bool = False

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            terms[name] = _wrapped(terms.get(name, 0) + factor * coefficient)
        return Sum(
            _wrapped(self.constant + factor * other.constant),
            {n: c for n, c in terms.items() if c},
            self.varying or other.varying,
        )

    def times(self, factor: int) -> Sum:
        terms = {n: _wrapped(c * factor) for n, c in self.terms.items()}
        return Sum(_wrapped(self.constant * factor), terms, self.varying)

    @property
    def strides(self) -> frozenset[int]:
        """Coefficients of its symbols: 8 where consecutive barriers are indexed."""
        return frozenset(self.terms.values())


def _wrapped(number: int) -> int:
    """In 64 bits, as registers wrap: a chain of squares would double its length each time."""
    return number if -(1 << 63) <= number < 1 << 63 else (number + (1 << 63)) % (1 << 64) - (1 << 63)


class Affine:
    """Sums of the registers of one program, each computed once."""

    def __init__(self, program: Program, defuse: DefUse) -> None:
        self._code, self._defuse = program.instructions, defuse
        self._known: dict[tuple[int, int], Sum] = {}
        self._open: set[tuple[int, int]] = set()

    def address(self, index: int, operand: Operand) -> Sum:
        """The address in the brackets of a memory operand, `[UR4+0x34000]` or `[R7+URZ+0x8]`."""
        out = Sum(operand.value)
        for base in operand.bases:
            out = out.plus(self.register(index, base.register), base.scale)
        return out

    def register(self, index: int, register: int, depth: int = 0) -> Sum:
        """What instruction `index` reads from a register."""
        producers = self._same_guard(index, self._defuse.producers(index, register))
        found: list[Sum] = []
        cyclic = False
        for p in producers:
            if (p, register) in self._open:
                cyclic = True
                continue
            one = self._value(p, register, depth)
            if one not in found:
                found.append(one)
        if len(found) == 1 and depth < DEPTH:
            return Sum(found[0].constant, found[0].terms, True) if cyclic else found[0]
        settled = [s for s in found if not s.varying]
        if len(settled) == 1 and len(found) == 2:  # the start value, and itself moved on by the loop
            return Sum(settled[0].constant, settled[0].terms, True)
        return Sum(0, {f"{register}@" + ",".join(map(str, producers or (-1,))): 1})

    def _same_guard(self, index: int, producers: tuple[int, ...]) -> tuple[int, ...]:
        """Of a guarded instruction's producers the nearest before it with the same guard: when the one runs, so does
        the other (their predicate is not written in between)."""
        ins = self._code[index]
        if ins.guard is None or len(producers) < 2:
            return producers
        near = max((p for p in producers if p < index), default=-1)
        one = self._code[near]
        same = near >= 0 and (one.guard, one.guard_negated) == (ins.guard, ins.guard_negated)
        kept = same and not any(ins.guard in self._code[i].defs for i in range(near, index))
        return (near,) if kept and not self._jumps(near, index) else producers

    def _jumps(self, start: int, end: int) -> bool:
        return any(self._code[i].opcode in _LEAVES for i in range(start, end))

    def _value(self, producer: int, register: int, depth: int) -> Sum:
        key = (producer, register)
        if key not in self._known:
            self._open.add(key)
            found = self._evaluate(self._code[producer], register, depth + 1)
            self._open.discard(key)
            self._known[key] = found if found is not None else Sum(0, {f"{register}@{producer}": 1})
        return self._known[key]

    def _evaluate(self, ins: Instruction, register: int, depth: int) -> Sum | None:
        """The sum that an instruction writes to a register; None where it is not one."""
        if depth >= DEPTH or not ins.operands or "X" in ins.mods or "HI" in ins.mods:
            return None
        op = ins.opcode.removeprefix("U")
        sources = [a for a in ins.operands[1:] if a.kind not in ("predicate", "predicates")]
        if ins.opcode in _SPECIAL and sources:
            return Sum(0, {sources[0].text: 1})
        if op in ("MOV", "R2UR") and sources:
            return self._of(ins, sources[-1], depth)
        if op == "IMAD":
            return self._multiply(ins, sources, depth)
        if op in ("IADD3", "VIADD", "IADD", "VIADD3"):
            return self._sum(ins, sources, depth)
        if op == "LEA" and len(sources) >= 3:
            return self._shifted(ins, sources[0], sources[-1], sources[1], depth)
        if op == "SHF" and "L" in ins.mods and len(sources) >= 2:
            return self._shifted(ins, sources[0], sources[1], None, depth)
        return self._changed(ins, op, sources, register, depth)

    def _shifted(
        self, ins: Instruction, first: Operand, count: Operand, added: Operand | None, depth: int
    ) -> Sum | None:
        """first << count, and what is added to it."""
        if count.shift is None:
            return None
        moved, other = self._of(ins, first, depth), self._of(ins, added, depth) if added is not None else Sum(0)
        return moved.times(1 << count.shift).plus(other) if moved and other else None

    def _changed(self, ins: Instruction, op: str, sources: list[Operand], register: int, depth: int) -> Sum | None:
        """An address with some of its bytes or bits put in or masked off."""
        if op == "PRMT" and len(sources) == 3 and sources[1].equals(0x654):
            return self._of(ins, sources[2], depth)  # the same address in another block of the cluster
        if op not in _LOGIC or (mask := _mask(sources)) is None:
            return None
        if _first_of_pair(mask):
            return self._of(ins, sources[0], depth)  # the same address in the first block of a pair
        return Sum(0, {f"{register}@{ins.index}": mask & -mask})  # a multiple of the mask's lowest bit

    def _multiply(self, ins: Instruction, sources: list[Operand], depth: int) -> Sum | None:
        if "WIDE" in ins.mods or len(sources) < 3:
            if "SHL" in ins.mods and len(sources) >= 2:
                a, b = self._of(ins, sources[0], depth), self._of(ins, sources[1], depth)
                return a.times(b.constant) if a and b and not b.terms else None
            return None
        a, b, c = (self._of(ins, s, depth) for s in sources[:3])
        if a is None or b is None or c is None:
            return None
        if not b.terms and not b.varying:
            return a.times(b.constant).plus(c)
        if not a.terms and not a.varying:
            return b.times(a.constant).plus(c)
        return None

    def _sum(self, ins: Instruction, sources: list[Operand], depth: int) -> Sum | None:
        out = Sum(0)
        for s in sources[:3]:
            one = self._magnitude(ins, s, depth)
            if one is None:
                return None
            out = out.plus(one, -1 if s.negated else 1)
        return out

    def _of(self, ins: Instruction, operand: Operand, depth: int) -> Sum | None:
        return None if operand.negated and not operand.zero else self._magnitude(ins, operand, depth)

    def _magnitude(self, ins: Instruction, operand: Operand, depth: int) -> Sum | None:
        """The sum that an operand stands for, its sign left aside; None where it is not one."""
        if operand.inverted or not operand.whole:
            return None
        if operand.kind == "integer":
            return Sum(operand.value - (1 << 32) if operand.value >= 1 << 31 else operand.value)
        if operand.kind == "register":
            return self.register(ins.index, operand.register, depth) if operand.register >= 0 else Sum(0)
        if operand.kind == "constant":  # the same symbol for c[0x0][0x210] and -c[0x0][0x210]
            return Sum(0, {f"c[{operand.bank}][{operand.value}]{operand.bases or ''}": 1})
        return Sum(0, {operand.text: 1}) if operand.kind == "special" else None


def _mask(sources: list[Operand]) -> int | None:
    """The constant that LOP3 ands a register with; None where it does something else."""
    if len(sources) < 4 or sources[1].kind != "integer" or not sources[2].zero or not sources[3].equals(AND):
        return None
    return sources[1].value & 0xFFFFFFFF or None


def _first_of_pair(mask: int) -> bool:
    """Whether a mask is all ones but for the bit of the peer."""
    return mask | PEER | ALIGNED == 0xFFFFFFFF and not mask & PEER
