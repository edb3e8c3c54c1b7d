"""Prefix sums of an array by one block: two kernels of the same parameters by the whole device, of which the first adds
up each block's part and the second scans it, behind what the parts before come to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kscope.fixes.given.c_types import VECTORS
from kscope.fixes.given.called import Function as Called
from kscope.fixes.given.called import functions
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import LETTERS
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.recurrence.draws import CELLS, arrays, drawn, held, tried
from kscope.fixes.recurrence.rewritten import numbers
from kscope.fixes.rows.compared import arrayed
from kscope.fixes.rows.function import Function, function
from kscope.fixes.rows.loaded import loaded
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

PLAYED = (3, 70)  # blocks: parts of several rounds, and parts that have none
THREADS, EACH, MOST = 512, 4, 512  # of a block; elements of each; blocks, for each thread takes one's sum
BLOCKS = 4  # an SM, which fill it (judged)
LEAST = 1 << 15  # elements that a second launch is worth (judged)
NOBODY = -1
KINDS = {"float": "float", "int": "int", "unsigned": "unsigned", "double": "double", "uint": "unsigned"}
OWN = set("v i part carry base units per from lower total far left upto sum w".split())
BEFORE = """{{
  {t} upto = v;
  for (int far = 1; far < 32; far *= 2) {{
    {t} left = __shfl_up_sync(~0u, upto, far);
    if (threadIdx.x % 32 >= far) upto += left;
  }}
  {t} lower = __shfl_up_sync(~0u, upto, 1);
  __syncthreads();
  if (threadIdx.x % 32 == 31) part[threadIdx.x / 32] = upto;
  __syncthreads();
  {t} sum = threadIdx.x % 32 ? lower : 0;
  for (int w = 0; w < {warps}; w++) if (w < threadIdx.x / 32) sum += part[w];
  return sum;
}}"""
RANGE = """  __shared__ {t} part[{warps}];
  const long long units = {units}, per = (units + {blocks} * {threads} - 1) / ({blocks} * {threads}) * {threads};
  const long long from = per * blockIdx.x;"""
SUM = """{{
{range}
  {t} sum = 0, total = 0;
  #pragma unroll 4
  for (long long i = from + threadIdx.x; i < from + per; i += {threads}) {{ {load} sum += {all}; }}
  {name}_before(sum, part);
  for (int w = 0; w < {warps}; w++) total += part[w];
  if (threadIdx.x == 0) {name}_sums[blockIdx.x] = total;
}}"""
PARTS = """{{
{range}
  {t} carry = 0, lower = {name}_before(threadIdx.x < blockIdx.x ? {name}_sums[threadIdx.x] : 0, part);
  for (int w = 0; w < {warps}; w++) carry += part[w];
  for (long long i = from + threadIdx.x; i < from + per; i += {threads}) {{
    {load} {joined}
    {t} base = carry + {name}_before({last}, part);
    {store}
    for (int w = 0; w < {warps}; w++) carry += part[w];
  }}
}}"""
CODE = """// prefix sums: in place of {old}, one behind the other in one stream
__device__ {t} {name}_sums[{blocks}];  // of each block's part
// what a block's threads before this one have; part holds the sums of its warps afterwards
__device__ __forceinline__ {t} {name}_before({t} v, {t}* part) {before}
__global__ void __launch_bounds__({threads}) {name}_sum({parameters}) {sum}
__global__ void __launch_bounds__({threads}) {name}_parts({parameters}) {parts}
// launch, both with what {name} takes: {name}_sum<<<{blocks}, {threads}>>>(...);
// {name}_parts<<<{blocks}, {threads}>>>(...);"""


class Prefix(Struct, frozen=True):
    """y = sums of x up to each element, or `exclusive`: in front of it. `kind`: type of both; `size`: name of how many
    of it there are. `compared`: results."""

    x: str
    y: str
    kind: str
    size: str
    exclusive: bool
    compared: int

    @property
    def element(self) -> str:
        return KINDS[self.kind.rstrip("234")]

    @property
    def width(self) -> int:
        return VECTORS.get(self.kind, 1)


class Read(Struct, frozen=True):
    """A kernel that makes prefix sums: `many` loads of lanes, of `bytes_` each."""

    fn: Function
    found: Prefix
    many: float
    bytes_: int


