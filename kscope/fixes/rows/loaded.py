"""What lanes loaded on some lines of a text, by arrays: how long the rows are that they go along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import pointer
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import kernel_text
from kscope.fixes.rows.function import Function, wrapper
from kscope.fixes.rows.regrouped import WARP, kept, repeated, rounds
from kscope.isa.abi import abi

SECTOR = 32
_LONG, _SHORT = ("size_t", "long", "double", "int64_t", "uint64_t"), ("int", "float", "int32_t", "uint32_t")
PASSED = "thread_inst_executed_true"  # lanes that an instruction's own guard lets through


def loaded(code: Listing, file: str, lines: range, lanes: Sequence[float]) -> tuple[float, int]:
    """Elements of the array that most were loaded of, and bytes of the narrowest; of arrays that are loaded in rounds
    where there are some, for the rest tells where a row begins and ends. lanes: that executed each instruction."""
    found = each_loaded(code, file, lines, lanes)
    return max((n for n, _ in found.values()), default=0.0), min((b for _, b in found.values()), default=4)


def each_loaded(
    code: Listing, file: str, lines: range, lanes: Sequence[float]
) -> dict[str | None, tuple[float, int]]:  # fmt: skip
    """The same of each array, by the constant that it begins at."""
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    here = [i for i in loads if code[i].file == file and (code[i].line or 0) in lines]
    looped = [i for i in here if code.cfg.loop_of[i] is not None]
    out: dict[str | None, tuple[float, int]] = {}
    for array in {pointer(code, i) for i in looped or here}:
        mine = [i for i in here if pointer(code, i) == array]
        out[array] = total(list(lanes), mine), min(code.classes[i].bytes for i in mine)
    return out


def row(setting: Setting, fn: Function, block: int, known: Mapping[str, int]) -> tuple[float, int]:
    """Elements of a row, the mean, and bytes of one: what lanes loaded in the loops along it, by the loops around them;
    of an element or a few a thread all of them. 0 where that is not known."""
    if not rounds(fn, block, {**known, **fn.values}):
        return float(block * max(kept(fn).values(), default=1)), 4
    found = list(_along(setting, fn, block, known).values())
    return max((n for n, _ in found), default=0.0), min((b for _, b in found), default=4)


def few(length: float, bytes_: int) -> int:
    """As few lanes as a row of so many accesses, of so many bytes, takes in one round."""
    lanes = WARP
    while lanes > 1 and (lanes // 2) * bytes_ >= SECTOR and lanes // 2 >= length:
        lanes //= 2
    return lanes


def lengths(setting: Setting, fn: Function, block: int, known: Mapping[str, int]) -> dict[str, float]:
    """The same of each array alone, by its name."""
    found = _along(setting, fn, block, known, PASSED)
    return {name: found[at][0] for name, at in begins(setting, fn).items() if at in found}


def _along(
    setting: Setting, fn: Function, block: int, known: Mapping[str, int], counted: str = "thread_inst_executed"
) -> dict[str | None, tuple[float, int]]:  # fmt: skip
    """Of each array the elements of a row and bytes of one, from the loop that loads most of it."""
    code, launch = setting.code, setting.launch
    assert launch is not None
    column = getattr(code, "column", None)
    lanes = column(counted) if column is not None else None
    lanes = lanes if lanes is not None and any(lanes) else [n * WARP for n in code.executed]
    out: dict[str | None, tuple[float, int]] = {}
    for loop in rounds(fn, block, {**known, **fn.values}):
        first, last = (fn.first + fn.code.count("\n", 0, at) for at in (loop.start, loop.body[1]))
        for array, (most, narrow) in each_loaded(code, fn.file, range(first, last + 1), lanes).items():
            length, bytes_ = out.get(array, (0.0, narrow))
            out[array] = max(length, most / launch.blocks / repeated(fn, loop)), min(bytes_, narrow)
    return out


def begins(setting: Setting, fn: Function) -> dict[str, str]:
    """The constant at which each array of a function begins, by its name there; nothing where the kernel's parameters
    are more than pointers and numbers, or it hands on something else."""
    text = kernel_text(setting) or wrapper(setting)
    head = re.search(rf"\b{re.escape(setting.name)}\s*\(([^()]*)\)", text.code) if text is not None else None
    if text is None or head is None:
        return {}
    found = _constants(head[1], abi(setting.code.program.sm).parameters)
    if fn.call is None:
        return {name: found[name] for name in fn.pointers if name in found}
    line, (_, end, _) = fn.call
    given = re.match(r"\s*\(([^()]*)\)", setting.lines(fn.file)[line - 1][end:])
    own = re.search(rf"\b{re.escape(fn.name)}\s*\(([^()]*)\)", fn.code[: fn.opened])
    if given is None or own is None:
        return {}
    names = [(re.findall(r"\w+", one) or [""])[-1] for one in own[1].split(",")]
    pairs = zip(names, (one.strip() for one in given[1].split(",")), strict=False)
    return {name: found[value] for name, value in pairs if name in fn.pointers and value in found}


def _constants(parameters: str, at: int) -> dict[str, str]:
    """Of pointers and numbers, from the first one's place on; nothing where there is anything else."""
    found: dict[str, str] = {}
    for one in split_declarators(parameters):
        words = re.findall(r"\w+|\*", re.sub(r"\b(?:const|__restrict__|unsigned)\b", " ", one)) or [""]
        size = 8 if "*" in words or words[0] in _LONG else 4
        if size == 4 and words[0] not in _SHORT and len(words) > 1:
            return {}
        at = -(-at // size) * size
        found[words[-1]] = f"c[0x0][{at:#x}]"
        at += size
    return found
