"""Neighbours of a flat index whose place is told by divisions: several a thread, which share the divisions and are
loaded and stored as one vector. Both texts are played."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.features.patterns.math_functions import integer_divisions
from kscope.features.sass.columns import total
from kscope.fixes.algebra.elements import E, Elements
from kscope.fixes.algebra.groups import Group
from kscope.fixes.algebra.rising import each
from kscope.fixes.given.conditions import not_written
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, Text, by_lines, closing, index_of, shape, spans_edited, statement_end, written
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import Function, constants, function
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

_WHOLE = r"(?:const\s+)?(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|int|unsigned|size_t|long|u?int(?:32|64)_t)"
_DEFINED = re.compile(rf"(?P<kind>{_WHOLE})\s+(?P<name>\w+)\s*=\s*(?P<value>[^;,]+)(?=[;,])")
_DECLARED = re.compile(rf"{_WHOLE}\s+(?P<rest>[^;{{}}]+);")
_NEVER = re.compile(
    r"\b(?:__shared__|__sync\w*|__\w+_sync|asm|goto|volatile|atomic\w*|for|while|do|switch|break|continue|cooperative_groups)"
    r"\b|\bcg::|#|\bgridDim\b|\b(?:threadIdx|blockIdx)\.[yz]"
)
PLAYED = ((8, 37, 960), (4, 23, 640), (12, 19, 1008))  # multiples of the group, other sizes, flat ends


class Wide(Struct, frozen=True):
    """Spans of the new text, the group's size and names that are its multiples, the ends that are to be multiples,
    arrays that are loaded and stored as vectors, names of the flat ends."""

    spans: tuple[Span, ...]
    size: int
    multiples: tuple[str, ...]
    ends: tuple[str, ...]
    flat: tuple[str, ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, fn = asked.setting, asked.setting.launch, function(asked.setting)
    if fn is None or launch is None or fn.call is not None or not integer_divisions(setting.code):
        return []
    if launch.grid[1] * launch.grid[2] * launch.block[1] * launch.block[2] > 1:
        return []
    one, text = widened(fn), Text(fn.file, fn.first, fn.code)
    edits = spans_edited(setting, text, by_lines(fn.code, one.spans)) if one is not None else []
    if one is None or not edits or (not one.ends and launch.blocks % one.size):
        return []
    played = _same(fn, one, launch.block[0], constants(setting.lines(fn.file), fn.code))
    return [_fix(asked, one, edits, played)] if played is not None and not played.ties else []


def widened(fn: Function) -> Wide | None:
    """The new text of a kernel whose threads have an element each; None for any other."""
    body = fn.body
    at = next((m for m in _DEFINED.finditer(body) if index_of(m["value"], body) is not None), None)
    if at is None or _NEVER.search(body) or re.search(rf"\b{E}\b", body) or written(at["name"], body[at.end() :]):
        return None
    if len(re.findall(r"\b(?:threadIdx|blockIdx)\b", body)) != len(re.findall(r"\b(?:threadIdx|blockIdx)\b", at[0])):
        return None  # another index of the thread
    sizes = [w for w in (_of_size(fn, at, n) for n in (4, 2)) if w is not None]
    return sizes[0] if sizes else None


def _of_size(fn: Function, at: re.Match[str], size: int) -> Wide | None:
    """The same for groups of one size; at: where the flat index is made."""
    body, group = fn.body, Group(at["name"], size)
    begin = statement_end(body, at.start())
    rest = split_declarators(body[at.end() : (begin or 1) - 1])
    if begin is None or not _named(group, [x for x in rest if x.strip()]):
        return None
    where = _elements(body, begin, group)
    if where is None:
        return None
    start, end, ends, wrap = where
    elements = Elements(body[start:end], group, fn.pointers)
    new = elements.text()
    around = body[:start] + body[end:]
    if new is None or not group.divided or any(re.search(rf"\b{array}\b", around) for array in elements.changed()):
        return None
    value = at["value"].strip()
    first = at.start("value") + at["value"].index(value)
    spans = [(first, first + len(value), f"({value}) * {size}"), (start, end, f"{{ {new} }}" if wrap else new)]
    return Wide(
        spans=tuple((x + fn.opened, y + fn.opened, z) for x, y, z in spans), size=size,
        multiples=tuple(dict.fromkeys(group.sizes)), ends=tuple(e for e in ends if not group.of(e).even),
        flat=tuple(e for e in ends if re.fullmatch(r"[A-Za-z_]\w*", e)),
    )  # fmt: skip


def _named(group: Group, declarators: Sequence[str]) -> bool:
    """Whether these give names to what a group has in common, or to what follows one another; they are known then."""
    for part in declarators:
        name, equals, value = part.partition("=")
        found = group.of(value)
        if not equals or not re.fullmatch(r"\s*\w+\s*", name) or found.way == "other":
            return False
        group.names[name.strip()] = found
    return True


def _elements(body: str, at: int, group: Group) -> tuple[int, int, list[str], bool] | None:
    """(start, end) of the statements that are about elements; the ends that the index is below of; whether they are one
    statement without braces of its own. Tests in front of them must hold for a whole group or for none of it."""
    end, ends = body.rstrip().rindex("}"), list[str]()
    while True:
        at += len(body[at:end]) - len(body[at:end].lstrip())
        test = re.match(r"if\s*\(", body[at:])
        if test is None:
            stop = statement_end(body, at)
            made = _DECLARED.fullmatch(body[at:stop].strip()) if stop is not None else None
            if stop is None or made is None or not _named(group, list(split_declarators(made["rest"]))):
                return (at, len(body[:end].rstrip()), ends, False) if body[at:end].strip() else None
            at = stop
            continue
        close = closing(body, at + test.end())
        inner = body[(close or 0) + 1 :].lstrip()
        begin = len(body) - len(inner)
        leaves = re.match(r"return\s*;|\{\s*return\s*;\s*\}", inner)
        if close is None or not _whole(body[at + test.end() : close], leaves is not None, group, ends):
            return None
        if leaves is not None:
            at = begin + leaves.end()
            continue
        stop = statement_end(body, begin)
        if stop is None or body[stop:end].strip():
            return None  # something stands behind it
        if not inner.startswith("{"):
            return (begin, stop, ends, True)
        at, end = begin + 1, stop - 1


def _whole(test: str, leaves: bool, group: Group, ends: list[str]) -> bool:
    """Whether a test is the same for all of a group: below an end, which `ends` gets, or of what it has in common."""
    for part in each(test, "||" if leaves else "&&"):
        below = re.fullmatch(rf"\s*{group.index}\s*(>=|<)(?!=)\s*(?P<end>.+)", part, re.S)
        if group.of(part).way == "same":
            continue
        if below is None or (below[1] == ">=") != leaves or group.of(below["end"]).way != "same":
            return False
        ends.append(" ".join(below["end"].split()))
    return True


def _same(fn: Function, one: Wide, block: int, known: Mapping[str, int]) -> Same | None:
    text = fn.code
    for start, end, new in sorted(one.spans, reverse=True):
        text = text[:start] + new + text[end:]
    old, new_ = [], []
    for multiple, other, flat in PLAYED:
        values = {**fn.values, **dict.fromkeys(fn.numbers, other), **dict.fromkeys(one.flat, flat)}
        values |= {n: multiple for n in one.multiples if n in fn.numbers}
        grid = one.size * max(1, 1024 // (block * one.size))
        old.append(Side(fn.body, (grid, 1), (block, 1), values))
        new_.append(Side(text[fn.opened :], (grid // one.size, 1), (block, 1), values))
    return same(fn, old, new_, known)


def _fix(asked: Asked, one: Wide, edits: list[Edit], played: Same) -> Fix:
    setting, code, launch, n = asked.setting, asked.setting.code, asked.setting.launch, one.size
    assert launch is not None
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    divided = total(code.executed, integer_divisions(code))
    blocks = -(-launch.blocks // n)
    shared = [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    before = total(code.executed, loads)
    return Fix(
        kind="vector_access",
        title=f"{n} neighbours a thread: one place by division for all, vectors of {n}",
        language="cuda",
        code=f"{setting.name}<<<{', '.join([str(blocks), shape(launch.block), *shared])}>>>(...);",
        edits=edits,
        parameters={"elements": n, "grid.x": blocks},
        conditions=[
            played.shown,
            *(Condition(holds=f"{x} is a multiple of {n}", state="check", why="a row ends with a whole vector")
              for x in (*one.multiples, *(e for e in one.ends if e not in one.multiples))),
            *not_written(code, loads),
            Condition(holds="all arrays begin at multiples of 16 bytes", state="check",
                      why="cudaMalloc's do, a pointer into one may not"),
            Condition(holds=f"every launch starts one block where it started {n}", state="check", why="rounded up"),
        ],
        proof=[
            Proof(what="warp loads", before=before, after=before / n, unit="inst",
                  how="executions counted; one of a vector or of what its elements share"),
            Proof(what="integer divisions of warps", before=divided, after=divided / n, unit="inst",
                  how=f"executions counted; the same for {n} elements"),
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
