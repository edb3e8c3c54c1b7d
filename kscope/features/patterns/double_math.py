"""Functions of doubles: pow, exp, log, sin, division, square root. Each is told by what only its code holds, a
coefficient of its polynomial or the instruction that starts its iteration.

Source: SASS of the CUDA 13 math library for sm_90 (nvcc 13.0), one function a kernel; the counts of FP64 instructions
are those of the way that ordinary arguments take."""

from __future__ import annotations

from msgspec import Struct

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
