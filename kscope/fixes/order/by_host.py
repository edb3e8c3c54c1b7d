"""Lanes of a warp that go different ways, as their elements say, where an array says which element a thread takes: the
host sorts that array by the ways once."""

from __future__ import annotations

import re

from msgspec import structs

from kscope.fixes.atomics.reading import Kernel, kernel_of, one_each
from kscope.fixes.given.conditions import not_written, proved
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import asked_here
from kscope.fixes.order.alike import CELLS, Side, alike, called, pointers
from kscope.fixes.order.by_way import PLAYED, TOGETHER, WARP, Ways, arrays_given, lanes, told, ways
from kscope.fixes.order.pieces import WHOLE, Element, element
from kscope.fixes.order.sorted_once import Sorting, again, given, sorted_by
from kscope.fixes.order.whole import declared, named
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

_LOADED = re.compile(r"(?P<array>\w+)\s*\[(?P<at>[^\[\]]*)\]")
_NUMBERS = ("int", "unsigned", "unsigned int", "int32_t", "uint32_t", "size_t", "long long", "int64_t")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    kernel = kernel_of(setting)
    one = taken(kernel) if kernel is not None else None
    found = ways(kernel, one) if kernel is not None and one is not None else None
    together = code.where(lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space == "shared"
                          or ins.opcode in TOGETHER or op.access in ("atomic", "reduction"))  # fmt: skip
    if kernel is None or one is None or found is None or launch is None or together:
        return []
    array, at = order_of(one)
    if not told(asked.finding, kernel, found.text) or not asked_here(code, kernel.text, "TID"):
        return []
    made = sorting(kernel, setting.name, one, found)
    if made is None or not one_each(setting, kernel.text, at):
        return []
    played = same(kernel, made, found, array, launch.block[0])
    if not played:
        return []
    asks = [n for n in pointers(kernel) if any(named(n, s) for s in (made.way, *made.steps))]
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    warps = launch.threads * launch.blocks // WARP
    after = WARP / (1 + (found.count - 1) / warps)
    what = f"{found.count} ways" if found.count > 1 else "those that go on first"
    use = (
        f"// {again(asks)}, for as many as a launch takes:\n"
        f"// {setting.name}_order({made.arguments}, sorted_n, many_n);\n"
        f"// launch: {setting.name}<<<...>>> with sorted_n in place of {array}"
    )
    return [
        Fix(
            kind="lane_mapping",
            title=f"{array}[] sorted by {what}, once: lanes of a warp go together",
            language="cuda",
            code=f"{made.code(f'// {array}[] in the order of the ways that its elements go')}\n{use}",
            parameters={"ways": found.count},
            conditions=[
                proved(f"results do not ask for the order of {array}[]", "values", played,
                       f"the kernel played with {array}[] as it was and sorted, every result compared"),
                proved("each thread works alone", "code", code,
                       "no barrier, no shared memory, no exchange of lanes, no atomic"),
                *not_written(code, loads),
                Condition(holds=f"{array}[] is the same for many launches, and each takes all that was sorted",
                          state="check", why="a sort takes longer than a launch; without one for new "
                          f"{' and '.join(asks)} results stay right, and lanes part again"),
            ],
            proof=[
                Proof(what="lanes at work of a warp, the mean", before=round(lanes(setting, found.count), 1),
                      after=round(after, 1), unit="lanes",
                      how=f"{found.count} ways over {warps} warps' elements: where one way ends and the next begins, a "
                      "warp has both"),
            ],
            costs=["a sort in the host's code", "neighbouring lanes no longer load for neighbouring elements"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def taken(kernel: Kernel) -> Element | None:
    """A kernel whose threads are known by the element alone that an array, which is read there only, gives to each."""
    one = element(kernel)
    if one is None:
        return None
    before = list[str]()
    all_ = [*one.found, *one.rest]
    for n, statement in enumerate(all_):
        made, rest = declared(statement), "\n".join(all_[n + 1 :])
        found = _LOADED.fullmatch(made[0].value) if len(made) == 1 else None
        if found is not None:
            array, own = found["array"], [d.name for s in before for d in declared(s)]
            fits = pointers(kernel).get(array) in _NUMBERS and made[0].kind in WHOLE and not made[0].array
            alone = len(re.findall(rf"(?<![\w.])(?<!->){array}\b", kernel.body)) == 1
            if not fits or not alone or "const" not in kernel.parameters[array] or any(named(x, rest) for x in own):
                return None
            return structs.replace(one, found=(*before, statement), carried=(made[0],), rest=tuple(all_[n + 1 :]))
        if "[" in statement or not (made or statement.endswith(" continue;")):
            return None
        before.append(statement)
    return None


def order_of(one: Element) -> tuple[str, str]:
    """(array, place) of the load that says which element a thread takes."""
    found = _LOADED.fullmatch(one.carried[0].value)
    assert found is not None
    return found["array"], found["at"]


def sorting(kernel: Kernel, name: str, one: Element, found: Ways) -> Sorting | None:
    """The order by ways."""
    (d,), (array, _), text = one.carried, order_of(one), given(kernel, name)
    *more, way = found.way.split("\n")
    if text is None:
        return None
    value = f"{array}[at_n]"
    steps = (*one.same, f"const {d.kind} {d.name} = {value};", *found.asked, *more)
    return Sorting(name, *text, pointers(kernel)[array], value, steps, way, "unsigned char", str(found.count))


def same(kernel: Kernel, made: Sorting, found: Ways, array: str, block: int) -> int:
    """How many results came out alike with the order as it was drawn and sorted; 0 where one did not."""
    functions = called(kernel)
    if functions is None:
        return 0
    side = Side(kernel.text.code[kernel.opening : kernel.closing + 1], (PLAYED, 1), (block, 1), opaque=functions)
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    compared = 0
    for many in (PLAYED * block, PLAYED * block - block // 2 - 1)[: 2 if numbers else 1]:
        sizes = dict.fromkeys(numbers, many)
        arrays = arrays_given(kernel, found, np.random.default_rng(many), [])
        arrays[array] = np.random.default_rng(block).permutation(CELLS)
        new = sorted_by(kernel, made, many, sizes, arrays)
        if new is None or (new == arrays[array][:many]).all():
            return 0
        now = np.concatenate([new, arrays[array][many:]])
        played = alike(kernel, side, side, [sizes], given=arrays, instead={array: now})
        if not played:
            return 0
        compared += played
    return compared
