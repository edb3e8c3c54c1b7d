"""Which registers hold a value that is still needed: data flow over the control-flow graph.

A register is live where a later instruction may read it (backward) and an earlier one may have set it (forward): what
no instruction has set yet occupies nothing, however a guarded read is reached. Sets of registers are Python integers
with the bits of `model.program`'s register numbers, so that an instruction costs a few operations whatever the number
of registers. A guarded definition may leave the old value in place, so it ends no live range.

Calls: what a device function needs and what it leaves alone is worked out once for each callee, so that two callers
do not mix. Inside a callee, what its callers keep for later counts as live: it occupies registers there. The stack
pointer R1 is needed until the kernel ends, as the ABI has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kscope.features.sass.cfg import Cfg, call_edges
from kscope.features.sass.graph import reached
from kscope.model.program import PREDICATE_BASE, UNIFORM_BASE, UNIFORM_PREDICATE_BASE, Program

KINDS = {
    "R": (0, UNIFORM_BASE),
    "UR": (UNIFORM_BASE, PREDICATE_BASE),
    "P": (PREDICATE_BASE, UNIFORM_PREDICATE_BASE),
    "UP": (UNIFORM_PREDICATE_BASE, UNIFORM_PREDICATE_BASE + 32),
}
"""Kind of register -> range of its numbers."""
_MASKS = {kind: (1 << stop) - (1 << start) for kind, (start, stop) in KINDS.items()}
_EVERY = (1 << (UNIFORM_PREDICATE_BASE + 32)) - 1
_STACK_POINTER = 1 << 1


class Liveness:
    """Live registers of a program, computed at once. Results are by instruction index."""

    def __init__(self, program: Program, cfg: Cfg) -> None:
        solver = _Solver(program, cfg)
        self._before, self._after, self._taken = solver.solve()

    def before(self, index: int) -> tuple[int, ...]:
        """Registers whose value is needed by the instruction or later, ascending."""
        return _numbers(self._before[index])

    def after(self, index: int) -> tuple[int, ...]:
        """Registers whose value is needed after the instruction, ascending."""
        return _numbers(self._after[index])

    def taken(self, index: int) -> tuple[int, ...]:
        """Registers that the instruction or a value across it occupies: live before or after it, or written by it."""
        return _numbers(self._taken[index])

    def count(self, index: int, kind: str = "R") -> int:
        """How many registers of a kind (R, UR, P, UP) are taken at the instruction, as nvdisasm -lrm count has it."""
        return (self._taken[index] & _MASKS[kind]).bit_count()

    def counts(self, kind: str = "R") -> list[int]:
        """`count` of every instruction."""
        mask = _MASKS[kind]
        return [(taken & mask).bit_count() for taken in self._taken]

    def peak(self, kind: str = "R") -> tuple[int, int]:
        """(most registers of a kind at once, index of the first instruction where); (0, 0) for an empty program."""
        counts = self.counts(kind)
        most = max(counts, default=0)
        return most, counts.index(most) if counts else 0


def _numbers(mask: int) -> tuple[int, ...]:
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return tuple(out)


def _bits(registers: Iterable[int]) -> int:
    mask = 0
    for register in registers:
        mask |= 1 << register
    return mask


class _Summary(Struct):
    """A callee: the registers that it needs, and those that it leaves alone on some way through it."""

    needs: int = 0
    spares: int = 0


class _Solver:
    """`uses` and `kills` are by instruction: registers read, and those whose former value ends there."""

    def __init__(self, program: Program, cfg: Cfg) -> None:
        code = program.instructions
        self._program, self._cfg = program, cfg
        known: dict[tuple[int, ...], int] = {(): 0}  # operand tuples repeat: the set of one is made once
        for ins in code:
            for registers in (ins.uses, ins.defs):
                if registers not in known:
                    known[registers] = _bits(registers)
        self._uses = [known[ins.uses] | _STACK_POINTER if ins.opcode == "EXIT" else known[ins.uses] for ins in code]
        self._defs = [known[ins.defs] for ins in code]
        self._kills = [d if ins.guard is None else 0 for ins, d in zip(code, self._defs, strict=True)]

    def solve(self) -> tuple[list[int], list[int], list[int]]:
        """Registers live before, after and taken at each instruction."""
        transfers = [self._transfer(b.start, b.end) for b in self._cfg.blocks]
        leaving = self._backward(transfers, self._calls(transfers) if self._cfg.calls else {})
        set_before = self._forward()
        before, after, taken = ([0] * len(self._uses) for _ in range(3))
        uses, kills, defs = self._uses, self._kills, self._defs
        for number, b in enumerate(self._cfg.blocks):
            live = leaving[number]
            for i in range(b.end - 1, b.start - 1, -1):
                after[i] = live
                before[i] = live = live & ~kills[i] | uses[i]
            ready = set_before[number]
            for i in range(b.start, b.end):
                live = before[i] & ready
                before[i] = live
                ready |= defs[i]
                after[i] &= ready
                taken[i] = live | after[i] | defs[i]
        return before, after, taken

    def _transfer(self, start: int, end: int) -> tuple[int, int]:
        """A block from its end to its start: what it needs itself, and which later needs it leaves alone."""
        uses, kills = self._uses, self._kills
        needs, spares = 0, _EVERY
        for i in range(end - 1, start - 1, -1):
            kill = ~kills[i]
            needs = needs & kill | uses[i]
            spares &= kill
        return needs, spares

    def _calls(self, transfers: list[tuple[int, int]]) -> dict[int, int]:
        """Settle what calls need and end; returns what each returning block must leave to the callers."""
        cfg = self._cfg
        callees = {call: cfg.block_of[target] for call, target in cfg.calls.items()}
        summaries = {callee: _Summary() for callee in callees.values()}
        returns = {callee: self._returns(callee) for callee in summaries}
        every_return = dict.fromkeys((b for found in returns.values() for b in found), _EVERY)
        own = {call: self._uses[call] for call in callees}
        settled = False
        while not settled:
            for call, callee in callees.items():
                summary = summaries[callee]
                guarded = self._program.instructions[call].guard is not None
                self._uses[call] = own[call] | summary.needs
                self._kills[call] = 0 if guarded else _EVERY & ~summary.spares & ~summary.needs
                b = cfg.blocks[cfg.block_of[call]]
                transfers[cfg.block_of[call]] = self._transfer(b.start, b.end)
            plain = self._entering(transfers, self._backward(transfers, {}))
            passing = self._entering(transfers, self._backward(transfers, every_return))
            found = {c: _Summary(plain[c], passing[c] & ~plain[c]) for c in summaries}
            settled = found == summaries
            summaries = found
        kept: dict[int, int] = {}
        for _ in range(len(summaries) + 1):  # what lives behind a call, handed down one level of calls a round
            leaving = self._backward(transfers, kept)
            for call, callee in callees.items():
                for block in returns[callee]:
                    kept[block] = kept.get(block, 0) | leaving[cfg.block_of[call]]
        return kept

    def _returns(self, entry: int) -> list[int]:
        """Blocks of a callee that end in RET."""
        seen = reached([entry], lambda b: self._cfg.blocks[b].successors)
        code = self._program.instructions
        return [b for b in sorted(seen) if code[self._cfg.blocks[b].end - 1].opcode == "RET"]

    def _entering(self, transfers: Sequence[tuple[int, int]], leaving: Sequence[int]) -> list[int]:
        return [needs | spares & live for (needs, spares), live in zip(transfers, leaving, strict=True)]

    def _backward(self, transfers: Sequence[tuple[int, int]], returning: dict[int, int]) -> list[int]:
        """Needs at each block's end. `returning`: further needs behind some blocks."""
        blocks = self._cfg.blocks
        entering = [needs for needs, _ in transfers]
        leaving = [0] * len(blocks)
        pending = set(range(len(blocks)))
        order = self._cfg.order[::-1]
        while pending:
            for block in order:
                if block not in pending:
                    continue
                pending.discard(block)
                live = returning.get(block, 0)
                for s in blocks[block].successors:
                    live |= entering[s]
                leaving[block] = live
                needs, spares = transfers[block]
                live = live & spares | needs
                if live != entering[block]:
                    entering[block] = live
                    pending.update(blocks[block].predecessors)
        return leaving

    def _forward(self) -> list[int]:
        """Registers that may have been set when each block starts; all of them where a device function starts."""
        blocks = self._cfg.blocks
        made = [0] * len(blocks)
        for number, b in enumerate(blocks):
            for i in range(b.start, b.end):
                made[number] |= self._defs[i]
        edges = call_edges(self._program, self._cfg) if self._cfg.calls else [b.successors for b in blocks]
        starting = [0] * len(blocks)
        if starting and not self._program.entry:
            starting[0] = _EVERY
        pending = set(range(len(blocks)))
        while pending:
            for block in self._cfg.order:
                if block in pending:
                    pending.discard(block)
                    leaving = starting[block] | made[block]
                    for s in edges[block]:
                        if leaving & ~starting[s]:
                            starting[s] |= leaving
                            pending.add(s)
        return starting
