"""Two instances of a template with one number, played side by side in small: whether they give the same results, and
what each takes for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kscope.fixes.given.c_types import VECTORS
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import closing
from kscope.fixes.rows.function import Function, function

if TYPE_CHECKING:
    from kscope.fixes.given.played import Played

STATIC = 48 * 1024 // 4  # words of shared memory that can be declared (CUDA C++ Programming Guide)
ODD, EVEN = ((131, 2, 1), (173, 1, 3)), ((128, 2, 1), (160, 1, 2))
"""What the launch's numbers are played as, and blocks along both axes of the grid of the instance that has fewer:
where the odd ones play, the text looks after rests. The second one is larger by the larger block, so that loops over a
block's threads go round."""

TILES = ((128, 1, 1), (160, 2, 2))
"""The same for sizes that the file fixes: of the second grid the last block alone, and those that do its work now."""

LARGE = 512  # from which a number of the file is a size that can be played smaller (judged)
MOST_BLOCKS, AGAIN = 128, 16  # of a play, and of one that is added where results are few
WORDS, MOST_WORDS = 1 << 16, 1 << 20  # of an array that is played
FAR = 2**41  # what memory holds at first where the smallest or largest is looked for: no number is beyond it
DISTINCT, MANY = 0.25, 64  # of the results, and how many, must differ among themselves: not all may be zero (judged)
NEAR = 1e-9  # of the largest result, that sums of doubles in another order may differ by
_POINTER = re.compile(r"^(?P<const>const\s+)?(?P<kind>[\w ]+?)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)$")
_CHOOSES = re.compile(r"\?|\bif\b|min|max|Min|Max")
_KINDS = {"float", "int", "unsigned", "unsigned int", "double", "int32_t", "uint32_t", *VECTORS}


class Kernel(Struct, frozen=True):
    """A template with one number, `name`, which is `now`. arrays: type and whether they are only read, by name; block:
    threads along x and y now; wide: whether the grid has more than one block along x and y; sizes: numbers of the file
    that the text has; flag: whether the number is one of two."""

    function: Function
    name: str
    now: int
    arrays: Mapping[str, tuple[str, bool]]
    block: tuple[int, int]
    wide: tuple[bool, bool]
    sizes: Mapping[str, int]
    flag: bool

    @property
    def text(self) -> str:
        return self.function.body


class Way(Struct, frozen=True):
    """Another value, its block, and times as many blocks along x and y."""

    value: int
    block: tuple[int, int]
    x: Fraction = Fraction(1)
    y: Fraction = Fraction(1)


class Same(Struct, frozen=True):
    """How many results were compared; whether they are the same among equal numbers (`ties`), to the last bit of
    doubles (`bits`), and for numbers that do not come out even (`rests`); what both plays took."""

    compared: int
    ties: bool
    bits: bool
    rests: bool
    before: Played
    after: Played


def kernel(setting: Setting) -> Kernel | None:
    """None where the kernel is no such instance, or has parameters that cannot be played."""
    one, launch = function(setting), setting.launch
    if one is None or launch is None or launch.shared_dynamic or launch.grid[2] * launch.block[2] > 1:
        return None
    head = one.code[: one.opened]
    template = re.match(r"\s*template\s*<\s*(int|bool)\s+(\w+)\s*>", head)
    if template is None or len(one.values) != 1 or "__shared__" in head or not _names(one, setting):
        return None
    found = _arrays(one, head)
    if found is None:
        return None
    text = one.body
    mine = {n: v for n, v in constants(setting.lines(one.file)).items() if re.search(rf"\b{n}\b", text)}
    ((name, now),) = one.values.items()
    wide = (launch.grid[0] > 1, launch.grid[1] > 1)
    return Kernel(one, name, now, found, launch.block[:2], wide, mine, template[1] == "bool")