def read(asked: Asked) -> Read | None:
    """None where a kernel is something else than prefix sums by one block, or too few of them."""
    setting, launch = asked.setting, asked.setting.launch
    fn = function(setting)
    if fn is None or fn.call is not None or launch is None or launch.blocks > 1 or launch.threads != launch.block[0]:
        return None
    if not setting.sms or len(fn.numbers) != 1 or fn.values or OWN & {*fn.pointers, *fn.numbers}:
        return None
    many, bytes_ = _loaded(setting, fn)
    found = prefix(fn, launch.threads, numbers(setting, fn), functions(setting.lines(fn.file), fn.body))
    return Read(fn, found, many, bytes_) if found is not None and many * found.width >= LEAST else None


def conditions(found: Prefix, same: int, how: str) -> tuple[list[Condition], list[Condition]]:
    """What was shown of the sums and of the new text, and what only the reader knows."""
    where = "in front of each element" if found.exclusive else "up to each element"
    shown = [
        proved(f"{found.y} = the sums of {found.x} {where}", "values", found.compared,
               "the kernel played on numbers of any size and sign, in several lengths, every result compared"),
        proved("the new code makes the same", "values", same, how),
    ]  # fmt: skip
    left = [Condition(holds=f"{found.x} and {found.y} are one array or do not overlap", state="check",
                      why="a block stores where it has loaded")]  # fmt: skip
    if found.element in ("float", "double"):
        why = "parts of floats round differently"
        left.append(Condition(holds="the order of the sums does not matter", state="check", why=why))
    return shown, left


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, one = asked.setting, asked.setting.launch, read(asked)
    if one is None or launch is None:
        return []
    fn, found, many = one.fn, one.found, one.many
    blocks = min(BLOCKS * setting.sms, MOST)
    texts = written(found, fn, blocks)
    tried = [_same(found, fn, few, written(found, fn, few)) for few in PLAYED]
    if not all(tried):
        return []
    how = f"played likewise with {PLAYED[0]} and {PLAYED[1]} blocks, lengths that end anywhere"
    shown, left = conditions(found, sum(tried), how)
    return [
        Fix(
            kind="tile",
            title=f"prefix sums by {blocks} blocks: sums of their parts, then a scan of each behind those before it",
            language="cuda",
            code=texts["code"],
            parameters={"grid.x": blocks, "block.x": THREADS, "launches": 2},
            conditions=[
                *shown,
                Condition(holds="both are launched in one stream, and in no other one meanwhile", state="check",
                          why=f"{fn.name}_sums is one array"),
                *left,
            ],
            proof=[
                Proof(what="SMs that have a block", before=1, after=min(blocks, setting.sms), unit="SMs",
                      how=f"{blocks} blocks, at most one an SM"),
                Proof(what=f"{one.bytes_}-byte loads of a thread, behind each other",
                      before=round(many / launch.threads), after=max(2, round(2 * many / (blocks * THREADS))),
                      how="the array is loaded twice"),
            ],
            costs=["the array is loaded twice", "a second launch", f"{blocks} words of global memory"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _loaded(setting: Setting, fn: Function) -> tuple[float, int]:
    """Loads of lanes in the kernel, of the array that most are of, and their bytes."""
    lanes = getattr(setting.code, "threads", None)
    last = fn.first + fn.code.count("\n")
    return loaded(setting.code, fn.file, range(fn.first, last + 1), lanes) if lanes is not None else (0.0, 4)


def prefix(fn: Function, block: int, known: Mapping[str, int], called: Mapping[str, Called]) -> Prefix | None:
    """What a kernel makes of its arrays, if it is that."""
    kinds = {name: kind for name, kind in fn.pointers.items() if kind.rstrip("234") in KINDS}
    if kinds.keys() != fn.pointers.keys():
        return None
    found: set[tuple[str, str, bool]] = set()
    compared, played = 0, list[str]()
    every = tried(set(kinds.values()))
    for way, times, more in every:
        size = times * block + more
        before = arrays(way, kinds, size)
        memory = {name: cells.copy() for name, cells in before.items()}
        rules = Rules(literals="real" if way == "parts" else "drawn", races=True, kinds=fn.kinds, functions=called)
        try:
            play(arrayed(fn.body), (1, 1), (block, 1), memory, {**known, fn.numbers[0]: size}, rules)
        except Unplayable:
            continue
        made = _made(fn, before, memory, size)
        if made is None or (found and made not in found):
            return None
        found.add(made)
        played, compared = [*played, way], compared + size * VECTORS.get(fn.pointers[made[1]], 1)
    if played.count("near") < 2 or {way for way, *_ in every} - set(played):
        return None
    ((x, y, exclusive),) = found
    return Prefix(x, y, fn.pointers[x], fn.numbers[0], exclusive, compared)


def _made(
    fn: Function, before: Mapping[str, Any], after: Mapping[str, Any], size: int
) -> tuple[str, str, bool] | None:  # fmt: skip
    """(x, y, whether y is what stands in front of each element) of the one array that changed."""
    changed = [name for name in before if (before[name] != after[name]).any()]
    if len(changed) != 1:
        return None
    (y,) = changed
    many = size * VECTORS.get(fn.pointers[y], 1)
    if many > CELLS or (before[y][many:] != after[y][many:]).any():
        return None
    for x, kind in fn.pointers.items():
        sums = np.cumsum(before[x][:many])
        if kind != fn.pointers[y] or x == y:
            continue
        for exclusive, wanted in ((False, sums), (True, sums - before[x][:many])):
            if np.array_equal(after[y][:many], held(kind, wanted)):
                return x, y, exclusive
    return None


def given(fn: Function) -> str:
    """The kernel's parameters, as they stand there."""
    head = re.split(rf"\b{re.escape(fn.name)}\s*\(", fn.code[: fn.opened], maxsplit=1)[1]
    return " ".join(head.rsplit(")", 1)[0].split())


def unit(found: Prefix, v: str, declared: str = "") -> dict[str, str]:
    """What is done with the elements that a thread takes at once, of number i. declared: `v`'s declaration, where it
    does not stand in front."""
    n, x, y = found.size, found.x, found.y
    parts = [f"{v}.{letter}" for letter in LETTERS[: found.width]]
    if found.width > 1:
        units, load = n, f"{declared}if (i < units) {v} = {x}[i];"
    else:
        parts = [f"{v}[{e}]" for e in range(EACH)]
        units = f"({n} + {EACH - 1}) / {EACH}"
        load = declared + " ".join(
            f"{p} = i * {EACH} + {e} < {n} ? {x}[i * {EACH} + {e}] : 0;" for e, p in enumerate(parts)
        )
    joined = " ".join(f"{parts[e]} += {parts[e - 1]};" for e in range(1, len(parts)))
    values = [f"{p} + base" for p in parts]
    if found.exclusive:
        values = ["base", *values[:-1]]
    if found.width > 1:
        store = f"if (i < units) {y}[i] = make_{found.kind}({', '.join(values)});"
    else:
        store = " ".join(f"if (i * {EACH} + {e} < {n}) {y}[i * {EACH} + {e}] = {v};" for e, v in enumerate(values))
    return {"units": units, "load": load, "all": " + ".join(parts), "joined": joined, "last": parts[-1], "store": store}


def written(found: Prefix, fn: Function, blocks: int) -> dict[str, str]:
    """The new code, and the bodies of which it is made."""
    t = found.element
    own = f"{found.kind} v = {{}}; " if found.width > 1 else f"{t} v[{EACH}]; "
    names = {
        "t": t, "name": fn.name, "old": fn.name, "warps": THREADS // 32, "threads": THREADS, "blocks": blocks,
        "parameters": given(fn), **unit(found, "v", own),
    }  # fmt: skip
    names["range"] = RANGE.format(**names)
    bodies = {"before": BEFORE.format(**names), "sum": SUM.format(**names), "parts": PARTS.format(**names)}
    return {**bodies, "code": CODE.format(**names, **bodies)}


def _same(found: Prefix, fn: Function, blocks: int, texts: Mapping[str, str]) -> int:
    """Results of the new kernels that were compared, if all are right."""
    compared, scratch = 0, f"{fn.name}_sums"
    called: dict[str, Called] = {f"{fn.name}_before": (("v", "part"), texts["before"])}
    for size in (THREADS + 37, CELLS // found.width - 5):
        memory = {name: drawn(name, size) for name in fn.pointers}
        x, y = memory[found.x].copy(), memory[found.y].copy()
        memory[scratch] = np.full(blocks, NOBODY, dtype=np.int64)
        rules = Rules(literals="drawn", races=True, kinds={**fn.kinds, scratch: found.element}, functions=called)
        try:
            for part in ("sum", "parts"):
                play(texts[part], (blocks, 1), (THREADS, 1), memory, {found.size: size}, rules)
        except Unplayable:
            return 0
        many = size * found.width
        sums = np.cumsum(x[:many]) - (x[:many] if found.exclusive else 0)
        if not np.array_equal(memory[found.y][:many], sums) or (memory[found.y][many:] != y[many:]).any():
            return 0
        compared += many
    return compared
