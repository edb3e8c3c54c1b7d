"""Rows that every thread of a block reads alike, one after the other: a tile of them in shared memory, which the block
loads once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.values import Lanes
from kscope.fixes.given.conditions import not_written, proved, reads, written_there
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES, evaluated
from kscope.fixes.given.text import Loop, Text, by_line, kernel_text, loops, shape, spans_edited
from kscope.fixes.pipeline.rounds import given, live, numbers
from kscope.fixes.pipeline.row_reads import Read, alike
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.kernel import Launch

MOST = 16 * 1024  # bytes of a tile: what five blocks of an SM have beside each other (judged)
ROWS = (64, 32, 16, 8)  # of a tile, the most first
SEEDS = (1, 2)
_LARGE: Mapping[str, Any] = {n: float("inf") for n in ("INFINITY", "CUDART_INF_F", "HUGE_VALF")} | {"FLT_MAX": 3.4e38}
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
FEW = 8  # rows of a tile that is played
WORDS = 1 << 17  # of an array that is played
_ANY = re.compile(r"\b(?P<kind>\w+)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)\s*(?=[,)])")


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None:
        return []
    lines, instance = setting.lines(text.file), given(setting, text)
    known, way, around = numbers(setting, text, instance), live(text.code, instance.values), "\n".join(lines)
    every = [(one, found) for one in loops(way) if (found := alike(way, one, known, around))]
    if len(every) != 1:
        return []
    ((loop, found),) = every
    loads = _loads(setting, text, loop)
    ran = _same(setting, loads)
    rows = _rows(setting, found)
    inside = {n for i in loads if (n := code.cfg.loop_of[i]) is not None}
    if not ran or not rows or launch.block[2] > 1 or any(written_there(code, n, loads) for n in inside):
        return []
    compared = played(way, loop, found, known, launch)
    if not compared:
        return []
    new = written(way, loop, found, rows, known, launch.block)
    edits = spans_edited(setting, text, by_line(way, (loop.span[0], loop.body[1], new)))
    words = sum(code.executed[i] * code.classes[i].bytes / 4 for i in loads)
    more = sum(r.words * SIZES[r.kind] * rows for r in found)
    names = ", ".join(r.name for r in found)
    return [
        Fix(
            kind="jam",
            title=f"{rows} rows of {names} at a time in shared memory, loaded once for {launch.threads} threads",
            language="cuda",
            edits=edits,
            parameters={"rows": rows, "shared": more},
            conditions=[
                proved("all threads of a block read the same places", "lanes", ran,
                       "addresses of all lanes of its first warps and of its last one"),
                proved("the same results, to the last bit", "values", compared,
                       f"both texts played on numbers, by tiles of {FEW} rows; no race"),
                reads("all threads come to the loop, and to as many rounds of it", "no return before, the same bounds"),
                *not_written(code, loads),
                Condition(holds=f"every launch has blocks of {shape(launch.block)}", state="check", why="as this one"),
            ],
            proof=[
                Proof(what="words that warps load from global memory", before=words, after=words / launch.threads,
                      how=f"once for {launch.threads} threads instead of by each of them"),
            ],
            costs=[f"{more} bytes of shared memory a block", "two barriers a tile"],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def played(code: str, loop: Loop, found: Sequence[Read], known: Mapping[str, int], launch: Launch) -> int:
    """How many results were compared, if the kernel leaves the same by tiles, to the last bit; 0 else. Played with
    tiles of few rows, in a block that is the last of two along each axis."""
    import numpy as np

    from kscope.fixes.given.played import Rules, play

    opening = code.find("{")
    parameters = code[code.rfind("(", 0, opening) + 1 : opening]
    kinds = {m["name"]: m["kind"] for m in _ANY.finditer(parameters)}
    numbers = [n for n in re.findall(r"(\w+)\s*[,)]", parameters) if n not in kinds]
    grid = (min(2, launch.grid[0]), min(2, launch.grid[1]))
    names = set(re.findall(r"[A-Za-z_]\w*", code[opening:]))
    mine = {n: v for n, v in known.items() if n in names}
    mine |= {n: 2 * FEW + v % FEW for n, v in mine.items() if v >= 4 * FEW and re.search(rf"\b{n}\b", loop.end)}
    rules = Rules("real", races=True, kinds=kinds, only=(grid[0] * grid[1] - 1,))
    compared = 0
    for size in (2 * FEW, 2 * FEW + 5) if set(numbers) & names else (0,):
        sizes, left = {**_LARGE, **mine, **dict.fromkeys(numbers, size)}, []
        new = code[: loop.span[0]] + written(code, loop, found, FEW, sizes, launch.block) + code[loop.body[1] :]
        for text in (code, new):
            drawn = np.random.default_rng(FEW)
            memory = {n: drawn.random(WORDS) if k in ("float", "double") else drawn.integers(1, 9, WORDS)
                      for n, k in kinds.items()}  # fmt: skip
            first = {n: a.copy() for n, a in memory.items()}
            try:
                play(text[text.find("{") :], grid, (launch.block[0], launch.block[1]), memory, sizes, rules)
            except Unplayable:
                return 0
            left.append(memory)
        if any(not np.array_equal(left[0][n], left[1][n]) for n in kinds):
            return 0
        compared += sum(int((left[0][n] != first[n]).sum()) for n in kinds)
    return compared


def _loads(setting: Setting, text: Text, loop: Loop) -> list[int]:
    """Loads from global memory that are from the loop's lines."""
    code = setting.code
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    inside = [i for i in loads if code.cfg.loop_of[i] is not None]
    return [i for i in inside if all(first <= p.number <= last for p in places(setting, [i]))]