def _arrays(one: Function, head: str) -> dict[str, tuple[str, bool]] | None:
    """Type of each array among a function's parameters, and whether it is only read; None where one is something else,
    or none is written."""
    start = re.search(rf"\b{re.escape(one.name)}\s*\(", head)
    close = closing(head, start.end()) if start is not None else None
    if start is None or close is None:
        return None
    given = [" ".join(p.split()) for p in head[start.end() : close].split(",")]
    found = {m["name"]: (m["kind"].strip(), bool(m["const"])) for p in given if (m := _POINTER.match(p)) is not None}
    known = all(kind in _KINDS for kind, _ in found.values()) and any(not const for _, const in found.values())
    return found if known and len(found) + len(one.numbers) == len(given) else None


def _names(one: Function, setting: Setting) -> bool:
    """Whether a call of the function gives it one name for each parameter: no array under two names."""
    if one.call is None:
        return True
    row, (_, end, _) = one.call
    rest = setting.lines(one.file)[row - 1][end:]
    match = re.match(r"\s*\(([\w\s,]*)\)\s*;", rest)
    given = [p.strip() for p in match[1].split(",")] if match is not None else []
    return bool(given) and len(set(given)) == len(given) == len(one.pointers) + len(one.numbers)


class Player:
    """Plays of one kernel, each once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._play = cache(self._played)

    def same(self, way: Way, than: Way | None = None) -> Same | None:
        """Whether another instance gives the same, launched this way; None where it does not in two sizes. than: what
        it is compared with, where that is not the present one."""
        fixed, numbers = any(v >= LARGE for v in self.kernel.sizes.values()), self.kernel.function.numbers
        plans = [(TILES, False)] if fixed else [(EVEN, not numbers)]
        if numbers and not fixed:
            plans = [(ODD, True), *plans]
        return next((one for plan, rests in plans if (one := self._sized(way, than, plan, rests)) is not None), None)

    def _sized(
        self, way: Way, than: Way | None, sizes: tuple[tuple[int, int, int], ...], rests: bool
    ) -> Same | None:  # fmt: skip
        out: list[Same] = []
        tiles = sizes is TILES
        more = 0 if tiles else max(b[0] * b[1] for b in (way.block, self.kernel.block))
        for n, (size, x, y) in enumerate([*sizes, (sizes[1][0], AGAIN, 1)]):
            if n == len(sizes) and (sum(s.compared for s in out) >= MANY or tiles):
                break
            few = (x, y) if self.kernel.wide[1] or way.y != 1 else (max(x, y), 1)
            few = (few[0] if self.kernel.wide[0] or way.x != 1 else 1, few[1])
            pair = self._both(way, than, size + more * (n > 0), few, last=tiles and n > 0)
            one = self._one(*pair, rests, self._draws(n, tiles=tiles)) if pair is not None else None
            if one is None:
                return None
            out.append(one)
        return Same(sum(s.compared for s in out), all(s.ties for s in out), all(s.bits for s in out), rests,
                    out[0].before, out[0].after)  # fmt: skip

    def _draws(self, n: int, *, tiles: bool) -> list[str]:
        """Numbers that are all others tell places apart, doubles say what another order does to the last bit, few
        numbers who is taken among equal ones. Tiles take long: each of them once."""
        more = ["real", *(["few"] if _CHOOSES.search(self.kernel.text) else [])]
        return ["distinct"] if n == 0 else more if tiles else ["distinct", *more]

    def _both(
        self, way: Way, than: Way | None, size: int, few: tuple[int, int], *, last: bool
    ) -> tuple[Any, Any] | None:  # fmt: skip
        """What is played of both instances; last: the last of few blocks alone, and those that do its work."""
        factors = (way.x, way.y)
        old = [n * f.denominator for n, f in zip(few, factors, strict=True)]
        new = [n * f.numerator for n, f in zip(few, factors, strict=True)]
        if max(old[0] * old[1], new[0] * new[1]) > MOST_BLOCKS:
            return None
        only = [_last(grid, few) if last else () for grid in (old, new)]
        value, block = (than.value, than.block) if than is not None else (self.kernel.now, self.kernel.block)
        before = (value, block, (old[0], old[1]), only[0], size)
        return before, (way.value, way.block, (new[0], new[1]), only[1], size)

    def _one(self, before: Any, after: Any, rests: bool, draws: Sequence[str]) -> Same | None:
        """draws: what arrays hold at first, one play after the other."""
        first, ties, bits = None, True, True
        for draw in draws:
            pair = self._pair(before, after, draw)
            if pair is None or not (pair[2] or draw == "few"):
                return None
            first = first or pair
            ties, bits = ties and pair[2] > 0, bits and (pair[3] or draw != "real")
        assert first is not None
        return Same(first[2], ties, bits, rests, first[0], first[1])

    def _pair(self, old: Any, new: Any, draw: str) -> tuple[Played, Played, int, bool] | None:
        """(what both plays took, how many results are the same, whether to the last bit); 0 where one is not."""
        import numpy as np

        one, other = self._play(*old, draw), self._play(*new, draw)
        if one is None or other is None or any(other[0].read[n][~one[0].read[n]].any() for n in self.kernel.arrays):
            return None
        compared, bits, seen = 0, True, []
        for name, (first, made) in one[1].items():
            got = other[1][name][1]
            most = np.abs(made[made != first]).max(initial=0) if draw == "real" else 0
            if not (np.abs(got - made) <= NEAR * most).all() or ((got != first) != (made != first)).any():
                return one[0], other[0], 0, False
            compared += int((made != first).sum())
            bits = bits and bool((got == made).all())
            seen += [len(np.unique(made[made != first]))]
        many = sum(seen) >= min(MANY, DISTINCT * compared) or draw == "few"
        return one[0], other[0], compared if many else 0, bits

    def _played(
        self, value: int, block: tuple[int, int], grid: tuple[int, int], only: tuple[int, ...], size: int, draw: str
    ) -> tuple[Played, dict[str, tuple[Any, Any]]] | None:  # fmt: skip
        """What an instance took, and (memory at first, as it was left) by the names of what it writes; None where it
        cannot be played."""
        from kscope.fixes.given.played import Rules, play

        kernel = self.kernel
        memory = {name: self._drawn(name, size, draw) for name in kernel.arrays}
        first = {name: memory[name].copy() for name, (_, const) in kernel.arrays.items() if not const}
        numbers: dict[str, Any] = dict.fromkeys(kernel.function.numbers, size)
        numbers |= {n: size if v >= LARGE else v for n, v in kernel.sizes.items()} | {kernel.name: value}
        kinds = kernel.function.kinds | {name: kind for name, (kind, _) in kernel.arrays.items()}
        rules = Rules("real" if draw == "real" else "drawn", races=draw == "distinct", kinds=kinds, only=only)
        try:
            took = play(kernel.text, grid, block, memory, numbers, rules)
        except Unplayable:
            return None
        return (took, {n: (first[n], memory[n]) for n in first}) if took.shared <= STATIC else None

    def _drawn(self, name: str, size: int, draw: str) -> Any:
        """What an array holds at first: another thing in each."""
        import numpy as np

        (kind, const), text = self.kernel.arrays[name], self.kernel.text
        count = min(max(WORDS, size**2), MOST_WORDS)
        drawn = np.random.default_rng((count, list(self.kernel.arrays).index(name)))
        real = kind.startswith(("float", "double"))
        if not const and re.search(r"\batomic(?:Min|Max)\b", text):
            far = (FAR if "atomicMin" in text else -FAR) + np.zeros(count, dtype=np.int64)
            return far.astype(np.float64) if draw == "real" and real else far
        if draw == "real" and real:
            return drawn.random(count)
        if not real or draw == "few":
            return drawn.integers(1, 3 if draw == "few" and real else 100, count)
        return drawn.permutation(count) + 1


def _last(grid: Sequence[int], few: tuple[int, int]) -> tuple[int, ...]:
    """Numbers of the blocks that do the work of the last of few."""
    x, y = (range(n - n // f, n) for n, f in zip(grid, few, strict=True))
    return tuple(row * grid[0] + column for row in y for column in x)
