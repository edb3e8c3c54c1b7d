"""Control-flow graph of a kernel: basic blocks, edges, dominators, natural loops.

Targets are offsets from the entry (`BRA 0x290`); listings with absolute addresses are recognised by the padding
that every kernel ends with, a branch to itself. A call falls through; the callee is noted in `Cfg.calls`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kscope.features.graph import dominators, retreating_edges, reverse_postorder
from kscope.model.program import Instruction, Program

_HEX = re.compile(r"^-?0x[0-9a-f]+$")
_JUMPS = frozenset({"BRA", "JMP"})
_INDIRECT = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_ENDS = frozenset({"EXIT", "KILL", "RET"})
CONTROL = _JUMPS | _INDIRECT | _ENDS | {"CALL"}
_RUN_GAP = 4096  # bytes: code further apart belongs to another function and is not fallen into


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


class Cfg(Struct, frozen=True):
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
        return tuple(i for i in self.loops[loop].instructions if self.loop_of[i] == loop)


def is_conditional(ins: Instruction) -> bool:
    """Whether a control instruction may fall through: guarded, or branching on an operand (`BRA.U UP0, ...`)."""
    if ins.guard is not None:
        return True
    if ins.opcode in _JUMPS:
        return any(o.lstrip("!~").startswith(("P", "UP", "UR")) and not o.startswith(("PT", "UPT"))
                   for o in ins.operands)  # fmt: skip
    return False


def build_cfg(program: Program) -> Cfg:
    """The control-flow graph of a program; an empty program gives an empty graph. Never raises on odd targets."""
    code = program.instructions
    targets, calls, unresolved = _targets(program)
    starts, block_of = _leaders(code, targets, calls)
    out = _edges(code, starts, block_of, targets)
    _link_far_jumps(code, starts, block_of, out, calls, {pc for pc, _ in program.symbols})
    callees = {block_of[t] for t in calls.values()}
    guessed = _link_switches(code, starts, block_of, out, callees, unresolved)
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


def _never(ins: Instruction) -> bool:
    return ins.guard is None and ins.guard_negated  # @!PT


def _targets(program: Program) -> tuple[dict[int, list[int]], dict[int, int], list[int]]:
    """Branch targets and callees as instruction indices, and the branches that have none in their text."""
    code = program.instructions
    symbols = {name: pc for pc, name in program.symbols}
    known: dict[int, tuple[int, ...]] = {}
    raw: dict[int, list[int]] = {}
    for ins in code:
        if ins.opcode in CONTROL and ins.opcode not in _ENDS and not _never(ins):
            if ins.pc in program.branches:
                known[ins.index] = program.branches[ins.pc]
                continue
            if symbols and (named := [symbols[o] for o in ins.operands if o in symbols]):
                known[ins.index] = tuple(named)
                continue
            numbers = [int(o, 16) for o in ins.operands if _HEX.match(o)]
            # `BRX R4, -0x2910`: the first constant is a displacement from a table's entry, not a target.
            raw[ins.index] = numbers[1:] if ins.opcode in _INDIRECT else numbers[-1:]
    pcs = [ins.pc for ins in code]
    base = _base(code, raw, pcs)
    targets: dict[int, list[int]] = {}
    calls: dict[int, int] = {}
    unresolved: list[int] = []
    for index in sorted({*raw, *known}):
        goals = known[index] if index in known else tuple(n - base for n in raw[index])
        found = [at for at in (_locate(pcs, n) for n in goals) if at is not None]
        if code[index].opcode == "CALL":
            if found:
                calls[index] = found[0]
            continue
        if found:
            targets[index] = found
        else:
            unresolved.append(index)
    return targets, calls, unresolved


def _locate(pcs: Sequence[int], pc: int) -> int | None:
    at = bisect_left(pcs, pc)
    return at if at < len(pcs) and pcs[0] <= pc and pcs[at] - pc < 16 * 64 else None


def _base(code: Sequence[Instruction], raw: Mapping[int, list[int]], pcs: Sequence[int]) -> int:
    """What to subtract from printed targets: 0, or the entry's address where they are absolute."""
    flat = [n for numbers in raw.values() for n in numbers]
    if not flat or min(flat) <= pcs[-1]:
        return 0
    known = set(pcs)
    low = min(flat)
    padding = [raw[i.index][0] - i.pc for i in code if i.opcode == "BRA" and i.guard is None and raw.get(i.index)]
    returns = [int(o, 16) for i in code if i.opcode == "RET" for o in i.operands if _HEX.match(o)]
    aligned = [low - pc for pc in pcs if (low - pc) % 128 == 0]
    fits = [b for b in dict.fromkeys([*padding[-1:], *returns, *aligned]) if all(n - b in known for n in flat)]
    sure = [b for b in fits if b in padding[-1:] or b in returns]
    return sure[0] if sure else fits[0] if len(fits) == 1 else 0


