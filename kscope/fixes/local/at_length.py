"""Loops over local arrays up to a number of the launch: as long as the arrays, so that each index is a number, and once
more for where that number is the length, so that nothing is asked in them."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import Kernel, changed, kernel_of
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, split_declarators
from kscope.fixes.given.text import Loop, Span, loops, spans_edited
from kscope.fixes.local.unrolled import chosen, indices, lengths, pragma
from kscope.model.contract.fixes import Condition, Fix, Proof

FIXED = """template <class T, T N> struct Fixed {  // a number that the compiler knows
  __device__ constexpr operator T() const { return N; }
};"""
WORD = 4
_INTEGERS = ("int", "unsigned", "unsigned int", "size_t", "long", "long long", "int64_t", "uint32_t", "int32_t")
_TIED = re.compile(r"__shared__|#\s*pragma\s+unroll\s+\d|\bauto\s*&?\s*\[|\bstatic\b")
_DECLARED = re.compile(r"(?:float|int|unsigned|double)\s+([^;(){}]*);", re.ASCII)


class _Copied(Struct, frozen=True):
    """bound: the number's name, of type `kind`; length: of the arrays; `spans`: of the text."""

    bound: str
    kind: str
    length: int
    arrays: tuple[str, ...]
    words: int
    spans: tuple[Span, ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code, kernel = asked.setting, asked.setting.code, kernel_of(asked.setting)
    one = copied(kernel) if kernel is not None else None
    kinds = accesses(code.program, code.classes)
    local = code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"])
    if kernel is None or one is None or setting.launch is None or not local:
        return []
    stores = [i for i in local if code.classes[i].access == "store"]
    warps = setting.launch.warps * setting.launch.blocks
    words = sum(code.executed[i] * code.classes[i].bytes for i in stores) / WORD / warps
    edits = spans_edited(setting, kernel.text, one.spans)
    if not edits or round(words) != one.words:
        return []  # another number, of whose loops the copy says nothing
    return [
        Fix(
            kind="unroll",
            title=f"{', '.join(one.arrays)} in registers: loops for {one.bound} = {one.length}, and for any less",
            language="cuda",
            code=FIXED,
            edits=edits,
            parameters={one.bound: one.length},
            conditions=[
                reads(f"the copy does the same where {one.bound} is {one.length}",
                      f"the same statements, with the number for the name; {one.bound} is not changed in them"),
                proved(f"in this launch {one.bound} is {one.length}", "code", stores,
                       f"each thread stores {one.words} words into the arrays: all of them, once"),
                Condition(holds=f"{one.bound} is at most {one.length}", state="assumed",
                          why="the code would write beyond the arrays else"),
            ],
            proof=[
                Proof(what="local loads and stores of warps", before=total(code.executed, local), after=0, unit="inst",
                      how=f"{len(local)} accesses at computed addresses become registers"),
            ],
            costs=["the code of these loops twice"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def copied(kernel: Kernel) -> _Copied | None:
    """None where the loops go to different numbers, or an index would be none in the copy."""
    code, known = kernel.text.code, constants(kernel.lines)
    every = loops(code)
    sizes = lengths(kernel.body, known)
    picked = chosen(code, every, sizes)
    counters = {name for name, _ in picked.values()}
    bounds = {every[n].end.strip() for n in picked}
    if len(bounds) != 1 or indices(kernel.body, counters) is None or re.search(r"\b(?:steps|Fixed)\b", code):
        return None
    (bound,) = bounds
    kind = kernel.parameters.get(bound, "").replace("const ", "")
    declared, names = _declarations(kernel, sizes)
    if kind not in _INTEGERS or not declared or set(names) != set(sizes) or len(set(sizes.values())) != 1:
        return None  # an array that both copies use stays in memory
    length = sizes[names[0]]
    first = _first(kernel, names, declared)
    if first is None or not _free(kernel, first, bound) or "[" in "".join(stays for _, _, stays, _ in declared):
        return None
    opening = f"auto steps = [&](auto {bound}) {{ {' '.join(text for _, _, _, text in declared)}\n  "
    ending = f"}}; if ({bound} == {length}) steps(Fixed<{kind}, {length}>{{}}); else steps({bound});\n"
    heads = _heads(code, [every[n] for n in picked], bound, length)
    ahead = [(start, end, opening + new) if start == first else (start, end, new) for start, end, new in heads]
    if ahead == heads:
        ahead.append((first, first, opening))
    spans = (*((start, end, stays) for start, end, stays, _ in declared), *ahead)
    return _Copied(
        bound, kind, length, tuple(names), length * len(names), (*spans, (kernel.closing, kernel.closing, ending))
    )


def _heads(code: str, loops: list[Loop], bound: str, length: int) -> list[Span]:
    """Heads of loops that are as long as the arrays."""
    return [
        (*x.span, f"{pragma(code, x.span[0])}for ({x.kind} {x.name} = 0; {x.name} < {length}; {x.name}++) "
         f"if ({x.name} < {bound})") for x in loops
    ]  # fmt: skip


def _free(kernel: Kernel, first: int, bound: str) -> bool:
    """Whether what begins at a place can be there twice, and the number is only where loops end."""
    region = kernel.text.code[first : kernel.closing]
    heads = len(re.findall(rf"<\s*{bound}\s*;", region))
    again = _TIED.search(region) or changed(region, bound)
    return not again and len(re.findall(rf"\b{bound}\b", region)) == heads > 0


def _declarations(kernel: Kernel, sizes: dict[str, int]) -> tuple[list[tuple[int, int, str, str]], list[str]]:
    """(start, end, what stays, what the copies declare) of the kernel's own statements that declare local arrays, and
    the arrays' names."""
    found, names = [], []
    for start, end in kernel.statements:
        one = kernel.of((start, end))
        match = _DECLARED.fullmatch(one)
        if match is None:
            continue
        parts = [part.strip() for part in split_declarators(match[1])]
        arrays = [p for p in parts if re.fullmatch(r"\w+\s*\[[^][]+\]", p) and p.split("[")[0].strip() in sizes]
        if arrays:
            kind = one[: match.start(1)].strip()
            others = [p for p in parts if p not in arrays]
            stays = f"{kind} {', '.join(others)};" if others else ""
            found.append((start, end, stays, f"{kind} {', '.join(arrays)};"))
            names += [p.split("[")[0].strip() for p in arrays]
    return found, names


def _first(kernel: Kernel, names: list[str], declared: list[tuple[int, int, str, str]]) -> int | None:
    """Where the first statement begins that uses one of the arrays, behind the last that declares one."""
    used, own = re.compile(rf"\b(?:{'|'.join(names)})\b"), {start for start, _, _, _ in declared}
    first = next((x[0] for x in kernel.statements if x[0] not in own and used.search(kernel.of(x))), None)
    return first if first is not None and first >= declared[-1][1] else None
