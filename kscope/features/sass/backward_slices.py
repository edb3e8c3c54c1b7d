"""What a value is computed from, over def-use: backward slices and the names that reach them (block and thread index,
loaded data, 64-bit parameters). Questions about addresses are asked in `kscope.features.sass.slices`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscope.features.sass.defuse import DefUse
from kscope.isa.families import family
from kscope.isa.opcodes import OpClass
from kscope.model.operand import Operand
from kscope.model.program import Program

SPECIAL = {
    "SR_CTAID.X": "x", "SR_CTAID.Y": "y", "SR_CTAID.Z": "z",
    "SR_TID.X": "tid", "SR_TID.Y": "tid", "SR_TID.Z": "tid", "SR_LANEID": "tid", "SR_TID": "tid",
}  # fmt: skip
_HALVES = family("address_half")
LIMIT = 400  # instructions of one slice: beyond it the origin is called unknown


class Slices:
    """Backward slices of one kernel as bit sets over its instructions, each computed once: the addresses of a
    kernel's accesses have most of their computation in common."""

    def __init__(self, program: Program, classes: Sequence[OpClass], defuse: DefUse) -> None:
        self._code, self._classes, self._defuse = program.instructions, classes, defuse
        self._slices: dict[int, int] = {}  # instruction -> itself and all that its value comes from
        self._bringing: dict[str, int] = {}  # name -> the instructions that bring it in
        self.constants: dict[str, int] = {}
        """Names of the words of constant bank 0 that slices have met: their offsets in bytes."""

    def names(self, starts: Iterable[int], reader: int | None = None) -> frozenset[str] | None:
        """Names that reach any of these instructions, or the reader through them; None where there are too many
        instructions to tell."""
        seen = self._behind(starts, reader)
        if seen.bit_count() > LIMIT:
            return None
        return frozenset(name for name, bits in self._bringing.items() if bits & seen)

    def bringing(self, starts: Iterable[int], name: str) -> list[int]:
        """The instructions behind these that bring a name in; none where the slice is too large to tell."""
        seen = self._behind(starts, None)
        bits = 0 if seen.bit_count() > LIMIT else seen & self._bringing.get(name, 0)
        return [i for i in range(bits.bit_length()) if bits >> i & 1]

    def _behind(self, starts: Iterable[int], reader: int | None) -> int:
        """The slices of all of them. What runs under the reader's own guard has its value whenever the reader runs:
        there the guard says nothing about the value."""
        seen, work = 0, list(starts)
        while work:
            i = work.pop()
            if reader is not None and self._beside(i, reader):
                if not seen >> i & 1:
                    work += self._producers(i, guard=False)
                seen |= 1 << i
                continue
            if i not in self._slices:
                self._extend(i)
            seen |= self._slices[i]
        return seen

    def _beside(self, i: int, reader: int) -> bool:
        """Whether both run under one guard, of one value."""
        one, other = self._code[i], self._code[reader]
        if one.guard is None or (one.guard, one.guard_negated) != (other.guard, other.guard_negated):
            return False
        return self._defuse.sources(i).get(one.guard) == self._defuse.sources(reader).get(one.guard)

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

    def _producers(self, i: int, *, guard: bool = True) -> list[int]:
        """Where the slice goes on behind an instruction, whose own names are noted; without its guard on request."""
        ins, op = self._code[i], self._classes[i]
        for operand in ins.operands:
            if operand.kind == "special":
                name = SPECIAL.get(operand.text)
                if name:
                    self._bring(name, i)
            elif operand.kind == "constant" and _word(operand) and _wide(ins.opcode, ins.mods):
                self._bring(operand.text, i)  # a 64-bit kernel parameter: the pointer
                self.constants[operand.text] = operand.value
            elif operand.kind == "constant" and operand.bases:
                self._bring("table", i)
        if op.access in ("load", "atomic") and op.space in ("global", "shared", "local", "generic"):
            self._bring("load", i)
            return []  # an address that was itself loaded: its index says nothing about the data
        sources = self._defuse.sources(i).items()
        return [p for r, producers in sources if guard or r != ins.guard for p in producers]

    def _bring(self, name: str, i: int) -> None:
        self._bringing[name] = self._bringing.get(name, 0) | 1 << i


def _word(operand: Operand) -> bool:
    """A word of constant bank 0 at a fixed place, as it stands."""
    return operand.bank == 0 and not operand.bases and not operand.negated


def _wide(opcode: str, mods: tuple[str, ...]) -> bool:
    """Whether an instruction that reads a constant takes 64 bits of it, or half of an address."""
    return "64" in mods or "WIDE" in mods or opcode in _HALVES or "X" in mods
