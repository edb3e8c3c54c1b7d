"""What a thread does to one element of rows that lie side by side, as the text says it: the index, its bound, and which
arrays are read and written at that index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, structs

from kscope.fixes.atomics.reading import MODIFIED, changed
from kscope.fixes.given.text import Loop, closing, loops, plain, statement_end
from kscope.fixes.thread.callees import NONE, Callees
from kscope.fixes.thread.directives import ways
from kscope.fixes.thread.side_by_side import STRANGE, Row, rows_of

_TYPE = (
    r"(?:const\s+)?(?:std::)?(?:unsigned\s+(?:int|long\s+long|long)|long\s+long|unsigned|u?int(?:32|64)?(?:_t)?|uint|size_t|long|auto"
    r"|[A-Z]\w*)"
)
_DECLARED = re.compile(rf"(?<![\w.])(?P<type>{_TYPE})\s+(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<from>[^;,=]+)(?=[;,])")
_NAMED = re.compile(
    r"\b(?:\w*_)?KERNEL_LOOP(?:_1D|_TYPE)?\s*\(\s*(?P<name>[A-Za-z_]\w*)\s*,\s*(?P<end>[\w.\s*()>-]+?)\s*\)\s*(?=\{)"
)
_WHILE = re.compile(r"\bwhile\s*\(\s*(?P<name>[A-Za-z_]\w*)\s*<(?![<=])\s*(?P<end>[\w.\s*+-]+?)\s*\)\s*\{")
_COUNTS = re.compile(rf"\batomic\w*|\b(?:asm|printf)\b|\]{MODIFIED}|[;{{]\s*\*+\s*\w+{MODIFIED}")
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
    handed: tuple[tuple[str, str], ...] = ()
    """Functions that may write elsewhere, each with the pointer that it is handed."""
    apart: tuple[str, ...] = ()
    """Places of the arrays that the rest of the kernel uses, and that are no elements."""


def elements(code: str, calls: Callees = NONE) -> Iterator[Elements]:
    """All that a kernel's text holds, in whichever way the preprocessor takes it."""
    first, *others = [list(_elements(one, calls)) for one in ways(code)]
    for other in others:
        alike = len(first) == len(other)
        both = [_both(a, b) for a, b in zip(first, other, strict=True)] if alike else []
        first = [one for one in both if one is not None]
    yield from first


def _both(a: Elements, b: Elements) -> Elements | None:
    """What holds in two ways to take a text, if they are the same but for where they use the arrays."""
    rows = {(r.name, r.at): r for r in b.rows}
    used = [structs.replace(r, spans=()) for r in a.rows]
    if sorted(used, key=str) != sorted((structs.replace(r, spans=()) for r in b.rows), key=str):
        return None
    if structs.replace(a, rows=(), handed=()) != structs.replace(b, rows=(), handed=()):
        return None
    spans = [tuple(sorted({*r.spans, *rows[r.name, r.at].spans})) for r in a.rows]
    merged = tuple(structs.replace(r, spans=s) for r, s in zip(a.rows, spans, strict=True))
    return structs.replace(a, rows=merged, handed=tuple(dict.fromkeys([*a.handed, *b.handed])))


def _elements(code: str, calls: Callees) -> Iterator[Elements]:
    opened = code.find("{")
    if opened < 0:
        return
    yield from _of_loops(code, opened, calls)
    one = _of_threads(code, opened, calls)
    if one is not None:
        yield one


def _of_threads(code: str, opened: int, calls: Callees) -> Elements | None:
    """One element a thread."""
    inside = code[opened:]
    for made in _DECLARED.finditer(code, opened):
        of_thread = "threadIdx.x" in plain(made["from"], code[opened : made.start()])
        if not of_thread or inside.count("threadIdx.x") != 1 or loops(code) or _alias(inside, made["name"]):
            continue
        name = made["name"]
        if changed(inside, name) != 1 or _COUNTS.search(code[opened : made.start()]):
            return None  # what each thread does before is done by fewer of them then
        found = _guarded(code, made.end(), name)
        if found is None:
            return None
        shape, bound, others, guard, body = found
        between = code[made.end() : guard[0]]
        if re.search(rf"\b{name}\b", re.sub(r"\bassert\s*\([^;]*;", "", between)) or STRANGE.search(between):
            return None
        found_rows = rows_of(code, body, name, calls)
        if found_rows is None or found_rows.sums or found_rows.apart:
            return None
        kind = re.sub(r"\bconst\s+", "", made["type"])
        place = (made.start(), made.end())
        return Elements(shape, kind, name, made["from"].strip(), bound, others, place, guard, body, found_rows.rows,
                        handed=found_rows.handed)
    return None


