"""Accesses whose lanes are neighbours, and how many of them a thread could make as one."""

from __future__ import annotations

from collections.abc import Mapping

from kscope.features.lanes.strides import lane_stride
from kscope.features.patterns.loop_parallelism import rounds_side_by_side
from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text
from kscope.fixes.memory.neighbours import MOST, WIDEST
from kscope.fixes.thread.callees import NONE, Callees
from kscope.fixes.thread.element_types import width
from kscope.fixes.thread.elements import Elements

WHOLE = 0.9  # of the accesses whose lanes are neighbours, from which the finding's promise is this change's (judged)
MOSTLY = 0.6  # of the elements that ask for an array, from which all may be read (judged)
PASSED = "thread_inst_executed_true"  # lanes that an instruction's own guard lets through
NEARLY = 0.85  # of a block's threads that have elements in a single round, from which that is as good as all (judged)


def narrow(setting: Setting) -> list[int]:
    """Accesses of global memory whose lanes are neighbours, and which could be wider."""
    code = setting.code
    here = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    return [i for i in here if 0 < code.classes[i].bytes < WIDEST and _beside(setting, i)]


def _beside(setting: Setting, index: int) -> bool:
    return lane_stride(setting.code, index, setting.block) == setting.code.classes[index].bytes


def all_of(setting: Setting, mine: list[int], beside: list[int]) -> bool:
    """Whether some accesses are all that a finding is about."""
    executed = setting.code.executed
    return total(executed, mine) >= WHOLE * total(executed, beside)


def made_by(setting: Setting, text: Text, one: Elements, beside: list[int]) -> list[int]:
    """Accesses that a piece of text makes: by their lines, or by the loop they are in where a function of another file
    makes them (a type's own conversions)."""
    code, lines = setting.code, _lines(text, one)
    kernel = range(text.first, text.first + text.code.count("\n") + 1)

    def on(index: int, where: range) -> bool:
        return any(f == text.file and n in where for f, n in setting.sites(index))

    called = [i for i in beside if not on(i, kernel)]
    if one.shape == "loop" and called:
        around = {code.cfg.loop_of[i] for i in range(len(code)) if on(i, lines)} - {None}
        called = [i for i in called if code.cfg.loop_of[i] in around]
    return sorted({*called, *(i for i in beside if on(i, lines))})


def whole(
    setting: Setting, text: Text, one: Elements, beside: list[int], types: Mapping[str, str], calls: Callees = NONE
) -> bool:  # fmt: skip
    """Whether elements are read and written by one access each, where the name of a type does not say how wide it is:
    a structure's members stand apart, and several structures are no size of an access."""
    if all(width(row.kind, types) for row in one.rows):
        return True
    code, lines = setting.code, _lines(text, one)
    here = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    kernel = set(range(text.first, text.first + text.code.count("\n") + 1)) - set(lines)
    others = {i for i in here if any(f == text.file and n in kernel for f, n in setting.sites(i))}
    handed = {function for function, _ in one.handed}
    bases = {pointer(code, i) for i in beside if handed}
    for i in here:
        if any(calls.holds(handed, *site) for site in setting.sites(i)) and pointer(code, i) not in {None, *bases}:
            others.add(i)  # through the pointer that it was handed
    return all(i in others or i in beside or code.classes[i].bytes >= WIDEST for i in here)


def mostly(setting: Setting, mine: list[int]) -> bool:
    """Whether threads read of each array most of what they read of any, counted by lanes: whole accesses of one that
    only some elements ask for then bring little more."""
    code, column = setting.code, getattr(setting.code, "column", None)
    lanes = column(PASSED) if column is not None else None
    loads = [i for i in mine if code.classes[i].access == "load"]
    bases = {pointer(code, i) for i in loads}
    if lanes is None or not loads or None in bases:
        return False
    read = [total(lanes, [i for i in loads if pointer(code, i) == base]) for base in bases]
    return min(read) >= MOSTLY * max(read) > 0


def widest(setting: Setting, mine: list[int]) -> int:
    """Bytes of the widest of some accesses, or of any where some are as wide as can be."""
    code = setting.code
    wide = code.ran(code.where(lambda ins, op: op.space == "global" and op.access is not None and op.bytes >= WIDEST))
    return WIDEST if wide else max(code.classes[i].bytes for i in mine)


def elements_at_once(one: Elements, types: Mapping[str, str], most: int) -> int:
    """Elements at once, by the widest of their types. most: bytes of their widest access, for types
    whose names do not say it."""
    return min(MOST, WIDEST // max(width(row.kind, types) or most for row in one.rows))


def fewer(setting: Setting, here: list[int], count: int) -> int:
    """The elements at once, fewer where threads do not come round as often."""
    loops = {setting.code.cfg.loop_of[i] for i in here}
    if None in loops:
        return 0
    fewest = min(rounds_side_by_side(setting.code, loop) for loop in loops if loop is not None)
    while count > 1 and fewest < NEARLY * count:
        count //= 2
    return count


def _lines(text: Text, one: Elements) -> range:
    count = text.code.count
    return range(text.first + count("\n", 0, one.body[0]), text.first + count("\n", 0, one.body[1]) + 1)
