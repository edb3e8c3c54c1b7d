"""Which instructions a scoreboard wait is for.

Loads, stores and other instructions of variable latency announce their end through one of six scoreboards of the
warp, counters that the compiler assigns (write barrier: the result is there; read barrier: the operands have been
read). A later instruction waits until the counters in its mask are zero, so everything outstanding on a shared
scoreboard is waited for, needed or not. Source: Jia et al., arXiv 1804.06826, section 2.1.

Loads of one kind return in order, so the compiler often leaves the scoreboard to the last of a group: those without one
of their own count as outstanding on the next one's.

Outstanding setters are propagated over the flow graph as bit sets, one for each scoreboard. Where only text is known
(no control fields), the pending results themselves take the place of the scoreboards: the first instruction on each
way that reads or overwrites a register is the one that waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from kscope.features.sass.cfg import Cfg
    from kscope.isa.opcodes import OpClass
    from kscope.model.program import Instruction, Program


class Wait(Struct, frozen=True):
    """One wait of one instruction. `board` is None where the control fields are not known. `needed`: instructions
    whose registers it touches; `shared`: others that were outstanding on the same scoreboard; `done`: those without a
    scoreboard of their own that have returned by then, too. All are indices, nearest in program order first."""

    board: int | None
    needed: tuple[int, ...]
    shared: tuple[int, ...] = ()
    done: tuple[int, ...] = ()


def waits(program: Program, cfg: Cfg, classes: Sequence[OpClass]) -> list[tuple[Wait, ...]]:
    """Waits of every instruction, in program order; the tuple is empty where it waits for nothing variable."""
    code = program.instructions
    if not code:
        return []
    if all(ins.control is None for ins in code):
        return _flow(cfg, len(code), *_by_register(code, classes), code)
    return _flow(cfg, len(code), *_by_board(code, cfg, classes), code)


_Step = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Of one instruction: the keys (scoreboards or registers) that it waits for, and what is outstanding afterwards, as
(key, instruction)."""
_Steps = list[_Step]


def _by_board(code: Sequence[Instruction], cfg: Cfg, classes: Sequence[OpClass]) -> tuple[_Steps, bool]:
    steps: _Steps = []
    without: dict[tuple[str, str | None], list[int]] = {}
    for i, (ins, op) in enumerate(zip(code, classes, strict=True)):
        control = ins.control
        if i == cfg.blocks[cfg.block_of[i]].start:
            without.clear()
        if control is None:
            steps.append(((), ()))
            continue
        sets = [(b, i) for b in (control.write_barrier, control.read_barrier) if b is not None]
        if op.scoreboard is not None and ins.defs:
            kind = (op.pipe, op.space)
            if control.write_barrier is None:
                without.setdefault(kind, []).append(i)
            else:
                sets += [(control.write_barrier, earlier) for earlier in without.pop(kind, ())]
        waited = control.waits if control.wait_mask else ()
        if ins.opcode == "DEPBAR" and (board := _depbar(ins)) is not None:
            waited = (*waited, board)
        steps.append((waited, tuple(sets)))
    return steps, True


def _depbar(ins: Instruction) -> int | None:
    """The scoreboard that `DEPBAR.LE SB0, 0x0` drains; None where it leaves some outstanding."""
    if len(ins.operands) == 2 and ins.operands[0].kind == "scoreboard" and ins.operands[1].equals(0):
        return ins.operands[0].value
    return None


def _by_register(code: Sequence[Instruction], classes: Sequence[OpClass]) -> tuple[_Steps, bool]:
    """Registers whose value arrives late are the keys; only those are ever looked at."""
    late = {r for ins, op in zip(code, classes, strict=True) if op.scoreboard is not None for r in ins.defs}
    steps: _Steps = []
    for i, (ins, op) in enumerate(zip(code, classes, strict=True)):
        touched = tuple(r for r in (*ins.uses, *ins.defs) if r in late)
        steps.append((touched, tuple((r, i) for r in ins.defs) if op.scoreboard is not None else ()))
    return steps, False


def _flow(cfg: Cfg, count: int, steps: _Steps, boards: bool, code: Sequence[Instruction]) -> list[tuple[Wait, ...]]:
    """Propagate outstanding setters to a fixed point, then read every wait off the state before it."""
    setters = sorted({i for _, sets in steps for _, i in sets})
    place = {i: n for n, i in enumerate(setters)}
    entering: list[dict[int, int]] = [{} for _ in cfg.blocks]
    pending = set(range(len(cfg.blocks)))
    while pending:
        for block in cfg.order:
            if block not in pending:
                continue
            pending.discard(block)
            state = dict(entering[block])
            for i in range(cfg.blocks[block].start, cfg.blocks[block].end):
                _step(state, steps[i], place)
            for successor in cfg.blocks[block].successors:
                into, grown = entering[successor], False
                for key, bits in state.items():
                    if bits & ~into.get(key, 0):
                        into[key] = into.get(key, 0) | bits
                        grown = True
                if grown:
                    pending.add(successor)
    out: list[tuple[Wait, ...]] = [()] * count
    for number, inside in enumerate(cfg.blocks):
        state = dict(entering[number])
        for i in range(inside.start, inside.end):
            waited = {key: state[key] for key in steps[i][0] if state.get(key)}
            if waited:
                out[i] = _waits(code, i, {key: _members(bits, setters) for key, bits in waited.items()}, boards=boards)
            _step(state, steps[i], place)
    return out


def _step(state: dict[int, int], step: _Step, place: Mapping[int, int]) -> None:
    waited, sets = step
    for key in waited:
        state.pop(key, None)
    for key, index in sets:
        state[key] = state.get(key, 0) | 1 << place[index]


def _waits(
    code: Sequence[Instruction], i: int, waited: Mapping[int, Sequence[int]], *, boards: bool
) -> tuple[Wait, ...]:
    if not boards:
        return (Wait(None, _near(i, {p for setters in waited.values() for p in setters})),)
    found = []
    for board, setters in sorted(waited.items()):
        needed = [p for p in setters if _touches(code[i], code[p], board)]
        rest = [p for p in setters if p not in needed]
        shared = [p for p in rest if _holds(code[p], board)]
        done = [p for p in rest if p not in shared]
        first, others = (needed, shared) if needed else (shared, [])
        found.append(Wait(board, _near(i, first), _near(i, others), _near(i, done)))
    return tuple(wait for wait in found if wait.needed or wait.done)


def _touches(waiting: Instruction, setter: Instruction, board: int) -> bool:
    """Whether the wait is for this setter's registers: its result, or an operand that is overwritten."""
    control = setter.control
    if control is None:
        return False
    # No scoreboard of its own: it is outstanding on this one because a later load of its kind has it.
    writes = control.write_barrier == board or (control.write_barrier is None and control.read_barrier != board)
    if writes and not set(setter.defs).isdisjoint((*waiting.uses, *waiting.defs)):
        return True
    return control.read_barrier == board and not set(setter.uses).isdisjoint(waiting.defs)


def _holds(setter: Instruction, board: int) -> bool:
    """Whether the scoreboard is its own: an instruction that only returns in order before another holds nobody up."""
    control = setter.control
    return control is not None and board in (control.write_barrier, control.read_barrier)


def _members(bits: int, setters: Sequence[int]) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(setters[low.bit_length() - 1])
        bits ^= low
    return found


def _near(i: int, producers: Sequence[int] | set[int]) -> tuple[int, ...]:
    """Nearest before i first, those of an earlier loop round (behind i) last."""
    return tuple(sorted(producers, key=lambda p: (p >= i, i - p)))
