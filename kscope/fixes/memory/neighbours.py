"""Narrow accesses: several neighbouring elements a thread, by one access of 16 bytes; elements of an unrolled loop as
parts of one."""

from __future__ import annotations

import re

from kscope.features.lanes.strides import lane_stride
from kscope.features.lanes.vectorizable import merges
from kscope.features.sass.columns import total
from kscope.fixes.given.rewrite import Place, changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Span, index_of, kernel_text, loops, spans_edited, statement_end
from kscope.model.contract.fixes import Condition, Fix, Proof

WIDEST = 16
MOST = 8  # elements of a thread: registers for more cost warps (judged)
SEVERAL = "template <class T, int N> struct alignas(sizeof(T) * N) Several { T at[N]; };"
ELEMENT = """__device__ __forceinline__ float element4(const float* p, int c) {  // p[c], by a load of 16 bytes
  float4 v = reinterpret_cast<const float4*>(p)[c / 4];  // c is a number, in an unrolled loop: four of them share it
  return c % 4 == 0 ? v.x : c % 4 == 1 ? v.y : c % 4 == 2 ? v.z : v.w;
}"""
_POINTER = re.compile(
    r"\b(?:const\s+)?(\w+(?:\s+(?:char|short|int|long))?)\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])"
)
_INDEX = re.compile(
    r"\b(?P<type>size_t|int|unsigned|long long)\s+(?P<name>\w+)\s*=\s*(?P<from>[^;,]*threadIdx\.x[^;,]*);"
)


