"""Which accesses touch elements of a thread's own, and what a thread pays once whatever it has of them: GRD405 asks.
Items that blocks work on, each its own, and join."""

from __future__ import annotations

from kscope.features.facts import Code, Facts, Items

MANY = 4.0  # waves from which smaller blocks still fill the device
SOME = 2.0  # the same of a warp an item: as many threads less have as many elements more in flight each
SHORT = 2.5  # rounds of a thread, up to which what it pays once counts; above, it has a loop of its own
WARP = 32


def reads(code: Code, index: int) -> bool:
    return code.classes[index].access in ("load", "async_copy")


def writes(code: Code, index: int) -> bool:
    return code.classes[index].access in ("store", "atomic", "reduction")


def reduces_to(code: Code, touching: list[int], times: float) -> bool:
    """Whether more than `times` as many bytes are read as written."""
    read, written = (
        sum((code.threads[i] or 32 * code.executed[i]) * code.classes[i].bytes for i in touching if access(code, i))
        for access in (reads, writes)
    )
    return read > times * written


def elements_of(facts: Facts, code: Code) -> list[int]:
    """Executed global accesses that differ between threads."""
    spaces = code.where(lambda ins, op: op.space == "global" and op.access is not None)
    return [i for i in code.ran(spaces) if not reads(code, i) or _differs(facts, i)]


def _differs(facts: Facts, index: int) -> bool:
    """The address is the thread's own, or loaded data, or unknown."""
    origins = facts.addresses.origins(index)
    return origins is None or bool(origins & {"tid", "load"})


def paid_once(code: Code, elements: set[int], *, reduces: bool) -> list[int]:
    """Special registers, parameters and uniform loads; where the blocks reduce, also shuffles, shared memory,
    barriers and the final atomics, and all that comes behind the loop over a thread's elements."""
    indexed = set(code.indexed_constants)
    around = {code.cfg.loop_of[i] for i in elements if reads(code, i)}
    last = max((i for i in elements if reads(code, i)), default=0) if reduces and None not in around else len(code)

    def once(i: int) -> bool:
        op = code.classes[i]
        if "launch_value" in op.kind:
            return i not in indexed
        if op.space == "global" and reads(code, i):
            return i not in elements
        tree = op.space == "shared" or "tree_step" in op.kind or (writes(code, i) and op.access != "store")
        return reduces and (tree or (i > last and code.cfg.loop_of[i] not in around))

    return [i for i in range(len(code)) if code.executed[i] > 0 and once(i)]


def items_of(facts: Facts, waves: float = MANY) -> Items | None:
    """The items of a launch of many waves; None where blocks have none, or roles share the work."""
    floor, launch = facts.estimate.latency_floor, facts.counters.launch
    if facts.code is None or floor is None or launch.waves < waves or facts.specialized.asynchronous:
        return None
    return facts.profile.items(facts.kernel.launch.block, launch.warps, floor.walk)


def of_a_warp(facts: Facts) -> Items | None:
    """Items that would do with a warp each, several a block: threads have few elements now."""
    work = items_of(facts, SOME)
    return work if work is not None and WARP <= work.elements <= SHORT * work.threads else None
