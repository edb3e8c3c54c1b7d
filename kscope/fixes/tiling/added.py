"""Sums that threads add to memory at their end: their rounds shared out to several blocks, each of which adds its part.
More blocks than the chip holds even out rounds of different lengths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kscope.features.patterns.loop_parallelism import trips
from kscope.fixes.atomics.reading import Kernel, kernel_of, one_each
from kscope.fixes.given.called import functions
from kscope.fixes.given.conditions import WRITES, not_written, proved, reads, shown
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import Span, shape, spans_edited
from kscope.fixes.tiling.summed import Sums, summed
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

MOST = 32  # parts of a sum: blocks that find nothing to do cost, too (judged)
WAVES = 4  # of blocks, from which on the last ones even out (judged)
LEAST = 8  # rounds of the code's loop that a part has, in the mean (judged)
FEW = 2  # times the mean that the busiest SM works, from which on work.parts takes sums apart
TRIED = (1, 2, 3, 7)  # steps of loops that are written out
SIZES = ((2, 3), (3, 2))  # blocks and parts with which both texts are played
CELLS = 1 << 14


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, held = asked.setting, asked.setting.launch, asked.setting.occupancy()
    kernel = kernel_of(setting)
    one = summed(kernel) if kernel is not None else None
    if kernel is None or one is None or launch is None or held is None or min(launch.grid[1:]) > 1:
        return []
    code, axis = setting.code, "xyz"[launch.grid.index(1, 1)]
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    rounds = max((trips(code, n) for i in loads if (n := code.cfg.loop_of[i]) is not None), default=0)
    parts = _parts(launch.blocks, held.blocks * setting.sms, rounds, LEAST if not one.shared else 1)
    each = all(one_each(setting, kernel.text, met.at) for met in one.sums.values() if met.name)
    if parts < 2 or not each or _others(asked, one) or not _alone(setting, one):
        return []
    spans = _spans(one, axis)
    same = _same(kernel, setting, one, spans) if one.shared else 0
    edits = spans_edited(setting, kernel.text, spans) if same or not one.shared else []
    return [_fix(asked, one, axis, parts, edits, loads, same)] if edits else []


def _fix(
    asked: Asked, one: Sums, axis: str, parts: int, edits: list[Edit], loads: Sequence[int], same: int
) -> Fix:  # fmt: skip
    setting, launch, held = asked.setting, asked.setting.launch, asked.setting.occupancy()
    assert launch is not None and held is not None
    grid = [parts if a == axis else size for a, size in zip("xyz", launch.grid, strict=True)]
    dynamic = [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    before, after = (min(launch.blocks * n, held.blocks * setting.sms) * launch.warps for n in (1, parts))
    names, count = ", ".join(one.sums), _played(parts)
    stored = sorted({met.name for met in one.sums.values() if met.name})
    zero = [f"cudaMemsetAsync({name}, 0, bytes, stream);\n" for name in stored]
    conditions = [
        shown(count > 0, "each round of a sum is done once", "values", count,
              "rounds of several lengths and steps written out, empty ones too"),
        proved("each thread writes a value for each sum, behind the loop alone", "code", setting.code,
               "no store and no atomic in a loop" + ("" if one.shared else ", no barrier and no shared memory")),
        proved("one block takes all rounds now", "launch", launch.grid, f"1 along {axis}"),
        reads(f"nothing but {names} is carried from round to round", "what else a round changes it declares"),
        *not_written(setting.code, loads),
    ]  # fmt: skip
    if one.shared:
        conditions.append(proved("every result is the same", "values", same, "both texts played in small, every result"
                                 " compared, and no two threads use one place but with a barrier between them"))
    if stored:
        conditions += [
            reads("each element is one thread's", "its index is the thread's number in the grid"),
            Condition(holds=f"{', '.join(stored)}: zero before the launch", state="check",
                      why="parts are added to it; what no thread stores to is zero then, too"),
        ]  # fmt: skip
    if not one.exact:
        conditions.append(Condition(holds="the order in which a sum is added up does not matter", state="check",
                                    why="parts of floats round differently"))  # fmt: skip
    return Fix(
        kind="lane_mapping",
        title=f"rounds of {names} in {parts} parts, by as many blocks, which add them"
              + ("" if stored else " by the atomic that is there"),
        language="cuda",
        code=f"{''.join(zero)}{setting.name}<<<{', '.join([shape(grid), shape(launch.block), *dynamic])}>>>(...);",
        edits=edits,
        parameters={f"grid.{axis}": parts},
        conditions=conditions,
        proof=[
            Proof(what="rounds that one block does of the longest sum, a share", before=1, after=1 / parts,
                  how=f"every {parts}th round, from the block's own number on"),
            Proof(what="warps that the chip holds", before=before, after=after, unit="warps",
                  how=f"{held.blocks} blocks fit on each of {setting.sms} SMs"),
        ],
        costs=[f"{parts} atomics for each one"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _others(asked: Asked, one: Sums) -> bool:
    """Whether sums that threads store alone are other makers' (atomics.rounds, work.parts)."""
    alone = not one.shared and any(met.name for met in one.sums.values())
    estimate = asked.finding.estimate
    return alone and (asked.finding.code != "GRD403" or estimate is None or estimate.speedup >= FEW)


