"""The rings of a loop by kind: a counter, a sum, a choice, a recurrence, a state in time, or what nobody can divide."""

from __future__ import annotations

from collections.abc import Collection

from kscope.features.sass.listing import Listing
from kscope.isa.families import family
from kscope.model.operand import UNIFORM_BASE, memory_operand

INDEX = 8  # integer instructions up to which a ring without loaded data is a counter, a pointer or a stage's phase
_SUMS = family("sum")
_PRODUCTS = family("product")
_CHOICES = family("choice")
_MOVES = family("passes_on")
_INTEGER = frozenset({"int", "int_mul", "move", "predicate", "vote"})


def state(code: Listing, ring: set[int], inside: set[int]) -> bool:
    """A floating-point recurrence that each round needs, in a loop that brings nothing new to it: a state in time."""
    if not any(numeric(code, i) and _factors(code, i, ring) for i in ring):
        return False
    if not any(j in inside and j not in ring for i in ring for j in code.defuse.consumers(i)):
        return False
    return not any(_new_data(code, i, inside) for i in inside)


def numeric(code: Listing, i: int) -> bool:
    return "fp32" in code.classes[i].kind or code.classes[i].pipe in ("fp64", "fp16")


def joint(code: Listing, able: list[int], ring: set[int]) -> str:
    """How pieces of a value that can be divided are joined."""
    able = [i for i in able if not moves(code, i)]
    if any(code[i].opcode in _CHOICES for i in able):
        return "choice"
    return "recurrence" if any(_factors(code, i, ring) for i in able) else "sum"


def _new_data(code: Listing, i: int, inside: set[int]) -> bool:
    """A load at an address that changes with the rounds."""
    if code.classes[i].access not in ("load", "async_copy"):
        return False
    address = memory_operand(code[i].operands)
    if address is None:
        return True  # a texture, a tensor: what it brings is not told by registers of an address
    return any(p in inside for b in address.bases for p in code.defuse.producers(i, b.register))


def index(code: Listing, ring: set[int], inside: set[int]) -> bool:
    """A counter, a pointer, the phase of a stage: few integer instructions that no loaded data enter."""
    if len(ring) > INDEX or any(_quotient(code, i) for i in ring):
        return False
    for i in ring:
        op = code.classes[i]
        if op.access is not None or not (op.kind & _INTEGER or op.pipe == "uniform" or code[i].opcode == "ELECT"):
            return False
        fed = (p for producers in code.defuse.sources(i).values() for p in producers)
        if any(p in inside and code.classes[p].space not in (None, "constant") for p in fed):
            return False
    return True


def divisible(code: Listing, able: list[int], ring: set[int]) -> bool:
    """Sums alone, choices (minimum, maximum, the better of two) alone, or a linear recurrence."""
    able = [i for i in able if not moves(code, i)]
    if all("tensor" in code.classes[i].kind or code.classes[i].pipe == "tensor" for i in able):
        return True
    if any(code.classes[i].access is not None for i in able):
        return False
    if all(code[i].opcode in _CHOICES for i in able):
        return True
    if any(_quotient(code, i) for i in able):
        return False
    return all(code[i].opcode in _SUMS | _PRODUCTS and _factors(code, i, ring) < 2 for i in able)


def _quotient(code: Listing, i: int) -> bool:
    """The upper half of a product: a quotient, which is neither a counter nor the sum of its parts' quotients."""
    return "HI" in code[i].mods and code[i].opcode in _PRODUCTS


def moves(code: Listing, i: int) -> bool:
    ins = code[i]
    return ins.opcode in _MOVES or (ins.opcode == "IMAD" and "MOV" in ins.mods)


def _factors(code: Listing, i: int, ring: Collection[int]) -> int:
    """Carried values among the factors of a product: with none it adds, with one it is linear."""
    ins = code[i]
    if ins.opcode not in _PRODUCTS:
        return 0
    mine = {r for r, producers in code.defuse.sources(i).items() if any(p in ring for p in producers)}
    factors = ins.operands[1:3]
    return sum(any(r in mine for r in o.mentioned if r < UNIFORM_BASE) for o in factors)
