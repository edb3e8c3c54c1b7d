"""A tile that is loaded, waited for and used: two slots, and cp.async into one while the other one is used."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.patterns.tile_copies import Copy, exposed_copies
from kscope.fixes.given.conditions import not_written, proved, reads, shown
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Loop, Text, kernel_text, loops
from kscope.model.contract.fixes import Edit, Fix, Proof
from kscope.model.units import counted

SLOTS = 2
LEAST_SM = 80  # cp.async (PTX ISA)
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
WORTH = ("major", "critical")
"""Of findings: what less promises may be lost on the slots' own addresses (not measured)."""
SIZES = {"float": 4, "int": 4, "unsigned": 4, "float2": 8, "int2": 8, "uint2": 8, "double": 8, "float4": 16, "int4": 16,
         "uint4": 16, "double2": 16}  # fmt: skip
HELPERS = """template <class T> __device__ __forceinline__ void copy_ahead(T* to, const T* from) {  // 4, 8 or 16 bytes
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
               ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(sizeof(T)) : "memory");
}
__device__ __forceinline__ void copies_closed() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copies_arrived() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}"""
_SYNC = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_PUT = re.compile(r"(?<![\w.>])(\w+)((?:\s*\[[^][]*\])+)\s*=(?!=)\s*(\w+)\s*\[([^][]*)\]\s*;")
_DECLARED = re.compile(r"\b(?:const\s+)?(?:int|unsigned|size_t|auto)\s+\w+\s*=[^;{}=]*;")
_HEADS = re.compile(
    r"\b(?:for\s*\(\s*(?:int|unsigned)\s+\w+\s*=[^;{}]*;[^;{}]*;[^;{}()]*\)|if\s*\([^;{}]*\)(?=\s*[{@f]))"
)
_PRAGMA = re.compile(r"(?m)^\s*#\s*pragma\s+unroll.*$")
_FLOW = re.compile(r"\b(?:break|continue|return|goto|asm)\b")
_ASSIGNED = re.compile(r"(?<![\w.\]])(\w+)\s*(?:[-+*/|&^%]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*(\w+)")
_OWN = re.compile(r"\b(?!else\b|do\b)[A-Za-z_]\w*[\s*&]+(\w+)\s*=(?!=)")