def _alias(inside: str, name: str) -> bool:
    """Whether a name serves for another's value alone, as the thread's number for the element's does."""
    again = [m.start() for m in re.finditer(rf"(?<![\w.])(?<!->){name}\b", inside)]
    return len(again) == 2 and any(m.start("from") <= again[1] < m.end("from") for m in _DECLARED.finditer(inside))


def _of_loops(code: str, opened: int, calls: Callees) -> Iterator[Elements]:
    """Rounds of a loop over the threads of the block or of the grid."""
    for loop in [*loops(code), *_named_loops(code, opened), *_while_loops(code, opened)]:
        before = code[: loop.span[0]].rstrip()
        start, step = plain(loop.start, code[opened:]), loop.step.partition("+=")[2].strip()
        if loop.span[0] < opened or "threadIdx.x" not in start or not step or before[-1:] not in ("{", "}", ";"):
            continue
        if changed(code[slice(*loop.body)], loop.name) or re.search(r"\w\s*\(", loop.end) or "," in loop.step:
            continue
        rows = rows_of(code, loop.body, loop.name, calls)
        if rows is not None and _alike_each_time(code, opened, loop, rows.rows):
            yield Elements(
                "loop", loop.kind, loop.name, loop.start, loop.end, "", loop.span, loop.span, loop.body, rows.rows,
                step, rows.sums, rows.handed, rows.apart,
            )  # fmt: skip


def _alike_each_time(code: str, opened: int, loop: Loop, rows: tuple[Row, ...]) -> bool:
    """Whether a loop in another one has other elements each time, or each thread the same ones: no barrier is between,
    and which elements are a thread's hangs on the bound and on where arrays start."""
    around = ""
    for match in re.finditer(r"\b(?:for|while)\s*\(|\bdo\b", code[opened : loop.span[0]]):
        stop = statement_end(code, opened + match.start())
        if stop is not None and stop >= loop.body[1]:
            around = around or code[opened + match.start() : stop]
    moved = set(re.findall(rf"([A-Za-z_]\w*){MODIFIED}|(?:\+\+|--)\s*([A-Za-z_]\w*)", around))
    names = {name for pair in moved for name in pair} - {"", loop.name}

    def of(text: str) -> bool:
        return not names.isdisjoint(re.findall(r"[A-Za-z_]\w*", text))

    steady = not any(of(f"{row.name} {row.at} {row.when} {loop.end}") for row in rows)
    return steady or all(of(f"{row.name} {row.at}") for row in rows if row.written)


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


def _while_loops(code: str, opened: int) -> Iterator[Loop]:
    """`T i = start; while (i < n) { ..; i += step; }`, whose i serves for nothing else behind it. Its body is without
    the brackets and the step."""
    for match in _WHILE.finditer(code, opened):
        name, close = match["name"], closing(code, match.end())
        inside = code[match.end() : close] if close is not None else ""
        step = re.search(rf"(?<=[;}}])\s*{name}\s*\+=\s*([^;]+);\s*$", inside)
        made = [m for m in _DECLARED.finditer(code, opened, match.start()) if m["name"] == name]
        if close is None or step is None or len(made) != 1 or changed(code[opened:], name) != 2:
            continue
        if not re.search(rf"\b{name}\b", code[close:]):
            body = (match.end(), match.end() + step.start())
            yield Loop(made[0]["type"], name, made[0]["from"].strip(), match["end"].strip(), f"{name} += {step[1]}",
                       (match.start(), match.end() - 1), body)  # fmt: skip


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