def fixes(asked: Asked) -> list[Fix]:
    """One element a thread: several."""
    setting, code = asked.setting, asked.setting.code
    text, launch = kernel_text(setting), setting.launch
    if text is None or launch is None or launch.block[1] * launch.block[2] > 1:
        return []
    index = _INDEX.search(text.code)
    per = index_of(index["from"], "") if index is not None else None
    if index is None or per is None or loops(text.code) or text.code.count("threadIdx") != 1:
        return []
    name = index["name"]
    guarded = re.match(rf"\s*if\s*\(\s*{name}\s*<\s*(\w+)\s*\)\s*", text.code[index.end() :])
    at = index.end() + (guarded.end() if guarded is not None else 0)
    end = statement_end(text.code, at)
    statement = text.code[at:end] if end is not None else ""
    kinds = {n: k for k, n in _POINTER.findall(text.code[: text.code.find("{")])}
    used = re.findall(rf"(?<![\w.>])(\w+)\s*\[\s*{name}\s*\]", statement)
    others = re.sub(rf"(?<![\w.>])\w+\s*\[\s*{name}\s*\]", "", statement)
    stored = re.match(rf"(\w+)\s*\[\s*{name}\s*\]\s*=(?!=)", statement)
    rest = text.code[end or 0 :].strip() if end else "?"
    if guarded is None or stored is None or rest != "}" or re.search(rf"\b{name}\b", others) or "{" in statement:
        return []
    sizes = {kinds.get(n) for n in used}
    width = max((SIZES.get(k or "", 0) for k in sizes), default=0)
    if None in sizes or len({SIZES.get(k or "") for k in sizes}) != 1 or not 0 < width < WIDEST // 2:
        return []
    count = min(MOST, WIDEST // width)
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    if any(lane_stride(code, i, setting.block) != width or code.classes[i].bytes != width for i in found):
        return []
    edits = spans_edited(setting, text, _several(
        text.code, index, guarded[1], (at, end or at), statement, stored[1], used, kinds, count
    ))  # fmt: skip
    grid = -(-launch.grid[0] // count)
    accesses = total(code.executed, found)
    return [
        Fix(
            kind="vector_access",
            title=f"{count} neighbours a thread, {width * count} bytes an access",
            language="cuda",
            code=f"{SEVERAL}\n// {setting.name}<<<{grid}, {launch.threads}>>>(...): {count} elements a thread",
            edits=edits,
            parameters={"elements": count, "grid.x": grid},
            conditions=[
                Condition(holds="neighbouring threads work on neighbouring elements", state="proved",
                          why=f"lanes are {width} bytes apart in every access"),
                Condition(holds="pointers are multiples of 16", state="assumed", why="cudaMalloc aligns to 256 bytes"),
                Condition(holds="elements behind the last group are done one by one", state="proved", why="its loop"),
                Condition(holds="what is read is not written by a neighbour", state="check", why="unless in is out"),
            ],
            proof=[
                Proof(what="warp loads and stores", before=accesses, after=accesses / count, unit="inst",
                      how=f"{len(found)} accesses of {width} bytes a lane, of {width * count}"),
            ],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def _several(
    code: str, index: re.Match[str], bound: str, where: tuple[int, int], statement: str, out: str, used: list[str],
    kinds: dict[str, str], count: int,
) -> list[Span]:  # fmt: skip
    name = index["name"]
    read = [n for n in dict.fromkeys(used[1:]) if n != out]
    inside = re.sub(rf"(?<![\w.>])(\w+)\s*\[\s*{name}\s*\]", lambda m: f"{m[1]}_v.at[k]", statement)
    if out in used[1:]:
        read.append(out)
    loads = "".join(
        f"\n    Several<{kinds[n]}, {count}> {n}_v = "
        f"*reinterpret_cast<const Several<{kinds[n]}, {count}>*>(&{n}[{name}]);"
        for n in read
    )
    result = "" if out in used[1:] else f"\n    Several<{kinds[out]}, {count}> {out}_v;"
    new = (
        f"{{{loads}{result}\n    #pragma unroll\n    for (int k = 0; k < {count}; k++) {inside}"
        f"\n    *reinterpret_cast<Several<{kinds[out]}, {count}>*>(&{out}[{name}]) = {out}_v;"
        f"\n  }} else for (; {name} < {bound}; {name}++) {statement}"
    )
    test = re.search(rf"{name}\s*<", code[index.end() : where[0]])
    guard = (index.end() + test.start(), index.end() + test.end()) if test is not None else (where[0], where[0])
    return [
        (*index.span("from"), f"({index['from'].strip()}) * {count}"),
        (*guard, f"{name} + {count} <="),
        (*where, new),
    ]  # fmt: skip


def elements(asked: Asked) -> list[Fix]:
    """Elements of an unrolled loop, four of them by one load."""
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    block = setting.launch.block if setting.launch is not None else None
    groups = [m for m in merges(code, block) if m.sure and m.bytes == WIDEST and len(m.members) == 4
              and code.classes[m.members[0]].access == "load"]  # fmt: skip
    members = code.ran({i for m in groups for i in m.members})
    if text is None or not members:
        return []
    floats = {n for k, n in _POINTER.findall(text.code[: text.code.find("{")]) if k == "float"}
    counters = {one.name for one in loops(text.code) if one.step in (f"{one.name}++", f"++{one.name}")}
    where = [Place(p.file, p.number, p.text) for p in places(setting, members)]

    def change(line: str) -> str:
        for name in floats:
            for c in counters:
                used = rf"(?<![\w.>&]){name}\s*\[\s*([^][]+?)\s*\+\s*{c}\s*\](?!\s*[-+*/]?=(?!=))"
                line = re.sub(used, rf"element4(&{name}[\1], {c})", line)
        return line

    edits = changed(where, change)
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
                Condition(holds="nothing between them writes what they read", state="proved", why="def-use and order"),
            ],
            proof=[
                Proof(what="warp loads", before=total(code.executed, mine),
                      after=total(code.executed, [m.members[0] for m in reached]), unit="inst",
                      how=f"{len(reached)} groups of 4: one base, one guard, nothing between that writes (def-use)"),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _every(asked: Asked, file: str, line: int, members: list[int]) -> bool:
    """Whether all loads of a line are in groups: what is not aligned would be torn."""
    code = asked.setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    here = [i for i in loads if (code[i].file, code[i].line) == (file, line)]
    return all(i in members for i in here if code.classes[i].bytes == 4)
