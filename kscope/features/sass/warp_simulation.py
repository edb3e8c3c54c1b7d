"""How long one warp takes through a kernel that it has to itself: the latency floor.

A static, in-order simulation of each basic block: one instruction issues a cycle, waits for the registers that it
reads, and for its pipe. What is still pending at a block's end is handed to its successors, around loops too (a few
sweeps reach the steady state). Blocks count as often as the profile says a warp executes them.

Not modelled: instruction cache misses, bank conflicts, TMA and mbarrier waiting, divergence within a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from kscope.features.sass.branches import is_conditional
from kscope.features.sass.cfg import Cfg
from kscope.features.sass.columns import Column, largest
from kscope.isa.families import family
from kscope.isa.opcodes import OpClass, classify
from kscope.model.program import UNIFORM_BASE, Instruction, Program

TAKEN_BRANCH = 10.0  # cycles from a taken branch to the next instruction (probe, order of magnitude)
_SWEEPS = 3
_LEADS_ON = family("leads_on")
_SHARED_UNITS = frozenset({"lsu", "adu", "tex", "tma"})  # one an SM: alone, a warp gets all four sub-partitions' share

_UNBOUND = frozenset({"none", "cbu"})  # pipes that keep nobody waiting
_WAITING = frozenset({"async_wait", "wgmma_wait", "wgmma", "barrier"})
_ORDERING = frozenset({"LDGSTS", "LDGDEPBAR", "MEMBAR", "FENCE"})
"""Kinds and opcodes that wait for, or leave, more than registers and pipes."""


class Walk(Struct, frozen=True):
    """The walk of one warp. `cycles` from start to end; `block_cycles` per execution of each block; `wait` per
    instruction: cycles that a warp spends waiting there in all its executions; `memory_wait`: the part of it that is
    due to long-scoreboard producers; `critical`: instructions with any wait, longest first."""

    cycles: float
    block_cycles: tuple[float, ...]
    wait: Column
    memory_wait: float
    critical: tuple[int, ...]


class _State(Struct):
    """What is pending, in cycles from now: registers (and whether from memory), pipes, copies, wgmma."""

    ready: dict[int, tuple[float, bool]] = field(default_factory=dict)
    pipes: dict[str, float] = field(default_factory=dict)
    copies: list[float] = field(default_factory=list)  # by commit group, the last one open
    wgmma: float = 0.0

    def at(self, now: float) -> _State:
        """The same, seen `now` cycles later; what has arrived is dropped."""
        return _State(
            {r: (t - now, m) for r, (t, m) in self.ready.items() if t > now},
            {p: t - now for p, t in self.pipes.items() if t > now},
            [t - now for t in self.copies[-8:]],
            max(0.0, self.wgmma - now),
        )


def unloaded_cycles(
    program: Program, cfg: Cfg, executions: Column, warps: float, latency_of: Callable[[int], float],
    classes: Sequence[OpClass] | None = None, gone: frozenset[int] = frozenset(),
) -> Walk:  # fmt: skip
    """Cycles that one warp needs alone. `executions`: warp-level executions per instruction over the launch,
    `warps`: warps launched, `latency_of(index)`: cycles of an instruction whose result comes through L1TEX (global,
    local, texture, cp.async); all others come from the table. (Total warps / resident warps) x cycles is the floor
    of the whole kernel. `classes`: of the instructions, if they are known already. `gone`: instructions that take no
    time and keep nobody waiting, as if they were not there."""
    n = len(program)
    wait = [0.0] * n
    if not n or warps <= 0:
        return Walk(0.0, (0.0,) * len(cfg.blocks), wait, 0.0, ())
    counts = [executions[b.start] / warps for b in cfg.blocks]
    if classes is None:
        classes = [classify(ins, program.sm) for ins in program.instructions]
    simulate = _Simulator(program.instructions, classes, latency_of, gone)
    leaving: list[_State | None] = [None] * len(cfg.blocks)
    totals: list[tuple[float, float, list[float]]] = [(0.0, 0.0, [])] * len(cfg.blocks)
    live = [b for b in cfg.order if counts[b] > 0]
    stale = set(live)
    for _ in range(_SWEEPS):
        for b in live:
            if b in stale:  # entered differently than when it was last simulated
                stale.discard(b)
                totals[b], after = _enter(cfg, b, counts, leaving, simulate)
                if after != leaving[b]:
                    leaving[b] = after
                    stale.update(cfg.blocks[b].successors)
    cycles = memory = 0.0
    per_block = [0.0] * len(cfg.blocks)
    for b in live:
        spent, in_memory, waits = totals[b]
        per_block[b] = spent + TAKEN_BRANCH * _taken(program.instructions, cfg, b, counts)
        cycles += per_block[b] * counts[b]
        memory += in_memory * counts[b]
        wait[cfg.blocks[b].start : cfg.blocks[b].end] = [w * counts[b] for w in waits]
    return Walk(cycles, tuple(per_block), wait, memory, tuple(largest(wait)))


def _enter(
    cfg: Cfg, b: int, counts: Column, leaving: Sequence[_State | None], simulate: _Simulator
) -> tuple[tuple[float, float, list[float]], _State]:
    """Simulate a block from each state that it is entered with, weighted by how often; keep the likeliest exit."""
    block = cfg.blocks[b]
    entries: list[tuple[float, _State]] = []
    for p in block.predecessors:
        state = leaving[p]
        if state is not None:
            flow = min(counts[p] / max(1, len(cfg.blocks[p].successors)), counts[b])
            entries.append((flow, state))
    entries.sort(key=lambda e: -e[0])
    total = sum(flow for flow, _ in entries)
    if total <= 0:
        entries, total = [(1.0, _State())], 1.0
    spent = memory = 0.0
    waits = [0.0] * (block.end - block.start)
    after: _State | None = None
    for flow, state in entries:
        share = flow / total
        if share < 0.01 and after is not None:
            continue
        s, m, w, left = simulate.run(block.start, block.end, state)
        spent += share * s
        memory += share * m
        waits = [a + share * x for a, x in zip(waits, w, strict=True)]
        after = after or left
    assert after is not None
    return (spent, memory, waits), after


def _taken(code: Sequence[Instruction], cfg: Cfg, b: int, counts: Column) -> float:
    """Share of a block's executions that leave through a taken branch."""
    block = cfg.blocks[b]
    last = code[block.end - 1]
    if last.opcode not in _LEADS_ON:
        return 0.0
    if not is_conditional(last) or last.opcode in ("CALL", "RET"):
        return 1.0
    jumps = [s for s in block.successors if cfg.blocks[s].start != block.end]
    falls = [s for s in block.successors if cfg.blocks[s].start == block.end]
    if not falls:
        return 1.0
    if len(cfg.blocks[falls[0]].predecessors) == 1:
        return min(1.0, max(0.0, 1.0 - counts[falls[0]] / counts[b]))
    if jumps and len(cfg.blocks[jumps[0]].predecessors) == 1:
        return min(1.0, max(0.0, counts[jumps[0]] / counts[b]))
    return 0.5


