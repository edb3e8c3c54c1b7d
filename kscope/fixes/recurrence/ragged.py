"""Runs of rows of very different lengths, one a block, that lie one behind the other: every block takes as many rows,
of whichever runs they are, and adds what it has of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, plain
from kscope.fixes.order.whole import indented
from kscope.fixes.recurrence.linear import bare
from kscope.fixes.recurrence.rewritten import CELLS, Side, alike, edits, numbers, sized
from kscope.fixes.recurrence.serial import Serial, Update, serial
from kscope.fixes.rows.function import Function
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

ADDED = ("float", "double", "int", "unsigned", "unsigned int")  # that atomicAdd takes
MOST = "instructions of the SM that executes most over the mean"  # the finding's (GRD403)
NAMED = 3  # names for names that are looked up
AT_ONCE = 16  # values of a thread that are on their way while as many are added (judged)
TILE = 64  # rows of a block, at least: runs are looked up for so many at a time (judged)
RUNS = 6  # that are played
WAVES = 2  # of blocks that the device should have, so that none waits for another (judged)
PLACES = 256  # that whole numbers in arrays lead to
MEANS, SHORT = (2, 40, 150), (1, 2)  # rows of a run that is played, and where there are more than threads
_STORE = re.compile(r"\s*(?P<name>\w+)\s*\[(?P<at>[^;=]*)\]\s*=(?!=)\s*(?P<value>\w+)\s*;")
_NEXT = re.compile(r"(?P<array>\w+)\[blockIdx\.x\]")


class Runs(Struct, frozen=True):
    """`array`: where runs begin. `stores`: arrays, places and sums of what a block stores behind its loop."""

    one: Serial
    array: str
    stores: tuple[tuple[str, str, str], ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, held = asked.setting, asked.setting.launch, asked.setting.occupancy()
    one = serial(setting)
    found = runs(one) if one is not None else None
    if found is None or launch is None or held is None or max(launch.grid[1:]) > 1 or not setting.sms:
        return []
    fn, code = found.one.fn, setting.code
    more = max(1, round(WAVES * held.blocks * setting.sms / launch.grid[0]))
    compared = _played(found, more, launch.block, sized(fn, numbers(setting, fn), launch.threads, launch.block[0]))
    uneven = next((e.value for e in asked.finding.evidence if e.metric == MOST), None)
    if not compared or not isinstance(uneven, (int, float)):
        return []
    outs, fractions = sorted({name for name, _, _ in found.stores}), set(found.one.states.values()) & {*FLOATS}
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    zero = "".join(f"// {name} is zero before: cudaMemsetAsync({name}, 0, bytes)\n" for name in outs)
    grid = f"dim3({launch.grid[0]}, {more})" if more > 1 else str(launch.grid[0])
    return [
        Fix(
            kind="lane_mapping",
            title="as many rows for every block, of whichever runs they are, and added to their sums",
            language="cuda",
            code=f"{zero}// launch: {setting.name}<<<{grid}, dim3{launch.block}>>>(...)",
            edits=edits(setting, fn, spans(found)),
            parameters={"grid.y": more},
            conditions=[
                proved(f"every result is the same{' but for rounding' if fractions else ''}", "values", compared,
                       "both versions played on numbers, with runs of random lengths, empty ones too; no races"),
                reads("nothing but the sums is carried from row to row", "the loop's text taken apart"),
                Condition(holds=f"{found.array} never goes down", state="check",
                          why="each run begins where the one before it ends: blocks look for theirs in it"),
                *(Condition(holds=f"{name} is zero before the launch", state="check", why="parts are added to it")
                  for name in outs),
                *not_written(code, loads),
                *([Condition(holds="the order in which a sum is added up does not matter", state="check",
                             why="parts of floats round differently")] if fractions else []),
            ],
            proof=[
                Proof(what=MOST, before=uneven, after=1, how="every block has as many rows, but for the last one"),
            ],
            costs=["sums in another order from run to run",
                   f"a search in {found.array} for each block, two barriers for {TILE} rows"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def runs(one: Serial) -> Runs | None:
    """What a kernel is whose blocks each sum up `array[blockIdx.x]` to `array[blockIdx.x + 1]`."""
    fn, loop = one.fn, one.loop
    start, end = (_put_in(side, fn.body) for side in (loop.start, loop.end))
    begins = _NEXT.fullmatch(start)
    if begins is None or end != f"{begins['array']}[blockIdx.x+1]" or one.stores or one.moved or one.factored:
        return None
    if one.was is not fn:
        return None
    if any(kind not in ADDED for kind in one.states.values()):
        return None
    if re.search(r"\breturn\b|\bblockIdx\.y|\bgridDim\b", fn.body):
        return None
    if fn.pointers.get(begins["array"]) in (None, *FLOATS):
        return None
    stores = _stores(fn, one.tail)
    if not stores or sorted(s for _, _, s in stores) != sorted(one.states) or not _zero(one):
        return None
    return Runs(one, begins["array"], stores)


def _put_in(expression: str, text: str) -> str:
    """With the names in it that stand for others, and what these stand for."""
    for _ in range(NAMED):
        expression = plain(expression, text)
    return expression


def _zero(one: Serial) -> bool:
    return all(re.search(rf"\b{s}\s*=\s*0(?:\.0*)?f?\s*[,;]", one.head) for s in one.states)


def _stores(fn: Function, tail: str) -> tuple[tuple[str, str, str], ...]:
    """What the end of a kernel stores, if it does nothing else."""
    out, at = [], 0
    while tail[at:].strip():
        match = _STORE.match(tail, at)
        if match is None or match["name"] not in fn.pointers or len(re.findall(rf"\b{match['name']}\b", fn.body)) > 1:
            return ()
        out.append((match["name"], match["at"].strip(), match["value"]))
        at = match.end()
    return tuple(out)


def spans(found: Runs) -> list[Span]:
    one, fn, array = found.one, found.one.fn, found.array
    kind = one.loop.kind
    inner = _together(found) or f"{_search(array)}\n  {_one_by_one(found)}"
    text = (
        "{\n"
        "  const int runs_n = gridDim.x, blocks_n = runs_n * gridDim.y, threads_n = blockDim.x * blockDim.y;\n"
        "  const int thread_n = threadIdx.y * blockDim.x + threadIdx.x;\n"
        f"  const {kind} first_n = {array}[0], rows_n = {array}[runs_n] - first_n;\n"
        f"  const {kind} per_n = ((rows_n + blocks_n - 1) / blocks_n + {TILE - 1}) / {TILE} * {TILE};\n"
        f"  const {kind} from_n = first_n + per_n * ({kind})(blockIdx.y * runs_n + blockIdx.x);\n"
        f"  const {kind} to_n = from_n + per_n < first_n + rows_n ? from_n + per_n : first_n + rows_n;\n"
        "  if (from_n >= to_n) return;\n"
        f"  int run_n = 0;\n  {inner}\n}}"
    )
    return [(fn.opened, len(fn.code), indented(text))]


def _search(array: str) -> str:
    """The run that a block's first row is of: as many places are looked at in a round as it has threads."""
    return (
        "for (int behind_n = runs_n; behind_n - run_n > 1;) {\n"
        "    const int skip_n = (behind_n - run_n + threads_n - 1) / threads_n, "
        "probe_n = run_n + (thread_n + 1) * skip_n;\n"
        f"    run_n += skip_n * __syncthreads_count(probe_n < behind_n && {array}[probe_n] <= from_n);\n"
        "    behind_n = run_n + skip_n < behind_n ? run_n + skip_n : behind_n;\n  }"
    )


