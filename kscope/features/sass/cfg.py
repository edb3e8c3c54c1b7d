"""Control-flow graph of a kernel: basic blocks, edges (`kscope.features.sass.branches`), dominators, natural loops.

A call falls through; the callee is noted in `Cfg.calls`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from kscope.features.sass.branches import edges, leaders, link_far_jumps, link_switches, targets_of
from kscope.features.sass.graph import dominators, reached, retreating_edges, reverse_postorder
from kscope.model.program import Instruction, Program


class Block(Struct, frozen=True):
    """Instructions [start, end) entered only at the start and left only at the end; neighbours are block numbers."""

    start: int
    end: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


class Loop(Struct, frozen=True):
    """A natural loop. `header` and `blocks` are block numbers, `parent` a loop number, `depth` 1 for an outermost
    loop, `instructions` indices in address order (inner loops included). `irreducible`: entered elsewhere too."""

    header: int
    blocks: frozenset[int]
    depth: int
    parent: int | None
    instructions: tuple[int, ...]
    innermost: bool
    irreducible: bool = False


class Cfg(Struct, frozen=True, dict=True):
    """The graph. `block_of`, `loop_of` (innermost loop or None) and `depth` (0 outside loops) are by instruction;
    `idom` (immediate dominator, None for entries) and `blocks` by block. `calls` maps a call to the instruction that
    it enters. `unresolved` holds the pcs of branches whose targets the text does not tell; `guessed` those of them
    that were linked to the blocks behind them that nothing else enters (the cases of a switch)."""

    blocks: tuple[Block, ...]
    idom: tuple[int | None, ...]
    loops: tuple[Loop, ...]
    block_of: tuple[int, ...]
    loop_of: tuple[int | None, ...]
    depth: tuple[int, ...]
    calls: Mapping[int, int]
    unresolved: tuple[int, ...]
    guessed: tuple[int, ...]
    order: tuple[int, ...]
    """Blocks in reverse postorder, unreachable ones after their own entries."""

    def loop_body(self, loop: int) -> tuple[int, ...]:
        """Instructions of a loop that are in no inner loop."""
        return self._bodies[loop]

    @cached_property
    def _bodies(self) -> list[tuple[int, ...]]:
        bodies: list[list[int]] = [[] for _ in self.loops]
        for i, loop in enumerate(self.loop_of):
            if loop is not None:
                bodies[loop].append(i)
        return list(map(tuple, bodies))

    def loops_around(self, index: int) -> list[int]:
        """The loops around an instruction, innermost first."""
        out, at = [], self.loop_of[index]
        while at is not None:
            out.append(at)
            at = self.loops[at].parent
        return out

    @cached_property
    def joins(self) -> tuple[int | None, ...]:
        """By block: the nearest one that each way on from it comes to; None where the ways end apart."""
        # The graph turned round, the last block first: a search begins at number 0.
        last = len(self.blocks) - 1
        into = [[last - s for s in b.successors] for b in reversed(self.blocks)]
        out = [[last - p for p in b.predecessors] for b in reversed(self.blocks)]
        found = dominators(out, into, *reverse_postorder(out, into))
        return tuple(None if d is None else last - d for d in reversed(found))

    def dominates(self, above: int, below: int) -> bool:
        """Whether each way to block `below` passes block `above`, which may be itself."""
        return _dominates(self.idom, above, below)

    def every_round(self, loop: int, index: int) -> bool:
        """Whether each round of a loop executes an instruction: its block dominates all that go back to the header."""
        inside, header = self.loops[loop].blocks, self.loops[loop].header
        tails = [p for p in self.blocks[header].predecessors if p in inside]
        return all(_dominates(self.idom, self.block_of[index], tail) for tail in tails)


def build_cfg(program: Program) -> Cfg:
    """The control-flow graph of a program; an empty program gives an empty graph. Never raises on odd targets."""
    code = program.instructions
    targets, calls, unresolved = targets_of(program)
    starts, block_of = leaders(code, targets, calls)
    out = edges(code, starts, block_of, targets)
    link_far_jumps(code, starts, block_of, out, calls, {pc for pc, _ in program.symbols})
    callees = {block_of[t] for t in calls.values()}
    guessed = link_switches(code, starts, block_of, out, callees, unresolved)
    into: list[list[int]] = [[] for _ in starts]
    for block, successors in enumerate(out):
        for s in successors:
            into[s].append(block)
    order, roots = reverse_postorder(out, into)
    idom = dominators(out, into, order, roots)
    ends = [*starts[1:], len(code)] if starts else []
    blocks = tuple(
        Block(s, e, tuple(o), tuple(i)) for s, e, o, i in zip(starts, ends, out, into, strict=True)
    )
    loops = _loops(code, blocks, idom, order)
    loop_of, depth = _nesting(len(code), blocks, loops)
    return Cfg(blocks, tuple(idom), loops, tuple(block_of), loop_of, depth, calls,
               tuple(code[i].pc for i in unresolved), tuple(code[i].pc for i in guessed), tuple(order))  # fmt: skip


def _loops(
    code: Sequence[Instruction], blocks: Sequence[Block], idom: Sequence[int | None], order: Sequence[int]
) -> tuple[Loop, ...]:
    bodies: dict[int, set[int]] = {}
    irreducible: set[int] = set()
    for tail, header in retreating_edges([b.successors for b in blocks], order):
        if tail == header and not any(p != header for p in blocks[header].predecessors) and header != 0:
            continue  # the padding behind a kernel: a branch to itself that nothing reaches
        body = reached([tail], lambda b: blocks[b].predecessors, [header])
        if not _dominates(idom, header, tail):
            irreducible.add(header)
            body &= reached([header], lambda b: blocks[b].successors)
        bodies.setdefault(header, set()).update(body)
    ranked = sorted(bodies, key=lambda h: (-len(bodies[h]), h))
    parents: list[int | None] = []
    depths: list[int] = []
    for place, header in enumerate(ranked):
        outer = [p for p in range(place) if bodies[header] < bodies[ranked[p]] and header in bodies[ranked[p]]]
        parents.append(outer[-1] if outer else None)
        depths.append(depths[outer[-1]] + 1 if outer else 1)
    return tuple(
        Loop(header, frozenset(bodies[header]), depths[n], parents[n],
             tuple(i for b in sorted(bodies[header]) for i in range(blocks[b].start, blocks[b].end)),
             n not in parents, header in irreducible)
        for n, header in enumerate(ranked)
    )  # fmt: skip


def _dominates(idom: Sequence[int | None], above: int, below: int) -> bool:
    at: int | None = below
    while at is not None:
        if at == above:
            return True
        at = idom[at]
    return False


def _nesting(
    count: int, blocks: Sequence[Block], loops: Sequence[Loop]
) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
    loop_of: list[int | None] = [None] * count
    depth = [0] * count
    for number, loop in enumerate(loops):  # larger loops first, so that the innermost one is written last
        for i in loop.instructions:
            if loop.depth > depth[i]:
                loop_of[i], depth[i] = number, loop.depth
    return tuple(loop_of), tuple(depth)


class Call(Struct, frozen=True):
    """A call in block `block`: the callee's first block, all blocks of its `body` (what it calls itself too), those of
    them that return, and the block behind the call (None at the end of the code). `always`: no predicate guards it."""

    block: int
    callee: int
    body: frozenset[int]
    returns: tuple[int, ...]
    behind: int | None
    always: bool


def calls_made(program: Program, cfg: Cfg) -> list[Call]:
    """The calls whose callee is part of the code, in address order."""
    code = program.instructions
    callees = {cfg.block_of[target] for target in cfg.calls.values()}
    own = {callee: reached([callee], lambda b: cfg.blocks[b].successors) for callee in callees}
    calling = [(cfg.block_of[call], cfg.block_of[target]) for call, target in cfg.calls.items()]
    bodies = {callee: set(blocks) for callee, blocks in own.items()}
    grew = True
    while grew:
        grew = False
        for body in bodies.values():
            inner = set().union(*(bodies[callee] for block, callee in calling if block in body))
            if not inner <= body:
                body |= inner
                grew = True
    out = []
    for call, target in sorted(cfg.calls.items()):
        block, callee = cfg.block_of[call], cfg.block_of[target]
        behind = cfg.blocks[block].end
        out.append(
            Call(
                block, callee, frozenset(bodies[callee]),
                tuple(b for b in sorted(own[callee]) if code[cfg.blocks[b].end - 1].opcode == "RET"),
                cfg.block_of[behind] if behind < len(code) else None,
                code[call].guard is None,
            )
        )  # fmt: skip
    return out


def call_edges(program: Program, cfg: Cfg) -> list[list[int]]:
    """Successors of each block plus call to callee and callee's returns to behind the call."""
    edges = [list(b.successors) for b in cfg.blocks]
    for call in calls_made(program, cfg):
        edges[call.block].append(call.callee)
        if call.behind is not None:
            for r in call.returns:
                edges[r].append(call.behind)
    return edges
