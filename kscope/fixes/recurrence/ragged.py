"""Runs of rows of very different lengths, one a block, that lie one behind the other: every block takes as many rows,
of whichever runs they are, and adds what it has of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.setting import Asked
from kscope.fixes.recurrence.linear import parsed
from kscope.fixes.recurrence.ragged_parts import Runs, handed, parts, put_in, words
from kscope.fixes.recurrence.ragged_text import FENCE, TILE, spans
from kscope.fixes.recurrence.rewritten import CELLS, Side, alike, edits, numbers, sized
from kscope.fixes.recurrence.serial import Serial, serial
from kscope.fixes.rows.function import Function
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

ADDED = ("float", "double", "int", "unsigned", "unsigned int")  # that atomicAdd takes
MOST = "instructions of the SM that executes most over the mean"  # the finding's (GRD403)
THREADS = 1024  # of an SM, which have enough rows on their way (judged)
RUNS, BLOCKS = 6, 5  # that are played
WAVES = 2  # of blocks that the device should have, so that none waits for another (judged)
PLACES = 256  # that whole numbers in arrays lead to
MEANS, SHORT = (2, 40, 150), (1, 2)  # rows of a run that is played, and where there are more than threads
_STORE = re.compile(r"\s*(?P<name>\w+)\s*\[(?P<at>[^;=]*)\]\s*=(?!=)\s*(?P<value>\w+)\s*;")
SIGNED = ("int", "long")  # rows are told apart by differences
_COUNTED = re.compile(r"\(?(?P<array>\w+)\[blockIdx\.x\+1\]-\(?(?P=array)\[blockIdx\.x\]\)*")
_NEXT = re.compile(r"(?P<array>\w+)\[blockIdx\.x\]")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, held = asked.setting, asked.setting.launch, asked.setting.occupancy()
    one = serial(setting)
    found = runs(one) if one is not None else None
    if found is None or launch is None or held is None or max(launch.grid[1:]) > 1 or not setting.sms:
        return []
    fn, code = found.one.fn, setting.code
    more = max(1, round(WAVES * held.blocks * setting.sms / launch.grid[0]))
    blocks = setting.sms * max(1, THREADS // launch.threads)
    room = (blocks, launch.threads)
    compared = _played(found, more, room, launch.block,
                       sized(fn, numbers(setting, fn), launch.threads, launch.block[0]))  # fmt: skip
    uneven = next((e.value for e in asked.finding.evidence if e.metric == MOST), None)
    if not compared or not isinstance(uneven, (int, float)):
        return []
    fractions = set(found.one.states.values()) & {*FLOATS}
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    changed = edits(setting, fn, spans(found, room))
    handed = any(next(iter(parts(found))) in e.becomes for e in changed)
    grid, more_given = f"dim3({launch.grid[0]}, {more})" if more > 1 else str(launch.grid[0]), ""
    if handed:
        grid, more_given = str(blocks), f", {launch.grid[0]}"
    return [
        Fix(
            kind="lane_mapping",
            title="as many rows for every block, of whichever runs they are, and added to their sums",
            language="cuda",
            code=f"{_needed(found, room, handed=handed)}// launch: "
            f"{setting.name}<<<{grid}, dim3{launch.block}>>>(...{more_given})",
            edits=changed,
            parameters={"grid.x": blocks} if handed else {"grid.y": more},
            conditions=[
                proved(f"every result is the same{' but for rounding' if fractions else ''}", "values", compared,
                       "both versions played on numbers, with runs of random lengths, empty ones too; no races but at "
                       "sums that blocks hand to each other"),
                reads("nothing but the sums is carried from row to row", "the loop's text taken apart"),
                Condition(holds=f"{found.array} never goes down", state="check",
                          why="each run begins where the one before it ends: blocks look for theirs in it"),
                *_kept(found, handed=handed),
                *not_written(code, loads),
                *([Condition(holds="the order in which a sum is added up does not matter", state="check",
                             why="parts of floats round differently")] if fractions else []),
            ],
            proof=[
                Proof(what=MOST, before=uneven, after=1, how="every block has as many rows, but for the last one"),
            ],
            costs=["sums in another order from run to run",
                   f"a search in {found.array} for each block, two barriers for {TILE} rows",
                   *(["sums of runs of several blocks go through global memory"] if handed else [])],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _needed(found: Runs, room: tuple[int, int], *, handed: bool) -> str:
    """What stands in front of the kernel, or is done in front of a launch."""
    if not handed:
        return "".join(f"// {name} is zero before: cudaMemsetAsync({name}, 0, bytes)\n" for name in found.outs)
    *sums, came = parts(found).items()
    arrays = "".join(f"__device__ {kind} {name}[{words(room)}] = {{}};\n" for name, kind in sums)
    said = "// of each run of several blocks: sums of its parts, and how many came; zero again after each launch\n"
    return f"{said}{arrays}__device__ {came[1]} {came[0]}[{room[0]}] = {{}};\n"


def _kept(found: Runs, *, handed: bool) -> list[Condition]:
    """What parts of sums ask for, which blocks hand to each other or add to what is there."""
    if not handed:
        why = "parts are added to it"
        return [Condition(holds=f"{name} is zero before the launch", state="check", why=why) for name in found.outs]
    name = next(iter(parts(found)))
    return [
        Condition(holds="every launch says how many runs it has, which was its number of blocks", state="check",
                  why="runs_n is a new parameter: blocks are as many as the device takes"),
        Condition(holds="no two launches of it run at a time", state="check", why=f"{name} is one array"),
    ]  # fmt: skip


def runs(one: Serial) -> Runs | None:
    """What a kernel is whose blocks each sum up `array[blockIdx.x]` to `array[blockIdx.x + 1]`."""
    fn, loop = one.fn, one.loop
    array, counted = _array(one), loop.start == "0"
    if not array or one.stores or one.moved or one.factored:
        return None
    if one.was is not fn:
        return None
    if any(kind not in ADDED for kind in one.states.values()):
        return None
    if re.search(r"\breturn\b|\bblockIdx\.y|\bgridDim\b", fn.body) or re.search(r"\w_n\b", fn.code):
        return None
    if fn.pointers.get(array) in (None, *FLOATS):
        return None
    outs = _outs(fn, one.tail)
    if not outs or not _zero(one):
        return None
    stores = _stores(fn, one.tail)
    whole = not counted and sorted(s for _, _, s in stores) == sorted(one.states)
    found = Runs(one, array, stores if whole else (), outs)
    return found if found.stores or handed(found) else None


def _array(one: Serial) -> str:
    """Where runs begin: a block's loop goes from its one to the next, or counts as many rows; "" where it does not."""
    start, end = (put_in(side, one.fn.body) for side in (one.loop.start, one.loop.end))
    begins = (_COUNTED if start == "0" else _NEXT).fullmatch(end if start == "0" else start)
    if begins is None or one.loop.kind not in SIGNED:
        return ""
    return begins["array"] if start == "0" or end == f"{begins['array']}[blockIdx.x+1]" else ""


