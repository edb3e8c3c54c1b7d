"""Arithmetic that gives itself away in the code: divisions by run-time integers, accurate math functions, unfused
multiply-adds, float data in double."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kscope.features.patterns.accurate_math import MathCall
from kscope.features.patterns.slicing import computation
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.features.sass.slices import origins
from kscope.isa.families import by_opcode, family, listed
from kscope.model.operand import Operand
from kscope.model.program import Instruction

# Constants that only the accurate functions' range reductions use: 2/pi (sinf, cosf), log2(e) (expf), ln 2 (logf),
# 2/ln 2 (tanhf), 2^24 (subnormal scaling of logf, sqrtf). Source: SASS of the CUDA 13 math library.
SIGNATURES = (0.63661977, 1.4426950, 0.69314718, 2.8853901, 16777216.0)
SAME = 1e-7  # relative: what a float and its printed digits differ by
EXP2, LOG2 = 0.0013391353422775864601, -0x3F3504F3
"""What powf alone holds: a coefficient of its 2^x, and the bits of sqrt(1/2) by which it splits its base."""
PAIRS: dict[str, str] = by_opcode("unfused_add")
HALVES = "division of halves"
SMALL = 8.523464202880859375e-06
"""143 halves of 2^-24, below which the quotient of two halves is refined (cuda_fp16.hpp, __hdiv)."""
CONVERSIONS = listed("format_change")
DOUBLE = family("double")
HALF_TESTS = family("half_test")
REFINED = 4  # steps from the quotient to its refinement
STEPS = 40  # instructions that a value of converted floats is followed through


class Power(Struct, frozen=True):
    """A call of powf: the start of its 2^x, the seeds (see `math_calls`) that are part of it, and the exponent where it
    is a constant."""

    start: int
    seeds: frozenset[int]
    exponent: float | None

    @property
    def multiplies(self) -> bool:
        """The exponent is small and a multiple of a half: a few multiplications do, and a square root."""
        return self.exponent is not None and abs(self.exponent) <= 64 and (2 * self.exponent).is_integer()


def producers(code: Listing, index: int) -> list[int]:
    """Instructions whose results an instruction reads."""
    return [p for found in code.defuse.sources(index).values() for p in found]


def divides_integers(code: Listing, index: int) -> bool:
    """A reciprocal of an integer converted upwards (I2F.RP): the start of an integer division. A float that is divided
    by a converted integer, x / (float)n, rounds to nearest."""
    ins = code[index]
    if ins.opcode != "MUFU" or "RCP" not in ins.mods:
        return False
    made = (code[p] for p in producers(code, index))
    return any(p.opcode in family("integer_to_float") and "RP" in p.mods for p in made)


def integer_divisions(code: Listing) -> list[int]:
    """The reciprocals around which integer divisions and modulos by run-time values are built."""
    found = code.where(lambda ins, op: ins.opcode == "MUFU" and "RCP" in ins.mods)
    return [i for i in code.ran(found) if divides_integers(code, i)]


@once_per_code
def dividend(code: Listing, division: int) -> tuple[frozenset[str], int]:
    """What an integer division's operands come from (see kscope.features.sass.slices.origins), and how many products
    with reciprocals read them in all that is computed together: two a division, one of which refines. What too many
    instructions lead to is left out."""
    within = computation(code, (division,))
    products = [i for i in within if "int_mul" in code.classes[i].kind and "HI" in code[i].mods]
    return frozenset[str]().union(*(_factors(code, i) for i in products)), len(products)


@once_per_code
def _factors(code: Listing, product: int) -> frozenset[str]:
    """What a product's factors come from; nothing where that cannot be told."""
    return origins(code, product) or frozenset()


def part_of_division(code: Listing, index: int) -> bool:
    """Whether a conversion stands within two steps of a reciprocal: it belongs to a division."""
    near = [*code.defuse.consumers(index), *producers(code, index)]
    return any(code[j].opcode == "MUFU" and "RCP" in code[j].mods for j in near) or any(
        code[k].opcode == "MUFU" for j in near for k in producers(code, j)
    )


