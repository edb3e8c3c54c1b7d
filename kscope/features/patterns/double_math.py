"""Arithmetic of doubles: what belongs to it, and its functions, pow, exp, log, sin, division, square root. Each of
these is told by what only its code holds, a coefficient of its polynomial or the instruction that starts its iteration.

Source: SASS of the CUDA 13 math library for sm_90 (nvcc 13.0), one function a kernel; the counts of FP64 instructions
are those of the way that ordinary arguments take."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kscope.features.patterns.slicing import dying
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.isa.families import family

COEFFICIENTS = {
    "pow": (0x7D2CAFE2, 0x3EB0F5FF), "log": (0x3AE80F1E, 0x3EB1380B), "exp": (0x69CE2BDF, 0x3E5ADE15),
    "sin or cos": (0x6DC9C883, 0x3FE45F30),
}  # fmt: skip
"""Low and high word of a double that only this function multiplies by."""
STARTS = {"RCP64H": "division", "RSQ64H": "square root"}
COST = {"pow": 96, "log": 31, "exp": 18, "sin or cos": 17, "division": 9, "square root": 9}
"""FP64 instructions of one call."""
INSIDE = {"pow": ("exp", "division"), "log": ("division",)}
"""Functions that are part of another: pow is a logarithm, which divides, and an exponential."""

_DATA = ("global", "shared", "generic")
_EDGES = family("precision_edge")
"""Conversions: on their other side nothing is double."""


class Tabled(Struct, frozen=True):
    """Functions of doubles whose argument (the divisor of a division) follows from constants that an index picks, and
    from no other data: `anchors`, and in `members` all that follows so, with the branches that choose it."""

    anchors: tuple[int, ...]
    members: tuple[int, ...]


class DoubleCall(Struct, frozen=True):
    """`function` of COST; `calls`: executions, those inside other functions left out; `anchors`: where it shows."""

    function: str
    calls: float
    anchors: tuple[int, ...]

    @property
    def instructions(self) -> float:
        """FP64 instructions that the calls take."""
        return self.calls * COST[self.function]


def double_calls(code: Listing) -> list[DoubleCall]:
    """The functions of doubles that ran, most FP64 instructions first."""
    found: dict[str, list[int]] = {}
    for i, name in _coefficients(code.structure):
        users = [c for c in code.defuse.consumers(i) if code[c].opcode in family("double")]
        found.setdefault(name, []).extend(users)
    for i in code.where(lambda ins, op: ins.opcode == "MUFU" and bool(ins.mods) and ins.mods[0] in STARTS):
        found.setdefault(STARTS[code[i].mods[0]], []).append(i)
    counted = {name: sorted(set(code.ran(at))) for name, at in found.items()}
    calls = {name: sum(code.executed[i] for i in at) for name, at in counted.items() if at}
    for name, parts in INSIDE.items():
        for part in parts:
            if part in calls:
                calls[part] = max(0.0, calls[part] - calls.get(name, 0.0))
    out = [DoubleCall(name, n, tuple(counted[name])) for name, n in calls.items() if n > 0]
    return sorted(out, key=lambda c: -c.instructions)


def tabled(code: Listing, calls: Iterable[DoubleCall]) -> Tabled | None:
    """What a table of results can stand for: it has no more entries than the table that the arguments come from."""
    anchors = tuple(i for c in calls for i in c.anchors if _follows(code, i))
    if not anchors:
        return None
    results = [i for i in code.ran(range(len(code))) if not _touches(code, i) and _follows(code, i)]
    return Tabled(anchors, tuple(dying(code, tuple(results))))


def _follows(code: Listing, index: int) -> bool:
    """From constants that an index picks, and no data. What comes back from a call may be anything's."""
    names = code.slices.names([index])
    return names is not None and "table" in names and "load" not in names


def _touches(code: Listing, index: int) -> bool:
    return code.classes[index].access is not None and code.classes[index].space != "constant"


@once_per_code
def _coefficients(code: Structure) -> list[tuple[int, str]]:
    """(instruction, the function that alone has this coefficient), in address order."""
    names = {word: name for name, words in COEFFICIENTS.items() for word in words}
    out = []
    for i in code.literals:
        integers = (o.value % (1 << 32) for o in code[i].operands if o.kind == "integer")
        held = {names[value] for value in integers if value in names}
        out += [(i, name) for name in COEFFICIENTS if name in held][:1]
    return out


def of_doubles(code: Listing, seeds: Iterable[int]) -> list[int]:
    """What belongs to double arithmetic (the seeds: it and its conversions), memory accesses left aside: their waits
    are no cost of the precision. Of each block with such arithmetic what def-use ties to it (constants, tests and
    integer work on halves of doubles); the whole block, with its branches, where that is most of it."""
    chosen = code.ran(seeds)
    tied = _tied(code, chosen)
    out: list[int] = []
    for block in {code.cfg.blocks[code.cfg.block_of[i]] for i in chosen}:
        inside = [i for i in range(block.start, block.end) if code.classes[i].access is None]
        own = [i for i in inside if i in tied]
        out += inside if 2 * len(own) > len(inside) else own
    return sorted(out)


def _tied(code: Listing, seeds: list[int]) -> set[int]:
    """What reads double results, up to a conversion or to what a test of them decides, and what makes operands."""

    def ends(index: int) -> bool:
        return code[index].opcode in _EDGES

    def passes(index: int) -> bool:
        access = code.classes[index].access is not None and code.classes[index].space != "constant"
        return not access and code.executed[index] > 0

    found = set(seeds)
    inner = [i for i in seeds if not ends(i)]
    for i in inner:
        decides = "predicate" in code.classes[i].kind
        new = [c for c in code.defuse.consumers(i) if c not in found and passes(c)]
        found.update(new)
        inner += [c for c in new if not decides and not ends(c)]
    for i in inner:
        new = [p for ps in code.defuse.sources(i).values() for p in ps if p not in found and passes(p)]
        found.update(new)
        inner += [p for p in new if not ends(p)]
    return found


def in_memory(code: Listing, doubles: Iterable[int]) -> list[int]:
    """Those of the FP64 instructions that take a double from memory or give one to it: data of that type."""
    out = []
    for i in doubles:
        behind = (code.classes[p] for ps in code.defuse.sources(i).values() for p in ps)
        ahead = (code.classes[c] for c in code.defuse.consumers(i))
        taken = any(op.access == "load" and op.space in _DATA for op in behind)
        if taken or any(op.access == "store" and op.space in _DATA for op in ahead):
            out.append(i)
    return out