def _zero(one: Serial) -> bool:
    return all(re.search(rf"\b{s}\s*=\s*0(?:\.0*)?f?\s*[,;]", one.head) for s in one.states)


def _outs(fn: Function, tail: str) -> tuple[str, ...]:
    """Arrays that the end of a kernel stores to, if each is used nowhere else."""
    try:
        left = list(_stored(parsed(f"{{{tail}}}")))
    except Unplayable:
        return ()
    once = all(name in fn.pointers and len(re.findall(rf"\b{name}\b", fn.body)) == 1 for name in left)
    return tuple(sorted(left)) if once else ()


def _stored(node: object) -> Iterator[str]:
    """Arrays that a tree stores to; "" for what is none."""
    if not isinstance(node, (tuple, list)):
        return
    if len(node) == 4 and node[0] in ("assign", "after") and node[2][0] != "name":
        to = node[2]
        yield to[1][1] if to[0] == "index" and to[1][0] == "name" else ""
    for part in node:
        yield from _stored(part)


def _stores(fn: Function, tail: str) -> tuple[tuple[str, str, str], ...]:
    """What the end of a kernel stores, if it does nothing else."""
    out, at = [], 0
    while tail[at:].strip():
        match = _STORE.match(tail, at)
        if match is None or match["name"] not in fn.pointers:
            return ()
        out.append((match["name"], match["at"].strip(), match["value"]))
        at = match.end()
    return tuple(out)


def _played(found: Runs, more: int, room: tuple[int, int], block: Sequence[int], known: dict[str, int]) -> int:
    fn = found.one.fn
    shape = (block[0], block[1] * block[2])
    if block[2] > 1:
        return 0
    (_, _, new), compared = spans(found, room)[-1], 0
    new = new.replace(FENCE, "__threadfence();")
    own = parts(found) if next(iter(parts(found))) in new else {}
    for many, blocks, sizes in ((RUNS, BLOCKS, MEANS), (3 * block[0] * block[1], 2, SHORT)):  # than threads look for

        def drawn(name: str, kind: str, size: int, many: int = many) -> Any:
            made = np.random.default_rng([size, *map(ord, name)])
            if name == found.array:
                return np.pad(np.cumsum(made.integers(0, 2 * size + 1, many + 1)), (0, CELLS - many - 1))
            if not own and name in found.outs:
                return np.zeros(CELLS, dtype=np.int64)
            return made.integers(1, 1 << 20 if kind in FLOATS else PLACES, CELLS)

        grid = (blocks, 1) if own else (many, more)
        each = tuple((n,) for n in range(blocks))  # then another one comes last
        for order in ((), each) if own and many == RUNS else ((),):
            sides = Side(fn.body, (many, 1), shape), Side(new, grid, shape, own, order)
            same = alike(fn, *sides, (), {**known, "runs_n": many}, sizes=sizes, drawn=drawn)
            if not same:
                return 0
            compared += same
    return compared