class _Simulator:
    def __init__(
        self, code: Sequence[Instruction], classes: Sequence[OpClass], latency_of: Callable[[int], float],
        gone: frozenset[int],
    ) -> None:
        self._code, self._classes, self._gone = code, classes, gone
        self._latency: list[float] = [
            latency_of(i) if c.scoreboard == "long" else c.latency for i, c in enumerate(classes)
        ]
        self._plain = [
            not (op.kind & _WAITING or ins.opcode in _ORDERING) for ins, op in zip(code, classes, strict=True)
        ]

    def run(self, start: int, end: int, entry: _State) -> tuple[float, float, list[float], _State]:
        """Cycles, cycles waiting for memory, wait per instruction, and the state at the end."""
        state = _State(dict(entry.ready), dict(entry.pipes), list(entry.copies), entry.wgmma)
        now = memory = 0.0
        waits: list[float] = []
        for i in range(start, end):
            if i in self._gone:
                waits.append(0.0)
                for r in self._code[i].defs:
                    state.ready.pop(r, None)
                continue
            step = self._step if self._plain[i] else self._ordering
            at, from_memory, after = step(i, now, state)
            waits.append(at - now)
            if from_memory:
                memory += at - now
            now = after
        return now, memory, waits, state.at(now)

    def _step(self, i: int, now: float, state: _State) -> tuple[float, bool, float]:
        """When an instruction issues that waits for registers and its pipe alone, as nearly all do, whether it waited
        for memory, and when the next one can."""
        ins, op, ready = self._code[i], self._classes[i], state.ready
        at, from_memory = now, False
        for r in ins.uses:
            if r in ready and ready[r][0] > at:
                at, from_memory = ready[r]
        for r in ins.defs:
            if r in ready and ready[r][0] > at:
                at, from_memory = ready[r]
        pipe = op.pipe
        if pipe not in _UNBOUND:
            if state.pipes.get(pipe, 0.0) > at:
                at, from_memory = state.pipes[pipe], False
            state.pipes[pipe] = at + (max(1.0, op.issue / 4) if pipe in _SHARED_UNITS else op.issue)
        if ins.defs:
            pending = at + self._latency[i], op.scoreboard == "long"
            for r in ins.defs:
                ready[r] = pending
        return at, from_memory, at + 1.0

    def _ordering(self, i: int, now: float, state: _State) -> tuple[float, bool, float]:
        """The same of any instruction."""
        at, from_memory = self._issue_time(i, now, state)
        return at, from_memory, self._issue(i, at, state)

    def _issue_time(self, i: int, now: float, state: _State) -> tuple[float, bool]:
        ins, op = self._code[i], self._classes[i]
        at, from_memory = now, False
        asynchronous = "wgmma" in op.kind  # accumulators are chained in the tensor core, not through registers
        for r in (*ins.uses, *ins.defs):
            pending = state.ready.get(r)
            if pending is not None and pending[0] > at and not (asynchronous and r < UNIFORM_BASE):
                at, from_memory = pending
        if op.kind & {"async_wait", "wgmma_wait"}:
            left = _count(ins)
            if "wgmma_wait" in op.kind:
                done = state.wgmma if left == 0 else 0.0
            elif ins.opcode == "DEPBAR":
                closed = state.copies[:-1]  # the last group is still open
                done = max(closed[: max(0, len(closed) - left)], default=0.0)
            else:
                done = 0.0
            if done > at:
                at, from_memory = done, "async_wait" in op.kind
        busy = state.pipes.get(op.pipe, 0.0)
        if busy > at and not asynchronous:
            at, from_memory = busy, False
        return at, from_memory

    def _issue(self, i: int, at: float, state: _State) -> float:
        """Record what the instruction leaves pending; return when the next one can issue."""
        ins, op = self._code[i], self._classes[i]
        result = at + self._latency[i]
        if "wgmma" in op.kind:
            state.wgmma = max(state.wgmma, at) + op.issue
            return at + 1.0
        if op.pipe not in _UNBOUND:
            state.pipes[op.pipe] = at + (max(1.0, op.issue / 4) if op.pipe in _SHARED_UNITS else op.issue)
        long = op.scoreboard == "long"
        for r in ins.defs:
            state.ready[r] = (result, long)
        if op.access == "async_copy" and ins.opcode == "LDGSTS":
            if not state.copies:
                state.copies.append(0.0)
            state.copies[-1] = max(state.copies[-1], result)
        elif ins.opcode == "LDGDEPBAR":
            state.copies.append(0.0)
        if "barrier" in op.kind and "ARV" not in ins.mods and not ins.opcode.endswith("_ARV"):
            return at + op.latency
        if ins.opcode in ("MEMBAR", "FENCE"):
            return at + op.latency
        return at + 1.0


def _count(ins: Instruction) -> int:
    """How many groups a wait leaves pending: the last constant (`DEPBAR.LE SB0, 0x1`)."""
    last = ins.operands[-1] if ins.operands else None
    return last.value if last is not None and last.kind == "integer" and last.value < 8 else 0
