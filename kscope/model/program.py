"""Machine code of one kernel, parsed: instructions with operands and registers. Addresses are byte offsets from
the kernel's entry, as every SASS listing prints them.

Registers are small integers so that sets and dictionaries of them are cheap: R0..R254 are 0..254 (RZ is dropped),
UR0.. are 256 + n, P0..P6 are 512 + n (PT is dropped), UP0.. are 544 + n.
"""

from __future__ import annotations

from msgspec import Struct

UNIFORM_BASE = 256
PREDICATE_BASE = 512
UNIFORM_PREDICATE_BASE = 544


class Instruction(Struct, frozen=True):
    """One SASS instruction.

    opcode is the first dotted part (`LDG`), mods the rest (`("E", "128")`). `guard` is the predicate register or
    None, `guard_negated` its sense. `operands` are the operand texts in order. `defs` and `uses` are register
    numbers (see the module), with every register of a range: LDG.E.128 R4 defines 4, 5, 6, 7; a 64-bit address
    [R2.64] uses 2 and 3. Implicit operands (HGMMA's accumulators) are included.
    """

    index: int
    pc: int
    opcode: str
    mods: tuple[str, ...]
    guard: int | None
    guard_negated: bool
    operands: tuple[str, ...]
    defs: tuple[int, ...]
    uses: tuple[int, ...]
    text: str
    file: str | None = None
    line: int | None = None

    @property
    def name(self) -> str:
        """Opcode with its modifiers, as listings print it: LDG.E.128."""
        return ".".join((self.opcode, *self.mods))


class Program(Struct, frozen=True):
    """The instructions of one kernel in address order. `sm` is the target (90 for sm_90)."""

    name: str
    sm: int
    instructions: tuple[Instruction, ...]

    def __len__(self) -> int:
        return len(self.instructions)


def register_name(number: int) -> str:
    """R4, UR6, P0, UP1 for a register number."""
    if number >= UNIFORM_PREDICATE_BASE:
        return f"UP{number - UNIFORM_PREDICATE_BASE}"
    if number >= PREDICATE_BASE:
        return f"P{number - PREDICATE_BASE}"
    return f"UR{number - UNIFORM_BASE}" if number >= UNIFORM_BASE else f"R{number}"
