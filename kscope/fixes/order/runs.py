"""Rows that blocks add to places of an index, a row a block: several rows a block, in the order of their index, so that
those of one index are summed up before they are added."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import Kernel, kernel_of, statements, uniform
from kscope.fixes.given.conditions import not_written, proved
from kscope.fixes.given.rewrite import Call, calls_of
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Loop, indented, loops, shape
from kscope.fixes.order.alike import CELLS, CONSTANT, Side, alike, called, pointers
from kscope.fixes.order.pieces import MEETS, flat, sliced
from kscope.fixes.order.whole import body_edits, declared, named
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

ROWS = (32, 16)  # of a block: as many values a thread in registers, at most one a lane of the warp that sorts (judged)
FULL = 0.9  # of what the chip holds at once must be launched (judged)
KEYS = (9, 1)  # indices that plays draw from: some rows have one, or all of them
WARP = 32
_TAKEN = ("key_n", "row_n", "at_n", "place_n", "other_n", "round_n", "block_n", "value_n", "sum_n")
_LOAD = re.compile(r"(?<![\w.])(?<!->)(?P<name>\w+)\s*\[(?P<at>[^\[\]]*)\]")
_BLOCK = re.compile(r"\bblockIdx\s*\.\s*x\b")
_PLACE = re.compile(r"\b(?:threadIdx|blockIdx)\b")
_INDEX = ("int", "unsigned", "long long", "int64_t", "int32_t", "unsigned int", "uint32_t")
_KINDS = ("int", "unsigned", "float", "double", "unsigned long long")


class Rows(Struct, frozen=True):
    """`before`: declarations and tests in front of the atomic, or of the loop over columns that it is in, with what
    stands in that. `key`: the load of the index; `asked`: what that needs; `name`, `kind`: of what is added to. whole:
    the index's type."""

    before: tuple[str, ...]
    loop: str
    inside: tuple[str, ...]
    place: str
    value: str
    key: str
    index: str
    asked: tuple[str, ...]
    name: str
    kind: str
    whole: str


def asked_rows(asked: Asked) -> tuple[Kernel, Rows, int] | None:
    """A kernel of rows that are added up by an index, and how many of them a block is to take."""
    setting, launch, held = asked.setting, asked.setting.launch, asked.setting.occupancy()
    kernel = kernel_of(setting)
    one = rows(kernel) if kernel is not None else None
    if kernel is None or one is None or launch is None or held is None or max(*launch.grid[1:], *launch.block[1:]) > 1:
        return None
    slots = held.blocks * setting.sms
    count = next((n for n in ROWS if launch.grid[0] % n == 0 and launch.blocks >= n * FULL * slots), 0)
    return (kernel, one, count) if count and launch.block[0] % WARP == 0 else None


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, found = asked.setting, asked.setting.launch, asked_rows(asked)
    if found is None or launch is None:
        return []
    kernel, one, count = found
    body = written(one, count)
    played = same(kernel, one, body, launch.block[0], count) if body else 0
    edits = body_edits(setting, kernel.text, (kernel.opening, kernel.closing + 1), body) if played else []
    return [_fix(asked, one, edits, count, played)] if edits else []


def rows(kernel: Kernel) -> Rows | None:
    """None where a block's threads do anything else than to add values to one row of an index."""
    body = flat(kernel)
    if not body or MEETS.search(kernel.body) or len(re.findall(r"\batomic", kernel.body)) != 1:
        return None
    if any(named(n, kernel.text.code) for n in _TAKEN) or re.search(r"\bblockIdx\s*\.\s*[yz]", kernel.body):
        return None
    *before, last = body
    found = loops(last) if last.startswith("for") else []
    inside = _within(last, found[0]) if found else [last]
    head = last[slice(*found[0].span)] if found else ""
    guards = [s for s in before if _guard(s)]
    call = _last_call(inside)
    others = [s for s in (*before, *inside[:-1]) if s not in guards and not declared(s)]
    if call is None or others or _BLOCK.search(head) or (found and guards):
        return None
    return _keyed(kernel, tuple(before), head, tuple(inside[:-1]), call)


def _guard(statement: str) -> bool:
    return statement.endswith(" continue;")