def _added(found: Runs) -> str:
    """What adds a block's sums to those of a run."""
    add = " ".join(f"atomicAdd(&{name}[{at}], {s});" for name, at, s in found.stores)
    return re.sub(r"\bblockIdx\.x\b", "run_n", add)


def _together(found: Runs) -> str:
    """Rows of all runs in one loop, many of them on their way while others are added, or their runs looked up; "" where
    what a row adds depends on its run."""
    one, loop, array = found.one, found.one.loop, found.array
    kind, updates = loop.kind, [r for r in one.rounds if isinstance(r, Update)]
    own = re.sub(rf"(?<![\w.])(?:{loop.start}|{loop.end})\s*=\s*{array}\s*\[[^][]*\]", "", one.head)
    if len(updates) != len(one.rounds) or not all(re.fullmatch(r"\w+", side) for side in (loop.start, loop.end)):
        return ""
    asks = " ".join([*(u.form.rest for u in updates), *(at for _, at, _ in found.stores)])
    if "blockIdx" in own + "".join(u.form.rest for u in updates):
        return ""
    if re.search(rf"(?<![\w.])(?:{loop.start}|{loop.end})\b", asks):
        return ""
    head = re.sub(r"\s*\n\s*", " ", re.sub(r"\bblockIdx\.x\b", "run_n", one.head).strip())
    many = 1 << max(1, AT_ONCE // len(updates)).bit_length() - 1  # of which a tile has a multiple
    values = [f"{one.states[u.form.state]} value{n}_n[{many}], next{n}_n[{many}];" for n, u in enumerate(updates)]

    def load(to: str, at: str) -> str:
        """Without tests, as long as all of them are there."""
        first, each_ = f"const {kind} {loop.name} = {at} + step_n;", f"#pragma unroll\n      {each}"
        of = [(f"{to}{n}_n[step_n]", bare(u.form.rest)) for n, u in enumerate(updates)]
        whole = " ".join(f"{value} = {rest};" for value, rest in of)
        some = " ".join(f"{value} = {loop.name} < to_n ? {rest} : 0;" for value, rest in of)
        return (
            f"if ({at} + {many} <= to_n) {{\n      {each_} {{ {first} {whole} }}\n"
            f"    }} else {{\n      {each_} {{ {first} {some} }}\n    }}"
        )

    add = [f"{u.form.state} += value{n}_n[step_n];" for n, u in enumerate(updates)]
    keep = [f"value{n}_n[step_n] = next{n}_n[step_n];" for n, _ in enumerate(updates)]
    zero = " ".join(f"{s} = 0;" for s in one.states)
    each = f"for (int step_n = 0; step_n < {many}; step_n++)"
    return (
        f"__shared__ int run_of_n[{TILE}];\n  {head}\n  {' '.join(values)}\n"
        f"  {load('value', 'from_n')}\n  {_search(array)}\n"
        f"  for ({kind} tile_n = from_n; tile_n < to_n; tile_n += {TILE}) {{\n"
        f"    const {kind} stop_n = tile_n + {TILE} < to_n ? tile_n + {TILE} : to_n;\n"
        f"    for (int of_n = run_n + thread_n; of_n < runs_n && {array}[of_n] < stop_n; of_n += threads_n) {{\n"
        f"      const {kind} begin_n = {array}[of_n] > tile_n ? {array}[of_n] : tile_n;\n"
        f"      const {kind} end_n = {array}[of_n + 1] < stop_n ? {array}[of_n + 1] : tile_n + {TILE};\n"
        f"      for ({kind} row_n = begin_n; row_n < end_n; row_n++) run_of_n[row_n - tile_n] = of_n;\n"
        "    }\n    __syncthreads();\n"
        f"    for ({kind} at_n = tile_n; at_n < stop_n; at_n += {many}) {{\n"
        f"    {load('next', f'at_n + {many}')}\n"
        f"      #pragma unroll\n      {each} {{\n        const int of_n = run_of_n[at_n - tile_n + step_n];\n"
        f"        if (of_n != run_n) {{ {_added(found)} {zero} run_n = of_n; }}\n"
        f"        {' '.join(add)}\n      }}\n"
        f"      #pragma unroll\n      {each} {{ {' '.join(keep)} }}\n    }}\n"
        f"    __syncthreads();\n  }}\n  {_added(found)}"
    )


def _one_by_one(found: Runs) -> str:
    """Each run's rows in a loop as it was, cut to the block's."""
    one, loop, kind = found.one, found.one.loop, found.one.loop.kind
    unroll = one.fn.code[one.start : loop.span[0]].strip()
    parts = [
        re.sub(r"\s*\n\s*", " ", one.head.strip()),
        f"const {kind} begin_n = {loop.start} > from_n ? {loop.start} : from_n, "
        f"end_n = {loop.end} < to_n ? {loop.end} : to_n;",
        unroll,
        f"for ({kind} {loop.name} = begin_n; {loop.name} < end_n; {loop.name}++) "
        f"{one.fn.code[slice(*loop.body)].strip()}",
        f"if (begin_n < end_n) {{ {_added(found)} }}",
    ]  # fmt: skip
    inner = re.sub(r"\bblockIdx\.x\b", "run_n", "\n    ".join(part for part in parts if part))
    return f"for (; run_n < runs_n && {found.array}[run_n] < to_n; run_n++) {{\n    {inner}\n  }}"


def _played(found: Runs, more: int, block: Sequence[int], known: dict[str, int]) -> int:
    fn = found.one.fn
    shape = (block[0], block[1] * block[2])
    if block[2] > 1:
        return 0
    (_, _, new), compared = spans(found)[0], 0
    for many, sizes in ((RUNS, MEANS), (block[0] * block[1] + RUNS, SHORT)):  # fewer than threads look for, and more

        def drawn(name: str, kind: str, size: int, many: int = many) -> Any:
            made = np.random.default_rng([size, *map(ord, name)])
            if name == found.array:
                return np.pad(np.cumsum(made.integers(0, 2 * size + 1, many + 1)), (0, CELLS - many - 1))
            if name in {to for to, _, _ in found.stores}:
                return np.zeros(CELLS, dtype=np.int64)
            return made.integers(1, 1 << 20 if kind in FLOATS else PLACES, CELLS)

        sides = Side(fn.body, (many, 1), shape), Side(new, (many, more), shape)
        same = alike(fn, *sides, (), known, sizes=sizes, drawn=drawn)
        if not same:
            return 0
        compared += same
    return compared
