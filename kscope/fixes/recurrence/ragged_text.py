"""The text of blocks that take as many rows each, of whichever runs they are."""

from __future__ import annotations

import re

from kscope.fixes.given.text import Span, indented
from kscope.fixes.recurrence.linear import bare
from kscope.fixes.recurrence.ragged_parts import LARGEST, Runs, Shared, finished, own, parts, words
from kscope.fixes.recurrence.ragged_parts import shared as taken
from kscope.fixes.recurrence.serial import Update

AT_ONCE = 8  # values of a thread that are on their way while as many are added (measured: ragged rows on an H200)
TILE = 64  # rows of a block, at least: runs are looked up for so many at a time (judged)
FEW = TILE  # runs that are looked through for the first one of a block, by as many threads (judged)
ROUNDS = 32  # of a search among them: each leaves half of them or less
FENCE = 'asm volatile("fence.acq_rel.gpu;" ::: "memory");'  # less than __threadfence() (measured: H200)
ADD = "atomicAdd(&{to}, {value});"


def spans(found: Runs, room: tuple[int, int]) -> list[Span]:
    """What is put into the head, where it gets a parameter, and the body. room: blocks of how many threads there are
    words for."""
    fn, shared = found.one.fn, taken(found)
    head = fn.code.rfind(")", 0, fn.opened)
    text = _together(found, shared, room) if shared is not None else _alone(found)
    return [*([(head, head, ", int runs_n")] if shared is not None else []),
            (fn.opened, len(fn.code), indented(text))]  # fmt: skip


def _rows(found: Runs, block: str) -> str:
    """Which rows are a block's."""
    kind = found.one.loop.kind
    return f"""const {kind} per_n = rows_n <= ({kind})blocks_n * {TILE} ? {TILE} : ((rows_n + blocks_n - 1) / blocks_n + {AT_ONCE - 1}) / {AT_ONCE} * {AT_ONCE};
const long long ahead_n = (long long)per_n * {block};
const {kind} from_n = first_n + (ahead_n < rows_n ? ({kind})ahead_n : rows_n);
const {kind} to_n = first_n + rows_n - from_n > per_n ? from_n + per_n : first_n + rows_n;"""  # noqa: E501


def _front(found: Runs, room: tuple[int, int], look: str) -> str:
    """Which rows are a block's, and the first look for the run that they begin in, which goes on meanwhile."""
    kind, array, (blocks, threads) = found.one.loop.kind, found.array, room
    return f"""const int threads_n = blockDim.x * blockDim.y, thread_n = threadIdx.y * blockDim.x + threadIdx.x;
const int most_n = threads_n <= {threads} ? {blocks} : {words(room) // LARGEST};
const int blocks_n = gridDim.x < most_n ? gridDim.x : most_n;
const {kind} first_n = {array}[0], rows_n = {array}[runs_n] - first_n;
const int each_n = (runs_n + {threads - 1}) / {threads}, skip_n = each_n > {FEW} ? each_n : {FEW};
const int probe_n = (thread_n + 1) * skip_n;
const {kind} there_n = {array}[probe_n < runs_n ? probe_n : runs_n];
{look}
__shared__ __align__(16) int begins_n[{TILE}];
__shared__ {kind} own_n[4];
__shared__ bool none_of_n[{LARGEST}];
{_rows(found, "blockIdx.x")}"""


def _search(array: str, few: int) -> str:
    """Runs of which one has a block's first row: as many places are looked at in a round as it has threads."""
    return f"""for (int round_n = 0; behind_n - run_n > {few} && round_n < {ROUNDS}; round_n++) {{
const int skip_n = (behind_n - run_n + threads_n - 1) / threads_n, probe_n = run_n + (thread_n + 1) * skip_n;
run_n += skip_n * __syncthreads_count(probe_n < behind_n && {array}[probe_n] <= from_n);
behind_n = run_n + skip_n < behind_n ? run_n + skip_n : behind_n;
}}"""


def _begins(found: Runs) -> str:
    """Where runs begin in a tile; of the first rows' run and the last rows' where these begin and end."""
    kind, array = found.one.loop.kind, found.array
    return f"""{kind} next_n = tile_n;
for (int base_n = run_n; base_n < runs_n && next_n < stop_n; base_n += threads_n) {{
const int of_n = base_n + thread_n;
next_n = {array}[base_n + threads_n < runs_n ? base_n + threads_n : runs_n];
if (of_n < runs_n) {{
const {kind} begin_n = {array}[of_n], end_n = {array}[of_n + 1];
if (begin_n >= tile_n && begin_n < stop_n && begin_n < end_n) begins_n[begin_n - tile_n] = of_n;
if (begin_n >= first_n && begin_n <= from_n && from_n < end_n) {{
own_n[0] = of_n; own_n[1] = begin_n; own_n[2] = end_n;
}}
if (begin_n < to_n && to_n <= end_n) own_n[3] = end_n;
}}
}}"""


