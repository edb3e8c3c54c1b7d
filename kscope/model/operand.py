"""Operands of an instruction as values: `-R4.reuse`, `c[0x0][0x210]`, `desc[UR6][R2.64+0x10]`, made once by the parser
(`kscope.parsers.sass.operands`). What asks for a register, an offset or a constant looks here, not at the text."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

UNIFORM_BASE = 256
PREDICATE_BASE = 512
UNIFORM_PREDICATE_BASE = 544

Kind = Literal[
    "register", "predicate", "predicates", "integer", "float", "constant", "memory", "special", "barrier",
    "scoreboard", "word",
]  # fmt: skip
"""What an operand is: R and UR with their zero registers; P and UP with PT; all predicates at once (PR); a whole
number, hexadecimal or not (FADD writes 2.0 as `2`); a number with a point, infinity, NaN; a constant bank's word; an
address in any other brackets; S2R's special registers; B0 and SB0; the rest (labels, symbols, `2D`, `gsb0`)."""


class Base(Struct, frozen=True):
    """A register in an address. `scale`: its factor (-1 where it is subtracted); `words`: 32-bit registers that it
    says to cover, 0 where the instruction decides (`[R2]` of LDG is a pair on some chips)."""

    register: int
    scale: int = 1
    words: int = 0


class Operand(Struct, frozen=True):
    """One operand.

    `text`: as listings print it. `register`: number (see kscope.model.program) of a register or predicate; -1 for RZ,
    URZ, PT, UPT, and for what is neither. `value`: an integer's, the offset in bytes of a constant or an address, the
    number of a barrier or scoreboard. `bank`: of a constant, -1 where a register names it. `bases`: registers of an
    address or of a constant's index. `prefix`: what stands before the brackets (`desc`, `gdesc`, `cx`, `tmem`, `c`);
    `descriptor`: the uniform register in the brackets of a prefix with an address behind them, -1 without. `negated`:
    - or, of predicates, !; `inverted`: ~; `absolute`: |R4|. `part`: which piece or type is meant (`H0_H0`, `64`).
    """

    text: str
    kind: Kind
    register: int = -1
    value: int = 0
    bank: int = -1
    bases: tuple[Base, ...] = ()
    prefix: str = ""
    descriptor: int = -1
    negated: bool = False
    inverted: bool = False
    absolute: bool = False
    reuse: bool = False
    part: str = ""

    @property
    def vector(self) -> int | None:
        """Number of a vector register (R12, -R12, |R12|, R12.reuse); None for RZ and for anything else."""
        return self.register if self.kind == "register" and 0 <= self.register < UNIFORM_BASE else None

    @property
    def zero(self) -> bool:
        """RZ or URZ."""
        return self.kind == "register" and self.register < 0

    @property
    def constant(self) -> bool:
        """Known before the launch begins: an integer, a word of constant memory, RZ, PT."""
        return self.kind in ("integer", "constant") or (self.kind in ("register", "predicate") and self.register < 0)

    @property
    def whole(self) -> bool:
        """No piece of a register and no magnitude: what is read is the register as it stands, or its negation."""
        return not self.part and not self.absolute

    @property
    def number(self) -> float | None:
        """The value of a decimal immediate, as floating-point instructions write theirs; None for the rest."""
        if self.kind not in ("integer", "float"):
            return None
        try:
            return float(self.text)
        except ValueError:
            return None

    @property
    def shift(self) -> int | None:
        """How far an integer shifts 32 bits; None where it is no such constant."""
        return self.value if self.kind == "integer" and 0 <= self.value < 32 else None

    def equals(self, value: int) -> bool:
        """An integer of this value."""
        return self.kind == "integer" and self.value == value

    @property
    def symbol(self) -> str:
        """The name in a label or a linker symbol, `(name)`; empty for the rest."""
        return self.text.strip("`()") if self.kind == "word" else ""

    @property
    def mentioned(self) -> tuple[int, ...]:
        """Registers that it names, of an address the first one of each base."""
        own = (self.register,) if self.register >= 0 else ()
        return own + tuple(b.register for b in self.bases)

    def __str__(self) -> str:
        return self.text


def memory_operand(operands: tuple[Operand, ...]) -> Operand | None:
    """The first operand in brackets, constants included; None without any."""
    return next((o for o in operands if o.kind in ("memory", "constant")), None)


def uniform_base(operand: Operand) -> int | None:
    """The uniform register that plain brackets begin with (`[UR4+0x8]`), as asynchronous copies name shared memory;
    None for other operands."""
    if operand.kind != "memory" or operand.prefix or not operand.bases:
        return None
    first = operand.bases[0].register
    return first if UNIFORM_BASE <= first < PREDICATE_BASE else None


def ends_with(operands: tuple[Operand, ...], value: int) -> bool:
    """The last operand is this integer: a count of groups left in flight, a branch to itself."""
    return bool(operands) and operands[-1].equals(value)
