"""Indices that code holds between the borders of a grid: what a thread inside computes, whom no border touches.

`min(i + o, n - 1)` is one instruction or, where the border comes from a test of its own, a test and a select:
`i + o < n ? i + o : n - 1`, also `i + 1 == n ? 0 : i + 1` of a ring. Most threads lie between the borders, and there
the index is what was selected."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.sass.listing import Listing
from kscope.isa.families import family
from kscope.model.operand import PREDICATE_BASE, Operand
from kscope.model.program import Instruction

CLAMPS, SUMMED, SELECTS = family("clamping"), family("summed_clamping"), family("integer_select")
_COMPARES = family("integer_compare")
_OWN = frozenset({"tid", "x", "y", "z"})
_BLOCKS = frozenset({"x", "y", "z"})


class Inside(Struct, frozen=True):
    """The operands whose sum an index is between its borders; none where nobody can tell."""

    operands: tuple[Operand, ...]


def inside(code: Listing, index: int) -> Inside | None:
    """What a clamping instruction makes of an index between two borders; None for any other instruction."""
    ins = code[index]
    if ins.opcode in CLAMPS | SUMMED:
        summed = ins.opcode in SUMMED
        sides = [ins.operands[1:3], ins.operands[3:4]] if summed else [ins.operands[1:2], ins.operands[2:3]]
        own = [side for side in sides if any(_names(code, index, o) & _OWN for o in side)]
        return Inside(tuple(own[0]) if len(own) == 1 else ())
    return _selected(code, index, ins) if ins.opcode in SELECTS else None


def _selected(code: Listing, index: int, ins: Instruction) -> Inside | None:
    """Of a select between an index of the whole grid and a border: the index, if the test is one of that index."""
    first, second, chosen = (*ins.operands[1:4], None, None, None)[:3]
    if first is None or second is None or chosen is None or chosen.register < PREDICATE_BASE:
        return None
    tests = code.defuse.producers(index, chosen.register)
    own = [o for o in (first, second) if _names(code, index, o) & _BLOCKS]
    other = second if own and own[0] is first else first
    if len(own) != 1 or len(tests) != 1 or _names(code, index, other) & _OWN:
        return None
    return Inside((own[0],)) if _compares(code, tests[0], index, own[0]) else None


def _compares(code: Listing, test: int, index: int, own: Operand) -> bool:
    """The test alone compares an index that comes from where the selected one does with a number that all threads
    share."""
    ins = code[test]
    if ins.opcode not in _COMPARES or len(ins.operands) < 4:
        return False
    joined = [o for o in ins.operands[4:] if o.kind == "predicate" and o.register >= 0]
    sides = [_names(code, test, o) & _OWN for o in ins.operands[2:4]]
    indices = [side for side in sides if side]
    return not joined and len(indices) == 1 and indices[0] == _names(code, index, own) & _OWN


def _names(code: Listing, index: int, operand: Operand) -> frozenset[str]:
    """What reaches an operand: the thread's index, the block's."""
    if operand.kind != "register" or operand.register < 0:
        return frozenset()
    return frozenset(code.slices.names(code.defuse.producers(index, operand.register)) or ())