def _none(found: Runs, shared: Shared) -> tuple[str, str]:
    """What becomes of runs without rows: threads look for them side by side, with what a block looks up otherwise."""
    array = found.array
    zero = finished(found, shared, "none_n", dict.fromkeys(found.one.states, "0"))
    every = "threads_n * (int)gridDim.x"
    return f"""const int mine_n = blockIdx.x + thread_n * gridDim.x;
const bool any_n = mine_n < runs_n && {array}[mine_n] >= {array}[mine_n + 1];""", f"""none_of_n[thread_n] = any_n;
int many_n = __syncthreads_count(any_n);
for (int base_n = blockIdx.x; base_n < runs_n; base_n += {every}) {{
if (many_n > 0) {{
for (int at_n = 0, none_n = base_n; at_n < threads_n && none_n < runs_n; at_n++, none_n += gridDim.x)
if (none_of_n[at_n]) {zero}
}}
if (base_n + {every} >= runs_n) break;
__syncthreads();
const int further_n = base_n + {every} + thread_n * (int)gridDim.x;
none_of_n[thread_n] = further_n < runs_n && {array}[further_n] >= {array}[further_n + 1];
many_n = __syncthreads_count(none_of_n[thread_n]);
}}"""


def _load(found: Runs, shared: Shared, many: int, at: str) -> str:
    """Values of rows, without tests as long as all of them are there."""
    loop, count = found.one.loop, iter(range(len(shared.rounds)))
    text = " ".join(f"value{next(count)}_n[half_n + step_n] = {bare(r.form.rest)};" if isinstance(r, Update) else r
                    for r in shared.rounds)  # fmt: skip
    zero = " ".join(f"value{n}_n[half_n + step_n] = 0;" for n, _ in enumerate(_updates(shared)))
    each = f"#pragma unroll\nfor (int step_n = 0; step_n < {many}; step_n++)"
    row = f"const {loop.kind} {loop.name} = {at} + step_n;"
    return (
        f"if (to_n - ({at}) >= {many}) {{\n{each} {{ {row} {text} }}\n}} else {{\n"
        f"{each} {{\n{row}\nif (step_n < to_n - ({at})) {{ {text} }} else {{ {zero} }}\n}}\n}}"
    )


def _updates(shared: Shared) -> list[Update]:
    return [r for r in shared.rounds if isinstance(r, Update)]