def _leaders(
    code: Sequence[Instruction], targets: Mapping[int, list[int]], calls: Mapping[int, int]
) -> tuple[list[int], list[int]]:
    leaders = {0} if code else set()
    leaders.update(t for found in targets.values() for t in found)
    leaders.update(calls.values())
    for ins in code:
        after = ins.index + 1
        if after < len(code) and ((ins.opcode in CONTROL and not _never(ins)) or code[after].pc - ins.pc > _RUN_GAP):
            leaders.add(after)
    starts = sorted(leaders)
    block_of: list[int] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(code)
        block_of += [number] * (end - start)
    return starts, block_of


def _edges(
    code: Sequence[Instruction], starts: Sequence[int], block_of: Sequence[int], targets: Mapping[int, list[int]]
) -> list[list[int]]:
    out: list[list[int]] = []
    for number in range(len(starts)):
        end = starts[number + 1] if number + 1 < len(starts) else len(code)
        last = code[end - 1]
        stops = last.opcode in _ENDS or last.opcode in _INDIRECT or last.opcode in _JUMPS
        falls = end < len(code) and code[end].pc - last.pc <= _RUN_GAP
        found: list[int] = []
        if falls and (not stops or is_conditional(last) or _never(last)):
            found.append(number + 1)
        found += [block_of[t] for t in targets.get(last.index, ())]
        out.append(list(dict.fromkeys(found)))
    return out


def _link_far_jumps(
    code: Sequence[Instruction], starts: Sequence[int], block_of: Sequence[int], out: list[list[int]],
    calls: dict[int, int], functions: set[int],
) -> None:  # fmt: skip
    """Make jumps of the calls that never come back: ptxas leaves a loop by `@P0 CALL.REL.NOINC` on sm_80 to sm_89."""
    for call, target in list(calls.items()):
        if code[target].pc in functions:
            continue
        seen, stack = {block_of[target]}, [block_of[target]]
        while stack:
            for s in out[stack.pop()]:
                if s not in seen:
                    seen.add(s)
                    stack.append(s)
        ends = [starts[b + 1] - 1 if b + 1 < len(starts) else len(code) - 1 for b in seen]
        if not any(code[end].opcode == "RET" for end in ends):
            block = out[block_of[call]]
            block += [block_of[target]] if block_of[target] not in block else []
            del calls[call]


def _link_switches(
    code: Sequence[Instruction],
    starts: Sequence[int],
    block_of: Sequence[int],
    out: list[list[int]],
    callees: Iterable[int],
    unresolved: Sequence[int],
) -> list[int]:
    """Give an indirect branch without targets the blocks between it and the next one that nothing else enters.

    nvcc places the cases of a switch behind its BRX; without these edges a loop around a switch is not found.
    """
    switches = [i for i in unresolved if code[i].opcode in _INDIRECT]
    entered = {s for block, successors in enumerate(out) for s in successors if s != block} | set(callees) | {0}
    orphans = [
        b for b, start in enumerate(starts)
        if b not in entered and code[start].opcode != "NOP" and b not in out[b]
    ]  # fmt: skip
    linked: list[int] = []
    for place, index in enumerate(switches):
        block = block_of[index]
        stop = block_of[switches[place + 1]] if place + 1 < len(switches) else len(starts)
        cases = [b for b in orphans if block < b <= stop]
        if cases:
            out[block] += cases
            linked.append(index)
    return linked


def _loops(
    code: Sequence[Instruction], blocks: Sequence[Block], idom: Sequence[int | None], order: Sequence[int]
) -> tuple[Loop, ...]:
    bodies: dict[int, set[int]] = {}
    irreducible: set[int] = set()
    for tail, header in retreating_edges([b.successors for b in blocks], order):
        if tail == header and not any(p != header for p in blocks[header].predecessors) and header != 0:
            continue  # the padding behind a kernel: a branch to itself that nothing reaches
        body = {header}
        stack = [tail]
        while stack:
            block = stack.pop()
            if block not in body:
                body.add(block)
                stack += blocks[block].predecessors
        if not _dominates(idom, header, tail):
            irreducible.add(header)
            body &= _reachable(blocks, header)
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


def _reachable(blocks: Sequence[Block], start: int) -> set[int]:
    seen: set[int] = set()
    stack = [start]
    while stack:
        block = stack.pop()
        if block not in seen:
            seen.add(block)
            stack += blocks[block].successors
    return seen


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


def call_edges(program: Program, cfg: Cfg) -> list[list[int]]:
    """Successors of each block plus call to callee and callee's returns to behind the call."""
    code = program.instructions
    edges = [list(b.successors) for b in cfg.blocks]
    returns: dict[int, list[int]] = {}
    for call, target in cfg.calls.items():
        block, callee = cfg.block_of[call], cfg.block_of[target]
        if callee not in returns:
            returns[callee] = _returns(code, cfg, callee)
        edges[block].append(callee)
        behind = cfg.blocks[block].end
        if behind < len(code):
            for r in returns[callee]:
                edges[r].append(cfg.block_of[behind])
    return edges


def _returns(code: Sequence[Instruction], cfg: Cfg, callee: int) -> list[int]:
    seen: set[int] = set()
    stack = [callee]
    while stack:
        block = stack.pop()
        if block not in seen:
            seen.add(block)
            stack += cfg.blocks[block].successors
    return [b for b in sorted(seen) if code[cfg.blocks[b].end - 1].opcode == "RET"]
