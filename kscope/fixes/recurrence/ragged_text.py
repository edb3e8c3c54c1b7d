"""The text of blocks that take as many rows each, of whichever runs they are."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.fixes.given.text import Span, indented
from kscope.fixes.recurrence.linear import bare
from kscope.fixes.recurrence.serial import Serial, Update

AT_ONCE = 8  # values of a thread that are on their way while as many are added (judged)
TILE = 64  # rows of a block, at least: runs are looked up for so many at a time (judged)
ADD, STORE = "atomicAdd(&{to}, {value});", "{to} = {value};"
FLAG = "2147483648ull"  # of a run's word: below it who came, above who added
TWICE = "4294967296ull"
LEFT = "{}_left_n"  # what a sum is called that began in front of a block


class Runs(Struct, frozen=True):
    """`array`: where runs begin. `stores`: arrays, places and sums of what a block stores behind its loop."""

    one: Serial
    array: str
    stores: tuple[tuple[str, str, str], ...]


def spans(found: Runs) -> list[Span]:
    """What is put into the head, where it gets a parameter, and the body."""
    one, fn, array = found.one, found.one.fn, found.array
    kind, together = one.loop.kind, _together(found)
    inner = f"{together[0]}\n{_without(found)}\n{together[1]}" if together else _alone(found)
    blocks, block = "runs_n * gridDim.y", "(blockIdx.y * runs_n + blockIdx.x)"
    if together:
        blocks, block = "gridDim.x", "blockIdx.x"
    text = (
        f"{{\n{'' if together else 'const int runs_n = gridDim.x;'}\n"
        f"const int blocks_n = {blocks}, threads_n = blockDim.x * blockDim.y;\n"
        "const int thread_n = threadIdx.y * blockDim.x + threadIdx.x;\n"
        f"const {kind} first_n = {array}[0], rows_n = {array}[runs_n] - first_n;\n"
        f"const {kind} per_n = rows_n <= ({kind})blocks_n * {TILE} ? {TILE} : "
        f"((rows_n + blocks_n - 1) / blocks_n + {TILE - 1}) / {TILE} * {TILE};\n"
        f"const {kind} from_n = first_n + per_n * ({kind}){block};\n"
        f"const {kind} to_n = from_n + per_n < first_n + rows_n ? from_n + per_n : first_n + rows_n;\n"
        f"int run_n = 0;\n{inner}\n}}"
    )
    head = fn.code.rfind(")", 0, fn.opened)
    return [*([(head, head, ", int runs_n")] if together else []), (fn.opened, len(fn.code), indented(text))]


def _search(array: str) -> str:
    """The run that a block's first row is of: as many places are looked at in a round as it has threads."""
    return (
        "for (int behind_n = runs_n; behind_n - run_n > 1;) {\n"
        "    const int skip_n = (behind_n - run_n + threads_n - 1) / threads_n, "
        "probe_n = run_n + (thread_n + 1) * skip_n;\n"
        f"    run_n += skip_n * __syncthreads_count(probe_n < behind_n && {array}[probe_n] <= from_n);\n"
        "    behind_n = run_n + skip_n < behind_n ? run_n + skip_n : behind_n;\n  }"
    )


def parts(found: Runs) -> str:
    """The name of the words in which blocks count who has come to a run."""
    return f"{found.one.fn.name}_parts"


def _stored(found: Runs, how: str, run: str, sums: str = "{}") -> str:
    """Stores of a block's sums as those of a run. how: `{to} = {value};` or the like; sums: what a sum is called."""
    text = " ".join(how.format(to=f"{name}[{at}]", value=sums.format(s)) for name, at, s in found.stores)
    return re.sub(r"\bblockIdx\.x\b", run, text)


def _without(found: Runs) -> str:
    """What becomes of runs without rows: threads look for them side by side."""
    array, zero = found.array, _stored(found, "{to} = 0;", "none_n")
    return f"""bool any_n = false;
for (int none_n = blockIdx.x + thread_n * blocks_n; none_n < runs_n; none_n += threads_n * blocks_n)
any_n |= {array}[none_n] == {array}[none_n + 1];
if (__syncthreads_count(any_n))
for (int none_n = blockIdx.x; none_n < runs_n; none_n += blocks_n)
if ({array}[none_n] == {array}[none_n + 1]) {{ {zero} }}
if (from_n >= to_n) return;"""


def _end(found: Runs) -> str:
    """What a block has at last, and of the run that began in front of it: who comes first to a run stores, and the
    others wait for that and add."""
    array, name, kind = found.array, parts(found), found.one.loop.kind
    return f"""if (last_part_n < 0) {{ {_stored(found, STORE, "run_n")} }}
volatile unsigned long long* came_n = {name};
__shared__ unsigned long long before_n[2];
{kind} rest_n = 0;
if (mine_n >= 0) before_n[thread_n] = turn_n;
__syncthreads();
if (first_part_n >= 0 && before_n[0] % {FLAG} == 0) {{ {_stored(found, STORE, "first_part_n", LEFT)} }}
if (last_part_n >= 0 && before_n[1] % {FLAG} == 0) {{ {_stored(found, STORE, "last_part_n")} }}
__syncthreads();
if (mine_n >= 0 && turn_n % {FLAG} == 0) {{ __threadfence(); atomicAdd(&{name}[mine_n], {FLAG}); }}
__syncthreads();
if (mine_n >= 0 && turn_n % {FLAG} > 0) {{
const {kind} begin_n = ({array}[mine_n] - first_n) / per_n, end_n = ({array}[mine_n + 1] - 1 - first_n) / per_n;
while (came_n[mine_n] / {FLAG} % 2 == 0) ;
__threadfence();
rest_n = end_n - begin_n;
}}
__syncthreads();
if (first_part_n >= 0 && before_n[0] % {FLAG} > 0) {{ {_stored(found, ADD, "first_part_n", LEFT)} }}
if (last_part_n >= 0 && before_n[1] % {FLAG} > 0) {{ {_stored(found, ADD, "last_part_n")} }}
if (rest_n > 0 && atomicAdd(&{name}[mine_n], {TWICE}) / {TWICE} + 1 == rest_n) {name}[mine_n] = 0;"""


