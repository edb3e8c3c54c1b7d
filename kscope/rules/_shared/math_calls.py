"""What each accurate math function costs: its calls, their instructions, and how many a fast version would take."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.facts import FUNCTIONS, Code, Facts, MathCall, total
from kscope.isa.families import family

POWER = 4  # multiplications of a small power, or scaling, lg2, a product and ex2
REUSED = 1  # instruction of a division whose reciprocal, or reciprocal root, is there already; a look into a table
COMPARES = family("float_test")
TESTS = frozenset({"branch", "control", "predicate", "move", "nop"})


class Spent(Struct, frozen=True):
    """What one function costs: calls, its instructions, how many of them are executed and would be by a fast version,
    calls whose argument does not change, so that their work can be done once, divisions by a square root, calls whose
    argument (the divisor of a division) is the same in all threads, so that a table can hold what they give, and roots
    that are only compared, so that squares can be."""

    name: str
    calls: float
    members: list[int]
    executed: float
    fast: float
    steady: float = 0.0
    roots: float = 0.0
    alike: float = 0.0
    compared: float = 0.0

    @property
    def division(self) -> bool:
        return self.name == "division"

    @property
    def kept(self) -> float:
        return min(1.0, self.fast / self.executed) if self.executed else 1.0


def spent_on(facts: Facts, code: Code) -> list[Spent]:
    """By function, those that ran; powf with the tests of its base and result, which go with it."""
    out = []
    shared, same = facts.patterns.shared_divisors, set(facts.profile.alike[1])
    for name, function in FUNCTIONS.items():
        group = [c for c in facts.patterns.accurate_calls if c.function == name]
        if group:
            steady = [c.anchor for c in group if c.steady or c.root or c.anchor in shared]
            alike = [c.anchor for c in group if c.anchor not in steady and _alike(code, c, same)]
            squares = [c.anchor for c in group if c.anchor not in {*steady, *alike} and _compared(code, c)]
            calls = total(code.executed, [c.anchor for c in group])
            known = total(code.executed, steady + alike + squares)
            members = sorted({i for c in group for i in c.members})
            fast = function.fast * (calls - known) + REUSED * known
            roots = total(code.executed, [c.anchor for c in group if c.root])
            by_all, only = total(code.executed, alike), total(code.executed, squares)
            every, steadily = total(code.executed, members), known - roots - by_all - only
            out.append(Spent(name, calls, members, every, fast, steadily, roots, by_all, only))
    return out + _raised(facts, code, same)


def _alike(code: Code, call: MathCall, same: set[int]) -> bool:
    """What follows from the argument alone is the same in all threads: of a division the reciprocal. A function that
    several calls share knows none of their arguments."""
    times = code.executed[call.anchor]
    return any(i in same for i in call.members if i == call.anchor or _starts(code, i, times))


def _starts(code: Code, index: int, times: float) -> bool:
    """A reciprocal or root of this call, run as often as it: not one of a slow path that many calls come to."""
    return code.classes[index].pipe == "xu" and code.executed[index] == times


def _compared(code: Code, call: MathCall) -> bool:
    """A square root whose result goes into comparisons and nowhere else, however it is moved on its way."""
    if call.function != "square root":
        return False
    mine, seen, found = set(call.members), set(call.members), False
    work = list(call.members)
    while work:
        for user in code.defuse.consumers(work.pop()):
            if user in seen or not code.executed[user]:
                continue
            seen.add(user)
            if code[user].opcode in COMPARES:
                found = True
            elif "move" in code.classes[user].kind or user in mine:
                work.append(user)
            elif code.classes[user].kind & TESTS:
                continue  # the tests and turns of its own slow path
            else:
                return False
    return found


def _raised(facts: Facts, code: Code, same: set[int]) -> list[Spent]:
    pows = facts.patterns.powers
    if not pows:
        return []
    # What its line or its arguments share with functions of their own constants is theirs, not the power's.
    others = {i for c in facts.patterns.accurate_calls for i in c.members}
    found = facts.patterns.same_computation({i for p in pows for i in (p.start, *p.seeds)}) - others
    around = [i for i in facts.patterns.removed_with(sorted(found)) if code.classes[i].kind & TESTS]
    members = sorted({*found, *around} - others)
    calls = total(code.executed, [p.start for p in pows])
    by_all = total(code.executed, [p.start for p in pows if p.start in same])
    fast = POWER * (calls - by_all) + REUSED * by_all
    return [Spent("pow", calls, members, total(code.executed, members), fast, alike=by_all)]
