"""Which instruction produced a register's value: reaching definitions over the control-flow graph.

Definitions are bits of Python integers, one for each (instruction, register): a block's transfer is two operations
on whole sets, so thousands of instructions take milliseconds. A guarded instruction may leave the old value, so it
adds a definition without ending earlier ones; within a block it ends those under the same predicate, is not what a
reader under the opposite one reads, and the two senses of a predicate end everything before. Calls pass registers in
and out; what comes back from one is what it was given or what the callee made, not what another call site left.
"""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.sass.cfg import Call, Cfg, calls_made
from kscope.model.program import PREDICATE_BASE, Instruction, Program

_Guard = tuple[int, bool, int]
"""A predicate, its sense, and the instruction of the block that set it (-1: before the block)."""
_Defs = tuple[tuple[tuple[int, _Guard | None], ...], bool]
"""Definitions of a register in the block so far with their guards, oldest first, and whether values from before the
block may still be there."""


class _Local:
    """Definitions inside one block, as its instructions go by."""

    def __init__(self) -> None:
        self.defs: dict[int, _Defs] = {}
        self._set: dict[int, int] = {}

    def guard(self, ins: Instruction) -> _Guard | None:
        return None if ins.guard is None else (ins.guard, ins.guard_negated, self._set.get(ins.guard, -1))

    def define(self, i: int, ins: Instruction, guard: _Guard | None) -> None:
        for r in ins.defs:
            if r >= PREDICATE_BASE:
                self._set[r] = i
            if guard is None:
                self.defs[r] = ((i, None),), False
                continue
            before, open_ = self.defs.get(r, ((), True))
            other = next((n for n, (_, g) in enumerate(before) if g is not None and _opposite(g, guard)), None)
            if other is not None:
                before, open_ = before[other:], False
            self.defs[r] = (*(d for d in before if d[1] != guard), (i, guard)), open_

    def reaching(self, register: int, guard: _Guard | None) -> tuple[tuple[int, ...], bool]:
        """What a reader under `guard` may read of the block's own, and whether values from before it too."""
        before, open_ = self.defs.get(register, ((), True))
        if guard is None:
            return tuple(i for i, _ in before), open_
        found: list[int] = []
        for i, g in reversed(before):
            if g is None or g == guard:
                return (i, *reversed(found)), False
            if not _opposite(g, guard):
                found.append(i)
        return tuple(reversed(found)), open_


def _opposite(one: _Guard, other: _Guard) -> bool:
    return one[0] == other[0] and one[1] != other[1] and one[2] == other[2]