def math_calls(code: Listing) -> list[int]:
    """Special-function instructions of floats and the range reductions of accurate functions; integer divisions and
    rsqrtf, which is the fast instruction with a scaling for subnormals, left aside."""
    found = code.ran(_betraying(code.structure))
    fast = {i for i in found if _fast_root(code, i)}
    fast |= {p for i in fast for p in producers(code, i) if reduces(code[p])}
    return [i for i in found if i not in fast and not divides_integers(code, i)]


def powers(code: Listing) -> list[Power]:
    """The calls of powf that ran. Each starts its second half, 2^x, with a polynomial of its own; the first, log2, may
    serve several."""
    return [_power(code, i) for i in code.ran(_power_starts(code.structure))]


@once_per_code
def _betraying(code: Structure) -> list[int]:
    special = (i for group in code.by_name if _special(code[group[0]]) for i in group)
    return sorted({*special, *(i for i in code.literals if reduces(code[i]))})


@once_per_code
def _power_starts(code: Structure) -> list[int]:
    fused = (i for i in code.literals if code[i].opcode == "FFMA")
    return [i for i in fused if any(_near(o, EXP2) for o in code[i].operands)]


def _power(code: Listing, start: int) -> Power:
    """Walk back from the polynomial of 2^x to the exponent of the base; the product with y is what is rounded."""
    behind, exponent = _behind_power(code, start)
    scaled = {q for i in behind for p in producers(code, i) for q in (p, *producers(code, p)) if reduces(code[q])}
    seeds = {i for i in behind | scaled if reduces(code[i]) or _special(code[i])}
    ahead = {i for i in _scaled_after(code, start) if reduces(code[i])}
    return Power(start, frozenset(seeds | ahead), exponent)


def _behind_power(code: Listing, start: int) -> tuple[set[int], float | None]:
    """What computes the argument of 2^x, as far as it is powf's, and the exponent where it is a constant."""
    behind: set[int] = set()
    exponent: float | None = None
    work = [(start, 0)]
    while work:
        i, steps = work.pop()
        if i in behind or steps > STEPS or code.classes[i].access is not None:
            continue
        behind.add(i)
        if code[i].opcode == "FRND":
            exponent = next((y for p in producers(code, i) if (y := _literal(code[p])) is not None), None)
        if not any(o.equals(LOG2) for o in code[i].operands):  # the base: what computes it is not powf's
            work += [(p, steps + 1) for p in producers(code, i)]
    return behind, exponent


def _scaled_after(code: Listing, start: int) -> set[int]:
    """The polynomial's start, and the scalings of its result, a few multiply-adds apart at most."""
    ahead, work = {start}, [(start, 0)]
    while work:
        i, steps = work.pop()
        near = [c for c in code.defuse.consumers(i) if c not in ahead and reduces(code[c])]
        ahead.update(near)
        work += [(c, 0) for c in near]
        if not near and steps < 4:
            work += [(c, steps + 1) for c in code.defuse.consumers(i) if code[c].opcode == "FFMA"]
    return ahead


def _literal(ins: Instruction) -> float | None:
    """The constant that a multiplication multiplies by; None if there is none."""
    if ins.opcode == "FMUL":
        return next((o.number for o in ins.operands[1:] if o.number is not None), None)
    return None


def _fast_root(code: Listing, index: int) -> bool:
    """MUFU.RSQ whose result is scaled back by the root of 2^24: rsqrtf, of which no shorter form exists but ftz."""
    ins = code[index]
    if ins.opcode != "MUFU" or "RSQ" not in ins.mods:
        return False
    readers = (code[c] for c in code.defuse.consumers(index))
    return any(o.number == 4096 for ins in readers if ins.opcode == "FMUL" for o in ins.operands)


def _special(ins: Instruction) -> bool:
    return ins.opcode == "MUFU" and not any(m.endswith("64H") for m in ins.mods)


def reduces(ins: Instruction) -> bool:
    """A multiplication by a constant that only the range reduction of an accurate function uses."""
    return ins.opcode in ("FMUL", "FFMA") and any(_near(o, *SIGNATURES) for o in ins.operands)


def _near(operand: Operand, *values: float) -> bool:
    """One of these constants, of either sign."""
    number = operand.number
    return number is not None and any(abs(abs(number) - value) <= SAME * value for value in values)


