"""Which instruction produced a register's value: reaching definitions over the control-flow graph.

Definitions are bits of Python integers, one for each (instruction, register): a block's transfer is two operations
on whole sets, so thousands of instructions take milliseconds. A guarded instruction may leave the old value, so it
adds a definition without ending earlier ones. Calls pass registers in and out, whichever call it was (context
insensitive).
"""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.sass.cfg import Cfg, call_edges
from kscope.model.program import Program

_LocalDefs = dict[int, tuple[tuple[int, ...], bool]]
"""By register: definitions in the block so far, and whether values from before the block may still be there."""


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
            local: _LocalDefs = {}
            entering = self._entering[number]
            for i in range(block.start, block.end):
                ins = self._code[i]
                if ins.uses:
                    out[i] = {r: self._reaching(r, local, entering) for r in ins.uses}
                for r in ins.defs:
                    if ins.guard is None:
                        local[r] = ((i,), False)
                    else:
                        before, open_ = local.get(r, ((), True))
                        local[r] = ((*before, i), open_)
        return out

    def _reaching(self, register: int, local: _LocalDefs, entering: int) -> tuple[int, ...]:
        found, open_ = local.get(register, ((), True))
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
        out_edges = call_edges(self._program, self._cfg)
        into: list[list[int]] = [[] for _ in out_edges]
        for block, successors in enumerate(out_edges):
            for s in successors:
                into[s].append(block)
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
            alive: dict[int, int] = {}
            killed: set[int] = set()
            for i in range(block.start, block.end):
                ins = self._code[i]
                for r in ins.defs:
                    bit = len(self._sites)
                    self._sites.append(i)
                    parts.setdefault(r, []).append(bit)
                    if ins.guard is None:
                        killed.add(r)
                        alive[r] = 1 << bit
                    else:
                        alive[r] = alive.get(r, 0) | 1 << bit
            numbered.append(alive)
            ended_registers.append(killed)
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
