"""Elements that threads take one by one, in another order: the digit of the index along which memory is contiguous
becomes the lanes'."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES, Value
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import index_of, kernel_text, loops, spans_edited
from kscope.fixes.memory.lane_mapping import HALVED, SECTOR, sectors
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.program import Instruction

SEED = 1
STARTS = (0, 5, 64)
"""Warps whose lanes are run, counted from the launch's first: of a digit's begin, and of its middle."""
ACROSS = tuple(1 << n for n in range(2, 9))  # elements that become neighbours: a sector of 8-byte ones to 256 lanes
APART = tuple(1 << n for n in range(1, 15))  # elements between them now
TURNED = """template <class T> __device__ __forceinline__ T turned(T n) {{  // the same numbers, in another order
  return n / {both} * {both} + n % {a} * {b} + n / {a} % {b};
}}"""
_INDEX = re.compile(
    r"\b(?:size_t|int|unsigned|long long|unsigned int)\s+\w+\s*=\s*(?P<from>[^;,]*threadIdx\.x[^;,]*)(?=[;,])"
)
_TOGETHER = ("SHFL", "VOTE", "MATCH", "REDUX")


class Addressed(Lanes):
    """Lanes for which loaded words are invented too, the same for the same address."""

    def _same_everywhere(self, index: int, ins: Instruction, register: int) -> Value:
        if self._code.classes[index].access == "load":
            address = self.address(index)
            if isinstance(address, tuple):
                return tuple(self._given.number(("word", index, register, a)) for a in address)
        return super()._same_everywhere(index, ins, register)


class Numbered(Addressed):
    """Such lanes at any places of the launch: `places` are the numbers blockIdx.x * blockDim.x + threadIdx.x."""

    def __init__(self, listing: Listing, assumption: Assumption, places: Sequence[int]) -> None:
        super().__init__(listing, assumption)
        self._places = places

    def _special(self, ins: Instruction) -> Value:
        name = ins.operands[-1].text
        if name in ("SR_TID.X", "SR_TID"):
            return tuple(p % self._given.block[0] for p in self._places)
        if name == "SR_CTAID.X":
            return tuple(p // self._given.block[0] for p in self._places)
        return super()._special(ins)


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or max(*launch.block[1:], *launch.grid[1:]) > 1 or _ordered(setting):
        return []
    index = _INDEX.search(text.code)
    once = text.code.count("threadIdx") == text.code.count("blockIdx") == 1 and "gridDim" not in text.code
    if index is None or index_of(index["from"], "") is None or not once or loops(text.code) or "turned" in text.code:
        return []
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access is not None))
    threads = launch.threads * launch.blocks
    was, best = _moved(setting, found, 1, 1), _best(setting, found, threads)
    if was is None or best is None or best[0] - was[2] > HALVED * (was[0] - was[2]):
        return []
    (before, _, _), (after, a, b) = was, best
    edits = spans_edited(setting, text, [(*index.span("from"), f"turned({index['from'].strip()})")])
    played = _played(a, b, threads)
    return [
        Fix(
            kind="lane_mapping",
            title=f"lanes take elements {b} apart: what lies side by side in memory",
            language="cuda",
            code=TURNED.format(both=a * b, a=a, b=b),
            edits=edits,
            parameters={"across": a, "apart": b},
            conditions=[
                proved("each thread works alone", "code", code, "no barrier, no shared memory, no exchange of lanes"),
                shown(played > 0, "the same elements are done once each", "values", played,
                      f"the {a * b} numbers of one turn written out; {threads} threads are a multiple of them"),
                Condition(holds=f"every launch has a multiple of {a * b} threads", state="check",
                          why="as this one has"),
                Condition(holds="no thread reads what another one writes", state="check",
                          why="the order is another one"),
            ],
            proof=[
                Proof(
                    what=f"sectors of the {len(found)} global accesses", before=before, after=after, unit="sectors",
                    how=f"lanes of {len(STARTS)} warps at their places, as they are and in the new order; loaded words "
                    "are taken for the same where their addresses are",
                )
            ],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def _ordered(setting: Setting) -> bool:
    """Whether it matters which threads are neighbours."""
    return bool(
        setting.code.where(
            lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space == "shared"
            or ins.opcode in _TOGETHER or op.access in ("atomic", "reduction")
        )
    )  # fmt: skip


def _best(setting: Setting, found: Sequence[int], threads: int) -> tuple[float, int, int] | None:
    """(sectors of all executions, a, b) of the order that moves the fewest sectors, in the fewest pieces; of those the
    shortest turn."""
    tried = [(a, b) for a in ACROSS for b in APART if threads % (a * b) == 0]
    known = [(one[0], one[1], a * b, a, b) for a, b in tried if (one := _moved(setting, found, a, b)) is not None]
    if not known:
        return None
    moved, _, _, a, b = min(known)
    return moved, a, b


def _moved(setting: Setting, found: Sequence[int], a: int, b: int) -> tuple[float, float, float] | None:
    """(sectors, pieces of memory without gaps, sectors if lanes that differ stood side by side) of all executions, with
    elements in the order of a and b; None where an address is unknown."""
    code, out = setting.code, [0.0, 0.0, 0.0]
    for start in STARTS:
        places = [turned(start * LANES + n, a, b) for n in range(LANES)]
        lanes = Numbered(code, Assumption(SEED, setting.block), places)
        for i in found:
            address = lanes.address(i)
            if address is None:
                return None
            row = address if isinstance(address, tuple) else (address,)
            width, times = code.classes[i].bytes, total(code.executed, [i]) / len(STARTS)
            pieces = len(set(row) - {x + width for x in row})
            counts = sectors(row, width), pieces, least(row, width)
            out = [so_far + n * times for so_far, n in zip(out, counts, strict=True)]
    return out[0], out[1], out[2]


def least(row: Sequence[int], width: int) -> int:
    """Sectors that lanes touch if those that differ stand side by side."""
    return -(-len(set(row)) * width // SECTOR)


def turned(n: int, a: int, b: int) -> int:
    """The element that the n-th thread takes: digits of a and b exchanged."""
    return n // (a * b) * (a * b) + n % a * b + n // a % b


def _played(a: int, b: int, threads: int) -> int:
    """How many numbers were written out, if they are the same in both orders; 0 otherwise."""
    both = a * b
    same = sorted(turned(n, a, b) for n in range(both)) == list(range(both))
    return both if same and threads % both == 0 else 0
