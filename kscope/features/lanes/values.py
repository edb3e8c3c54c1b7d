"""What the 32 lanes of a warp hold in a register, found by running the integer code that computes it.

Launch values that are the same for all lanes (parameters, block index, loop counters, loaded words at one address)
are replaced by invented numbers; values that differ between lanes in a way the code does not tell (loaded data) are
unknown and make everything that depends on them unknown. What comes out the same for several sets of invented numbers
is a property of the code: the bank conflict degree of an address, the alignment of a pointer plus offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.borders import inside
from kscope.features.lanes.semantics import LANES, MASK, OPERATIONS, Value, each, flat
from kscope.features.sass.listing import Listing
from kscope.features.sass.pointers import pointers
from kscope.isa.abi import abi
from kscope.isa.families import family
from kscope.model.operand import PREDICATE_BASE, UNIFORM_BASE, Operand
from kscope.model.program import Instruction

DEEPEST = 100  # instructions behind one another, beyond which a value is called unknown
BUDGET = 4_000  # instructions run under one assumption, beyond which all further values are unknown
SHUFFLES = family("other_lane")
_SPECIAL, _CONSTANT = family("special_read"), family("constant_read")


class Lanes:
    """Register values of one warp under one assumption. Each definition is run once."""

    def __init__(self, listing: Listing, assumption: Assumption) -> None:
        self._code, self._defuse, self._cfg = listing, listing.defuse, listing.cfg
        self._given = assumption
        self._known: list[dict[tuple[int, int] | tuple[int, tuple[int, ...]], Value]] = [{}]
        self._open: set[tuple[int, int]] = set()
        self._bound: dict[tuple[int, tuple[int, ...]], Value] = {}
        self._addresses: dict[tuple[int, int], Value] = {}
        self._depth = self._steps = 0
        self._cut = False  # something was called unknown since it was set that may be known elsewhere

    def renewed(self) -> bool:
        """Give another launch a whole budget. False where this one's was spent: what is unknown for want of it alone
        may be known to the other."""
        spent, self._steps = self._steps > BUDGET, 0
        return not spent

    def anew(self) -> Lanes:
        """The same with its whole budget: what was found for one question is known to the next."""
        self._steps = 0
        return self

    @property
    def warp(self) -> int:
        """Which warp of its block it is."""
        return self._given.warp

    def read(self, index: int, register: int) -> Value:
        """What instruction `index` reads from a register."""
        producers = self._defuse.producers(index, register)
        if len(producers) == 1:
            return self.made(producers[0], register)
        if not producers:
            return self._given.number(("entry", register)) if register >= UNIFORM_BASE else None
        return self._merged(index, register, producers)

    def address(self, index: int) -> Value:
        """The byte address (low 32 bits) that a memory instruction's last bracket names; shared-memory operands of
        LDGSTS come first, see `shared_address`."""
        return self._bracket(index, -1)

    def shared_address(self, index: int) -> Value:
        return self._bracket(index, 0)

    def _bracket(self, index: int, place: int) -> Value:
        key = (index, place)
        if key not in self._addresses:
            self._addresses[key] = self._computed(index, place)
        return self._addresses[key]

    def _computed(self, index: int, place: int) -> Value:
        found = [o for o in self._code[index].operands if o.kind == "memory"]
        if not found:
            return None
        out: Value = found[place].value & MASK
        for base in found[place].bases:
            out = each(lambda a, b, s=base.scale: (a + b * s) & MASK, out, self.read(index, base.register))
        return out

    def guard(self, index: int) -> Value:
        """1 where the lane executes the instruction as far as its own guard says."""
        ins = self._code[index]
        if ins.guard is None:
            return 1
        value = self.read(index, ins.guard)
        return each(lambda p: p ^ ins.guard_negated, value)

    def _merged(self, index: int, register: int, producers: tuple[int, ...]) -> Value:
        """One of several definitions reaches: a loop's round, or the paths of a branch."""
        key = (register, producers)
        if key in self._bound:
            return self._bound[key]
        for layer in self._known:
            if key in layer:
                return layer[key]
        loop = self._cfg.loop_of[index]
        while loop is not None:
            inside = set(self._cfg.loops[loop].instructions)
            first = [p for p in producers if p not in inside]
            again = [p for p in producers if p in inside]
            if first and again:
                return self._round(key, loop, first, again)
            loop = self._cfg.loops[loop].parent
        return self._either(register, producers)

    def _round(self, key: tuple[int, tuple[int, ...]], loop: int, first: list[int], again: list[int]) -> Value:
        """The value in one of the first rounds of a loop: its start, then the loop's own instructions again."""
        value = self._either(key[0], tuple(first))
        # Every value of a loop is taken in the same round, so that those that count together stay together.
        for _ in range(self._given.round(loop)):
            value = self._once_more(key, value, again)
        if self._once_more(key, value, again) is None:
            return None  # a value that one round gives and the next does not is not known
        self._known[-1][key] = value
        return value

    def _once_more(self, key: tuple[int, tuple[int, ...]], value: Value, again: list[int]) -> Value:
        if value is None:
            return None
        self._bound[key] = value
        self._known.append({})
        open_, self._open = self._open, set()
        after = self._either(key[0], tuple(again))
        self._open = open_
        self._known.pop()
        del self._bound[key]
        return after

    def _either(self, register: int, producers: tuple[int, ...]) -> Value:
        """One of several values that differ by the same amount in all lanes; unknown where they differ otherwise."""
        values = [self.made(p, register) for p in producers]
        first = values[0]
        if any(v is None for v in values) or first is None:
            return None
        for v in values[1:]:
            gap = each(lambda a, b: (a - b) & MASK, first, v)
            if isinstance(gap, tuple):
                return None
        return values[self._given.number(("path", producers)) % len(values)]

    def made(self, index: int, register: int) -> Value:
        """What instruction `index` writes to a register."""
        key = (index, register)
        for layer in reversed(self._known):
            if key in layer:
                return layer[key]
        if key in self._open or self._depth > DEEPEST or self._steps > BUDGET:
            self._cut = True
            return None
        self._steps += 1
        self._open.add(key)
        self._depth += 1
        before, self._cut = self._cut, False
        value = self._run(index, register)
        self._depth -= 1
        self._open.discard(key)
        # A value that was cut short because it depends on itself is not remembered: it is known inside its loop.
        if value is not None or not self._cut or not self._open:
            self._known[-1][key] = value
        self._cut = self._cut or before
        return value

    def _run(self, index: int, register: int) -> Value:
        ins = self._code[index]
        place = ins.defs.index(register)
        opcode = ins.opcode.removeprefix("U")
        if ins.opcode in _SPECIAL:
            return self._special(ins)
        constant = self._constant_load(index, ins, place)
        if constant is not None:
            return constant
        if ins.opcode in SHUFFLES:
            return None
        between = inside(self._code, index) if self._given.interior else None
        if between is not None:  # an index of the thread or its block; unknown where both sides come from them
            found = [self.source(index, o) for o in between.operands]
            return each(lambda *row: sum(row) & MASK, *found) if found else None
        handler = OPERATIONS.get(opcode)
        out = handler(self, index, ins, place) if handler is not None else None
        return out if out is not None else self._same_everywhere(index, ins, register)

    def _special(self, ins: Instruction) -> Value:
        name = ins.operands[-1].text
        x, y, _ = self._given.block
        lane = range(self._given.warp * LANES, (self._given.warp + 1) * LANES)
        if name in ("SR_TID.X", "SR_TID"):
            return tuple(i % x for i in lane)
        if name == "SR_TID.Y":
            return flat(tuple(i // x % y for i in lane))
        if name == "SR_TID.Z":
            return flat(tuple(i // (x * y) for i in lane))
        if name == "SR_LANEID":
            return tuple(range(LANES))
        if name in ("SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK"):
            return None
        if name in ("SRZ", "SR_CgaCtaId", "SR_SMEMLO"):
            return 0
        return self._given.number(name) + (name == self._given.along)

    def _constant_load(self, index: int, ins: Instruction, place: int) -> Value:
        if ins.opcode not in _CONSTANT or not ins.operands:
            return None
        last = ins.operands[-1]
        if last.kind != "constant" or last.bases or last.negated:
            return None  # an indexed constant: uniform if its index is, which the common case finds
        return self._constant(last.bank, last.value + 4 * place)

    def _constant(self, bank: int, offset: int) -> int:
        """A word of constant memory: the block shape where the driver puts it, a pointer, or an invented integer."""
        if bank == 0:
            shape = abi(self._code.program.sm).block_shape
            if offset in (shape, shape + 4, shape + 8):
                return self._given.block[(offset - shape) // 4]
            if offset in self._pointers:
                return self._given.number(("c", bank, offset)) * 256
        return self._given.number(("c", bank, offset))

    @cached_property
    def _pointers(self) -> frozenset[int]:
        return pointers(self._code)

    def _same_everywhere(self, index: int, ins: Instruction, register: int) -> Value:
        """Nothing that goes in differs between lanes, so nothing that comes out does."""
        op = self._code.classes[index]
        differs = op.access == "atomic" or op.space == "local"
        if differs or any(not isinstance(self.read(index, r), int) for r in self._defuse.sources(index)):
            if (self._given.scattered and op.access == "load") or (self._given.opaque and op.access is None):
                return self._given.lanes(index, register)
            return None
        number = self._given.number(("result", index, register))
        return number if register < PREDICATE_BASE else number & 1

    def operand(self, index: int, place: int) -> Value:
        """A source operand as a 32-bit number: register, immediate or constant, negated or inverted as written."""
        operands = self._code[index].operands
        if place >= len(operands):
            return None
        return self.source(index, operands[place])

    def source(self, index: int, operand: Operand, word: int = 0) -> Value:
        """An operand that an instruction reads; `word`: which 32-bit word of it. What is no pair has no upper word."""
        if word and (operand.negated or operand.inverted or not operand.whole):
            return 0
        value = self._plain(index, operand, word) if operand.whole else None
        if operand.negated:
            flip = operand.kind == "predicate"
            return each((lambda p: p ^ 1) if flip else (lambda a: -a & MASK), value)
        return each(lambda a: a ^ MASK, value) if operand.inverted else value

    def _plain(self, index: int, operand: Operand, word: int) -> Value:
        kind = operand.kind
        if kind == "register":
            return self.read(index, operand.register + word) if operand.register >= 0 else 0
        if kind == "constant" and not operand.bases:
            return self._constant(operand.bank, operand.value + 4 * word)
        if word:
            return 0
        if kind == "integer":
            return operand.value & MASK
        if kind == "predicate":
            return self.read(index, operand.register) if operand.register >= 0 else 1
        return None


def block_shapes(code: Listing, block: Sequence[int] | None) -> list[tuple[int, int, int]]:
    """Block shapes to try: the launch's own if known, else one row of threads, or, where the code reads the second
    thread index too, rows of a whole warp and shorter ones."""
    if block is not None:
        return [(block[0], block[1], block[2])]
    read = (ins for ins in code.program.instructions if ins.opcode in ("S2R", "S2UR") and ins.operands)
    names = {ins.operands[-1].text for ins in read}
    if names & {"SR_TID.Y", "SR_TID.Z"}:
        return [(32, 8, 1), (64, 4, 1)]
    return [(256, 1, 1)]