class DefUse:
    """Reaching definitions of a program, computed on first use.

    Registers are the numbers of `model.program`; results are instruction indices in ascending order.
    """

    def __init__(self, program: Program, cfg: Cfg) -> None:
        self._program = program
        self._code = program.instructions
        self._cfg = cfg
        self._sources: list[dict[int, tuple[int, ...]]] | None = None
        self._consumers: list[tuple[int, ...]] | None = None
        self._entering: list[int] = []
        self._sites: list[int] = []
        self._masks: dict[int, int] = {}
        self._decoded: dict[int, tuple[int, ...]] = {}

    def producers(self, index: int, register: int) -> tuple[int, ...]:
        """Instructions whose value of `register` may be what instruction `index` reads; empty if it reads none."""
        return self.sources(index).get(register, ())

    def sources(self, index: int) -> dict[int, tuple[int, ...]]:
        """Producers of every register that the instruction reads, by register."""
        if self._sources is None:
            self._sources = self._solve()
        return self._sources[index]

    def consumers(self, index: int) -> tuple[int, ...]:
        """Instructions that may read a value which instruction `index` produced."""
        if self._consumers is None:
            readers: list[list[int]] = [[] for _ in self._code]
            if self._sources is None:
                self._sources = self._solve()
            for i, read in enumerate(self._sources):
                for found in read.values():
                    for producer in found:
                        known = readers[producer]
                        if not known or known[-1] != i:
                            known.append(i)
            self._consumers = list(map(tuple, readers))
        return self._consumers[index]

    def _solve(self) -> list[dict[int, tuple[int, ...]]]:
        self._entering = self._flow()
        out: list[dict[int, tuple[int, ...]]] = [{}] * len(self._code)
        for number, block in enumerate(self._cfg.blocks):
            local = _Local()
            entering = self._entering[number]
            for i in range(block.start, block.end):
                ins = self._code[i]
                guard = local.guard(ins)
                if ins.uses:
                    out[i] = {r: self._reaching(r, local, guard, entering) for r in ins.uses}
                local.define(i, ins, guard)
        return out

    def _reaching(self, register: int, local: _Local, guard: _Guard | None, entering: int) -> tuple[int, ...]:
        found, open_ = local.reaching(register, guard)
        if not open_:
            return found
        bits = entering & self._masks.get(register, 0)
        if not bits:
            return found
        outside = self._decoded.get(bits)
        if outside is None:
            outside = self._decoded[bits] = self._indices(bits)
        return tuple(sorted({*outside, *found})) if found else outside

    def _indices(self, bits: int) -> tuple[int, ...]:
        out: list[int] = []
        while bits:
            low = bits & -bits
            out.append(self._sites[low.bit_length() - 1])
            bits ^= low
        return tuple(out)

    def _flow(self) -> list[int]:
        """Definitions that reach each block's start, as bit sets."""
        made, ended = self._transfer()
        calls = calls_made(self._program, self._cfg)
        out_edges = [list(b.successors) for b in self._cfg.blocks]
        into: list[list[int]] = [[] for _ in out_edges]
        for block, successors in enumerate(out_edges):
            for s in successors:
                into[s].append(block)
        back: dict[int, list[tuple[Call, int]]] = {}  # block behind a call -> the call, definitions of its callee
        for call in calls:
            out_edges[call.block].append(call.callee)
            into[call.callee].append(call.block)
            inside = _union(made[b] for b in call.body)
            if call.behind is not None:
                back.setdefault(call.behind, []).append((call, inside))
                if call.always and call.returns and call.block in into[call.behind]:
                    into[call.behind].remove(call.block)
                for r in (*call.returns, call.block):
                    out_edges[r].append(call.behind)
        leaving = list(made)
        entering = [0] * len(made)
        pending = set(range(len(made)))
        order = self._cfg.order
        while pending:
            for block in order:
                if block not in pending:
                    continue
                pending.discard(block)
                bits = 0
                for p in into[block]:
                    bits |= leaving[p]
                for call, inside in back.get(block, ()):
                    bits |= _union(leaving[r] for r in call.returns) & (leaving[call.block] | inside)
                entering[block] = bits
                after = made[block] | (bits & ~ended[block])
                if after != leaving[block]:
                    leaving[block] = after
                    pending.update(out_edges[block])
        return entering

    def _transfer(self) -> tuple[list[int], list[int]]:
        """Bit sets of each block: definitions alive at its end, and definitions that it ends."""
        numbered: list[dict[int, int]] = []
        ended_registers: list[set[int]] = []
        parts: dict[int, list[int]] = {}
        for block in self._cfg.blocks:
            local = _Local()
            places: dict[tuple[int, int], int] = {}
            for i in range(block.start, block.end):
                ins = self._code[i]
                for r in ins.defs:
                    places[i, r] = len(self._sites)
                    parts.setdefault(r, []).append(len(self._sites))
                    self._sites.append(i)
                local.define(i, ins, local.guard(ins))
            numbered.append({r: _union(1 << places[i, r] for i, _ in found) for r, (found, _) in local.defs.items()})
            ended_registers.append({r for r, (_, open_) in local.defs.items() if not open_})
        for r, bits in parts.items():
            packed = bytearray(len(self._sites) // 8 + 1)
            for bit in bits:
                packed[bit >> 3] |= 1 << (bit & 7)
            self._masks[r] = int.from_bytes(packed, "little")
        made = [_union(alive.values()) for alive in numbered]
        return made, [_union(self._masks[r] for r in killed) for killed in ended_registers]


def _union(sets: Iterable[int]) -> int:
    bits = 0
    for s in sets:
        bits |= s
    return bits
