"""Machine code of one kernel, parsed: instructions with operands and registers. Addresses are byte offsets from
the kernel's entry, as every SASS listing prints them.

Registers are small integers so that sets and dictionaries of them are cheap: R0..R254 are 0..254 (RZ is dropped),
UR0.. are 256 + n, P0..P6 are 512 + n (PT is dropped), UP0.. are 544 + n.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.model.operand import PREDICATE_BASE as PREDICATE_BASE
from kscope.model.operand import UNIFORM_BASE as UNIFORM_BASE
from kscope.model.operand import UNIFORM_PREDICATE_BASE as UNIFORM_PREDICATE_BASE
from kscope.model.operand import Operand


class Control(Struct, frozen=True):
    """The scheduling fields that the compiler puts into every instruction from Volta on (Jia et al., "Dissecting the
    NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv 1804.06826, section 2.1).

    `stall`: cycles before the warp may issue its next instruction. `yields`: the scheduler is asked to switch to
    another warp. `write_barrier`: scoreboard released when the result is written, `read_barrier`: when the operands
    have been read (None: none). `wait_mask`: bit n set waits for scoreboard n before issue. `reuse`: bits 0, 1, 2
    keep the registers of operand slots A, B, C in the reuse cache.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int

    @property
    def waits(self) -> tuple[int, ...]:
        """Scoreboards that are waited for, ascending."""
        return tuple(n for n in range(6) if self.wait_mask >> n & 1)


class Site(Struct, frozen=True):
    """A place in a source file; `function` is the one that the line belongs to, where the compiler says it."""

    file: str
    line: int
    function: str | None = None


class Resources(Struct, frozen=True):
    """What a function takes, from the image's .nv.info; None where it does not say.

    Bytes but for `registers` (32-bit registers a thread), `barriers` (named barriers) and `max_threads` (of a block,
    from __launch_bounds__). `stack` is the least stack a thread needs, `frame` the function's own part of it: both
    hold local arrays and spills alike. `shared` is static shared memory.
    """

    registers: int | None = None
    stack: int | None = None
    frame: int | None = None
    shared: int | None = None
    constants: int | None = None
    parameters: int | None = None
    barriers: int | None = None
    max_threads: tuple[int, int, int] | None = None
    max_registers: int | None = None


class Instruction(Struct, frozen=True):
    """One SASS instruction.

    opcode is the first dotted part (`LDG`), mods the rest (`("E", "128")`). `guard` is the predicate register or
    None, `guard_negated` its sense. `operands` are values, in order. `defs` and `uses` are register
    numbers (see the module), with every register of a range: LDG.E.128 R4 defines 4, 5, 6, 7; a 64-bit address
    [R2.64] uses 2 and 3. Implicit operands (HGMMA's accumulators) are included. `control` is None where only text
    is known. `inlined` are the call sites through which the line got here, innermost first.
    """

    index: int
    pc: int
    opcode: str
    mods: tuple[str, ...]
    guard: int | None
    guard_negated: bool
    operands: tuple[Operand, ...]
    defs: tuple[int, ...]
    uses: tuple[int, ...]
    text: str
    file: str | None = None
    line: int | None = None
    control: Control | None = None
    inlined: tuple[Site, ...] = ()

    @property
    def name(self) -> str:
        """Opcode with its modifiers, as listings print it: LDG.E.128."""
        return ".".join((self.opcode, *self.mods))


class Program(Struct, frozen=True):
    """The instructions of one kernel, or of one device function with code of its own, in address order.

    `sm` is the target (90 for sm_90), `arch` its full name (`sm_90a`, empty where unknown). `entry` is False for a
    device function. `branches` maps the pc of an indirect branch to the pcs that it may go to, `spills` are the pcs
    of loads and stores that the compiler marks as spills, `symbols` the (pc, name) of functions inside the code.
    `marks_spills`: whether the compiler is one that marks them, so that what has no mark is none. `tile`: made from
    tile IR (cuTile), whose source has no threads.
    """

    name: str
    sm: int
    instructions: tuple[Instruction, ...]
    arch: str = ""
    entry: bool = True
    resources: Resources | None = None
    branches: dict[int, tuple[int, ...]] = {}
    spills: frozenset[int] = frozenset()
    symbols: tuple[tuple[int, str], ...] = ()
    demangled: str = ""
    marks_spills: bool = False
    tile: bool = False

    def __len__(self) -> int:
        return len(self.instructions)


class Cubin(Struct, frozen=True):
    """One device code image: its functions in the order of the image. `member` is its name inside a container of
    several, `toolkit` the version of the compiler that made it, where the image says so."""

    arch: str
    sm: int
    functions: tuple[Program, ...]
    member: str = ""
    toolkit: str | None = None


def register_name(number: int) -> str:
    """R4, UR6, P0, UP1 for a register number."""
    if number >= UNIFORM_PREDICATE_BASE:
        return f"UP{number - UNIFORM_PREDICATE_BASE}"
    if number >= PREDICATE_BASE:
        return f"P{number - PREDICATE_BASE}"
    return f"UR{number - UNIFORM_BASE}" if number >= UNIFORM_BASE else f"R{number}"
