"""Which accesses touch elements of a thread's own, and what a thread pays once whatever it has of them: GRD405 asks."""

from __future__ import annotations

from kscope.features.facts import Code, Facts


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
    barriers and the final atomics."""
    indexed = set(code.indexed_constants)

    def once(i: int) -> bool:
        op = code.classes[i]
        if "launch_value" in op.kind:
            return i not in indexed
        if op.space == "global" and reads(code, i):
            return i not in elements
        tree = op.space == "shared" or "tree_step" in op.kind or (writes(code, i) and op.access != "store")
        return reduces and tree

    return [i for i in range(len(code)) if code.executed[i] > 0 and once(i)]
