"""Global memory: the thread indices exchanged, where lanes then stand side by side, counted in sectors on the lanes'
addresses under the exchanged indices."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES, Value
from kscope.features.lanes.values import Lanes
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.rewrite import Place, changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import body
from kscope.fixes.given.text import asked_here, hidden, kernel_text
from kscope.model.contract.fixes import Fix, Proof
from kscope.model.program import Instruction

SECTOR = 32
SEEDS = (1, 2)
HIGHEST = 65535  # blocks of a grid along y (CUDA C++ Programming Guide, compute capabilities)
HALVED = 0.5  # of the sectors that must go, for an exchange to be worth its lines (judged)
EXCHANGED = {"X": "Y", "Y": "X"}
_INDEX = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xy])\b")


class Exchanged(Lanes):
    """Lanes of a kernel in which x and y of thread and block have changed places."""

    def _special(self, ins: Instruction) -> Value:
        last = ins.operands[-1]
        name, _, axis = last.text.rpartition(".")
        if name in ("SR_TID", "SR_CTAID") and axis in EXCHANGED:
            operand = msgspec.structs.replace(last, text=f"{name}.{EXCHANGED[axis]}")
            ins = msgspec.structs.replace(ins, operands=(*ins.operands[:-1], operand))
        return super()._special(ins)


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    launch = setting.launch
    if launch is None or launch.block[2] > 1 or launch.grid[2] > 1 or launch.block[1] == 1 or _together(asked):
        return []
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access is not None))
    square = launch.block[0] == launch.block[1] and launch.grid[0] == launch.grid[1]
    shape = launch.block
    other = (shape[1], shape[0], 1)
    was, will = _moved(asked, Lanes, shape, found), _moved(asked, Exchanged, other, found)
    edits = changed(_lines(asked, found), _exchanged)
    if was is None or will is None or will > HALVED * was or not edits or not _told(asked):
        return []
    x, y = launch.block[1], launch.block[0]
    swapped = f"dim3 block({x}, {y}), grid({launch.grid[1]}, {launch.grid[0]});"
    return [
        Fix(
            kind="lane_mapping",
            title="x and y of thread and block exchanged: neighbouring lanes on neighbouring addresses",
            language="cuda",
            code="" if square else swapped,
            edits=edits,
            conditions=[
                proved("each thread works alone", "code", code, "no barrier, no shared memory, no exchange of lanes"),
                shown(square, "blocks and grid are square", "launch", shape, "as launched", "exchange them too"),
            ],
            proof=[
                Proof(
                    what=f"sectors of the {len(found)} global accesses", before=was, after=will, unit="sectors",
                    how="the 32 lanes' addresses with the indices as they are and exchanged, by executions",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _told(asked: Asked) -> bool:
    """Whether the kernel's lines alone ask for places, x and y by name, and the other grid can be launched."""
    setting, launch, text = asked.setting, asked.setting.launch, kernel_text(asked.setting)
    if text is None or launch is None or max(launch.grid[:2]) > HIGHEST or hidden(text.code, setting.lines(text.file)):
        return False
    other = re.search(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b(?!\.[xyz]\b)|%n?(?:tid|ctaid)|\bcg::", text.code)
    return other is None and all(asked_here(setting.code, text, place) for place in ("SR_TID", "SR_CTAID"))


def _together(asked: Asked) -> bool:
    """Whether threads work together: then it matters which of them are neighbours."""
    lanes = ("SHFL", "VOTE", "MATCH", "REDUX")
    return bool(
        asked.setting.code.where(
            lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space == "shared" or ins.opcode in lanes
        )
    )


def _moved(asked: Asked, machine: type[Lanes], shape: tuple[int, int, int], found: Sequence[int]) -> float | None:
    """Sectors of all executions; None where an address is unknown."""
    each = [_sectors(asked, machine, shape, i) for i in found]
    if not each or None in each:
        return None
    return sum((n or 0) * asked.setting.code.executed[i] for n, i in zip(each, found, strict=True))


def _sectors(asked: Asked, machine: type[Lanes], shape: tuple[int, int, int], index: int) -> int | None:
    """The most sectors of 32 bytes that one access touches, of the warps tried; None where an address is unknown."""
    code = asked.setting.code
    worst = 0
    for seed in SEEDS:
        address = machine(code, Assumption(seed, shape)).address(index)
        if address is None:
            return None
        lanes = address if isinstance(address, tuple) else (address,) * LANES
        worst = max(worst, sectors(lanes, code.classes[index].bytes))
    return worst


def sectors(addresses: Sequence[int], width: int) -> int:
    """Distinct pieces of 32 bytes that lanes of `width` bytes touch."""
    return len({piece for a in addresses for piece in range(a // SECTOR, (a + width - 1) // SECTOR + 1)})


def _lines(asked: Asked, indices: Sequence[int]) -> list[Place]:
    """All lines of the kernel whose accesses these are, its head apart."""
    used = places(asked.setting, indices)
    for place in used:
        lines = asked.setting.lines(place.file)
        head = next((n for n in range(place.number, 0, -1) if "__global__" in lines[n - 1]), None)
        if head is not None and asked.setting.name in lines[head - 1]:
            return [Place(place.file, n, lines[n - 1]) for n in body(lines, place.number) if n >= head]
    return []


def _exchanged(text: str) -> str:
    return _INDEX.sub(lambda m: f"{m[1]}.{'y' if m[2] == 'x' else 'x'}", text)
