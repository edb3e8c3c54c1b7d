"""Where values come from: which special registers reach an address, followed backwards over def-use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kscope.features.sass.defuse import DefUse
from kscope.isa.opcodes import OpClass
from kscope.model.program import Program

if TYPE_CHECKING:
    from kscope.features.sass.listing import Listing

SPECIAL = {
    "SR_CTAID.X": "x", "SR_CTAID.Y": "y", "SR_CTAID.Z": "z",
    "SR_TID.X": "tid", "SR_TID.Y": "tid", "SR_TID.Z": "tid", "SR_LANEID": "tid", "SR_TID": "tid",
}  # fmt: skip
PARAMETERS = ((100, 0x380), (90, 0x210), (0, 0x160))
"""Offset of the first kernel parameter in bank 0 from an architecture on: what lies below (grid, memory descriptors)
is the driver's. Source: SASS of our own kernels for sm_80, sm_90, sm_100."""
LIMIT = 400  # instructions of one slice: beyond it the origin is called unknown


def origins(code: Listing, index: int, registers: tuple[int, ...] | None = None) -> frozenset[str] | None:
    """Names of what the given source registers (all of the instruction's if None) depend on: `x`, `y`, `z` for the
    block index, `tid` for the thread or lane, `load` for loaded data. None where the slice is too large to tell."""
    sources = code.defuse.sources(index)
    starts = [p for r, producers in sources.items() if registers is None or r in registers for p in producers]
    return code.slices.names(starts)


class Slices:
    """Backward slices of one kernel as bit sets over its instructions, each computed once: the addresses of a
    kernel's accesses have most of their computation in common."""

    def __init__(self, program: Program, classes: Sequence[OpClass], defuse: DefUse) -> None:
        self._code, self._classes, self._defuse = program.instructions, classes, defuse
        self._slices: dict[int, int] = {}  # instruction -> itself and all that its value comes from
        self._bringing: dict[str, int] = {}  # name -> the instructions that bring it in

    def names(self, starts: Iterable[int]) -> frozenset[str] | None:
        """Names that reach any of these instructions; None where there are too many instructions to tell."""
        seen = 0
        for i in starts:
            if i not in self._slices:
                self._extend(i)
            seen |= self._slices[i]
        if seen.bit_count() > LIMIT:
            return None
        return frozenset(name for name, bits in self._bringing.items() if bits & seen)

    def bringing(self, starts: Iterable[int], name: str) -> list[int]:
        """The instructions behind these that bring a name in; none where the slice is too large to tell."""
        seen = 0
        for i in starts:
            if i not in self._slices:
                self._extend(i)
            seen |= self._slices[i]
        bits = 0 if seen.bit_count() > LIMIT else seen & self._bringing.get(name, 0)
        return [i for i in range(bits.bit_length()) if bits >> i & 1]

    def _extend(self, start: int) -> None:
        """Add the slices of an instruction and of everything behind it: all at once, since loops tie them together."""
        before: dict[int, list[int]] = {}
        work = [start]
        while work:
            i = work.pop()
            if i not in before and i not in self._slices:
                before[i] = self._producers(i)
                work += before[i]
        slices = self._slices
        slices.update((i, 1 << i) for i in before)
        order = sorted(before)  # most values are computed above their use
        changed = True
        while changed:
            changed = False
            for i in order:
                bits = old = slices[i]
                for p in before[i]:
                    bits |= slices[p]
                if bits != old:
                    slices[i], changed = bits, True

    def _producers(self, i: int) -> list[int]:
        """Where the slice goes on behind an instruction, whose own names are noted."""
        ins, op = self._code[i], self._classes[i]
        for operand in ins.operands:
            name = SPECIAL.get(operand)
            if name:
                self._bring(name, i)
            elif operand.startswith("c[0x0][0x") and _wide(ins.opcode, ins.mods):
                self._bring(operand, i)  # a 64-bit kernel parameter: the pointer
        if op.access in ("load", "atomic") and op.space in ("global", "shared", "local", "generic"):
            self._bring("load", i)
            return []  # an address that was itself loaded: its index says nothing about the data
        return [p for producers in self._defuse.sources(i).values() for p in producers]

    def _bring(self, name: str, i: int) -> None:
        self._bringing[name] = self._bringing.get(name, 0) | 1 << i


def _wide(opcode: str, mods: tuple[str, ...]) -> bool:
    """Whether an instruction that reads a constant takes 64 bits of it, or half of an address."""
    return "64" in mods or "WIDE" in mods or opcode in ("LEA", "IADD3", "ULEA", "UIADD3") or "X" in mods


def address_origins(code: Listing, index: int) -> frozenset[str] | None:
    """What the address of a memory instruction depends on (see `origins`), its stored data left aside."""
    op = code.classes[index]
    data = set(code[index].uses[-max(1, op.bytes // 4) :]) if op.access == "store" else set()
    return origins(code, index, tuple(r for r in code[index].uses if r not in data))


def gathers(code: Listing, index: int) -> bool:
    """The address was itself computed from loaded data: an indirect access."""
    found = address_origins(code, index)
    return found is not None and "load" in found


def steps_from_loaded(code: Listing, index: int) -> bool:
    """In a loop, with an address that starts from loaded data (a row's first element) and then goes on by itself: no
    load of the loop reaches it. Such an access walks; it does not gather."""
    loop = code.cfg.loop_of[index]
    if loop is None:
        return False
    op = code.classes[index]
    data = set(code[index].uses[-max(1, op.bytes // 4) :]) if op.access == "store" else set()
    starts = [p for r, ps in code.defuse.sources(index).items() if r not in data for p in ps]
    loads = code.slices.bringing(starts, "load")
    return bool(loads) and all(code.cfg.loop_of[i] != loop for i in loads)


def chases(code: Listing, load: int) -> bool:
    """The load's address comes from the load itself, one iteration ago: nothing can be loaded ahead."""
    seen: set[int] = set()
    work = [p for ps in code.defuse.sources(load).values() for p in ps]
    while work:
        i = work.pop()
        if i == load:
            return True
        if i not in seen and len(seen) < 64:
            seen.add(i)
            work += [p for ps in code.defuse.sources(i).values() for p in ps]
    return False


def continues(code: Listing, index: int, loop: int) -> bool:
    """The address goes on where a loop left off: it is computed from a value that the loop carries. The remainder of
    an unrolled loop does; a second pass over the data starts from the beginning."""
    starts = [p for ps in code.defuse.sources(index).values() for p in ps]
    seen = set(starts)
    while starts:
        i = starts.pop()
        if code.cfg.loop_of[i] == loop:
            return True
        if code.classes[i].access is None and len(seen) < LIMIT:
            new = {p for ps in code.defuse.sources(i).values() for p in ps} - seen
            seen |= new
            starts += new
    return False


def pointer(code: Listing, index: int) -> str | None:
    """The kernel parameter that an address is based on (`c[0x0][0x210]`); None when there is no one such."""
    found = address_origins(code, index)
    first = next(offset for sm, offset in PARAMETERS if code.program.sm >= sm)
    parameters = [o for o in found or () if o.startswith("c[") and int(o.rpartition("[")[2].rstrip("]"), 16) >= first]
    return min(parameters) if parameters else None


def grid_dimensions(code: Listing, index: int) -> frozenset[str] | None:
    """Grid dimensions that the address of a memory instruction depends on; None when it cannot be told (a gather,
    or a slice that is too large)."""
    found = address_origins(code, index)
    if found is None or "load" in found:
        return None
    return found & {"x", "y", "z"}
