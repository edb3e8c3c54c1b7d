"""Prefix sums of an array by one block: one kernel of the same parameters by the whole device, each of whose blocks
makes the sums of a part and waits for what the parts before it come to (decoupled look-back: Merrill, Garland 2016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kscope.fixes.given.called import Function as Called
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked
from kscope.fixes.recurrence.draws import CELLS, drawn
from kscope.fixes.recurrence.prefix import BEFORE, EACH, THREADS, Prefix, conditions, given, read, unit
from kscope.fixes.rows.function import Function
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

ROWS = (4, 2, 1)  # units of a thread: the more, the fewer parts wait for each other
FILLS = 1  # part for each SM that must be left: more of them wait for more (judged)
ROOM = 2  # times the launch's parts that the arrays hold, at least (judged)
LEAST = 1024  # of them
FEW = 32  # threads of a block that is played, so that parts wait for more of them than it has threads
EACH_ALONE = 16  # blocks at most that are played one by one, too (judged: a play each)
OWN = set("tile half own upto at e lower before word state total".split())
FROM = {"float": ("__float_as_uint({})", "__uint_as_float({})"), "int": ("(unsigned)({})", "(int)({})"),
        "unsigned": ("{}", "{}")}  # fmt: skip
"""A sum as bits of a word, and back."""

BODY = """{{
  __shared__ {t} part[{warps}];
  __shared__ int own[3];
  if (threadIdx.x == 0) {{ own[0] = {name}_turn[1]; __threadfence(); own[1] = atomicAdd(&{name}_turn[0], 1); }}
  __syncthreads();
  const int half = own[0], tile = own[1];
  volatile unsigned long long* state = {name}_state + half * {room};
  for (int at = tile * {threads} + threadIdx.x; at < {room}; at += gridDim.x * {threads}) {name}_state[(1 - half) * {room} + at] = 0;
  const long long units = {units}, from = (long long)tile * {tile} + threadIdx.x;
  {declared} {t} lower[{rows}], total = 0, before = 0;
  #pragma unroll
  for (int e = 0; e < {rows}; e++) {{ const long long i = from + e * {threads}; {load} }}
  #pragma unroll
  for (int e = 0; e < {rows}; e++) {{
    {joined}
    lower[e] = total + {name}_before({last}, part);
    for (int w = 0; w < {warps}; w++) total += part[w];
  }}
  if (threadIdx.x == 0) state[tile] = (unsigned long long)(tile ? 1 : 2) << 32 | {total_bits};
  for (int at = tile - 1 - threadIdx.x; ; at -= {threads}) {{
    if (threadIdx.x == 0) own[2] = {threads};
    unsigned long long word = at < 0 ? 2ull << 32 : 0;
    while (word == 0) word = state[at];
    __syncthreads();
    if (word >> 33) atomicMin(&own[2], (int)threadIdx.x);
    __syncthreads();
    const int upto = own[2];
    {name}_before((int)threadIdx.x <= upto ? {value} : 0, part);
    for (int w = 0; w < {warps}; w++) before += part[w];
    if (upto < {threads}) break;
  }}
  if (threadIdx.x == 0) {{
    if (tile) state[tile] = 2ull << 32 | {sum_bits};
    if (tile == gridDim.x - 1) {{ {name}_turn[0] = 0; {name}_turn[1] = 1 - half; }}
  }}
  #pragma unroll
  for (int e = 0; e < {rows}; e++) {{ const long long i = from + e * {threads}; const {t} base = before + lower[e]; {store} }}
}}"""  # noqa: E501
CODE = """// prefix sums: in place of {name}
__device__ unsigned {name}_turn[2];  // the next part, and which half of the words is in use: as each launch leaves them
__device__ unsigned long long {name}_state[2 * {room}];  // of each part its sum (1), or that of all up to it (2)
// what a block's threads before this one have; part holds the sums of its warps afterwards
__device__ __forceinline__ {t} {name}_before({t} v, {t}* part) {before}
__global__ void __launch_bounds__({threads}) {name}_parts({parameters}) {body}
// launch, with what {name} takes: {name}_parts<<<({size} + {less}) / {each}, {threads}>>>(...);"""


