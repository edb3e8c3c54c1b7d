"""Elements that lie side by side, one a thread or one a round: several neighbours by one wide access, where every array
starts at a multiple of it; one by one where they do not, and for what is left over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, by_lines, kernel_text, plain, shape, spans_edited
from kscope.fixes.memory.neighbours import SEVERAL
from kscope.fixes.thread.accesses import all_of, elements_at_once, fewer, made_by, mostly, narrow, whole, widest
from kscope.fixes.thread.callees import Callees, callees, handed_on
from kscope.fixes.thread.element_types import instantiated
from kscope.fixes.thread.elements import Elements, elements
from kscope.fixes.thread.launched import elsewhere, launched
from kscope.fixes.thread.side_by_side import Row
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.kernel import Launch

ALIGNED = (
    "template <class V> __device__ bool aligned(const void* p) { return reinterpret_cast<size_t>(p) % sizeof(V) == 0; }"
)


class _Taken(Struct, frozen=True):
    """A piece of text with its accesses, of which a thread makes `count` at once, in so many times `fewer` blocks."""

    one: Elements
    here: tuple[int, ...]
    count: int
    fewer: int = 1


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or setting.launch is None or not narrow(setting):
        return []
    calls = callees(setting, text.code)
    inner = handed_on(setting, text, calls)
    return _of_text(asked, text, calls, setting.instance) or (_of_text(asked, inner, calls, None) if inner else [])


def _of_text(asked: Asked, text: Text, calls: Callees, instance: str | None) -> list[Fix]:
    """instance: of the kernel whose text it is; None for a function that a kernel calls, whose loops over the grid are
    right for the launches of other kernels too."""
    setting, beside = asked.setting, narrow(asked.setting)
    types = instantiated("\n".join(setting.lines(text.file)[: text.first - 1]), instance or "")
    every = [y for x in elements(text.code, calls) if (y := _taken(setting, text, x, beside, types, calls)) is not None]
    loops = [x for x in every if x.one.shape == "loop"]
    at = {x.pc for x in asked.finding.locations}
    for taken in [*([loops] if len(loops) > 1 else []), *([x] for x in (loops if instance is None else every))]:
        mine = [i for x in taken for i in x.here]
        meant = not at or not at.isdisjoint(setting.code[i].pc for i in mine)
        if meant and (fix := _fix(asked, text, taken)) is not None:
            if taken[0].one.shape == "loop" and not all_of(setting, mine, beside):
                fix = structs.replace(fix, price=None)
            return [fix if instance is not None else _of_others(fix)]
    return []


def _of_others(fix: Fix) -> Fix:
    """A change with what it means for others that call the function."""
    others = Condition(holds="other kernels that call the function change with it", state="check",
                       why="its loop takes all elements for whichever grid they have")  # fmt: skip
    return structs.replace(fix, conditions=[*fix.conditions, others])


def _taken(
    setting: Setting, text: Text, one: Elements, beside: list[int], types: Mapping[str, str], calls: Callees
) -> _Taken | None:  # fmt: skip
    mine = made_by(setting, text, one, beside)
    if not mine or not whole(setting, text, one, beside, types, calls):
        return None
    if any(row.some for row in one.rows) and not mostly(setting, mine):
        return None
    count = most = elements_at_once(one, types, widest(setting, mine))
    if one.shape == "loop":
        count = fewer(setting, mine, count)
        if count < 2 <= most and _of_grid(setting, text.code, one, most):
            return _Taken(one, tuple(mine), most, most)
    return _Taken(one, tuple(mine), count) if count > 1 else None


def _of_grid(setting: Setting, code: str, one: Elements, count: int) -> bool:
    """Whether the threads of the grid share a loop whose rounds are one or so, and so many times fewer fill the device
    as well; nothing else in the kernel hangs on how many blocks there are."""
    before = code[code.find("{") : one.declared[0]]
    start, step = plain(one.start, before), plain(one.step, before)
    over = "blockIdx.x" in start and "gridDim.x" in step
    enough = setting.launch is not None and setting.launch.grid[0] >= count * max(1, setting.sms)
    return over and enough and not elsewhere(one, code, ("blockIdx.x", "gridDim.x"))


def _fix(asked: Asked, text: Text, taken: Sequence[_Taken]) -> Fix | None:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    assert launch is not None
    new = _launched(launch, text.code, taken)
    if new is None:
        return None
    grid, block, ran = new
    changed = [s for n, x in enumerate(taken, 1) for s in spans(text.code, x.one, x.count, n)]
    edits = spans_edited(setting, text, by_lines(text.code, changed))
    if not edits:
        return None
    names = list(dict.fromkeys(row.name for x in taken for row in x.one.rows))
    here = [i for x in taken for i in x.here]
    moved, count = (grid, block) != (launch.grid, launch.block), max(x.count for x in taken)
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
            *_asked_of_reader(text.code, taken, names),
        ],
        proof=[Proof(what="warp loads and stores", before=total(code.executed, here),
                     after=sum(total(code.executed, list(x.here)) / x.count for x in taken), unit="inst",
                     how=f"{len(here)} instruction{'s' * (len(here) > 1)} whose lanes are neighbours, {count} elements "
                         "each")],
        costs=[f"{count} elements of {', '.join(names)} in registers"],
        # How much of the waits for loads goes with them is in no counter: more bytes are on their way, of fewer warps.
        price=asked.finding.estimate if asked.finding.code == "MEM102" else None,
    )  # fmt: skip


def _launched(
    launch: Launch, code: str, taken: Sequence[_Taken]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int]] | None:  # fmt: skip
    """(grid, block, indices that were written out for each piece of text)"""
    every = [launched(x.one, code, launch.grid, launch.block, x.count) for x in taken]
    ran = [x[2] for x in every if x is not None]
    blocks = {x.fewer for x in taken}
    if len(ran) < len(taken) or every[0] is None or (len(taken) > 1 and blocks != {1}):
        return None
    grid, block, _ = every[0]
    return (-(-grid[0] // blocks.pop()), *grid[1:]), block, ran


def _asked_of_reader(code: str, taken: Sequence[_Taken], names: Sequence[str]) -> list[Condition]:
    rows = [row for x in taken for row in x.one.rows]
    kept = ["the order of the sums does not matter", "a thread's elements are others"]
    outs, others = ([n for n in names if any(r.name == n and r.written is w for r in rows)] for w in (True, False))
    overlap = f"{' and '.join(outs)} overlap{'s' * (len(outs) == 1)} none of {', '.join(others)}, unless at one element"
    named = next((code[slice(*x.one.declared)].strip() for x in taken if not _for(code, x.one)), "")
    return [
        *([Condition(holds=f"{named} is the loop of the grid's threads over so many elements", state="check",
                     why="as libraries call it; its text is elsewhere")] if named else []),
        *([Condition(holds=kept[0], state="check", why=kept[1])] if any(x.one.sums for x in taken) else []),
        *([Condition(holds=overlap, state="check", why="an element is read before its neighbours are written")]
          if outs and others else []),
        *(reads(f"{place} is none of the elements", "all threads read it, and wait for none, before one would write it")
          for x in taken for place in x.one.apart),
        *(Condition(holds=f"{row.name} has an element for each index", state="check",
                    why="only some ask for theirs, and all are read") for row in rows if row.some),
        *_handed(code, taken, names),
    ]  # fmt: skip


def _handed(code: str, taken: Sequence[_Taken], names: Sequence[str]) -> Iterator[Condition]:
    """Of functions that write through a pointer that they are handed."""
    head = code[: code.find("{")]
    alone = all(re.search(rf"\b__restrict(?:__)?\s+{n}\b", head) for n in names)
    for function, array in dict.fromkeys(pair for x in taken for pair in x.one.handed):
        apart = f"what {function} changes through {array} is no element of {', '.join(names)}"
        yield (
            reads(apart, "__restrict__") if alone
            else Condition(holds=apart, state="check", why="they are read before it is called")
        )  # fmt: skip
        yield Condition(
            holds=f"in which order {function} is called for the elements does not matter", state="check",
            why="one thread calls it for its elements in their order, where threads did in any",
        )  # fmt: skip


def _for(code: str, one: Elements) -> bool:
    return one.shape != "loop" or code.startswith(("for", "while"), one.declared[0])


def spans(code: str, one: Elements, count: int, number: int = 1) -> list[Span]:
    """What changes in the text; nothing where a name that is needed is taken. number: of a loop among those that
    change."""
    k = next(n for n in ("k", "k_n", "kk_n") if not re.search(rf"\b{n}\b", code))
    rows, body = one.rows, code[slice(*one.body)]
    if any(re.search(rf"\b{n}\b", code) for n in (f"{one.name}_whole", *(_kept(row, rows) for row in rows))):
        return []
    done = _done(body, one, rows, k)
    types = {row: f"Several<{row.kind}, {count}>" for row in rows}
    before = "".join(f" {types[row]} {_kept(row, rows)}{_loaded(row, rows, types[row])};" for row in rows)
    after = "".join(
        f" {_on(row)}*reinterpret_cast<{types[row]}*>(&{row.name}[{row.at}]) = {_kept(row, rows)};"
        for row in rows if row.written
    )  # fmt: skip
    wide = f"{{{before}\n    #pragma unroll\n    for (int {k} = 0; {k} < {count}; {k}++) {done}\n   {after} }}"
    if one.shape == "loop":
        return _of_loop(code, one, types, count, wide, number)
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
    code: str, one: Elements, types: dict[Row, str], count: int, wide: str, number: int
) -> list[Span]:  # fmt: skip
    at_first = {row: re.sub(rf"\b{one.name}\b", "0", row.at) for row in one.rows}
    asked = " && ".join(_aligned(row, types[row], at_first[row]) for row in one.rows)
    declared = code.startswith("while", one.declared[0])
    named = one.name if declared else f"{one.kind} {one.name}"
    last = f"{one.name} < {one.bound}"
    whole = f"{one.name}_whole" + (str(number) if number > 1 else "")
    bound, start, step = (f"({x})" if re.search(r"[^\w.]", x) else x for x in (one.bound, one.start, one.step))
    return [
        (*one.declared,
         f"const {one.kind} {whole} = {asked} ? {bound} / {count} * {count} : 0;\n"
         f"  for ({named} = {start} * {count}; {one.name} < {whole}; {one.name} += {step} * {count}) {wide}\n"
         + (f"  {one.name} = {whole} + {start};\n  while ({last}) " if declared else
            f"  for ({named} = {whole} + {start}; {last}; {one.name} += {one.step})")),
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
    if text.startswith("{"):
        return text
    return f"{{\n{text}\n}}" if "#" in text else f"{{ {text.strip()} }}"


def _moved(text: str, name: str, k: str) -> str:
    return re.sub(rf"(?<![\w.])(?<!->){name}\b", f"({name} + {k})", text)
