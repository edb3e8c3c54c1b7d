"""Elements that lie side by side, one a thread or one a round: several neighbours by one wide access, where every array
starts at a multiple of it; one by one where they do not, and for what is left over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, product

from msgspec import Struct, structs

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import Span, Text, by_lines, kernel_text, plain, shape, spans_edited
from kscope.fixes.memory.neighbours import SEVERAL
from kscope.fixes.thread.accesses import all_of, elements_at_once, fewer, made_by, narrow, widest
from kscope.fixes.thread.element_types import instantiated
from kscope.fixes.thread.elements import Elements, elements
from kscope.fixes.thread.side_by_side import Row
from kscope.model.contract.fixes import Condition, Fix, Proof

ALIGNED = (
    "template <class V> __device__ bool aligned(const void* p) { return reinterpret_cast<size_t>(p) % sizeof(V) == 0; }"
)
LEAST_BLOCK = 32  # threads that a block is made no smaller than: a warp
_BUILTIN = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*([xyz])\b")


class _Taken(Struct, frozen=True):
    """A piece of text with its accesses, of which a thread makes `count` at once."""

    one: Elements
    here: tuple[int, ...]
    count: int


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or setting.launch is None:
        return []
    beside = narrow(setting)
    types = instantiated("\n".join(setting.lines(text.file)[: text.first - 1]), setting.instance)
    found = [x for one in elements(text.code) if (x := _taken(setting, text, one, beside, types)) is not None]
    loops = [x for x in found if x.one.shape == "loop"]
    at = {x.pc for x in asked.finding.locations}
    for taken in [*([loops] if len(loops) > 1 else []), *([x] for x in found)]:
        mine = [i for x in taken for i in x.here]
        if at and not any(setting.code[i].pc in at for i in mine):
            continue
        if (fix := _fix(asked, text, taken)) is not None:
            every = taken[0].one.shape != "loop" or all_of(setting, mine, beside)
            return [fix if every else structs.replace(fix, price=None)]
    return []


def _taken(
    setting: Setting, text: Text, one: Elements, beside: list[int], types: Mapping[str, str]
) -> _Taken | None:  # fmt: skip
    mine = made_by(setting, text, one, beside)
    if not mine:
        return None
    count = elements_at_once(one, types, widest(setting, mine))
    if one.shape == "loop":
        count = fewer(setting, mine, count)
    return _Taken(one, tuple(mine), count) if count > 1 else None


def _fix(asked: Asked, text: Text, taken: Sequence[_Taken]) -> Fix | None:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    assert launch is not None
    launched = [_launched(x.one, text.code, launch.grid, launch.block, x.count) for x in taken]
    ran = [x[2] for x in launched if x is not None]
    if len(ran) < len(taken) or launched[0] is None:
        return None
    grid, block, _ = launched[0]
    changed = [s for n, x in enumerate(taken, 1) for s in spans(text.code, x.one, x.count, n)]
    edits = spans_edited(setting, text, by_lines(text.code, changed))
    if not edits:
        return None
    names = list(dict.fromkeys(row.name for x in taken for row in x.one.rows))
    here = [i for x in taken for i in x.here]
    moved, count = taken[0].one.shape != "loop", max(x.count for x in taken)
    stated = f"\n// launch: {setting.name}<<<{shape(grid)}, {shape(block)}>>>(...), {count} elements a thread"
    return Fix(
        kind="neighbours",
        title=f"{count} neighbours a {'thread' if moved else 'round'} of {', '.join(names)}, by one access each",
        language="cuda",
        code=f"{SEVERAL}\n{ALIGNED}" + (stated if moved else ""),
        edits=edits,
        parameters={"elements": count, **({"grid.x": grid[0], "block.x": block[0]} if moved else {})},
        conditions=[
            proved("neighbouring threads work on neighbouring elements", "lanes", here,
                   "lanes stand as far apart as one of them reads or writes"),
            shown(min(ran) > 0, "each element is done once, by whole accesses or one by one", "values", sum(ran),
                  "indices written out for grids, blocks and bounds of several sizes"),
            reads("where an array starts at no multiple of the access, all is done one by one", "it is asked for"),
            *_asked_of_reader(taken, names),
        ],
        proof=[Proof(what="warp loads and stores", before=total(code.executed, here),
                     after=sum(total(code.executed, list(x.here)) / x.count for x in taken), unit="inst",
                     how=f"{len(here)} instruction{'s' * (len(here) > 1)} whose lanes are neighbours, {count} elements "
                         "each")],
        costs=[f"{count} elements of {', '.join(names)} in registers"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _asked_of_reader(taken: Sequence[_Taken], names: Sequence[str]) -> list[Condition]:
    rows = [row for x in taken for row in x.one.rows]
    kept = ["the order of the sums does not matter", "a thread's elements are others"]
    outs, others = ([n for n in names if any(r.name == n and r.written is w for r in rows)] for w in (True, False))
    overlap = f"{' and '.join(outs)} overlap{'s' * (len(outs) == 1)} none of {', '.join(others)}, unless at one element"
    return [
        *([Condition(holds=kept[0], state="check", why=kept[1])] if any(x.one.sums for x in taken) else []),
        *([Condition(holds=overlap, state="check", why="an element is read before its neighbours are written")]
          if outs and others else []),
    ]  # fmt: skip


def spans(code: str, one: Elements, count: int, number: int = 1) -> list[Span]:
    """What changes in the text. number: of a loop among those that change."""
    k = next(n for n in ("k", "k_n", "kk_n") if not re.search(rf"\b{n}\b", code))
    rows, body = one.rows, code[slice(*one.body)]
    done = _done(body, one, rows, k)
    types = {row: f"Several<{row.kind}, {count}>" for row in rows}
    before = "".join(f" {types[row]} {_kept(row, rows)}{_loaded(row, rows, types[row])};" for row in rows)
    after = "".join(
        f" {_on(row)}*reinterpret_cast<{types[row]}*>(&{row.name}[{row.at}]) = {_kept(row, rows)};"
        for row in rows if row.written
    )  # fmt: skip
    wide = f"{{{before}\n    #pragma unroll\n    for (int {k} = 0; {k} < {count}; {k}++) {done}\n   {after} }}"
    if one.shape == "loop":
        return _of_loop(one, rows, types, count, wide, number)
    asked = " && ".join(_aligned(row, types[row], row.at) for row in rows)
    kind = re.sub(r"\bconst\s+", "", one.kind)
    first: Span = (*one.declared, f"{kind} {one.name} = ({one.start}) * {count}")
    whole = f"{one.name} + {count} <= {one.bound} && {asked}"
    left = f"for (int {k} = 0; {k} < {count} && {one.name} < {one.bound}; {k}++, {one.name}++) "
    if one.shape == "if":
        others = f"({one.others})" if "||" in one.others else one.others
        new = f"if ({others + ' && ' if others else ''}{whole}) {wide} else {f'if ({others}) ' if others else ''}{left}"
        return [first, (*one.guard, new.rstrip())]
    leaves = f"if ({one.others}) return; " if one.others else ""
    start: Span = (*one.guard, f"{leaves}if ({whole}) {wide} else {left}{{".rstrip())
    return [first, start, (one.body[1], one.body[1], "} ")]


def _loaded(row: Row, rows: tuple[Row, ...], several: str) -> str:
    value = f"*reinterpret_cast<const {several}*>(&{row.name}[{row.at}])"
    if row.when:
        return f"; {_on(row)}{_kept(row, rows)} = {value}" if row.loaded else ""
    return f" = {value}" if row.loaded else ""


def _on(row: Row) -> str:
    return f"if ({row.when}) " if row.when else ""


def _aligned(row: Row, several: str, at: str) -> str:
    asked = f"aligned<{several}>(&{row.name}[{at}])"
    return f"(!({row.when}) || {asked})" if row.when else asked


def _of_loop(
    one: Elements, rows: tuple[Row, ...], types: dict[Row, str], count: int, wide: str, number: int
) -> list[Span]:  # fmt: skip
    at_first = {row: re.sub(rf"\b{one.name}\b", "0", row.at) for row in rows}
    asked = " && ".join(_aligned(row, types[row], at_first[row]) for row in rows)
    whole = f"{one.name}_whole" + (str(number) if number > 1 else "")
    bound, start, step = (f"({x})" if re.search(r"[^\w.]", x) else x for x in (one.bound, one.start, one.step))
    return [
        (*one.declared,
         f"const {one.kind} {whole} = {asked} ? {bound} / {count} * {count} : 0;\n"
         f"  for ({one.kind} {one.name} = {start} * {count}; {one.name} < {whole}; "
         f"{one.name} += {step} * {count}) {wide}\n"
         f"  for ({one.kind} {one.name} = {whole} + {start}; {one.name} < {one.bound}; {one.name} += {one.step})"),
    ]  # fmt: skip


def _kept(row: Row, rows: tuple[Row, ...]) -> str:
    same = [r for r in rows if r.name == row.name]
    return f"{row.name}_v" + (str(same.index(row) + 1) if len(same) > 1 else "")


def _done(body: str, one: Elements, rows: tuple[Row, ...], k: str) -> str:
    """What is done to the element `k` of several: a block of its own."""
    put = sorted(((*span, f"{_kept(row, rows)}.at[{k}]") for row in rows for span in row.spans), reverse=True)
    ends = len(body)
    pieces: list[str] = []
    for start, end, new in put:
        pieces[:0] = [new, _moved(body[end:ends], one.name, k)]
        ends = start
    text = _moved(body[:ends], one.name, k) + "".join(pieces)
    return text if text.startswith("{") else f"{{ {text.strip()} }}"


def _moved(text: str, name: str, k: str) -> str:
    return re.sub(rf"(?<![\w.>]){name}\b", f"({name} + {k})", text)


def _launched(
    one: Elements, code: str, grid: tuple[int, ...], block: tuple[int, ...], count: int
) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:  # fmt: skip
    """(grid, block, indices that were written out) with so many elements a thread: fewer blocks along x, or fewer
    threads where there is one; None where the index is not seen to go over all elements then."""
    start = plain(one.start, code[code.find("{") : one.declared[0]])
    if one.shape == "loop":
        step = plain(one.step, code[code.find("{") : one.declared[0]])
        return (grid, block, _rounds(count)) if _dense(start, step) else None
    of_blocks = re.search(r"\bblockIdx\s*\.\s*x\b", start) is not None and grid[0] >= count
    if not of_blocks and block[0] < LEAST_BLOCK * count:
        return None
    if _elsewhere(one, code, ("blockIdx.x", "gridDim.x") if of_blocks else ("blockDim.x",)):
        return None
    tried = _covered(start, count, of_blocks=of_blocks)
    if not tried:
        return None
    if of_blocks:
        return (-(-grid[0] // count), *grid[1:]), block, tried
    return grid, (-(-block[0] // count // LEAST_BLOCK) * LEAST_BLOCK, *block[1:]), tried


def _elsewhere(one: Elements, code: str, words: tuple[str, ...]) -> bool:
    """Whether what is another number with the new launch serves for more than the element's."""
    text = code[code.find("{") : one.declared[0]] + code[one.declared[1] :]
    for made in re.finditer(r"\b(?:[A-Za-z_]\w*\s+)+([A-Za-z_]\w*)\s*=(?!=)[^;,]*;", text):
        if re.search(rf"\b{made[1]}\b", one.start) and len(re.findall(rf"(?<![\w.>]){made[1]}\b", text)) == 1:
            text = text.replace(made[0], "")
    return any(word in re.sub(r"\s*\.\s*", ".", text) for word in words)


