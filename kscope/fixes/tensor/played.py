"""Whether a kernel's text multiplies matrices of two-byte numbers, and which: C = A B, each factor as it is or turned,
one for each block of an axis where there are many, times a factor. Played on numbers drawn at random, with other sizes
than the launch had; what lies where follows from the results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.tensor.given import Given, fitting

if TYPE_CHECKING:
    from kscope.fixes.given.played import Played
    from kscope.model.kernel import Launch

DRAWN = 100  # numbers are drawn from -DRAWN to DRAWN
NOTHING = 2.0**60  # what is left out shows: no result is as large
SOME = 12  # results that a guess is tried on first
BEYOND = "out of bounds"  # where a number of the text is a side of a matrix, too
CLOSE = 1e-9  # of a result: fractions are played in double
STEPS = 200_000_000  # of a play: the depth of 256 that a tile of 128 x 128 needs where one name is all sizes (measured)
FACTORS = (0.8125, 1.1875, 1.3125, 0.6875)  # what numbers with a fraction among the parameters stand for


Player = Callable[..., "Played"]


class Layout(Struct, frozen=True):
    """Sizes as the text names them: (name or number, what it is in this play). rows: "" where nothing needs it."""

    k: tuple[str, int]
    cols: tuple[str, int]
    rows: tuple[str, int]
    turned_a: bool
    turned_b: bool


class Product(Struct, frozen=True):
    """a, b, c: names. rows, cols, batches: how many the launch makes, of this many rows and columns a block. factor: a
    parameter or a number, "" for none. compared: results that came out right."""

    a: str
    b: str
    c: str
    layout: Layout
    rows: int
    cols: int
    batches: int
    block: tuple[int, int]
    factor: str
    compared: int


class _Shape(Struct, frozen=True):
    """Of a launch: blocks along the axis that rows go along, columns, products; of a block its rows and columns."""

    rows: int
    cols: int
    batches: int
    block: tuple[int, int]


def played_product(given: Given, launch: Launch, player: Player | None = None, side: int = 1) -> Product | None:
    """None where the kernel makes anything else, or cannot be played. player: what plays its text; side: what
    sizes are to be multiples of."""
    if launch.block[2] != 1 or len(given.sizes) > len(fitting(given, side)) or "gridDim" in given.body:
        return None  # of another grid, which the new kernel has, nothing is shown
    for a, b in (given.factors, given.factors[::-1]):
        found = _tried(given, launch, (a, b), (0, side), player)
        if found is None:
            continue
        right = found.factor in ("", *given.fractions) or not given.sizes
        if not right:  # a factor may be made of the sizes, which are others in the launch
            again = _tried(given, launch, (a, b), (1, side), player)
            right = again is not None and _named(again) == _named(found)
        return found if right else None
    return None


def _most(sides: Iterable[int]) -> int:
    """Elements of a matrix at most, of so many rows and columns."""
    return 2 * max([256, *(n for n in sides if n <= 1024)]) ** 2


def _named(one: Product) -> tuple[object, ...]:
    lay = one.layout
    return one.factor, lay.k[0], lay.cols[0], lay.rows[0], lay.turned_a, lay.turned_b


def _tried(
    given: Given, launch: Launch, factors: tuple[str, str], sides: tuple[int, int], player: Player | None
) -> Product | None:  # fmt: skip
    """sides: how many sizes are left out, what they are multiples of."""
    import numpy as np

    from kscope.fixes.given.played import Rules, play

    sizes = dict(zip(given.sizes, fitting(given, sides[1])[sides[0] :], strict=False))
    if len(sizes) < len(given.sizes):
        return None
    known = given.numbers(sizes)
    every = [*sizes.items(), *((str(n), n) for n in sorted({*given.literals, *given.small(known)}))]
    named = [*sizes.values(), *given.small(known)]
    fractions = dict(zip(given.fractions, FACTORS, strict=False))
    blocks = _corner(launch.grid)
    rules = Rules("real", races=True, kinds=given.kinds, only=tuple(blocks), steps=STEPS)
    for among in dict.fromkeys((_most(named), _most(n for _, n in every))):
        draw = np.random.default_rng(among + sides[0])
        memory = {name: draw.integers(-DRAWN, DRAWN, among) * 1.0 for name in given.factors}
        first = {name: cells.copy() for name, cells in memory.items()}
        memory[given.out] = np.full(among, NOTHING)
        try:
            took = (player or play)(given.body, launch.grid, launch.block[:2], memory, {**known, **fractions}, rules)
            break
        except Unplayable as error:
            if str(error) != BEYOND:
                return None
    else:
        return None
    out = memory[given.out]
    where = np.flatnonzero(out != NOTHING)
    if not len(where) or len(fractions) < len(given.fractions):
        return None
    made = first[factors[0]], first[factors[1]], out
    for layout in _guesses(every, launch.grid != (*launch.grid[:2], 1), made, where):
        scale = _scale(layout, made, where)
        shape = _shape(layout, took.writers[given.out], blocks, launch.grid, where)
        if scale is None or shape is None:
            continue
        factor = _factor(scale, fractions)
        if factor is None or not _agree(given, layout, shape):
            return None
        return Product(*factors, given.out, layout, shape.rows, shape.cols, shape.batches, shape.block, factor,
                       len(where))  # fmt: skip
    return None


def _corner(grid: tuple[int, int, int]) -> list[int]:
    """The second block along each axis, and the first where that is one."""
    steps = (1, grid[0], grid[0] * grid[1])
    second = [step for step, count in zip(steps, grid, strict=True) if count > 1]
    return second if len(second) > 1 else [0, *second]


Made = tuple[Any, Any, Any]


def _guesses(every: Sequence[tuple[str, int]], many: bool, made: Made, where: Any) -> Iterator[Layout]:
    """Layouts that some results fit."""
    some = where[:: max(1, len(where) // SOME)]
    for k, cols, turned_a, turned_b in product(every, every, (False, True), (True, False)):
        for rows in every if many or turned_a else [("", 0)]:
            layout = Layout(k, cols, rows, turned_a, turned_b)
            sums = _sums(layout, made, some)
            if sums is not None and _ratio(made[2][some], sums) is not None:
                yield layout


def _places(layout: Layout, where: Any) -> tuple[Any, Any, Any]:
    """(product, row, column) of elements of C."""
    cols, rows = layout.cols[1], layout.rows[1]
    row = where // cols
    return (row // rows, row % rows, where % cols) if rows else (row * 0, row, where % cols)


def _sums(layout: Layout, made: Made, where: Any) -> Any:
    """What results are by a layout; None where it leads out of an array."""
    import numpy as np

    a, b, _ = made
    k, cols, rows = layout.k[1], layout.cols[1], layout.rows[1]
    of, i, j = _places(layout, where)
    each = np.arange(k)
    at_a = of * rows * k + (i if layout.turned_a else i * k)
    at_b = of * cols * k + (j * k if layout.turned_b else j)
    step_a, step_b = rows if layout.turned_a else 1, 1 if layout.turned_b else cols
    if at_a.max() + step_a * k > len(a) or at_b.max() + step_b * k > len(b):
        return None
    (lefts, left), (rights, right) = (np.unique(at, return_inverse=True) for at in (at_a, at_b))
    out = np.zeros(len(where))
    for n in range(0, len(lefts), 1024):  # whole numbers: exact in any order
        here = (left >= n) & (left < n + 1024)
        mine, place = np.unique(right[here], return_inverse=True)
        sums = a[lefts[n : n + 1024, None] + each * step_a] @ b[rights[mine, None] + each * step_b].T
        out[here] = sums[left[here] - n, place]
    return out


def _ratio(results: Any, sums: Any) -> float | None:
    """By which one factor all results are sums; None where they are not."""
    import numpy as np

    at = int(np.argmax(np.abs(sums)))
    if not sums[at]:
        return None
    ratio = float(results[at] / sums[at])
    close = np.abs(results - ratio * sums) <= CLOSE * np.abs(results).max()
    return ratio if ratio and close.all() else None


def _scale(layout: Layout, made: Made, where: Any) -> float | None:
    sums = _sums(layout, made, where)
    return _ratio(made[2][where], sums) if sums is not None else None


def _shape(
    layout: Layout, writers: Any, blocks: Sequence[int], grid: tuple[int, int, int], where: Any
) -> _Shape | None:  # fmt: skip
    """Which axis of the blocks goes along what; None where blocks write no tiles side by side."""
    places = _places(layout, where)
    found = [_box([x[writers[where] == number] for x in places]) for number in range(len(blocks))]
    left = [*filter(None, found)]
    if len(left) < len(found):
        return None
    size, counts = left[0][1], [1, 1, 1]
    begin = [0, 0, 0] if blocks[0] else left.pop(0)[0]
    for count in (n for n in grid if n > 1):
        (begins, same), *left = left
        along = [n for n in range(3) if begins[n]]
        if same != size or len(along) != 1 or begins[along[0]] != size[along[0]] or counts[along[0]] > 1:
            return None
        counts[along[0]] = count
    if size[0] != 1 or any(begin):
        return None
    batches, rows, cols = (n * by for n, by in zip(size, counts, strict=True))
    return _Shape(rows, cols, batches, (size[1], size[2])) if batches == 1 or layout.rows[0] else None


def _box(places: Sequence[Any]) -> tuple[list[int], list[int]] | None:
    """(first, how many) each way, of elements that fill a box; None where they do not."""
    if not len(places[0]):
        return None
    start = [int(x.min()) for x in places]
    size = [int(x.max()) + 1 - s for x, s in zip(places, start, strict=True)]
    return (start, size) if math.prod(size) == len(places[0]) else None


def _factor(scale: float, fractions: Mapping[str, float]) -> str | None:
    if abs(scale - 1) <= CLOSE:
        return ""
    named = [name for name, value in fractions.items() if abs(scale - value) <= CLOSE]
    if fractions:
        return named[0] if len(named) == 1 else None
    return re.sub(r"^(-?\d+)(?=e|$)", r"\1.0", f"{scale:.9g}") + "f"


def _agree(given: Given, layout: Layout, shape: _Shape) -> bool:
    """Whether the launch makes as many rows and columns as the text says."""
    real = dict(given.real)
    for (name, number), made in ((layout.cols, shape.cols), (layout.rows, shape.rows)):
        if name and real.setdefault(name, int(name) if name.isdigit() else made) != made:
            return False
        if name.isdigit() and number != made:
            return False
    return True
