"""Loads that wait for the stores of the rounds before them, which may be to the same array for all that a compiler
knows: all of a loop's loads before its first store, in registers. Measured: 1.99x for eight rounds (streams.first)."""

from __future__ import annotations

import math

from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import pointer
from kscope.fixes.atomics.reading import kernel_of
from kscope.fixes.given.conditions import WRITES, not_written, proved, reads
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, spans_edited
from kscope.fixes.thread.split import Split, splits
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

LEAST = 3  # loads behind stores, from which a row of waits is one (as LAT302 counts them)
WORDS = 48  # registers that hold what is loaded first, at most (judged)
REGISTERS = 255  # a thread, by the instruction set
LESS = 2  # times fewer warps of an SM than before are none the worse: each has more loads on their way (judged)
BEHIND = "loads behind a store of their thread"


def fixes(asked: Asked) -> list[Fix]:
    setting, kernel = asked.setting, kernel_of(asked.setting)
    if kernel is None:
        return []
    at = {x.pc for x in asked.finding.locations}
    for one in splits(kernel):
        loads = _within(setting, kernel.text, one)
        late = behind(setting.code, loads)
        if len(late) < LEAST or 2 * len(late) < len(loads) or not any(setting.code[i].pc in at for i in loads):
            continue
        edits = spans_edited(setting, kernel.text, one.spans(kernel.text.code))
        if edits and _apart(setting, loads) and _fits(setting, loads):
            return [_fix(asked, one, loads, late, edits)]
    return []


def _fix(asked: Asked, one: Split, loads: list[int], late: list[int], edits: list[Edit]) -> Fix:
    setting, code = asked.setting, asked.setting.code
    arrays = ", ".join(dict.fromkeys(h.array for h in one.held))
    between = range(loads[0], loads[-1])
    return Fix(
        kind="hoist",
        title=f"the loads of {arrays} in all {one.count} rounds before the first store",
        language="cuda",
        edits=edits,
        parameters={"rounds": one.count},
        conditions=[
            reads("where a round loads follows from its number alone", f"names in the index of {arrays}"),
            *not_written(code, loads),
            proved("nobody else is waited for between these loads", "code", between,
                   "no barrier, fence, atomic or call among the instructions from the first of them to the last"),
            Condition(holds=f"registers hold what {one.count} rounds load without spills", state="check",
                      why="kscope fix --check on the new cubin"),
        ],
        proof=[
            Proof(
                what=BEHIND, before=len(late), after=0, unit="loads",
                how=f"{len(loads)} loads in {one.count} rounds; a compiler keeps them there: the arrays could be one",
            ),
        ],
        costs=[f"{_words(setting, loads)} registers a thread"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _within(setting: Setting, text: Text, one: Split) -> list[int]:
    """Global loads of the loop's lines."""
    code = setting.code
    first, last = (text.first + text.code[:at].count("\n") for at in (one.loop.span[0], one.loop.body[1]))
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    lines = range(first, last + 1)
    return [i for i in loads if any(p.file == text.file and p.number in lines for p in places(setting, [i]))]


def behind(code: Listing, loads: list[int]) -> list[int]:
    """Those of some loads that stand behind a store to global memory, in code without branches, and are not known to
    read what nobody writes."""
    out = []
    stores = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "store"))
    first: dict[int, int] = {}
    for i in stores:
        first.setdefault(code.cfg.block_of[i], i)
    for i in loads:
        if "CONSTANT" not in code[i].mods and first.get(code.cfg.block_of[i], i) < i:
            out.append(i)
    return out


def all_behind(setting: Setting) -> float:
    """Of a kernel."""
    code = setting.code
    return len(behind(code, code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))))


def _apart(setting: Setting, loads: list[int]) -> bool:
    """Whether nothing between the loads asks for their order but stores through other parameters."""
    code = setting.code
    between = range(loads[0], loads[-1])
    waits = code.where(lambda ins, op: bool(op.kind & {"barrier", "fence", "call", "mbarrier"}) or (
        op.access in WRITES and op.access != "store"))  # fmt: skip
    stores = code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "store")
    written = {pointer(code, i) for i in stores if i in between} - {None}
    return not any(i in between for i in waits) and written.isdisjoint({pointer(code, i) for i in loads})


def _words(setting: Setting, loads: list[int]) -> int:
    return sum(math.ceil(setting.code.classes[i].bytes / 4) for i in loads)


def _fits(setting: Setting, loads: list[int]) -> bool:
    """Whether registers hold what is loaded first, and an SM still nearly as many warps."""
    more, now = _words(setting, loads), setting.registers or 0
    if more > WORDS or now + more > REGISTERS:
        return False
    held, then = setting.occupancy(), setting.occupancy(registers=now + more)
    return held is None or then is None or LESS * then.warps >= held.warps