def _within(last: str, loop: Loop) -> list[str]:
    text = last[slice(*loop.body)].strip()
    inner = text[1:-1] if text[:1] == "{" else text
    return [inner[slice(*s)] for s in statements(inner, 0, len(inner)) or ()]


def _last_call(inside: list[str]) -> Call | None:
    """The atomic that the last statement is."""
    calls = [c for c in calls_of(inside[-1], "atomicAdd") if c.start == 0] if inside else []
    whole = calls and inside[-1][calls[0].end :].strip() == ";" and len(calls[0].arguments) == 2
    return calls[0] if whole else None


def _keyed(kernel: Kernel, before: tuple[str, ...], head: str, inside: tuple[str, ...], call: Call) -> Rows | None:
    """The one index of the block that the address asks for."""
    target = re.fullmatch(r"&\s*(\w+)\s*\[(.*)\]|(\w+)\s*\+\s*(.+)", call.arguments[0], re.S)
    kinds = pointers(kernel)
    if target is None or kinds.get(target[1] or target[3]) not in _KINDS:
        return None
    name, place = target[1] or target[3], (target[2] or target[4]).strip()
    needs = sliced((*before, *inside), place)
    if needs is None or len(re.findall(rf"(?<![\w.])(?<!->){name}\b", kernel.body)) != 1:
        return None
    found = {m[0]: m for part in (*needs, place) for m in _LOAD.finditer(part) if kinds.get(m["name"]) in _INDEX}
    if len(found) != 1:
        return None
    (key,) = found.values()
    steps = [s for s in before if not _guard(s)]
    asked = sliced(steps, key["at"])
    if asked is None or not _of_block([*asked, key["at"]]) or not _same_for_all(steps, before):
        return None
    if "const" not in kernel.parameters[key["name"]] or not uniform(kernel, key["at"], kernel.closing):
        return None
    return Rows(before, head, inside, place, call.arguments[1], key[0], key["name"], tuple(asked), name, kinds[name],
                kinds[key["name"]])  # fmt: skip


def _of_block(parts: list[str]) -> bool:
    """Whether a place follows from the block's number and no thread's."""
    return any(map(_BLOCK.search, parts)) and not any(_PLACE.search(_BLOCK.sub("", part)) for part in parts)


def _same_for_all(steps: list[str], before: tuple[str, ...]) -> bool:
    """Whether tests say the same for all rows of a block."""
    for guard in filter(_guard, before):
        parts = sliced(steps, guard)
        if parts is None or any("[" in part or "blockIdx" in part for part in (*parts, guard)):
            return False
    return True


def written(one: Rows, count: int, order: str = "") -> str:
    """The body, from brace to brace; "" where what a value needs is not all there. order: an array that has the rows
    in the order of their index; without one blocks put theirs in order."""
    steps = (*one.before, *one.inside)
    made, put = sliced(steps, one.value), sliced(steps, one.place)
    if made is None or put is None:
        return ""
    if one.loop:  # what does not change with the block stays in front of the loop, whose bounds may ask for it
        outer = [s for s in sliced(one.before, one.loop) or () if not _BLOCK.search(s) and one.key not in s]
    else:
        outer = []

    def of(parts: list[str]) -> str:
        mine = [s for s in parts if s not in outer]
        return _BLOCK.sub("block_n", "\n".join(mine).replace(one.key, "key_n[round_n]"))

    each = f"#pragma unroll\nfor (int round_n = 0; round_n < {count}; round_n++)"
    value, place = of([one.value]), of([one.place])
    block = f"const unsigned block_n = {'' if order else f'blockIdx.x * {count} + '}row_n[round_n];"
    later = any(_BLOCK.search(s) for s in (*put, one.place) if one.key not in s)
    return indented(
        f"""{{
__shared__ {one.whole} key_n[{count}];
__shared__ int row_n[{count}];
{_given(one, count, order) if order else _put_in_order(one, count)}
__syncthreads();
{chr(10).join(outer)}
{one.loop} {{
{one.kind} value_n[{count}], sum_n = 0;
{each} {{
{block}
{of(made)}
value_n[round_n] = {value};
}}
{each} {{
{block if later else ''}
{of(put)}
sum_n += value_n[round_n];
if (round_n == {count - 1} || key_n[(round_n + 1) % {count}] != key_n[round_n]) {{
atomicAdd(&{one.name}[{place}], sum_n);
sum_n = 0;
}}
}}
}}
}}"""
    )


