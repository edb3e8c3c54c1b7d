"""Whether kernels whose blocks have tables of the first places give what they gave: both texts played on numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping

from msgspec import structs

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import Text
from kscope.fixes.order.alike import CELLS, CONSTANT, Side, alike, memory_of
from kscope.fixes.tables.bounds import Counted, counted
from kscope.fixes.tables.texts import Add, Rounds, added, spans

BOUNDS, WHOLE, OTHERS = (403, 130, 29), (1, 3, 130, 403, 403), (0, 0, 1, 1)
"""What parameters stand for: what ends the work, other whole numbers, and fractions."""
TRIED, ENOUGH, MOST = 60, 4, 12  # draws of them, plays that are enough, and that are tried
BELOW = (CONSTANT, CELLS // 2)  # what arrays hold: places in a table and behind it
PLACES, THREADS, WORKERS = 64, 64, 2  # of a table at most, of a block that may be of any size, blocks that go on
GRIDS = ((7, 1), (4, 3), (3, 5))

Sides = tuple[int, int, int]


def same(
    kernel: Kernel, name: str, rounds: Rounds, grid: Sides, blocks: tuple[Sides, Sides],
    template: tuple[Mapping[str, str], Mapping[str, int]], places: int,
    *, fewer: bool,
) -> int:  # fmt: skip
    """How many results came out the same in all launches that can be played, with tables of fewer places and fewer
    blocks at once; 0 where one did not, or where no play shows that places in the tables and behind them are both asked
    for. grid: of the launch; blocks: shapes of one, before and after; template: its types and numbers; places: of a
    table. fewer: whether the new launch has fewer blocks."""
    types, given = template
    plain = _plain(kernel, name, types)
    found = added(plain, types) if plain is not None else []
    if plain is None or not found or rounds.axis == "z":
        return 0
    counts = counted(plain, blocks[0], grid) if not rounds.once and not rounds.workers else None
    few = structs.replace(rounds, workers=min(WORKERS, rounds.workers))
    size = min(PLACES, max(1, places // 2))
    bodies = [_body(plain, found, size, few, counts, part) for part in ("", *LEFT_OUT)]
    drawn = [memory_of(plain, below, {}) for below in BELOW]
    results: list[tuple[int, bool]] = []
    for turn, (side, numbers) in enumerate(_tried(plain, counts, blocks[0], given)):
        data = drawn[turn % len(drawn)]
        if not alike(plain, side, side, [numbers], data):
            continue  # it cannot be played, or writes nothing
        new = _less(side, rounds.axis, larger=blocks[0] != blocks[1], fewer=fewer)
        came_out, *parts = (alike(plain, side, structs.replace(new, body=x), [numbers], data) for x in bodies)
        if not came_out:
            return 0
        results.append((came_out, not any(parts)))
        if len(results) >= (ENOUGH if any(apart for _, apart in results) else MOST):
            break
    return sum(count for count, _ in results) if any(apart for _, apart in results) else 0


def _less(side: Side, axis: str, *, larger: bool, fewer: bool) -> Side:
    """The launch with blocks twice as large, and few of them along an axis, where there are to be such."""
    across, along = side.grid
    less = (across, WORKERS) if axis == "y" else (WORKERS, along)
    block = (side.block[0] * (2 if larger else 1), side.block[1])
    return structs.replace(side, block=block, grid=less if fewer else side.grid)


LEFT_OUT = ("end", "else")
"""Parts without which the results are others, where places below and above a table's end are asked for."""


def _plain(kernel: Kernel, name: str, types: Mapping[str, str]) -> Kernel | None:
    """The kernel with its template's types put in."""
    code = kernel.text.code
    for one, kind in types.items():
        code = re.sub(rf"\b{one}\b", kind, code)
    return read(Text(kernel.text.file, kernel.text.first, code), name, kernel.lines)


def _tried(
    kernel: Kernel, counts: Counted | None, block: Sides, given: Mapping[str, int]
) -> Iterator[tuple[Side, dict[str, int]]]:  # fmt: skip
    """The kernel in launches that it is played in, and the numbers that it is given."""
    body = kernel.text.code[kernel.opening : kernel.closing + 1]
    flat = re.search(r"\b(?:threadIdx|blockDim)\s*\.\s*y\b", body) is None
    free = counts.each.startswith("blockDim") if counts is not None else "blockDim" in body
    threads = (block[0], block[1]) if not free else (THREADS, 1) if flat else (THREADS // 2, 2)
    drawn = {n: OTHERS if re.search(r"float|double", kind) else WHOLE for n, kind in kernel.parameters.items()
             if "*" not in kind}  # fmt: skip
    ends = re.findall(r"\w+", counts.bound) if counts is not None else []
    draw = random.Random(len(body))
    for n in range(TRIED):
        numbers = {name: draw.choice(BOUNDS if name in ends else of) for name, of in drawn.items()} | dict(given)
        if counts is None:
            yield Side(body, GRIDS[n % len(GRIDS)], threads), numbers
        elif bound := evaluated(counts.bound, numbers):
            along = -(-bound // threads["xy".index(counts.axis)])
            yield Side(body, (2, along) if counts.axis == "y" else (along, 1), threads), numbers


def _body(
    kernel: Kernel, found: list[Add], places: int, rounds: Rounds, counts: Counted | None, without: str
) -> str:  # fmt: skip
    code = kernel.text.code
    for start, end, new in sorted(spans(kernel, found, places, rounds, counts, without), reverse=True):
        code = code[:start] + new + code[end:]
    return code[kernel.opening : code.rstrip().rfind("}") + 1]
