"""Loads that a thread makes once, could have in flight together, and waits for one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from kscope.features.facts import SPIN, Code, Column, Facts
from kscope.rules.base import counted, percent

ROUNDS = 2.0  # of a loop, from which a later round's loads can be issued early
NEAR = 0.75  # of the longest wait, from which another is as long (judged)
EARLIER = "all loads of a thread before the first use of any; fuse with what runs before or after"
FAINT = 0.02  # of the waiting, below which a wait is none
ONCE = 2.0  # rounds, below which what a loop holds is code that runs once
REGISTERS = 255  # a thread, by the instruction set


class InRow(Struct, frozen=True):
    """count: waits in a row; sooner: how many times shorter the waiting for all loads is once `together` waits at a
    time are one, behind the loads of all of them, and as long as the longest; less what the warps that have no room
    beside the `registers` more cover no longer."""

    count: int
    sooner: float
    together: int = 1
    registers: int = 0


class Wait(Struct):
    """samples: of all loads that are waited for at once; registers: that these loads fill."""

    samples: float = 0.0
    registers: int = 0


def waits_in_row(facts: Facts, code: Code, loads: Iterable[int]) -> InRow:
    """Of these loads, those that run once a thread: outside loops, or in loops of hardly more than one round. A load is
    behind a wait where the value of an earlier one is used before it is issued: a store that might be to the same
    array, a branch or a predicate keeps the compiler from moving it up. Loads whose address is loaded and those of rare
    branches stay where they are; barriers keep all loads behind them that may read what another thread has stored."""
    waited = code.blame.by_producer.get("long_scoreboard")
    every = sorted(loads)
    total = sum(waited[i] for i in every) if waited is not None else 0.0
    if waited is None or not total:
        return InRow(count=0, sooner=1.0)
    rows = _rows(facts, code, every, waited)
    count = max(sum(w.samples > FAINT * total for w in row) for row in rows)
    best = InRow(count=count, sooner=1.0)
    for together in range(2, max(map(len, rows)) + 1):
        chunks = [row[k : k + together] for row in rows for k in range(0, len(row), together)]
        saved = sum(_all(chunk) - max(w.samples for w in chunk) for chunk in chunks)
        more = max(sum(w.registers for w in chunk) - max(w.registers for w in chunk) for chunk in chunks)
        sooner = total / max(total - saved, 0.01 * total) * _left(facts, more)
        if sooner > best.sooner:
            best = InRow(count=count, sooner=sooner, together=together, registers=more)
    return best


def _all(waits: list[Wait]) -> float:
    return sum(w.samples for w in waits)


def _left(facts: Facts, more: int) -> float:
    """Share of the resident warps that an SM still holds with so many registers more a thread."""
    launch, geometry = facts.kernel.launch, facts.counters.launch
    now = min(geometry.resident_warps, geometry.warps / geometry.sms)
    if launch.registers + more > REGISTERS:
        return 0.0
    shared = launch.shared_static + launch.shared_dynamic
    if facts.profile.occupancy_with(launch.registers, launch.threads, shared) is None or not now:
        return 1.0  # a chip that is not known
    then = facts.profile.occupancy_with(launch.registers + more, launch.threads, shared)
    return min(1.0, then.warps / now) if then is not None else 0.0


def _rows(facts: Facts, code: Code, loads: list[int], waited: Column) -> list[list[Wait]]:
    """The waits in the order of the code; another row behind a barrier that keeps loads."""
    barriers = code.ran(code.where(lambda ins, op: "barrier" in op.kind))
    rows: list[list[Wait]] = [[]]
    stop, often = -1, max(code.executed[i] for i in loads) / 2
    for i in loads:
        if not _once(facts, code, i) or code.executed[i] < often or facts.addresses.gathers(i):
            continue
        used = min((c for c in code.defuse.consumers(i) if c > i), default=i)
        if "CONSTANT" not in code[i].mods and any(stop <= b < i for b in barriers) and rows[-1]:
            rows.append([])
        if i > stop or not rows[-1]:
            rows[-1].append(Wait())
            stop = used
        stop = min(stop, used)
        rows[-1][-1].samples += waited[i]
        rows[-1][-1].registers += math.ceil(code.classes[i].bytes / 4)
    return rows


def _once(facts: Facts, code: Code, index: int) -> bool:
    loop = code.cfg.loop_of[index]
    return loop is None or facts.patterns.trips(loop) < ONCE


def earlier(row: InRow) -> str:
    """The remedy in words."""
    if row.together >= row.count:
        return EARLIER
    return f"the loads of {row.together} waits before the first use of any: as many as there are registers for"


def in_a_row(row: InRow) -> str:
    """How many waits stand in a row, and what is left of them."""
    some = "" if row.together >= row.count else f"{row.together} waits "
    return (
        f" {counted(row.count, 'wait')} stand in a row, for loads that need nothing of each other; issued "
        f"{some}together, they would wait {percent(1 / row.sooner)} of that."
    )


def fetching(facts: Facts, code: Code) -> list[int]:
    """Loads that bring data from afar: neither a thread's own local memory, nor a flag that a loop asks for until
    another warp has set it."""
    polled = {n for n, kind in facts.patterns.loop_kinds.items() if kind == SPIN}
    loads = code.where(
        lambda ins, op: op.scoreboard == "long" and op.access in ("load", "async_copy") and op.space != "local"
    )
    return [i for i in loads if code.cfg.loop_of[i] not in polled] if polled else loads


LOADS, FETCHES = "global loads", "texture fetches"


def named(code: Code, hot: list[int]) -> str:
    """What most of these loads are, in words."""
    textures = [i for i in hot if code.classes[i].pipe == "tex"]
    return FETCHES if 2 * code.blamed_share(textures) > code.blamed_share(hot) else LOADS


def loops_first(facts: Facts, code: Code, hot: list[int]) -> list[int]:
    """Of loads that are waited for about as long, those of a loop's rounds lead: more of these can be on their way."""

    def walks(i: int) -> bool:
        loop = code.cfg.loop_of[i]
        return loop is not None and facts.patterns.trips(loop) >= ROUNDS

    near = [i for i in hot if code.blamed[i] >= NEAR * code.blamed[hot[0]]]
    return sorted(hot, key=lambda i: not (i in near and walks(i)))