def keyed(one: Rows, row: str) -> list[str]:
    """What the index of a row needs, and the index."""
    return [_BLOCK.sub("block_n", s).replace("block_n", row) for s in (*one.asked, one.key)]


def _given(one: Rows, count: int, order: str) -> str:
    """The next rows of an order, one a lane."""
    *asked, key = keyed(one, "place_n")
    return f"""if (threadIdx.x < {count}) {{
const int place_n = {order}[blockIdx.x * {count} + threadIdx.x];
{chr(10).join(asked)}
key_n[threadIdx.x] = {key};
row_n[threadIdx.x] = place_n;
}}"""


def _put_in_order(one: Rows, count: int) -> str:
    """A block's rows, one a lane, each put behind those of lower indices."""
    *asked, key = keyed(one, f"(blockIdx.x * {count} + threadIdx.x)")
    return f"""if (threadIdx.x < {WARP}) {{
{one.whole} at_n = 0;
int place_n = 0;
{f'if (threadIdx.x < {count}) {{' if count < WARP else ''}
{chr(10).join(asked)}
at_n = {key};
{'}' if count < WARP else ''}
for (int round_n = 0; round_n < {count}; round_n++) {{
const {one.whole} other_n = __shfl_sync(~0u, at_n, round_n);
place_n += other_n < at_n || (other_n == at_n && round_n < threadIdx.x);
}}
{f'if (threadIdx.x < {count}) ' if count < WARP else ''}key_n[place_n] = at_n;
{f'if (threadIdx.x < {count}) ' if count < WARP else ''}row_n[place_n] = threadIdx.x;
}}"""


def same(kernel: Kernel, one: Rows, body: str, block: int, count: int) -> int:
    """How many results came out alike in both versions; 0 where one did not."""
    functions = called(kernel)
    if functions is None:
        return 0
    old = Side(kernel.text.code[kernel.opening : kernel.closing + 1], (2 * count, 1), (block, 1), opaque=functions)
    new = Side(body, (2, 1), (block, 1), opaque=functions)
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    sizes = [dict.fromkeys(numbers, size) for size in (block // 2 + 3, CONSTANT)] if numbers else [{}]
    made = np.random.default_rng(block)
    found = [alike(kernel, old, new, sizes, given={one.index: made.integers(0, n, CELLS)}) for n in KEYS]
    return sum(found) if all(found) else 0


def _fix(asked: Asked, one: Rows, edits: list[Edit], count: int, played: int) -> Fix:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    assert launch is not None
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    given = [shape((launch.grid[0] // count,)), shape(launch.block)]
    given += [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    return Fix(
        kind="jam",
        title=f"{count} rows a block in the order of {one.index}[]: those of one place are summed up, then added once",
        language="cuda",
        code=f"{setting.name}<<<{', '.join(given)}>>>(...);",
        edits=edits,
        parameters={"rows": count, "grid.x": launch.grid[0] // count},
        conditions=[
            proved("every place gets the same sum", "values", played,
                   f"both versions played, {2 * count} rows on few places and on one, every result compared"),
            *not_written(code, loads),
            Condition(holds="rows near each other often have one index", state="check",
                      why=f"{count} rows are looked at together; order them by it beforehand where they have not"),
            Condition(holds=f"every launch has a multiple of {count} blocks", state="check",
                      why="there is no test for a rest"),
        ],
        proof=[
            Proof(what=f"additions to a place that all {count} rows of a block have", before=count, after=1,
                  unit="atomics", how=f"of {atomics(setting):.3g} atomics of lanes in all"),
        ],
        costs=[f"{count} values a thread in registers", f"{8 * count} bytes of shared memory a block, one barrier"],
        price=asked.finding.estimate,
    )  # fmt: skip


def atomics(setting: Setting) -> float:
    code = setting.code
    atoms = code.ran(code.where(lambda ins, op: op.access in ("atomic", "reduction")))
    return total(getattr(code, "threads", [WARP * n for n in code.executed]), atoms)