def _same(setting: Setting, loads: Sequence[int]) -> int:
    """How many lanes' addresses were compared, if all lanes of all warps have the same; 0 else."""
    ran = 0
    for seed in SEEDS:
        warps = [Lanes(setting.code, Assumption(seed, setting.block, last=last)) for last in (False, True)]
        for i in loads:
            found = [one.anew().address(i) for one in warps]
            if not isinstance(found[0], int) or found[0] != found[1]:  # one number: the same in all lanes
                return 0
            ran += 2 * LANES
    return ran


def _rows(setting: Setting, found: Sequence[Read]) -> int:
    """Rows of a tile that leave an SM as many blocks as it gets; 0 where none do."""
    launch, was = setting.launch, setting.occupancy()
    if launch is None or was is None:
        return 0
    row = sum(r.words * SIZES[r.kind] for r in found)
    needed = -(-launch.blocks // max(1, setting.sms))
    for rows in ROWS:
        will = setting.occupancy(more_shared=rows * row)
        fits = rows * row <= MOST and launch.shared_static + rows * row <= STATIC
        if fits and will is not None and will.blocks >= max(1, min(was.blocks, needed)):
            return rows
    return 0


def written(
    code: str, loop: Loop, found: Sequence[Read], rows: int, known: Mapping[str, int], block: Sequence[int]
) -> str:  # fmt: skip
    """The loop by tiles."""
    j, body = loop.name, code[slice(*loop.body)]
    uses = [
        (start, end, f"{r.name}_rows[({j} - {j}_first) * {_factor(r.wide)} + {c}]")
        for r in found for start, end, c in r.uses
    ]  # fmt: skip
    for start, end, new in sorted(uses, reverse=True):
        body = body[:start] + new + body[end:]
    first, last = (evaluated(t, known) for t in (loop.start, loop.end))
    even = first is not None and last is not None and (last - first) % rows == 0
    until = "" if even else f"{j} < {loop.end} && "
    tiles = " ".join(f"__shared__ __align__(16) {r.kind} {r.name}_rows[{rows} * {_factor(r.wide)}];" for r in found)
    thread = "threadIdx.x" if block[1] == 1 else f"threadIdx.x + {block[0]} * threadIdx.y"
    threads, fills = block[0] * block[1], ""
    for wide in dict.fromkeys(r.wide for r in found):
        width = _factor(wide)
        limit = "" if even else f" && e < ({loop.end} - {j}_first) * {width}"
        each = " ".join(f"{r.name}_rows[e] = {r.name}[{r.begin} + e];" for r in found if r.wide == wide)
        fills += (
            f"    #pragma unroll 8\n"
            f"    for (int e = {thread}; e < {rows} * {width}{limit}; e += {threads}) {{ {each} }}\n"
        )
    return (
        f"{{ {tiles}\n  for ({loop.kind} {j}_first = {loop.start}; {j}_first < {loop.end}; {j}_first += {rows}) {{\n"
        f"    __syncthreads();\n{fills}    __syncthreads();\n"
        f"    for ({loop.kind} {j} = {j}_first; {until}{j} < {j}_first + {rows}; {loop.step}) {body}\n  }} }}"
    )


def _factor(wide: str) -> str:
    return wide if re.fullmatch(r"\w+|\(.*\)", wide) else f"({wide})"
