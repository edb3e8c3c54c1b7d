"""The instructions that compute one thing: a math function or a division, around the instruction that betrays it."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.listing import Listing

COMPUTE = ("fma", "fmaheavy", "alu", "xu", "fp16", "fp64")
DEPTH = 12  # steps along def-use that one inlined function spans


def computation(code: Listing, seeds: Iterable[int]) -> set[int]:
    """Arithmetic (no memory access) that belongs to the same computation as the seeds.

    With line information: what shares a source line with a seed, for an inlined function is listed under the line
    that calls it, and is tied to a seed by def-use. Without: what def-use ties to it within DEPTH steps.
    """
    seeds = list(seeds)
    lines = {(code[i].file, code[i].line) for i in seeds if code[i].line is not None}
    found: set[int] = set(seeds)
    work = [(i, 0) for i in seeds]
    while work:
        i, depth = work.pop()
        if depth >= DEPTH:
            continue
        near = [p for ps in code.defuse.sources(i).values() for p in ps]
        for j in (*near, *code.defuse.consumers(i)):
            if j not in found and _computes(code, j) and (not lines or (code[j].file, code[j].line) in lines):
                found.add(j)
                work.append((j, depth + 1))
    return {i for i in found if code.executed[i] > 0}


def feeding(code: Listing, members: Iterable[int]) -> list[int]:
    """Integer work that serves nothing but these instructions: the addresses that go when they go."""
    chosen = set(members)
    work = list(chosen)
    while work:
        i = work.pop()
        for producers in code.defuse.sources(i).values():
            for p in producers:
                op = code.classes[p]
                if p in chosen or op.access is not None or not op.kind & {"int", "int_mul", "move"}:
                    continue
                if all(c in chosen or c == p for c in code.defuse.consumers(p)):
                    chosen.add(p)
                    work.append(p)
    return sorted(i for i in chosen if code.executed[i] > 0)


def behind(code: Listing, stores: Iterable[int]) -> list[int]:
    """The arithmetic that computes the values that stores write, from the loads on: addresses are left aside."""
    found: set[int] = set()
    work = [p for i in stores for r in stored(code, i) for p in code.defuse.producers(i, r)]
    while work:
        i = work.pop()
        if i in found or code.classes[i].access is not None:
            continue
        found.add(i)
        work += [p for producers in code.defuse.sources(i).values() for p in producers]
    return sorted(found)


def stored(code: Listing, store: int) -> list[int]:
    """Registers that a store writes to memory: the last of those that it reads."""
    return list(code[store].uses[-max(1, code.classes[store].bytes // 4) :])


def _computes(code: Listing, index: int) -> bool:
    op = code.classes[index]
    return op.access is None and op.pipe in COMPUTE