def _together(found: Runs, shared: Shared, room: tuple[int, int]) -> str:
    """A loop over rows of all runs, many of them on their way while others are added, or their runs looked up."""
    one, kind, sums = found.one, found.one.loop.kind, own(found.one)
    updates = _updates(shared)
    many = 1 << max(1, AT_ONCE // len(updates)).bit_length() - 1  # of which a tile has a multiple
    values = " ".join(f"{one.states[u.form.state]} value{n}_n[{2 * many}];"
                      for n, u in enumerate(updates))  # fmt: skip
    halves = f"#pragma unroll\nfor (int half_n = 0; half_n < {2 * many}; half_n += {many})"
    look, fill = _none(found, shared)
    return f"""{{
{_front(found, room, look)}
{shared.all_} {" ".join(f"{one.states[s]} {name} = 0;" for s, name in sums.items())}
{values}
{halves} {{
{_load(found, shared, many, "from_n + half_n")}
}}
#pragma unroll 1
for (int row_n = thread_n; row_n < {TILE}; row_n += threads_n) begins_n[row_n] = -1;
if (thread_n == 0) {{ own_n[0] = 0; own_n[1] = from_n; own_n[2] = own_n[3] = to_n; }}
int run_n = skip_n * __syncthreads_count(probe_n < runs_n && there_n <= from_n);
int behind_n = run_n + skip_n < runs_n ? run_n + skip_n : runs_n;
{_search(found.array, FEW)}
{kind} slot_n = 0;
bool left_n = false;
for ({kind} tile_n = from_n; tile_n == from_n || tile_n < to_n; tile_n += {TILE}) {{
const {kind} stop_n = to_n - tile_n > {TILE} ? tile_n + {TILE} : to_n;
{_begins(found)}
if (tile_n > from_n) {{ __syncthreads(); }} else {{
{fill}
if (from_n >= to_n) return;
run_n = own_n[0];
left_n = own_n[1] < from_n;
slot_n = (own_n[1] - first_n) / per_n;
}}
for (int at_n = 0; at_n < stop_n - tile_n; at_n += {2 * many}) {{
{halves} {{
{_added(found, shared, many)}
{_load(found, shared, many, f"tile_n + at_n + half_n + {2 * many}")}
}}
}}
if (to_n - tile_n > {TILE}) __syncthreads();
}}
{_end(found, shared)}
}}"""


def _added(found: Runs, shared: Shared, many: int) -> str:
    """Values of rows are added; where a run begins, what there is of the one before goes where it belongs."""
    sums = own(found.one)
    add = " ".join(f"{sums[u.form.state]} += value{n}_n[half_n + step_n];" for n, u in enumerate(_updates(shared)))
    zero = " ".join(f"{s} = 0;" for s in sums.values())
    each = f"#pragma unroll\nfor (int step_n = 0; step_n < {many}; step_n++)"
    return f"""int begins_at_n[{many}], most_n = run_n;
{each} {{
begins_at_n[step_n] = begins_n[at_n + half_n + step_n];
most_n = begins_at_n[step_n] > most_n ? begins_at_n[step_n] : most_n;
}}
if (most_n == run_n) {{
{each} {{ {add} }}
}} else {{
{each} {{
if (begins_at_n[step_n] > run_n) {{
if (left_n) {{ {_part(found, "slot_n")} }} else {finished(found, shared, "run_n")}
{zero} left_n = false; run_n = begins_at_n[step_n];
}}
{add}
}}
}}"""


def _part(found: Runs, slot: str) -> str:
    """A block's sums are added to those of the parts before."""
    sums = own(found.one)
    return " ".join(ADD.format(to=f"{name}[{slot} * threads_n + thread_n]", value=value)
                    for name, value in zip(parts(found), sums.values(), strict=False))  # fmt: skip


def _end(found: Runs, shared: Shared) -> str:
    """Who comes last to a run of several blocks does what is done with its sums, and leaves zeros."""
    one = found.one
    *arrays, came = parts(found)
    kinds = list(one.states.values())
    volatile = " ".join(f"volatile {kind}* sums{n}_n = {name};"
                        for n, (name, kind) in enumerate(zip(arrays, kinds, strict=True)))  # fmt: skip
    sums = {s: f"sums{n}_n[at_n]" for n, s in enumerate(one.states)}
    zero = " ".join(f"{place} = 0;" for place in sums.values())
    ends = [(0, "slot_n", "own_n[0]"), (1, "blockIdx.x", "run_n")]
    last = [f"if (last_n[{n}]) {{ const int at_n = {slot} * threads_n + thread_n; "
            f"{finished(found, shared, run, sums)} {zero} }}" for n, slot, run in ends]  # fmt: skip
    return f"""const bool before_n = own_n[1] < from_n, cut_n = own_n[3] > to_n;
if (left_n || cut_n) {{ const int at_slot_n = left_n ? slot_n : blockIdx.x; {_part(found, "at_slot_n")} }}
else {finished(found, shared, "run_n")}
if (!before_n && !cut_n) return;
__shared__ bool last_n[2];
const int first_parts_n = (own_n[2] - 1 - first_n) / per_n - slot_n;
const int last_parts_n = (own_n[3] - 1 - first_n) / per_n - blockIdx.x;
{FENCE}
__syncthreads();
if (thread_n == 0) {{
unsigned first_came_n = 0, last_came_n = 0;
if (before_n) first_came_n = atomicAdd(&{came}[slot_n], 1u);
if (cut_n && !left_n) last_came_n = atomicAdd(&{came}[blockIdx.x], 1u);
last_n[0] = before_n && first_came_n == first_parts_n;
last_n[1] = cut_n && !left_n && last_came_n == last_parts_n;
if (last_n[0]) {came}[slot_n] = 0;
if (last_n[1]) {came}[blockIdx.x] = 0;
{FENCE}
}}
__syncthreads();
{volatile}
{chr(10).join(last)}"""


def _alone(found: Runs) -> str:
    """Each run's rows in a loop as it was, cut to the block's."""
    one, loop, kind, array = found.one, found.one.loop, found.one.loop.kind, found.array
    unroll = one.fn.code[one.start : loop.span[0]].strip()
    added = " ".join(ADD.format(to=f"{name}[{at}]", value=s) for name, at, s in found.stores)
    parts = [
        re.sub(r"\s*\n\s*", " ", one.head.strip()),
        f"const {kind} begin_n = {loop.start} > from_n ? {loop.start} : from_n, "
        f"end_n = {loop.end} < to_n ? {loop.end} : to_n;",
        unroll,
        f"for ({kind} {loop.name} = begin_n; {loop.name} < end_n; {loop.name}++) "
        f"{one.fn.code[slice(*loop.body)].strip()}",
        f"if (begin_n < end_n) {{ {added} }}",
    ]  # fmt: skip
    inner = re.sub(r"\bblockIdx\.x\b", "run_n", "\n".join(part for part in parts if part))
    return f"""{{
const int runs_n = gridDim.x, blocks_n = runs_n * gridDim.y;
const int threads_n = blockDim.x * blockDim.y, thread_n = threadIdx.y * blockDim.x + threadIdx.x;
const {kind} first_n = {array}[0], rows_n = {array}[runs_n] - first_n;
{_rows(found, "(blockIdx.y * runs_n + blockIdx.x)")}
if (from_n >= to_n) return;
int run_n = 0, behind_n = runs_n;
{_search(array, 1)}
for (; run_n < runs_n && {array}[run_n] < to_n; run_n++) {{
{inner}
}}
}}"""
