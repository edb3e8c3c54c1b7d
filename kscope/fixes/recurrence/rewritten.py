"""A function's text with pieces of it written anew: the edits of its lines, and whether it still does the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.played import STEPS, Rules, play
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import Span
from kscope.fixes.rows.function import Function
from kscope.fixes.rows.function import constants as defined
from kscope.model.contract.fixes import Edit
from kscope.model.lazily import np

CELLS = 1 << 18  # elements of each array that is played with
LENGTHS = (7, 70, 100, 130)  # that loops are played with: fewer rounds than pieces, and more (judged)
SMALL = 64  # constants up to it are kept where texts are played: widths, not lengths (judged)
LEAST = 2  # lengths that must come out the same
NEAR = 1e-9  # of the largest result: doubles in another order (judged)


class Side(Struct, frozen=True):
    """A body and its launch. scratch: arrays of zeros of its own, left as they were, with their types: blocks
    hand words to each other in them. order: blocks that run at a time, one such group behind the other, if not all of
    them at once. steps: most of them."""

    body: str
    grid: tuple[int, int]
    block: tuple[int, int]
    scratch: Mapping[str, str] = {}
    order: tuple[tuple[int, ...], ...] = ()
    steps: int = STEPS


def numbers(setting: Setting, fn: Function) -> dict[str, int]:
    """What names in a function stand for: of its file's constants, and of its template's numbers."""
    lines, words = setting.lines(fn.file), set(re.findall(r"[A-Za-z_]\w*", fn.code))
    return {**{n: v for n, v in constants(lines).items() if n in words}, **defined(lines, fn.code), **fn.values}


def sized(fn: Function, known: Mapping[str, int], threads: int, block: int) -> dict[str, int]:
    """Numbers to play with so many threads: what is wide for a launch is as wide as they are."""
    kept = {name: v if v <= SMALL or v == block else threads for name, v in known.items()}
    return {**kept, **dict.fromkeys(fn.numbers, threads)}


def edits(setting: Setting, fn: Function, spans: Sequence[Span]) -> list[Edit]:
    """Spans of a function's text, each over as many lines as it likes, put into the lines as they are: those that a
    span joins become one."""
    lines, starts = setting.lines(fn.file), [0]
    for line in fn.code.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def row(at: int) -> int:
        return next(n for n in range(len(starts) - 1) if starts[n] <= at < starts[n + 1])

    groups: list[tuple[int, int, list[Span]]] = []
    for span in sorted(spans):
        first, last = row(span[0]), row(span[1])
        if groups and first <= groups[-1][1]:
            groups[-1] = (groups[-1][0], max(last, groups[-1][1]), [*groups[-1][2], span])
        else:
            groups.append((first, last, [span]))
    out = []
    for first, last, mine in groups:
        number = fn.first + first
        text = "\n".join(lines[number - 1 : fn.first + last])
        for start, end, new in sorted(mine, reverse=True):
            text = text[: start - starts[first]] + new + text[end - starts[first] :]
        out.append(Edit(file=fn.file, line=number, was=lines[number - 1], becomes=text))
        out += [Edit(file=fn.file, line=n, was=lines[n - 1], becomes="")
                for n in range(number + 1, fn.first + last + 1)]  # fmt: skip
    return [e for e in out if e.was != e.becomes]


def alike(
    fn: Function, old: Side, new: Side, lengths: Collection[str], known: Mapping[str, int], *,
    sizes: Sequence[int] = LENGTHS, drawn: Callable[[str, str, int], Any] | None = None, but: Collection[str] = (),
) -> int:  # fmt: skip
    """Results that were written and came out the same from both sides, each length played as several numbers; 0 where
    one is another, or too little could be played. lengths: names of numbers that say how long loops are. known: what
    other names stand for. drawn: what an array holds at first, by name, type and length. but: arrays whose contents
    nobody asks for afterwards."""
    return compared_in(fn, (old, new), [(n, {**known, **dict.fromkeys(lengths, n)}) for n in sizes], drawn, but)


def compared_in(
    fn: Function, sides: tuple[Side, Side], tried: Sequence[tuple[int, Mapping[str, int]]],
    drawn: Callable[[str, str, int], Any] | None = None, but: Collection[str] = (),
) -> int:  # fmt: skip
    """The same of launches with numbers of their own, each with one that says what arrays hold."""
    body = _numbers(sides[0].body)
    real = bool(re.search(r"/\s*[^/*\s]|\b(?:__?)?(?:exp|log|sqrt|rsqrt|tanh|pow|fdivide)\w*\s*\(", body))
    for fractions in ((True,) if real else (False, True)):
        found = _compared(fn, sides, tried, drawn, but, real=fractions)
        if found is not None:
            return found
    return 0


def _compared(
    fn: Function, sides: tuple[Side, Side], tried: Sequence[tuple[int, Mapping[str, int]]],
    drawn: Callable[[str, str, int], Any] | None, but: Collection[str], *, real: bool,
) -> int | None:  # fmt: skip
    """None where a side cannot be played on such numbers."""
    compared = played = 0
    for size, numbers in tried:
        first, second = (_left(fn, side, numbers, size, drawn, real=real) for side in sides)
        if first is None:
            continue
        if second is None:
            return None
        wrote = 0
        for name, (was, one) in first.items():
            if name in but:
                continue
            other, changed = second[name][1], one != was
            if ((other != was) & ~changed).any() or not _same(one[changed], other[changed], real=real):
                return 0
            wrote += int(changed.sum())
        compared, played = compared + wrote, played + (wrote > 0)
    return compared if played >= LEAST else None


def _numbers(body: str) -> str:
    """A text without the divisions that places are made with: in indices, of threads and blocks."""
    return re.sub(r"\[[^][]*\]|(?:threadIdx|blockIdx|blockDim|gridDim)\.\w+\s*/", "", body)


def _left(
    fn: Function, side: Side, numbers: Mapping[str, int], size: int, drawn: Callable[[str, str, int], Any] | None, *,
    real: bool,
) -> dict[str, tuple[Any, Any]] | None:  # fmt: skip
    """What each array holds before and after a launch; None where it cannot be played."""
    before = {name: (drawn or _drawn)(name, kind, size) for name, kind in fn.pointers.items()}
    if real:
        before = {n: (c / (c.max() + 1.0) if fn.pointers[n].startswith(FLOATS) else c) for n, c in before.items()}
    memory = {name: cells.copy() for name, cells in before.items()}
    for name, kind in side.scratch.items():
        memory[name] = np.zeros(CELLS, dtype=np.float64 if real and kind in FLOATS else np.int64)
    rules = Rules(literals="real" if real else "drawn", races=True, kinds={**fn.kinds, **side.scratch},
                  tickets=bool(side.scratch), handed=tuple(side.scratch), steps=side.steps)  # fmt: skip
    try:
        for only in side.order or ((),):
            numbered = structs.replace(rules, only=only)
            play(side.body, side.grid, side.block, memory, {"warpSize": 32, **numbers}, numbered)
    except Unplayable:
        return None
    if any(memory[name].any() for name in side.scratch):
        return None
    return {name: (before[name], memory[name]) for name in before}


def _drawn(name: str, kind: str, size: int) -> Any:
    return np.random.default_rng([size, *map(ord, name)]).integers(1, 1 << 20, CELLS)


def _same(one: Any, other: Any, *, real: bool) -> bool:
    if not real:
        return bool(np.array_equal(one, other))
    near = np.abs(one - other) <= NEAR * np.abs(one).max(initial=0)
    return bool(np.isfinite(one).all() and near.all())