def _parts(blocks: int, slots: int, rounds: float, least: int) -> int:
    """So many that some waves of blocks are left to even out, and that each has rounds enough."""
    wanted = -(-WAVES * slots // max(1, blocks))
    most = min(MOST, int(rounds / least))
    return min(1 << max(0, (wanted - 1).bit_length()), 1 << max(0, most.bit_length() - 1)) if blocks else 0


def _alone(setting: Setting, one: Sums) -> bool:
    """Whether each thread writes one value for each sum, behind its loops, as the text says; and needs no other, where
    the text has no barrier."""
    code, stored = setting.code, sum(bool(met.name) for met in one.sums.values())
    together = code.where(lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space == "shared")
    writes = code.ran(code.where(lambda ins, op: op.access in WRITES and op.space in ("global", "generic")))
    if code.where(lambda ins, op: op.space == "local") or (together and not one.shared):
        return False
    stores = sum(code.classes[i].access == "store" for i in writes)
    return len(writes) == len(one.sums) and stores == stored and all(code.cfg.loop_of[i] is None for i in writes)


def _same(kernel: Kernel, setting: Setting, one: Sums, spans: Sequence[Span]) -> int:
    """How many results were compared, if both texts make the same of the same numbers; 0 otherwise."""
    launch, code = setting.launch, kernel.text.code
    new = code
    for start, end, text in sorted(spans, reverse=True):
        new = new[:start] + text + new[end:]
    compared = 0
    for blocks, parts in SIZES if launch is not None and launch.block[1] * launch.block[2] == 1 else ():
        assert launch is not None
        grid = (blocks, parts, 1) if "blockIdx.y" in new else (blocks, 1, parts)
        was = _played_on(kernel, one, code, (blocks, 1, 1), launch.block[0])
        now = _played_on(kernel, one, new, grid, launch.block[0])
        if was is None or now is None or any((was[n] != now[n]).any() for n in was):
            return 0
        compared += blocks * launch.block[0]
    return compared


def _played_on(
    kernel: Kernel, one: Sums, text: str, grid: tuple[int, int, int], threads: int
) -> dict[str, Any] | None:  # fmt: skip
    """What a text makes of drawn numbers; None where it is not played. What the loop goes to is as many as threads."""
    size = grid[0] * threads
    pointers = {n: k.replace("const ", "").partition("*")[0].strip() for n, k in kernel.parameters.items() if "*" in k}
    numbers = {n: size for n, k in kernel.parameters.items() if "*" not in k}
    known = {**constants(kernel.lines), **numbers}
    known |= dict.fromkeys(set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", one.loop.end)) - pointers.keys(), size)
    stored = {met.name for met in one.sums.values()}
    memory = {
        name: np.zeros(CELLS, dtype=np.int64) if name in stored else
        np.random.default_rng([size, *map(ord, name)]).integers(1, 200, CELLS) for name in pointers
    }  # fmt: skip
    kinds = {n: pointers.get(n, k) for n, k in kernel.parameters.items()}
    rules = Rules(literals="drawn", races=True, kinds=kinds, functions=functions(kernel.lines, kernel.body))
    try:
        play(text[text.index("{", kernel.opening) :].rstrip(), grid, (threads, 1), memory, known, rules)
    except Unplayable:
        return None
    return memory


def _spans(one: Sums, axis: str) -> list[Span]:
    """The loop's head, and atomics where sums were stored."""
    adds = [(*met.span, f"atomicAdd(&{met.to}, {name});") for name, met in one.sums.items() if met.name]
    return [_span(one, axis), *adds]


def _span(one: Sums, axis: str) -> tuple[int, int, str]:
    loop, times = one.loop, "" if one.step == "1" else f" * {one.step}"
    start = loop.start if re.fullmatch(r"[\w.\s*+]+", loop.start) else f"({loop.start})"
    wide = "" if loop.kind in ("int", "unsigned") else f"({loop.kind})"
    first = f"{wide}blockIdx.{axis}{times}" if start == "0" else f"{start} + {wide}blockIdx.{axis}{times}"
    head = (
        f"for ({loop.kind} {loop.name} = {first}; {loop.name} < {loop.end}; "
        f"{loop.name} += gridDim.{axis}{times})"
    )
    return (*loop.span, head)


def _played(parts: int) -> int:
    """How many sums were written out, if the parts took each of their rounds once; 0 otherwise."""
    played = 0
    for step in TRIED:
        for first in range(4):
            for end in range(0, 3 * parts * step + 2, step + 1):
                done = sorted(r for part in range(parts) for r in range(first + part * step, end, parts * step))
                if done != list(range(first, end, step)):
                    return 0
                played += 1
    return played

