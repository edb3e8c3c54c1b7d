"""Elements of an unrolled loop that lie side by side: four of them by one load of 16 bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from kscope.features.lanes.vectorizable import Merge, merges
from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.atomics.reading import MODIFIED, changed
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.rewrite import changed as lines_changed
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Loop, Text, kernel_text, loops, plain
from kscope.model.contract.fixes import Condition, Fix, Proof

WIDEST = 16
GROUP = 4  # elements of a load
SEEDS = 5  # of the numbers that names stand for where an index is looked at
ELEMENT = """__device__ __forceinline__ float element4(const float* p, int c) {  // p[c], by a load of 16 bytes
  float4 v = __ldg(reinterpret_cast<const float4*>(p) + c / 4);  // c is a number, in an unrolled loop: four share it
  return c % 4 == 0 ? v.x : c % 4 == 1 ? v.y : c % 4 == 2 ? v.z : v.w;
}"""
_BUILTIN = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b")
_UNROLLED = re.compile(r"#\s*pragma\s+unroll\s*$")
_FLOATS = re.compile(r"\b(?:const\s+)?float\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])")


def elements(asked: Asked) -> list[Fix]:
    """Elements of an unrolled loop, four of them by one load."""
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    groups = _fours(asked)
    members = code.ran({i for m in groups for i in m.members})
    if text is None or not members:
        return []
    floats = set(_FLOATS.findall(text.code[: text.code.find("{")]))
    edits = []
    known = constants(setting.lines(text.file))
    for place in places(setting, members):

        def change(line: str, number: int = place.number) -> str:
            return by_fours(text, number, line, floats, known)

        edits += lines_changed([place], change)
    if _written(asked, members):
        return []  # __ldg is for what nobody writes meanwhile, and only it keeps the compiler from four narrow loads
    lines = {(e.file, e.line) for e in edits}
    reached = [m for m in groups if (code[m.members[0]].file, code[m.members[0]].line) in lines]
    if not reached or any(not _every(asked, file, line, members) for file, line in lines):
        return []
    mine = [i for m in reached for i in m.members]
    return [
        Fix(
            kind="vector_access",
            title="four elements of the unrolled loop by one load of 16 bytes",
            language="cuda",
            code=ELEMENT,
            edits=edits,
            conditions=[
                Condition(holds="groups of four start at multiples of 16 bytes", state="assumed",
                          why="cudaMalloc aligns to 256 bytes; the offsets were run"),
                proved("the kernel does not write what they read", "code", members, "address slices"),
                Condition(holds="nobody else writes it meanwhile", state="check"),
            ],
            proof=[
                Proof(what="warp loads", before=total(code.executed, mine),
                      after=total(code.executed, [m.members[0] for m in reached]), unit="inst",
                      how=f"{len(reached)} groups of 4: one base, one guard, nothing between that writes (def-use)"),
            ],
            price=None,  # measured: 1.09x where the finding, which is about reuse too, has 2.17x
        )
    ]  # fmt: skip


def by_fours(text: Text, number: int, line: str, floats: set[str], known: Mapping[str, int]) -> str:
    """A line with the elements of the loops around it that are unrolled whole: `x[.. + c]`, where nothing in front of
    the counter moves by less than four from round to round. known: numbers that the file names."""
    around = _around(text, number)
    for name in sorted(floats):
        for c in sorted(_counters(text, around)):

            def one(match: re.Match[str], c: str = c) -> str:
                fit = not _moves(text, around, match[1]) and _by_fours(text, around, match[2], c, known)
                return f"element4(&{match[1]}[{match[2]}], {c})" if fit else match[0]

            used = rf"(?<![\w.])(?<!->)(?<!&)(?<!& )({name})\s*\[\s*([^][]+?)\s*\+\s*{c}\s*\](?!{MODIFIED})"
            line = re.sub(used, one, line)
    return line


def _around(text: Text, line: int) -> list[Loop]:
    out = []
    for one in loops(text.code):
        first, last = (text.first + text.code[:at].count("\n") for at in one.body)
        if first <= line <= last:
            out.append(one)
    return out


def _counters(text: Text, around: Sequence[Loop]) -> set[str]:
    """Counters of loops that are unrolled whole, from a multiple of four on: elsewhere the element's number is no
    constant, or not that of its place in a group."""
    whole: dict[str, bool] = {}
    for one in around:
        unrolled = _UNROLLED.search(text.code[: one.span[0]]) is not None
        first = evaluated(one.start, {})
        fit = unrolled and one.step in (f"{one.name}++", f"++{one.name}") and first is not None and first % GROUP == 0
        whole[one.name] = whole.get(one.name, True) and fit
    return {name for name, yes in whole.items() if yes}


def _moves(text: Text, around: Sequence[Loop], name: str) -> bool:
    return any(changed(text.code[slice(*loop.body)], name) for loop in around)


def _by_fours(text: Text, around: Sequence[Loop], at: str, counter: str, known: Mapping[str, int]) -> bool:
    """Whether an index is a sum, and moves by multiples of four with all loops around it but the counter's."""
    code, others = text.code, {loop.name: loop for loop in around if loop.name != counter}
    outer = re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", at))
    whole = plain(plain(at, code), code)
    names = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", whole))
    moved = any(_moves(text, around, name) for name in names - set(others))
    if re.search(r"[?<>&|^=!,]", outer) or counter in names or moved:
        return False
    mine = names & set(others)
    for seed in range(SEEDS if mine else 0):
        drawn = random.Random(seed)
        given = {name: known.get(name, drawn.randrange(1, 90)) for name in sorted(names)}
        for name in mine:
            values = [evaluated(_BUILTIN.sub("7", whole), {**given, name: n}) for n in range(4)]
            if None in values or any((v or 0) % GROUP != (values[0] or 0) % GROUP for v in values):
                return False
    return True


def _written(asked: Asked, loads: list[int]) -> bool:
    """Whether the kernel may write what these loads read."""
    code, writes = asked.setting.code, ("store", "atomic", "reduction")
    stores = code.where(lambda ins, op: op.space in ("global", "generic") and op.access in writes)
    read, written = {pointer(code, i) for i in loads}, {pointer(code, i) for i in stores}
    return None in read or None in written or bool(read & written)


def _fours(asked: Asked) -> list[Merge]:
    """Four loads that are surely aligned as one."""
    setting, code = asked.setting, asked.setting.code
    found = merges(code, setting.launch.block if setting.launch is not None else None)
    loads = [m for m in found if code.classes[m.members[0]].access == "load"]
    return [m for m in loads if m.sure and m.bytes == WIDEST and len(m.members) == 4]


def _every(asked: Asked, file: str, line: int, members: list[int]) -> bool:
    """Whether all loads of a line are in groups: what is not aligned would be torn."""
    code = asked.setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    here = [i for i in loads if (code[i].file, code[i].line) == (file, line)]
    return all(i in members for i in here if code.classes[i].bytes == 4)