def unfused(code: Listing) -> list[int]:
    """Multiplies whose result goes to nothing but one add."""
    out = []
    for i in code.where(lambda ins, op: ins.opcode in PAIRS):
        consumers = code.defuse.consumers(i)
        if code.executed[i] > 0 and len(consumers) == 1 and code[consumers[0]].opcode == PAIRS[code[i].opcode]:
            out.append(i)
    return out


def self_moves(code: Listing) -> list[int]:
    """Moves of a register to itself."""
    moves = ((i, code[i].operands) for i in code.where(lambda ins, op: ins.opcode == "MOV"))
    return [i for i, o in moves if len(o) == 2 and o[0].vector is not None and o[0].vector == o[1].vector]


def conversions(code: Listing) -> list[int]:
    """Number-format conversions, those of an integer division left aside."""
    found = code.ran(code.where(lambda ins, op: ins.opcode in CONVERSIONS))
    return [i for i in found if not part_of_division(code, i)]


def widened(code: Listing) -> tuple[list[int], list[int]]:
    """(conversions from float to double, the double arithmetic that their values reach)."""
    turns = code.ran(code.where(lambda ins, op: ins.opcode == "F2F" and ins.mods[:2] == ("F64", "F32")))
    return turns, sorted(_reached(code, turns))


def _reached(code: Listing, starts: Iterable[int]) -> set[int]:
    found: set[int] = set()
    work = [(i, 0) for i in starts]
    while work:
        i, steps = work.pop()
        for j in code.defuse.consumers(i):
            if code[j].opcode in DOUBLE and j not in found and steps < STEPS:
                found.add(j)
                work.append((j, steps + 1))
    return found


def half_divisions(code: Listing) -> list[MathCall]:
    """Divisions of two halves: a reciprocal in float, a product, and the test whether it is so small that a step of
    refinement is due. Some headers take a reciprocal for each, though many divide by one value."""
    return [call for i in sorted(code.structure.literals) if (call := _half_division(code, i)) is not None]


def _half_division(code: Listing, test: int) -> MathCall | None:
    """The call that this test of its quotient belongs to."""
    ins = code[test]
    if ins.opcode not in HALF_TESTS or not code.executed[test] or not any(_is(o, SMALL) for o in ins.operands):
        return None
    rounded = _made(code, [test])
    product = _made(code, rounded)
    guess = [p for p in _made(code, product) if code.classes[p].pipe == "xu"]
    if (len(rounded), len(product), len(guess)) != (1, 1, 1):
        return None
    members, edge = {test, *rounded, *product, *guess}, {*rounded, *guess}
    for _ in range(REFINED):  # its tests, the product of both, and what they guard, up to the refined half
        ahead = (c for i in edge if i in rounded or not _rounds(code, i) for c in code.defuse.consumers(i))
        edge = {c for c in ahead if _refines(code, c, members)} - members
        members |= edge
    divisor = code[guess[0]].operands[1].vector
    loop = code.cfg.loop_of[test]
    inside = set(code.cfg.loops[loop].instructions) if loop is not None else set()
    steady = bool(inside) and divisor is not None and inside.isdisjoint(code.defuse.producers(guess[0], divisor))
    return MathCall(HALVES, test, tuple(sorted(code.ran(members))), steady)


def _made(code: Listing, members: Iterable[int]) -> list[int]:
    """What makes the registers that these read, but for predicates."""
    return [
        p for i in members for o in code[i].operands if o.vector is not None and o.vector not in code[i].defs
        for p in code.defuse.producers(i, o.vector)
    ]  # fmt: skip


def _is(operand: Operand, value: float) -> bool:
    return operand.number is not None and abs(operand.number - value) <= 1e-6 * value


def _refines(code: Listing, index: int, members: set[int]) -> bool:
    """A test of the quotient, a predicate of two, or what is done under one that these made."""
    guard = code[index].guard
    if guard is not None:
        return code.classes[index].access is None and members.issuperset(code.defuse.sources(index).get(guard, (-1,)))
    if code[index].opcode in HALF_TESTS:  # of the quotient: small, and not zero
        return not any(o.number is not None and not _is(o, SMALL) for o in code[index].operands)
    return "predicate" in code.classes[index].kind and members.issuperset(
        p for ps in code.defuse.sources(index).values() for p in ps
    )


def _rounds(code: Listing, index: int) -> bool:
    """A float becomes a half: what comes behind it is no part of the division."""
    return code[index].opcode in CONVERSIONS