class _Round(Struct, frozen=True):
    """A loop that copies, waits, uses and waits: its parts, and (array, source) of what it copies."""

    loop: Loop
    copy: str
    use: str
    arrays: tuple[str, ...]
    sources: tuple[str, ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or code.program.sm < LEAST_SM or asked.finding.severity not in WORTH:
        return []
    every = [r for one in loops(text.code) if (r := _round(text.code, one)) is not None]
    if len(every) != 1 or re.search(r"\b(?:copy_ahead|fetch|slot)\b|_ring\b", text.code):
        return []
    (one,) = every
    copy = next((c for c in exposed_copies(code) if not c.asynchronous and _within(setting, text, one, c)), None)
    more = launch.shared_static  # all that is declared, at most: what else is declared is not copied
    was, will = setting.occupancy(), setting.occupancy(more_shared=more)
    needed = -(-launch.blocks // max(1, setting.sms))
    if copy is None or was is None or will is None or launch.shared_static + more > STATIC:
        return []
    if will.blocks < min(was.blocks, needed):
        return []
    return [
        Fix(
            kind="stages",
            title=f"two slots for {', '.join(one.arrays)}: the next tile is copied while this one is used",
            language="cuda",
            code=HELPERS,
            edits=_edits(setting, text, one),
            parameters={"slots": SLOTS},
            conditions=[
                proved("the loop waits for what it has just loaded", "code", [*copy.loads, *copy.waits],
                       "loads whose values the same round stores to shared memory (def-use)"),
                reads("nothing that the copy's addresses are made of changes in a round", f"all but {one.loop.name}"),
                *not_written(code, copy.loads),
                shown(will.blocks >= min(was.blocks, needed), "an SM holds as many blocks as it gets", "launch",
                      len(will.limits) + 1, f"{counted(will.blocks, 'block')} fit, {needed} of the launch for each SM"),
                shown(_played() > 0, "each tile is used once, and after it has arrived", "values", _played(),
                      "rounds of some lengths, slot by slot"),
            ],
            proof=[
                Proof(what="copies that are waited for whole", before=len(copy.loads), after=0, unit="loads",
                      how="one group stays in flight while the round before it is used"),
            ],
            costs=[f"{more} bytes of shared memory a block at most", "a wait and the slots' addresses in each round"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _within(setting: Setting, text: Text, one: _Round, copy: Copy) -> bool:
    """Whether these loads are from the loop's lines."""
    first, last = (text.first + text.code[:at].count("\n") for at in (one.loop.span[0], one.loop.body[1]))
    found = places(setting, copy.loads)
    return bool(found) and all(first <= p.number <= last for p in found)


def _round(code: str, loop: Loop) -> _Round | None:
    """`{ copy; __syncthreads(); use; __syncthreads(); }`, or with the second barrier in front."""
    body = code[slice(*loop.body)]
    parts = _SYNC.split(body.strip()[1:-1]) if body.startswith("{") else []
    step = rf"{loop.name}\s*\+=\s*\w+|{loop.name}\+\+"
    if len(parts) != 3 or _FLOW.search(body) or not re.fullmatch(step, loop.step):
        return None
    if not parts[2].strip():
        copy, use = parts[0], parts[1]
    elif not parts[0].strip():
        copy, use = parts[1], parts[2]
    else:
        return None
    if copy.count("{") != copy.count("}") or use.count("{") != use.count("}"):
        return None  # a barrier inside of something
    puts = _PUT.findall(copy)
    arrays, sources = (tuple(dict.fromkeys(p[n] for p in puts)) for n in (0, 2))
    typed = puts and all(_kind(code, a, s) for a, _, s, _ in puts)
    rest = code[: loop.span[0]] + code[loop.body[1] :]
    if not typed or not _plain(copy, use, loop, arrays) or not _inside(rest, arrays):
        return None
    changed = {a or b for a, b in _ASSIGNED.findall(use)} - set(_OWN.findall(use))
    if changed & set(re.findall(r"\w+", copy)) or "#" in code[: loop.span[0]].rstrip().rpartition("\n")[2]:
        return None
    return _Round(loop, copy, use, arrays, sources)


def _plain(copy: str, use: str, loop: Loop, arrays: tuple[str, ...]) -> bool:
    """Whether a copy is nothing else, all of it in every round, and its use leaves the tile alone."""
    bare = _PUT.sub("@;", _PRAGMA.sub("", copy))
    kept = any(re.search(rf"\b{loop.name}\b", head) for head in _HEADS.findall(bare))  # what some rounds do not copy
    kept = kept or any(re.search(rf"\b{a}\s*(?:\[[^][]*\]\s*)+[-+*/|&^]?=(?!=)", use) for a in arrays)
    for pattern in (_HEADS, _DECLARED):
        bare = pattern.sub("", bare)
    return not kept and not re.sub(r"[@;{}\s]", "", bare)


def _inside(rest: str, arrays: tuple[str, ...]) -> bool:
    """Whether the text around the loop declares these arrays, and does nothing with them."""
    declared = re.findall(r"__shared__[^;]*;", rest)
    outside = re.sub(r"__shared__[^;]*;", "", rest)
    return not any(re.search(rf"\b{a}\b", outside) or sum(f" {a}[" in d for d in declared) != 1 for a in arrays)


def _kind(code: str, array: str, source: str) -> str | None:
    """The type of both, if it is one that a copy can carry."""
    kind = re.search(rf"__shared__\s+(?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?(\w+)\s+[^;]*\b{array}\s*\[", code)
    from_ = re.search(rf"\b(\w+)\s*\*\s*(?:__restrict__\s+)?{source}\s*(?=[,)=])", code)
    same = kind is not None and from_ is not None and kind[1] == from_[1] and kind[1] in SIZES
    return kind[1] if same and kind is not None else None


def _edits(setting: Setting, text: Text, one: _Round) -> list[Edit]:
    """The arrays' declarations, and the whole of the loop on the line where it begins; its other lines go."""
    code, loop, lines = text.code, one.loop, setting.lines(text.file)
    step = loop.step.partition("+=")[2].strip() or "1"
    k, end = loop.name, loop.end
    ring = _PUT.sub(lambda m: f"copy_ahead(&{m[1]}_ring[slot]{m[2]}, &{m[3]}[{m[4]}]);", one.copy).strip("\n")
    uses = " ".join(f"auto& {a} = {a}_ring[slot];" for a in one.arrays)
    new = (
        f"auto fetch = [&]({loop.kind} {k}, int slot) {{\n    {ring.strip()}\n  }};\n"
        f"  if ({loop.start} < {end}) fetch({loop.start}, 0);\n  copies_closed();\n  int slot = 0;\n"
        f"  for ({loop.kind} {k} = {loop.start}; {k} < {end}; {loop.step}, slot ^= 1) {{\n"
        f"    if ({k} + {step} < {end}) fetch({k} + {step}, slot ^ 1);\n"
        f"    copies_closed(); copies_arrived<1>(); __syncthreads();\n    {uses}\n"
        f"    {one.use.strip()}\n    __syncthreads();\n  }}"
    )
    begin, stop = (text.first + code[:n].count("\n") for n in (loop.span[0], loop.body[1]))
    column = loop.span[0] - (code.rfind("\n", 0, loop.span[0]) + 1)
    rest = lines[stop - 1][loop.body[1] - (code.rfind("\n", 0, loop.body[1]) + 1) :]
    out = _declarations(text, one, lines, begin)
    for number in range(begin, stop + 1):
        was = lines[number - 1]
        becomes = (was[:column] + new + (rest if begin == stop else "")) if number == begin else ""
        out.append(Edit(file=text.file, line=number, was=was, becomes=rest if number == stop != begin else becomes))
    return out


def _declarations(text: Text, one: _Round, lines: Sequence[str], begin: int) -> list[Edit]:
    out = []
    for number in range(text.first, begin):
        was = lines[number - 1]
        becomes = was
        if "__shared__" in was:
            for a in one.arrays:
                becomes = re.sub(rf"(?<![\w.]){a}\s*\[", f"{a}_ring[{SLOTS}][", becomes)
        if becomes != was:
            out.append(Edit(file=text.file, line=number, was=was, becomes=becomes))
    return out


def _played() -> int:
    """How many rounds were played, if each used its own tile and no slot was filled before its last use; 0 else."""
    played = 0
    for length in range(8):
        held: list[int | None] = [None] * SLOTS
        if length:
            held[0] = 0
        for n in range(length):
            if n + 1 < length:
                held[(n + 1) % SLOTS] = n + 1  # behind the barrier that ends the round before
            if held[n % SLOTS] != n:
                return 0
            played += 1
    return played
