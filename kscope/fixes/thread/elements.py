"""What a thread does to one element of rows that lie side by side, as the text says it: the index, its bound, and which
arrays are read and written at that index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from kscope.fixes.atomics.reading import changed
from kscope.fixes.given.text import Loop, closing, loops, plain, statement_end
from kscope.fixes.thread.side_by_side import STRANGE, Row, rows_of

_TYPE = (
    r"(?:const\s+)?(?:std::)?(?:unsigned\s+(?:int|long\s+long|long)|long\s+long|unsigned|u?int(?:32|64)?(?:_t)?|uint|size_t|long|auto"
    r"|[A-Z]\w*)"
)
_DECLARED = re.compile(rf"(?<![\w.])(?P<type>{_TYPE})\s+(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<from>[^;,=]+)(?=[;,])")
_NAMED = re.compile(
    r"\b(?:\w*_)?KERNEL_LOOP(?:_1D|_TYPE)?\s*\(\s*(?P<name>[A-Za-z_]\w*)\s*,\s*(?P<end>[\w.\s*()>-]+?)\s*\)\s*(?=\{)"
)
_GUARD = re.compile(r"\bif\s*\(")
Shape = Literal["if", "return", "loop"]


class Elements(Struct, frozen=True):
    """`kind name = start`, from `declared` on; below `bound`, and `others` where more is asked; `guard` is what says
    it, `body` what is done. step: of a loop, else empty."""

    shape: Shape
    kind: str
    name: str
    start: str
    bound: str
    others: str
    declared: tuple[int, int]
    guard: tuple[int, int]
    body: tuple[int, int]
    rows: tuple[Row, ...]
    step: str = ""
    sums: tuple[str, ...] = ()


def elements(code: str) -> Iterator[Elements]:
    """All that a kernel's text holds."""
    opened = code.find("{")
    if opened < 0:
        return
    yield from _of_loops(code, opened)
    one = _of_threads(code, opened)
    if one is not None:
        yield one


def _of_threads(code: str, opened: int) -> Elements | None:
    """One element a thread."""
    inside = code[opened:]
    for made in _DECLARED.finditer(code, opened):
        of_thread = "threadIdx.x" in plain(made["from"], code[opened : made.start()])
        if not of_thread or inside.count("threadIdx.x") != 1 or loops(code) or _alias(inside, made["name"]):
            continue
        name = made["name"]
        if changed(inside, name) != 1:
            return None
        found = _guarded(code, made.end(), name)
        if found is None:
            return None
        shape, bound, others, guard, body = found
        between = code[made.end() : guard[0]]
        if re.search(rf"\b{name}\b", re.sub(r"\bassert\s*\([^;]*;", "", between)) or STRANGE.search(between):
            return None
        rows = rows_of(code, body, name)
        if rows is None or rows[1]:
            return None
        kind = re.sub(r"\bconst\s+", "", made["type"])
        place = (made.start(), made.end())
        return Elements(shape, kind, name, made["from"].strip(), bound, others, place, guard, body, rows[0])
    return None


def _alias(inside: str, name: str) -> bool:
    """Whether a name serves for another's value alone, as the thread's number for the element's does."""
    again = [m.start() for m in re.finditer(rf"(?<![\w.>]){name}\b", inside)]
    return len(again) == 2 and any(m.start("from") <= again[1] < m.end("from") for m in _DECLARED.finditer(inside))


def _of_loops(code: str, opened: int) -> Iterator[Elements]:
    """Rounds of a loop over the threads of the block or of the grid."""
    for loop in [*loops(code), *_named_loops(code, opened)]:
        before = code[: loop.span[0]].rstrip()
        start, step = plain(loop.start, code[opened:]), loop.step.partition("+=")[2].strip()
        if loop.span[0] < opened or "threadIdx.x" not in start or not step or before[-1:] not in ("{", "}", ";"):
            continue
        if changed(code[slice(*loop.body)], loop.name) or re.search(r"\w\s*\(", loop.end) or "," in loop.step:
            continue
        rows = rows_of(code, loop.body, loop.name)
        if rows is not None:
            yield Elements(
                "loop", loop.kind, loop.name, loop.start, loop.end, "", loop.span, loop.span, loop.body, rows[0], step,
                rows[1],
            )  # fmt: skip


def _named_loops(code: str, opened: int) -> Iterator[Loop]:
    """`CUDA_KERNEL_LOOP(i, n) { .. }`, as libraries call the loop of a grid's threads over n elements."""
    for match in _NAMED.finditer(code, opened):
        bound = match["end"].strip()
        end = statement_end(code, match.end())
        if end is None or bound.count("(") != bound.count(")"):
            continue
        kind = "int" if re.search(rf"\bint\s+{re.escape(bound)}\s*[,)]", code[:opened]) else "long long"
        start = "(blockIdx.x * blockDim.x + threadIdx.x)"
        yield Loop(kind, match["name"], start, bound, f"{match['name']} += blockDim.x * gridDim.x", match.span(),
                   (match.end(), end))  # fmt: skip


def _guarded(
    code: str, at: int, name: str
) -> tuple[Shape, str, str, tuple[int, int], tuple[int, int]] | None:  # fmt: skip
    """How a text asks whether a thread has an element: with what else, where, and what is done then."""
    end = code.rstrip().rfind("}")
    for match in _GUARD.finditer(code, at):
        close = closing(code, match.end())
        if close is None:
            return None
        test = code[match.end() : close]
        if not re.search(rf"\b{name}\b", test):
            continue
        stop = statement_end(code, match.start())
        first = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
        if stop is None:
            return None
        leaves = re.fullmatch(r"\{?\s*return\s*;\s*\}?", code[first:stop].strip()) is not None
        split = _tested(test, name, leaves=leaves)
        if split is None or (not leaves and code[stop:end].strip()):
            return None
        if leaves:
            start = stop + len(code[stop:end]) - len(code[stop:end].lstrip())
            return "return", *split, (match.start(), stop), (start, end)
        return "if", *split, (match.start(), close + 1), (first, stop)
    return None


def _tested(test: str, name: str, *, leaves: bool) -> tuple[str, str] | None:
    """(the bound, what else is asked for) of `name < bound && ..`, or of `name >= bound || ..` that leaves."""
    apart, word = ("||", "&&") if leaves else ("&&", "||")
    if word in test:
        return None
    terms = [t.strip() for t in _split(test, apart)]
    mine = [t for t in terms if re.search(rf"\b{name}\b", t)]
    sign = ">=" if leaves else "<"
    bounds = [m[1] for t in mine if (m := re.fullmatch(rf"{name}\s*{sign}(?![=<])\s*([\w\s.*()+>-]+)", t))]
    if len(mine) != 1 or len(bounds) != 1 or re.search(rf"\b{name}\b|\w\s*\(", bounds[0]):
        return None
    return bounds[0].strip(), f" {apart} ".join(t for t in terms if t not in mine)


def _split(text: str, word: str) -> list[str]:
    out, depth, last = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if not depth and text.startswith(word, n):
            out.append(text[last:n])
            last = n + len(word)
    return [*out, text[last:]]


