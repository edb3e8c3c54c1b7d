"""Rows that blocks add to places of an index: in an order by their index, which the host makes once, so that a block
has neighbours of one index, which are summed up before they are added."""

from __future__ import annotations

from kscope.fixes.atomics.reading import Kernel
from kscope.fixes.given.conditions import not_written, proved
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import shape
from kscope.fixes.order.alike import CELLS, CONSTANT, Side, alike, called
from kscope.fixes.order.runs import KEYS, Rows, asked_rows, atomics, keyed, written
from kscope.fixes.order.sorted_once import Sorting, again, given, sorted_by
from kscope.fixes.order.whole import body_edits, named
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

ORDER = "order_n"


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, code, found = asked.setting, asked.setting.launch, asked.setting.code, asked_rows(asked)
    if found is None or launch is None:
        return []
    kernel, one, count = found
    made = sorting(kernel, setting.name, one)
    body = written(one, count, ORDER) if made is not None else ""
    played = same(kernel, one, made, body, launch.block[0], count) if made is not None and body else 0
    span = (kernel.text.code.rfind(")", 0, kernel.opening), kernel.closing + 1)
    edits = body_edits(setting, kernel.text, span, f", const int* __restrict__ {ORDER}) {body}") if played else []
    if made is None or not edits:
        return []
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    launched = [shape((launch.grid[0] // count,)), shape(launch.block)]
    launched += [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    heading = f"// rows in the order of {one.index}[]"
    use = (
        f"// {again([one.index])}, for as many rows as a launch had blocks:\n"
        f"// {setting.name}_order({made.arguments}, {ORDER}, many_n);\n"
        f"// launch: {setting.name}<<<{', '.join(launched)}>>>({made.arguments}, {ORDER});"
    )
    return [
        Fix(
            kind="jam",
            title=f"{count} rows a block in an order that is sorted by {one.index}[] once: those of one place are "
            "summed up, then added once",
            language="cuda",
            code=f"{made.code(heading)}\n{use}",
            edits=edits,
            parameters={"rows": count, "grid.x": launch.grid[0] // count},
            conditions=[
                proved("every place gets the same sum", "values", played,
                       f"both versions played, {2 * count} rows on few places and on one, every result compared"),
                *not_written(code, loads),
                Condition(holds=f"{one.index}[] is the same for many launches, or comes with its order", state="check",
                          why="a sort takes as long as a launch, or longer; without one for a new one results stay "
                          "right, and neighbours have one place less often"),
                Condition(holds=f"every launch has a multiple of {count} rows", state="check",
                          why="there is no test for a rest"),
            ],
            proof=[
                Proof(what=f"additions to a place that {count} neighbours in the order have", before=count, after=1,
                      unit="atomics", how=f"of {atomics(setting):.3g} atomics of lanes in all"),
            ],
            costs=["a sort in the host's code", f"{count} values a thread in registers",
                   f"{8 * count} bytes of shared memory a block, one barrier"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def sorting(kernel: Kernel, name: str, one: Rows) -> Sorting | None:
    """The order of rows; None where the kernel's parameters are not taken over as they stand."""
    text = given(kernel, name)
    if text is None or named(ORDER, kernel.text.code):
        return None
    *steps, key = keyed(one, "(int)at_n")
    return Sorting(name, *text, "int", "(int)at_n", tuple(steps), key, one.whole, "0")


def same(kernel: Kernel, one: Rows, made: Sorting, body: str, block: int, count: int) -> int:
    """How many results came out alike in both versions; 0 where one did not."""
    functions = called(kernel)
    if functions is None:
        return 0
    old = Side(kernel.text.code[kernel.opening : kernel.closing + 1], (2 * count, 1), (block, 1), opaque=functions)
    new = Side(body, (2, 1), (block, 1), opaque=functions)
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    compared = 0
    for below in KEYS:
        arrays = {one.index: np.random.default_rng(block).integers(0, below, CELLS)}
        for size in (block // 2 + 3, CONSTANT) if numbers else (0,):
            sizes = dict.fromkeys(numbers, size)
            order = sorted_by(kernel, made, 2 * count, sizes, arrays)
            if order is None:
                return 0
            played = alike(kernel, old, new, [sizes], given=arrays, instead={ORDER: order})
            if not played:
                return 0
            compared += played
    return compared
