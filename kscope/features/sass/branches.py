"""Where control goes: targets of branches and calls, the starts of basic blocks, the edges between them.

Targets are offsets from the entry (`BRA 0x290`); listings with absolute addresses are recognised by the padding
that every kernel ends with, a branch to itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from kscope.features.sass.graph import reached
from kscope.isa.families import family
from kscope.model.operand import UNIFORM_BASE, Operand
from kscope.model.program import Instruction, Program

_JUMPS = family("jump")
_INDIRECT = family("indirect_jump")
_ENDS = family("flow_end")
CONTROL = family("flow")
_RUN_GAP = 4096  # bytes: code further apart belongs to another function and is not fallen into


def is_conditional(ins: Instruction) -> bool:
    """Whether a control instruction may fall through: guarded, or branching on an operand (`BRA.U UP0, ...`)."""
    if ins.guard is not None:
        return True
    if ins.opcode in _JUMPS:
        return any(_decides(o) for o in ins.operands)
    return False


def _decides(operand: Operand) -> bool:
    """A predicate or a uniform register: not the constant PT."""
    if operand.kind == "predicate":
        return operand.register >= 0 or operand.negated
    return operand.kind == "register" and operand.register >= UNIFORM_BASE


def _never(ins: Instruction) -> bool:
    return ins.guard is None and ins.guard_negated  # @!PT


def targets_of(program: Program) -> tuple[dict[int, list[int]], dict[int, int], list[int]]:
    """Branch targets and callees as instruction indices, and the branches that have none in their text."""
    code = program.instructions
    known, raw = _named(program)
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
        elif found:
            targets[index] = found
        else:
            unresolved.append(index)
    return targets, calls, unresolved


def _named(program: Program) -> tuple[dict[int, tuple[int, ...]], dict[int, list[int]]]:
    """By index of a control instruction: offsets that the image or its symbols tell; else the numbers in its text,
    which may be absolute."""
    symbols = {name: pc for pc, name in program.symbols}
    known: dict[int, tuple[int, ...]] = {}
    raw: dict[int, list[int]] = {}
    for ins in program.instructions:
        if ins.opcode not in CONTROL or ins.opcode in _ENDS or _never(ins):
            continue
        if ins.pc in program.branches:
            known[ins.index] = program.branches[ins.pc]
        elif symbols and (named := [symbols[o.text] for o in ins.operands if o.text in symbols]):
            known[ins.index] = tuple(named)
        else:
            numbers = [o.value for o in ins.operands if o.kind == "integer"]
            # `BRX R4, -0x2910`: the first constant is a displacement from a table's entry, not a target.
            raw[ins.index] = numbers[1:] if ins.opcode in _INDIRECT else numbers[-1:]
    return known, raw


def _locate(pcs: Sequence[int], pc: int) -> int | None:
    at = bisect_left(pcs, pc)
    return at if at < len(pcs) and pcs[0] <= pc and pcs[at] - pc < 16 * 64 else None


def _base(code: Sequence[Instruction], raw: Mapping[int, list[int]], pcs: Sequence[int]) -> int:
    """What to subtract from printed targets: 0, or the entry's address where they are absolute."""
    flat = [n for numbers in raw.values() for n in numbers]
    if not flat or min(flat) <= pcs[-1]:
        return 0
    told = _entries(code, raw)
    aligned = [min(flat) - pc for pc in pcs if (min(flat) - pc) % 128 == 0]
    known = set(pcs)
    fits = [b for b in dict.fromkeys([*told, *aligned]) if all(n - b in known for n in flat)]
    sure = [b for b in fits if b in told]
    return sure[0] if sure else fits[0] if len(fits) == 1 else 0


def _entries(code: Sequence[Instruction], raw: Mapping[int, list[int]]) -> list[int]:
    """What the code itself says its entry's address is: the padding behind it, and returns."""
    padding = [raw[i.index][0] - i.pc for i in code if i.opcode == "BRA" and i.guard is None and raw.get(i.index)]
    return padding[-1:] + [o.value for i in code if i.opcode == "RET" for o in i.operands if o.kind == "integer"]


def leaders(
    code: Sequence[Instruction], targets: Mapping[int, list[int]], calls: Mapping[int, int]
) -> tuple[list[int], list[int]]:
    """First instruction of each block, and the block of each instruction."""
    found = {0} if code else set()
    found.update(t for goals in targets.values() for t in goals)
    found.update(calls.values())
    for ins in code:
        after = ins.index + 1
        if after < len(code) and ((ins.opcode in CONTROL and not _never(ins)) or code[after].pc - ins.pc > _RUN_GAP):
            found.add(after)
    starts = sorted(found)
    block_of: list[int] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(code)
        block_of += [number] * (end - start)
    return starts, block_of


def edges(
    code: Sequence[Instruction], starts: Sequence[int], block_of: Sequence[int], targets: Mapping[int, list[int]]
) -> list[list[int]]:
    """Successors of each block: where it falls through, then where it branches."""
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


def link_far_jumps(
    code: Sequence[Instruction], starts: Sequence[int], block_of: Sequence[int], out: list[list[int]],
    calls: dict[int, int], functions: set[int],
) -> None:  # fmt: skip
    """Make jumps of the calls that never come back: ptxas leaves a loop by `@P0 CALL.REL.NOINC` on sm_80 to sm_89."""
    for call, target in list(calls.items()):
        if code[target].pc in functions:
            continue
        seen = reached([block_of[target]], lambda b: out[b])
        ends = [starts[b + 1] - 1 if b + 1 < len(starts) else len(code) - 1 for b in seen]
        if not any(code[end].opcode == "RET" for end in ends):
            block = out[block_of[call]]
            block += [block_of[target]] if block_of[target] not in block else []
            del calls[call]


def link_switches(
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
