"""What tells, before it does anything, that a thread has nothing to do: its number in the grid compared with a bound,
from which on no block has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

from msgspec import Struct

from kscope.fixes.atomics.reading import Kernel, uniform, whole
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import closing, loops, plain, statement_end, strided
from kscope.fixes.order.whole import declared
from kscope.fixes.rows.function import constants as defined

BLOCK = "block_n"
_RETURNS = re.compile(r"\s*\{?\s*return\s*;\s*\}?\s*")
_HEAD = {"__global__", "void", "static", "inline", "extern", "C"}


class Counted(Struct, frozen=True):
    """Blocks that have nothing to do from one on, along an axis of the grid: `test` is whether one has, of its number
    `block_n`. times: what an element's number is multiplied with; each: a block's threads along the axis. free: blocks
    of one dimension may be of any size, as their threads' numbers name it alone."""

    axis: str
    test: str
    bound: str
    times: str
    each: str
    free: bool


class Side(Struct, frozen=True):
    """An axis of the grid, and a block's threads along it."""

    axis: str
    threads: int


def counted(kernel: Kernel, block: Sequence[int], grid: Sequence[int]) -> Counted | None:
    """The comparison of a thread's number in the grid that decides whether it does anything at all, along the axis of
    the most blocks; None where there is no such one."""
    if "gridDim" in kernel.body:
        return None
    axes = [Side("xy"[n], block[n]) for n in sorted(range(2), key=lambda n: -grid[n]) if grid[n] > 1]
    found = (_compared(kernel, side) for side in axes)
    return next((one for one in found if one is not None), None)


def _compared(kernel: Kernel, side: Side) -> Counted | None:
    numbers = dict[str, str]()
    for start, end in kernel.statements:
        one = kernel.of((start, end))
        if re.match(r"if\s*\(", one):
            return _tested(kernel, (start, end), numbers, side)
        made = declared(one)
        bare = re.fullmatch(r"(?:unsigned\s+)?\w+\s+\w+\s*;", one)
        if (not made and bare is None) or any(d.array for d in made):
            return None
        numbers |= {d.name: d.value for d in made}
    return None


def _tested(kernel: Kernel, span: tuple[int, int], numbers: Mapping[str, str], side: Side) -> Counted | None:
    """Of an `if (..) return;`, or of the kernel's last statement, which has no else."""
    one, opened = kernel.of(span), kernel.of(span).index("(") + 1
    close = closing(one, opened)
    returns = close is not None and _RETURNS.fullmatch(one[close + 1 :]) is not None
    if close is None or not (returns or (span == kernel.statements[-1] and not _else(one, close + 1))):
        return None
    test = re.sub(r"\s+", "", one[opened:close])
    if "?" in test or ("&&" if returns else "||") in test:
        return None
    parts = test.split("||" if returns else "&&")
    found = (_below(kernel, p, numbers, span[0], side, leaves=returns) for p in parts)
    return next((f for f in found if f is not None), None)


def _else(one: str, at: int) -> bool:
    at += len(one[at:]) - len(one[at:].lstrip())
    return (statement_end(one, at) or 0) < len(one)


def _below(
    kernel: Kernel, part: str, numbers: Mapping[str, str], at: int, side: Side, *, leaves: bool
) -> Counted | None:  # fmt: skip
    """`i < bound` or `i * times < bound` of a thread's number, or what is left where it is not."""
    first, sign, last = re.fullmatch(r"(.*?)(<=|>=|<|>|$)(.*)", part, re.S).groups()  # type: ignore[union-attr]
    if sign == ("<=" if leaves else ">"):
        first, last = last, first
    elif sign != (">=" if leaves else "<"):
        return None
    match = re.fullmatch(r"\(?(?P<i>\w+)(?:\*(?P<times>\w+))?<(?P<bound>[\w*().]+?)\)?", f"{first}<{last}")
    if match is None or match["i"] not in numbers:
        return None
    bound, times = match["bound"] + ")" * (match["bound"].count("(") - match["bound"].count(")")), match["times"] or ""
    if not all(uniform(kernel, x, at) and whole(kernel, x) for x in (bound, times) if x):
        return None
    return _of_blocks(kernel, numbers[match["i"]], at, (bound, times), side)


def _of_blocks(kernel: Kernel, start: str, at: int, ends: tuple[str, str], side: Side) -> Counted | None:
    """The comparison of the first number of a block, where all its threads' are one behind the other. at: where it is
    compared; ends: what with, and what it is multiplied with."""
    bound, times = ends
    own = all(kernel.body.count(word) == start.count(word) == 1 for word in ("threadIdx", "blockDim"))
    start = plain(start, kernel.text.code[kernel.opening : at])
    each = _each(start, numbers_of(kernel), side)
    if each is None:
        return None
    per, factor = each
    by = f" * {factor}" if factor > 1 else ""
    free = per == "blockDim.x" and own
    test = f"(long long){BLOCK} * {per}{by}{f' * {times}' if times else ''} < "
    whole = bound if re.fullmatch(r"\w+", bound) else f"({bound})"
    return Counted(side.axis, test + whole, bound, times, per, free and not _bounded(kernel))


def numbers_of(kernel: Kernel) -> dict[str, int]:
    """Whole numbers that the kernel's file names."""
    return {**constants(kernel.lines), **defined(kernel.lines, kernel.body)}


def _bounded(kernel: Kernel) -> bool:
    """Whether the kernel's head says how large its blocks are, or may: in a word that is not C++'s."""
    above = kernel.lines[max(0, kernel.text.first - 4) : kernel.text.first - 1]
    head = kernel.text.code[: kernel.opening]
    words = set(re.findall(r"\w+(?!\w*\s*::)", head[head.find("__global__") : head.find("(")]))
    return "launch_bounds" in "\n".join([*above, head]).lower() or len(words - _HEAD) > 1


def over_grid(kernel: Kernel) -> bool:
    """Whether blocks come in one loop over the grid alone, so that any number of them does all."""
    every = [x for x in loops(kernel.body) if strided(x, kernel.body[: x.span[0]]) is not None]
    return len(every) == 1 and all(kernel.body.count(word) == 1 for word in ("blockIdx", "gridDim"))


def _each(start: str, known: Mapping[str, int], side: Side) -> tuple[str, int] | None:
    """(threads a block, elements a thread) of a number `(block * threads + thread) * elements`."""
    text = re.sub(rf"\b(threadIdx|blockIdx|blockDim)\s*\.\s*{side.axis}\b", r"\1_here", start)

    def at(b: int, t: int, size: int) -> int | None:
        return evaluated(text, {**known, "blockIdx_here": b, "threadIdx_here": t, "blockDim_here": size})

    factor = at(0, 1, side.threads)
    if factor is None or factor < 1:
        return None
    of_launch = f"blockDim.{side.axis}"
    for per in (of_launch, str(side.threads)):
        tried = product((0, 1, 5), (0, 1, 7), (32, 96) if per == of_launch else (side.threads,))
        if all(at(b, t, s) == (b * s + t) * factor for b, t, s in tried):
            return per, factor
    return None