def fixes(asked: Asked) -> list[Fix]:
    one, setting, launch = read(asked), asked.setting, asked.setting.launch
    if one is None or launch is None or one.found.element not in FROM or OWN & {*one.fn.pointers, *one.fn.numbers}:
        return []
    fn, found = one.fn, one.found
    units = one.many if found.width > 1 else one.many / EACH
    rows = next((n for n in ROWS if units >= n * THREADS * FILLS * setting.sms), 1)
    tiles = -int(-units // (rows * THREADS))
    room = max(LEAST, 1 << (ROOM * tiles - 1).bit_length())
    tried = [same(found, fn, threads, rows) for threads in (THREADS, FEW)]
    if not all(tried):
        return []
    elements = rows * THREADS * (found.width if found.width > 1 else EACH)
    shown, left = conditions(found, sum(tried), "played likewise, with parts all at once, one by one in another order, "
                             "and some at a time")  # fmt: skip
    fractions = ["floats may differ from run to run"] if found.element == "float" else []
    return [
        Fix(
            kind="tile",
            title=f"prefix sums in one pass: {tiles} blocks, each waits for what the parts before its own come to",
            language="cuda",
            code=written(found, fn, THREADS, rows, room)["code"],
            parameters={"grid.x": tiles, "block.x": THREADS},
            conditions=[
                *shown,
                Condition(holds=f"every launch has 1 to {room} parts of {elements} elements", state="check",
                          why=f"{fn.name}_state has a word for each"),
                Condition(holds="no two launches of it run at a time", state="check",
                          why=f"{fn.name}_state is one array: launch it in one stream"),
                *left,
            ],
            proof=[
                Proof(what="SMs that have a block", before=1, after=min(tiles, setting.sms), unit="SMs",
                      how=f"{tiles} blocks, at most one an SM"),
                Proof(what=f"{one.bytes_}-byte loads of a thread, behind each other",
                      before=round(one.many / launch.threads), after=rows, how="each element is loaded once"),
            ],
            costs=[f"{16 * room} bytes of global memory", "blocks wait for each other", *fractions],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def written(found: Prefix, fn: Function, threads: int, rows: int, room: int) -> dict[str, str]:
    """The new code, and the bodies of which it is made."""
    t, size = found.element, found.size
    each = threads * rows * (1 if found.width > 1 else EACH)
    to, back = FROM[t]
    names = {
        "t": t, "name": fn.name, "warps": threads // 32, "threads": threads, "rows": rows, "room": room,
        "tile": threads * rows, "size": size, "each": each, "less": each - 1, "parameters": given(fn),
        "declared": f"{found.kind} v[{rows}] = {{}};" if found.width > 1 else f"{t} v[{rows}][{EACH}];",
        "total_bits": to.format("total"), "sum_bits": to.format("before + total"),
        "value": back.format("(unsigned)(word & 0xffffffffu)"), **unit(found, "v[e]"),
    }  # fmt: skip
    if t == "unsigned":
        names |= {"sum_bits": "(unsigned)(before + total)"}
    bodies = {"before": BEFORE.format(**names), "body": BODY.format(**names)}
    return {**bodies, "code": CODE.format(**names, **bodies)}


def same(found: Prefix, fn: Function, threads: int, rows: int, texts: Mapping[str, str] | None = None) -> int:
    """Results of launches one behind the other that were compared, if all are right, and each leaves things ready for
    the next; texts: for those that are written."""
    many = CELLS // found.width - 5
    tile = threads * rows * (1 if found.width > 1 else EACH)
    tiles = -(-many // tile)
    texts = texts or written(found, fn, threads, rows, tiles + 3)
    state, turn = f"{fn.name}_state", f"{fn.name}_turn"
    memory = {name: drawn(name, many) for name in fn.pointers}
    x = memory[found.x][: many * found.width].copy()
    sums = np.cumsum(x) - (x if found.exclusive else 0)
    memory |= {state: np.zeros(2 * (tiles + 3), dtype=np.int64), turn: np.zeros(2, dtype=np.int64)}
    back = list(range(tiles))[::-1]
    third = -(-tiles // 3)
    at_once = [back[n : n + third] for n in range(0, tiles, third)]
    compared = 0
    for schedule in ([back], at_once, [[n] for n in back[: tiles if tiles <= EACH_ALONE else 0]], [list(range(tiles))]):
        y = memory[found.y] = drawn("again", many)
        was, before = y.copy(), int(memory[turn][1])
        if not schedule:
            continue
        if not _ran(fn, texts, (tiles, threads), memory, {found.size: many}, schedule, found):
            return 0
        half = int(memory[turn][1])
        ready = not memory[turn][0] and half != before and not memory[state].reshape(2, -1)[half].any()
        if not ready or not np.array_equal(y[: len(x)], sums) or (y[len(x) :] != was[len(x) :]).any():
            return 0
        compared += len(x)
    return compared


def _ran(
    fn: Function, texts: Mapping[str, str], launch: tuple[int, int], memory: dict[str, np.ndarray],
    numbers: Mapping[str, int], schedule: Sequence[Sequence[int]], found: Prefix,
) -> bool:  # fmt: skip
    """Whether a launch could be played whose blocks come as a schedule says: those of an entry at a time."""
    called: dict[str, Called] = {f"{fn.name}_before": (("v", "part"), texts["before"])}
    kinds = {**fn.kinds, f"{fn.name}_state": "unsigned long long", f"{fn.name}_turn": "unsigned"}
    for some in schedule:
        rules = Rules(literals="drawn", races=True, kinds=kinds, functions=called, only=tuple(some), tickets=True,
                      handed=(f"{fn.name}_state", f"{fn.name}_turn"), opaque=())  # fmt: skip
        try:
            play(texts["body"], (launch[0], 1), (launch[1], 1), memory, numbers, rules)
        except Unplayable:
            return False
    return True
