"""Contiguous accesses that an aligned base would help: neighbours in a stencil cannot all start on a boundary."""

from __future__ import annotations

from kscope.features.facts import SECTOR, Code, Column, Facts
from kscope.model.operand import memory_operand

WARP = 32
_Place = tuple[int, int]
"""Offset in bytes from the address registers, and the instruction."""


def alignable(facts: Facts, code: Code, touched: Column, ideal: Column, least: float, most: float) -> Column:
    """The ideal sectors of each access, but those touched now where no alignment of the base saves any: of accesses
    that overlap a few elements apart (a[i - 1], a[i], a[i + 1]) only those alike modulo a sector can start on a
    boundary, and where some do already, moving the base moves the others' excess to them. least, most: excess over
    the ideal between which an access counts as misaligned."""
    out = list(ideal)
    for places in _bases(facts, code, touched, ideal, most).values():
        for near in _overlapping(code, places):
            kinds: dict[int, list[int]] = {}
            for offset, i in near:
                kinds.setdefault(offset % SECTOR, []).append(i)
            excess = {r: sum(touched[i] - ideal[i] for i in members) for r, members in kinds.items()}
            settled = any(excess[r] <= least * sum(ideal[i] for i in members) for r, members in kinds.items())
            best = None if settled else max(excess, key=excess.__getitem__)
            for residue, members in kinds.items():
                for i in members if len(kinds) > 1 and residue != best else ():
                    out[i] = touched[i]
    return out


def _bases(
    facts: Facts, code: Code, touched: Column, ideal: Column, most: float
) -> dict[tuple[str | None, object], list[_Place]]:
    """Loads whose lanes lie side by side, by the array that they read and the registers of their address."""
    out: dict[tuple[str | None, object], list[_Place]] = {}
    for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load")):
        address = memory_operand(code[i].operands)
        if address is not None and ideal[i] > 0 and touched[i] <= ideal[i] * (1 + most):
            key = facts.addresses.pointer(i), tuple(code.defuse.sources(i).get(address.bases[0].register, ())) \
                if address.bases else ()  # fmt: skip
            out.setdefault(key, []).append((address.value, i))
    return out


def _overlapping(code: Code, places: list[_Place]) -> list[list[_Place]]:
    """Accesses that lie nearer to each other than what a warp accesses at once: rows of a matrix do not."""
    out: list[list[_Place]] = []
    for offset, i in sorted(places):
        span = WARP * code.classes[i].bytes
        if out and offset - out[-1][-1][0] < span:
            out[-1].append((offset, i))
        else:
            out.append([(offset, i)])
    return out
