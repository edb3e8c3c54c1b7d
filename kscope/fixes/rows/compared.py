"""Two texts of one function played beside each other on the same numbers: whether every result is the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.whole_numbers import HUGE
from kscope.fixes.rows.function import Function
from kscope.model.contract.fixes import Condition
from kscope.model.lazily import np

INT_MAX = 2**31 - 1
CELLS = 1 << 15  # elements of each array that is played with
PLACES = 512  # that whole numbers lead to: longer rows take longer to play than they are worth (judged)
SMALL = 8  # values below it repeat: where two are equal, either may be found
SIZES = (7, 40, 300)  # that numbers of the launch are played as: shorter and longer rows than lanes (judged)
SIGNED = ("rising", "falling", "signed", "below")
REAL = ("real", "minus")  # fractions, or such below -1
TURNS = 150  # where rising and falling numbers are zero: within the rows that are played (judged)
LEAST = 2  # sizes, or drawings, that must come out the same
NEAR = 1e-9  # of the largest result: sums of doubles in another order (judged)
_COMPARED = re.compile(r"\bif\s*\([^;{}]*\]\s*[<>]=?[^<>=]")  # places whose values decide which of them is kept
_CONVERTED = re.compile(r"\b__nv_cvt_\w+(?=\s*\()")
_NAMED = re.compile(r"\b(?:FLT_MAX|INFINITY)\b")

_SHARED = re.compile(r"__shared__\s+[A-Za-z_][\w ]*?\s+(\w+[^;]*);")


class Side(Struct, frozen=True):
    """A body, and the launch that it is played in."""

    body: str
    grid: tuple[int, int]
    block: tuple[int, int]
    values: Mapping[str, int]


class Same(Struct, frozen=True):
    """`compared`: results that were written, and came out alike, in `sizes` of launches. `ties`: of equal values
    another one may be taken. `near`: played on fractions, alike but for rounding. `shared`: words of shared memory that
    a block has more."""

    compared: int
    sizes: int
    ties: bool
    near: bool
    shared: int

    @property
    def shown(self) -> Condition:
        return proved(
            f"every result is the same{', but for rounding' if self.near else ''}", "values", self.compared,
            f"both versions played on {'fractions' if self.near else 'whole numbers'}, in {self.sizes} sizes, every "
            "result compared",
        )  # fmt: skip


def same(
    fn: Function, old: Sequence[Side], new: Sequence[Side], known: Mapping[str, int], *, besides: Sequence[int] = ()
) -> Same | None:  # fmt: skip
    """old, new: launches of one block and of several, pair by pair. besides: other sizes; new ones must load nothing
    then that old ones do not. None where a result is another one, or too little could be played."""
    sizes = sorted({*SIZES, *besides})
    tried = [(size, n % len(old)) for n, size in enumerate(sizes)] if fn.numbers else [(0, n) for n in range(len(old))]
    for drawn in ("several", "real"):
        compared, played, more = 0, 0, 0
        for size, n in tried:
            one = both(fn, (old[n], new[n]), size, drawn, known, loads=bool(besides))
            if one is None:
                continue
            if not one[0]:
                return None
            played, compared, more = played + (one[1] > 0), compared + one[1], one[2]
        if played >= LEAST:
            few = [both(fn, (old[n], new[n]), size, "few", known, loads=bool(besides)) for size, n in tried[1:]]
            ties = any(one is not None and not one[0] for one in few)
            if (ties and _COMPARED.search(fn.body) is None) or _differ(fn, (old, new), tried[-1], known):
                return None
            return Same(compared, played, ties, drawn == "real", more)
    return None


def _differ(
    fn: Function, sides: tuple[Sequence[Side], Sequence[Side]], tried: tuple[int, int], known: Mapping[str, int]
) -> bool:  # fmt: skip
    """Whether something else comes out of numbers below zero, or of some below it and some above: what stands for
    values that are not there shows."""
    size, n = tried
    found = (both(fn, (sides[0][n], sides[1][n]), size, drawn, known) for drawn in ("signed", "below", "minus"))
    return any(one is not None and not one[0] for one in found)


def both(
    fn: Function, sides: tuple[Side, Side], size: int, drawn: str, known: Mapping[str, int], *, loads: bool = False
) -> tuple[bool, int, int] | None:  # fmt: skip
    """(whether both leave the same, results that are written, words of shared memory more) in launches of numbers as
    large as `size`, on numbers that are drawn so; None where the first one cannot be played. loads: whether the second
    one may load no more."""
    first, second = (_made(fn, side, size, drawn, known) for side in sides)
    if first is None or (drawn == "minus" and not all(np.isfinite(x).all() for x in first[0].values())):
        return None
    if second is None:
        return False, 0, 0
    if loads and any((second[2][name] & ~first[2][name]).any() for name in first[2]):
        return False, 0, 0
    written = 0
    for name, kind in fn.pointers.items():
        was, one, other = _drawn(name, kind, drawn), first[0][name], second[0][name]
        changed = one != was
        if ((other != was) != changed).any() or not _near(one[changed], other[changed], drawn):
            return False, 0, 0
        written += int(changed.sum())
    return True, written, second[1] - first[1]


def _near(one: Any, other: Any, drawn: str) -> bool:
    if drawn not in REAL:
        return bool(np.array_equal(one, other))
    return bool(np.isfinite(one).all() and (np.abs(one - other) <= NEAR * np.abs(one).max(initial=0)).all())


def _made(
    fn: Function, side: Side, size: int, drawn: str, known: Mapping[str, int]
) -> tuple[dict[str, Any], int, Mapping[str, Any]] | None:
    """The memory that a launch leaves, the words of shared memory that a block of it has, and what is loaded."""
    from kscope.fixes.given.played import Rules, play

    memory = {name: _drawn(name, kind, drawn).copy() for name, kind in fn.pointers.items()}
    named = {name: n for n, name in enumerate(sorted(set(re.findall(r"\b__NV_\w+", side.body))))}
    numbers = {"warpSize": 32, "INT_MAX": INT_MAX, **named, **known, **dict.fromkeys(fn.numbers, size), **side.values}
    opaque = tuple(sorted(set(_CONVERTED.findall(side.body))))
    rules = Rules(literals="real" if drawn in REAL else "drawn", races=True, kinds=fn.kinds, opaque=opaque)
    try:
        played = play(_NAMED.sub(str(HUGE), arrayed(side.body)), side.grid, side.block, memory, numbers, rules)
    except Unplayable:
        return None
    return memory, played.shared, played.read


def arrayed(body: str) -> str:
    """Shared variables as arrays of one element, for they are one place of a block."""
    for m in list(_SHARED.finditer(body)):
        for part in m[1].split(","):
            if re.fullmatch(r"\s*\w+\s*", part):
                name = part.strip()
                body = re.sub(rf"(?<![\w.])(?<!->){name}\b", f"{name}[0]", body)
                body = re.sub(rf"(__shared__[^;]*\b{name})\[0\]", r"\1[1]", body)
    return body


def _drawn(name: str, kind: str, drawn: str) -> Any:
    """Few small numbers that repeat; or numbers of which no two are equal, whole ones, which may be places in other
    arrays, in pieces of so many; or fractions; or whole numbers below and above zero, from the least to the largest,
    from the largest to the least, in any order, which show where a window ends and what stands for what is outside."""
    made = np.random.default_rng([len(drawn), *map(ord, name)])
    if drawn in SIGNED:
        return {
            "rising": np.arange(CELLS) - TURNS,
            "falling": TURNS - np.arange(CELLS),
            "signed": made.permutation(CELLS) - CELLS // 2,
            "below": -1 - made.permutation(CELLS),
        }[drawn]
    if drawn == "few":
        return made.integers(0, SMALL, CELLS)
    if drawn in REAL and kind in FLOATS:
        return made.random(CELLS) if drawn == "real" else -1 - made.random(CELLS)
    piece = CELLS if kind in FLOATS else PLACES
    return np.tile(made.permutation(piece), CELLS // piece)