def _dense(start: str, step: str) -> bool:
    """Whether the threads that share a loop begin with the elements from 0 on, as many as a round takes: of the block,
    of the grid or of a warp."""
    for sides in ((3, 64), (5, 96)):
        first, by = _indices(start, sides, 1), _indices(step, sides, 1)
        if first is None or by is None or len(set(by[0])) != 1:
            return False
        together, found = by[0][0], sorted(first[0])
        if together < 1 or found != sorted([*range(together)] * (len(found) // together)):
            return False
    return True


def _covered(start: str, count: int, *, of_blocks: bool) -> int:
    """How many elements were written out, if each that a thread of the old launch has is one of the new launch's,
    once; 0 otherwise."""
    tried = 0
    flat = re.search(r"\b(?:blockIdx|threadIdx)\s*\.\s*[yz]\b", start) is not None
    own = not re.search(r"\bblockIdx\s*\.\s*x\b", start)  # a row a block
    for blocks, threads, rest in ((8, 32, 1), (9, 32, 2), (8 * count, 96, 3)):
        if own:
            blocks, threads = 1, threads * count
        new = (-(-blocks // count), threads) if of_blocks else (blocks, threads // count)
        before = _indices(start, (blocks, threads), rest)
        after = _indices(start, new, rest)
        if before is None or after is None:
            return 0
        for old, now in [([*chain(*before)], [*chain(*after)])] if flat else zip(before, after, strict=True):
            done = [n * count + k for n in now for k in range(count)]
            if len(set(done)) != len(done) or not set(old) <= set(done) or len(set(old)) != len(old):
                return 0
            tried += len(done)
    return tried


def _indices(start: str, sides: tuple[int, int], rest: int) -> list[list[int]] | None:
    """Values of an index for all blocks and threads along x, for each place along y."""
    out = []
    for y in range(rest):
        row: list[int] = []
        for block, thread in product(range(sides[0]), range(sides[1])):
            known = {"blockIdx_x": block, "threadIdx_x": thread, "gridDim_x": sides[0], "blockDim_x": sides[1],
                     "blockIdx_y": y, "gridDim_y": rest, "blockDim_y": 1, "threadIdx_y": 0, "blockIdx_z": 0,
                     "gridDim_z": 1, "blockDim_z": 1, "threadIdx_z": 0}  # fmt: skip
            value = evaluated(_BUILTIN.sub(r"\1_\2", start), known)
            if value is None:
                return None
            row.append(value)
        out.append(row)
    return out


def _rounds(count: int) -> int:
    """How many elements were written out, if whole accesses up to the last multiple and the rest one by one do each of
    them once; 0 otherwise."""
    tried = 0
    for bound, threads in product(range(4 * count + 3), (1, 2, 5)):
        whole = bound // count * count
        done = [i + k for t in range(threads) for i in range(t * count, whole, threads * count) for k in range(count)]
        done += [i for t in range(threads) for i in range(whole + t, bound, threads)]
        if sorted(done) != list(range(bound)):
            return 0
        tried += len(done)
    return tried