def _turns(found: Runs) -> str:
    """Which runs a block has parts of, and who comes to them: asked for before the rows are added."""
    array = found.array
    return f"""if (stop_n == to_n) {{
const int end_run_n = run_of_n[to_n - 1 - tile_n];
first_part_n = end_run_n == left_n ? -1 : left_n;
last_part_n = end_run_n == left_n || {array}[end_run_n + 1] > to_n ? end_run_n : -1;
mine_n = thread_n == 0 ? first_part_n : thread_n == 1 ? last_part_n : -1;
if (mine_n >= 0) turn_n = atomicAdd(&{parts(found)}[mine_n], 1ull);
}}"""


def _together(found: Runs) -> tuple[str, str] | None:
    """The first rows' loads, and a loop over rows of all runs, many of them on their way while others are added, or
    their runs looked up; None where what a row adds depends on its run."""
    one, loop, array = found.one, found.one.loop, found.array
    kind, updates = loop.kind, [r for r in one.rounds if isinstance(r, Update)]
    own = re.sub(rf"(?<![\w.])(?:{loop.start}|{loop.end})\s*=\s*{array}\s*\[[^][]*\]", "", one.head)
    named = all(re.fullmatch(r"\w+", side) for side in (loop.start, loop.end))
    if one.fn.call is not None or len(updates) != len(one.rounds) or not named:
        return None
    asks = " ".join([*(u.form.rest for u in updates), *(at for _, at, _ in found.stores)])
    if "blockIdx" in own + "".join(u.form.rest for u in updates):
        return None
    if re.search(rf"(?<![\w.])(?:{loop.start}|{loop.end})\b", asks):
        return None
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
    left = " ".join(f"{kind_} {LEFT.format(s)} = 0;" for s, kind_ in one.states.items())
    mine = " ".join(f"{LEFT.format(s)} = {s};" for s in one.states)
    flush = f"if (run_n == left_n) {{ {mine} }} else {{ {_stored(found, STORE, 'run_n')} }}"
    return f"{head}\n{' '.join(values)}\n{load('value', 'from_n')}", (
        f"__shared__ int run_of_n[{TILE}];\n  {_search(array)}\n"
        f"const int left_n = {array}[run_n] < from_n ? run_n : -1; {left}\n"
        "int first_part_n = -1, last_part_n = -1, mine_n = -1; unsigned long long turn_n = 0;\n"
        f"  for ({kind} tile_n = from_n; tile_n < to_n; tile_n += {TILE}) {{\n"
        f"    const {kind} stop_n = tile_n + {TILE} < to_n ? tile_n + {TILE} : to_n;\n"
        f"    for (int of_n = run_n + thread_n; of_n < runs_n && {array}[of_n] < stop_n; of_n += threads_n) {{\n"
        f"      const {kind} begin_n = {array}[of_n] > tile_n ? {array}[of_n] : tile_n;\n"
        f"      const {kind} end_n = {array}[of_n + 1] < stop_n ? {array}[of_n + 1] : tile_n + {TILE};\n"
        f"      for ({kind} row_n = begin_n; row_n < end_n; row_n++) run_of_n[row_n - tile_n] = of_n;\n"
        f"    }}\n    __syncthreads();\n{_turns(found)}\n"
        f"    for ({kind} at_n = tile_n; at_n < stop_n; at_n += {many}) {{\n"
        f"    {load('next', f'at_n + {many}')}\n"
        f"int rows_of_n[{many}];\n#pragma unroll\n{each} {{ rows_of_n[step_n] = run_of_n[at_n - tile_n + step_n]; }}\n"
        f"      #pragma unroll\n      {each} {{\n"
        f"        if (rows_of_n[step_n] != run_n) {{ {flush} {zero} run_n = rows_of_n[step_n]; }}\n"
        f"        {' '.join(add)}\n      }}\n"
        f"      #pragma unroll\n      {each} {{ {' '.join(keep)} }}\n    }}\n"
        f"    __syncthreads();\n  }}\n{_end(found)}"
    )


def _alone(found: Runs) -> str:
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
        f"if (begin_n < end_n) {{ {_stored(found, ADD, 'run_n')} }}",
    ]  # fmt: skip
    inner = re.sub(r"\bblockIdx\.x\b", "run_n", "\n    ".join(part for part in parts if part))
    return (
        f"if (from_n >= to_n) return;\n{_search(found.array)}\n"
        f"for (; run_n < runs_n && {found.array}[run_n] < to_n; run_n++) {{\n    {inner}\n  }}"
    )
