"""Warps that a launch has and its data do not need: they start, skip every access to data of their block, and end.

What a block works on hangs on its index: an access whose address does (or that follows loaded data) is work; one whose
address is the same in all blocks reads a table, whoever loads it. The share of the warps that ever make one of these
accesses, by branches around them or by their own guards, is the share that has data; inside a loop those that enter
count, not its rounds, unless rounds pass the access by. That the others are of no use is claimed only where nothing
that they compute leaves them: no shuffle, vote or atomic, and no store into shared memory but that of a table.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.features.patterns.loop_parallelism import trips
from kscope.features.profile.code import Code
from kscope.features.sass.columns import total
from kscope.features.sass.slices import address_origins, stored
from kscope.isa.families import family

PASSED = "thread_inst_executed_true"  # lanes that an instruction's own guard lets through, of those that are active
OWN = frozenset({"x", "y", "z", "load"})
EACH = 0.99  # of a loop's rounds, from which an access belongs to all of them
_HANDS_ON = family("hands_on")


class Idle(Struct, frozen=True):
    """`working`: share of the launched warps that touch data of their block, 0..1; `held`: share of all warp samples
    in which a warp without data keeps its place; `members`: the instructions that such warps execute as well;
    `places`: the accesses that most of the others make."""

    working: float
    held: float
    members: tuple[int, ...]
    places: tuple[int, ...]


def idle(code: Code, warps: int) -> Idle | None:
    """warps: of the launch. None without counts of lanes, where no access hangs on the block, or where warps that make
    none may still serve others."""
    here = [share / warps for share in _entered(code)] if warps else []
    taking = _taking(code, here)
    if not taking:
        return None
    working = min(1.0, max(taking.values()))
    members = tuple(i for i, share in enumerate(here) if share > working * 1.5)
    if any(_hands_on(code, i, set(taking)) for i in members):
        return None
    # Of the warps at an instruction, those beyond the ones that have data have none.
    every = total(code.samples)
    lost = sum(s * max(0.0, 1 - working / share) for s, share in zip(code.samples, here, strict=True) if share > 0)
    return Idle(working, lost / every if every else 0.0, members, tuple(i for i in taking if taking[i] >= working / 2))


def at_work(code: Code) -> float:
    """Warps that come to where half of all samples or more are, by executions; 0 without samples."""
    every, below = total(code.samples), 0.0
    if not every:
        return 0.0
    for warps, samples in sorted(zip(_entered(code), code.samples, strict=True), reverse=True):
        below += samples
        if 2 * below >= every:
            return warps
    return 0.0


def _taking(code: Code, here: list[float]) -> dict[int, float]:
    """Share of the warps that make each access to data of their block; empty where that cannot be told."""
    passed = code.column(PASSED)
    if passed is None or not here or not any(code.threads):
        return {}
    touching = code.ran(code.where(lambda ins, op: op.access is not None and op.space in ("global", "generic")))
    found = {i: address_origins(code, i) for i in touching}
    if any(origins is None for origins in found.values()):
        return {}
    work = [i for i, origins in found.items() if origins and origins & OWN]
    return {i: _takers(code, i, here[i]) * min(1.0, passed[i] / code.threads[i]) for i in work if code.threads[i]}


def _takers(code: Code, index: int, here: float) -> float:
    """Share of the warps that make an access in a loop. Where its rounds pass it by, other warps may make it in each
    (the steps of a tree): as many as all rounds together allow, for none of them can be told to be without data."""
    loop = code.cfg.loop_of[index]
    if loop is None:
        return here
    rounds = code.executed[code.cfg.blocks[code.cfg.loops[loop].header].start]
    return here if code.executed[index] >= EACH * rounds else min(1.0, here * trips(code, loop))


def _entered(code: Code) -> list[float]:
    """Warps that come to each instruction: its executions over the rounds of the loops around it."""
    rounds = [trips(code, loop) for loop in range(len(code.cfg.loops))]
    out = []
    for i, executed in enumerate(code.executed):
        for loop in code.cfg.loops_around(i):
            executed /= rounds[loop]
        out.append(executed)
    return out


def _hands_on(code: Code, index: int, work: set[int]) -> bool:
    """Whether other warps or lanes could read what an instruction computes; a table that is copied into shared memory
    needs no more threads than have data."""
    ins, op = code[index], code.classes[index]
    if ins.opcode in _HANDS_ON:
        return True
    if op.access not in ("store", "atomic", "reduction") or op.space == "local" or index in work:
        return False
    brought = {p for r in stored(code, index) for p in code.defuse.producers(index, r)}
    return not brought or any(code.classes[p].access != "load" or p in work for p in brought)
