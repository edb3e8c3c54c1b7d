"""Where atomics go: inside the SM or to L2, each to a place of its own, two to places side by side."""

from __future__ import annotations

from itertools import combinations

from kscope.features.facts import SECTOR, SECTORS, Code, Facts, total
from kscope.model.kernel import Metrics
from kscope.model.operand import memory_operand

WORD = 4
ALONE = 0.9  # sectors a lane from which lanes do not meet, and of those the share FETCHED from device memory from which
FETCHED = 0.5  # no other warp had them in L2 (judged: a hash table of 512 MB has 1.0 and 1.1; reductions 0.0 to 0.4)


def apart(facts: Facts, code: Code, atomics: list[int]) -> bool:
    """Each lane's atomic takes a sector of its own, and most of these come from device memory: a table far larger than
    L2, at whose places nobody meets."""
    outside, inside = spaces(code, atomics)
    sectors, moved = code.column(SECTORS), facts.counters.traffic.dram_bytes
    if inside or sectors is None or moved is None:
        return False
    mine, every = total(sectors, outside), total(sectors)
    brought = moved - (every - mine) * SECTOR
    return mine > 0 and mine >= ALONE * total(code.threads, outside) and brought >= FETCHED * mine * SECTOR


def beside(facts: Facts, code: Code, atomics: list[int]) -> list[int]:
    """The atomics on the word next to that of others in the same array: of two places the one less often changed."""
    places: dict[tuple[str, int], list[int]] = {}
    for i in atomics:
        operand, array = memory_operand(code[i].operands), facts.addresses.pointer(i)
        if operand is not None and array is not None:
            places.setdefault((array, operand.value), []).append(i)
    out = set[int]()
    for (one, here), (other, there) in combinations(places, 2):
        size = max(WORD, *(code.classes[i].bytes for i in (*places[one, here], *places[other, there])))
        if one == other and 0 < abs(here - there) <= size:
            pair = places[one, here], places[other, there]
            out.update(min(pair, key=lambda members: total(code.executed, members)))
    return sorted(out)


def spaces(code: Code, atomics: list[int]) -> tuple[list[int], list[int]]:
    """(outside the SM, on shared memory)."""
    inside = [i for i in atomics if code.classes[i].space == "shared"]
    return [i for i in atomics if i not in inside], inside


def sectors_share(facts: Facts, atomics: list[int]) -> float:
    """Share of the sectors that L2 handles which are these atomics', 0..1: as L2 counts them, a lane at a time, where
    the report has that."""
    m = facts.kernel.metrics
    every = m.get("lts__t_sectors_srcunit_tex.sum")
    counted = [_counted(m, kinds) for kinds in (("red",), ("atom",), ("atom_dot_alu", "atom_dot_cas"))]
    red, atom, *parts = counted
    swapped = next((c for c in (atom, *parts) if c is not None), None)  # before sm_80 by what is done to them
    if not every or red is None or swapped is None:
        return facts.profile.sectors_share(atomics)
    return min(1.0, (red + swapped) / every)


def _counted(metrics: Metrics, kinds: tuple[str, ...]) -> float | None:
    found = [metrics.get(f"lts__t_sectors_srcunit_tex_op_{kind}.sum") for kind in kinds]
    return None if None in found else sum(x for x in found if x is not None)
