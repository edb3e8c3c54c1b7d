"""The words of an annotation: what a listing prints beside an instruction, most telling first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.model.program import register_name
from kscope.model.units import figure

if TYPE_CHECKING:
    from kscope.features.sass.accesses import Access
    from kscope.features.sass.scoreboards import Wait
    from kscope.features.views.annotations import Annotation
    from kscope.model.contract.programs import Measured
    from kscope.model.program import Instruction, Program

NAMED = 3  # producers named of one wait; the others are counted
WORSE = 1.05  # traffic over the ideal from which a pattern counts as bad
PARTED = 1.005  # mean ways from which a branch counts as divergent
FULL = 31.5  # mean active lanes from which a warp counts as full
_SPACES = {"global": "", "shared": "", "local": "", "constant": "", "generic": "generic address, ",
           "dshared": "another block's shared memory, ", "tmem": ""}  # fmt: skip


def notes(
    program: Program,
    index: int,
    annotation: Annotation,
    measured: Measured | None = None,
    conflict: tuple[float, float] | None = None,
) -> list[str]:
    """Short phrases about one instruction; empty where its text says it all. `conflict`: wavefronts of a shared-memory
    access and the fewest possible, as derived from the code."""
    ins = program.instructions[index]
    found: list[str] = []
    if measured is not None:
        found += _counted(measured)
    elif conflict is not None and conflict[0] > conflict[1]:
        found.append(f"{figure(conflict[0])} wavefronts where {figure(conflict[1])} would do: a bank conflict, derived")
    if annotation.access is not None:
        found += _access(annotation.access, measured)
    if annotation.words:
        found.append(annotation.words + (_accumulators(ins) if annotation.role == "tensor" else ""))
    found += _waiting(program, annotation.waits)
    if annotation.flow:
        found.append(annotation.flow)
    return found


def _access(access: Access, measured: Measured | None) -> list[str]:
    if access.space == "constant" or access.bytes is None:
        return []
    width = f"{_SPACES.get(access.space, '')}{access.bytes} B/lane"
    if measured is not None and measured.moved and measured.executed and not _bad(measured):
        width += f", {figure(measured.moved / measured.executed)} {measured.unit}"
    return [f"{access.stack}, {width}" if access.stack else width]


def _accumulators(ins: Instruction) -> str:
    """Where a wgmma's accumulators are: the text names the first register only."""
    if not ins.opcode.endswith("GMMA") or not ins.defs:
        return ""
    return f", in {register_name(min(ins.defs))}..{register_name(max(ins.defs))}"


def _waiting(program: Program, waits: Sequence[Wait]) -> list[str]:
    """One phrase for whom it waits, one for whose operands must have been read, and what shares the scoreboard."""
    results = [p for w in waits if not _only_read(program, w) for p in w.needed]
    reads = [p for w in waits if _only_read(program, w) for p in w.needed]
    out = [f"waits for {_named(program, results)}"] if results else []
    if reads:
        out.append(f"waits until {_named(program, reads)} {'has' if len(reads) == 1 else 'have'} read the registers")
    shared = {w.board: w.shared for w in waits if w.shared}
    if shared:
        every = [p for found in shared.values() for p in found]
        boards = ", ".join(f"SB{board}" for board in shared)
        out.append(f"also held by {_named(program, every)}, on the same {boards}")
    return out


def _only_read(program: Program, wait: Wait) -> bool:
    """Whether the scoreboard tells that operands have been read, not that results are there."""
    if wait.board is None or not wait.needed:
        return False
    controls = [program.instructions[p].control for p in wait.needed]
    return all(c is not None and c.read_barrier == wait.board and c.write_barrier != wait.board for c in controls)


def _named(program: Program, indices: Sequence[int], most: int = NAMED) -> str:
    code = program.instructions
    shown = ", ".join(f"{code[i].pc:04x}" for i in indices[:most])
    return shown + (f" and {len(indices) - most} more" if len(indices) > most else "")


def _bad(measured: Measured) -> bool:
    return bool(measured.moved and measured.ideal and measured.moved >= WORSE * measured.ideal)


def _counted(measured: Measured) -> list[str]:
    """What the counters say that the text cannot: bad patterns and idle lanes."""
    found = []
    if measured.moved and measured.ideal and measured.executed and _bad(measured):
        ratio = measured.moved / measured.ideal
        each, best = measured.moved / measured.executed, measured.ideal / measured.executed
        found.append(f"{figure(each)} {measured.unit} a request where {figure(best)} would do ({figure(ratio)}x)")
    if measured.ways is not None and measured.ways >= PARTED:
        often = f"in {100 * (measured.ways - 1):.0f} % of its runs" if measured.ways <= 2 else "on average"
        found.append(f"lanes go {'both' if measured.ways <= 2 else f'{measured.ways:.2g}'} ways {often}")
    if measured.lanes is not None and measured.lanes < FULL and measured.executed:
        found.append(f"{figure(measured.lanes)} of 32 lanes" if measured.lanes else "its guard is never true")
    return found
