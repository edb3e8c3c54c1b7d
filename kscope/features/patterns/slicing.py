"""The instructions that compute one thing: a math function or a division, around the instruction that betrays it."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.sass.branches import is_conditional
from kscope.features.sass.graph import reached
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.features.sass.slices import stored
from kscope.isa.families import family
from kscope.isa.opcodes import OpClass
from kscope.model.operand import Operand

COMPUTE = ("fma", "fmaheavy", "alu", "xu", "fp16", "fp64")
JUMPS = family("jump")
DEPTH = 12  # steps along def-use that one inlined function spans
MORE = 1.25  # of a seed's executions: more than warps that part and meet again add


BOUND = 64  # instructions up to which a test that no load enters is one of an index


@once_per_code
def computation(code: Listing, seeds: tuple[int, ...]) -> set[int]:
    """Arithmetic (no memory access) that belongs to the same computation as the seeds.

    With line information: what shares a source line with a seed, for an inlined function is listed under the line
    that calls it, and is tied to a seed by def-use. Without: what def-use ties to it within DEPTH steps. What runs more
    often than the seed that the way began at is no part of it: the loop that its result goes into. Nor is a loop that
    the seed is not in, if its rounds are few: an unrolled one goes round once.
    """
    lines = frozenset((code[i].file, code[i].line) for i in seeds if code[i].line is not None)
    found: set[int] = set(seeds)
    work = [(i, 0, i) for i in seeds]
    around = {i: {None, *code.cfg.loops_around(i)} for i in seeds}
    most = {i: MORE * code.executed[i] for i in seeds}
    ties, executed, loop_of = _ties(code.structure, lines), code.executed, code.cfg.loop_of
    while work:
        i, depth, seed = work.pop()
        if i not in ties:
            ties[i] = _tied(code.structure, i, lines)
        for j in ties[i]:
            if j not in found and executed[j] <= most[seed] and loop_of[j] in around[seed]:
                found.add(j)
                if depth + 1 < DEPTH:
                    work.append((j, depth + 1, seed))
    return {i for i in found if executed[i] > 0}


_Lines = frozenset[tuple[str | None, int | None]]


@once_per_code
def _ties(code: Structure, lines: _Lines) -> dict[int, list[int]]:
    """Room for what `_tied` finds: a function of many divisions is asked for each of them."""
    return {}


def _tied(code: Structure, index: int, lines: _Lines) -> list[int]:
    """Arithmetic that makes or reads an instruction's values, each once, in the order of registers; of these lines, if
    any."""
    makes = (p for ps in code.defuse.sources(index).values() for p in ps)
    near = dict.fromkeys([*makes, *code.defuse.consumers(index)])
    return [
        j for j in near if (op := code.classes[j]).access is None and op.pipe in COMPUTE
        and (not lines or (code[j].file, code[j].line) in lines)
    ]  # fmt: skip


@once_per_code
def feeding(code: Listing, members: tuple[int, ...]) -> list[int]:
    """Integer work and constants that serve nothing but these instructions: the addresses that go when they go. What
    never ran keeps nothing alive."""
    chosen = set(members)
    slice_: set[int] = set()
    work = list(chosen)
    while work:
        for producers in code.defuse.sources(work.pop()).values():
            new = {p for p in producers if p not in chosen and p not in slice_ and _serves(code.classes[p])}
            slice_ |= new
            work += new
    # All of the slice but what somebody else reads, and what that reads: pointers that a loop carries go in a ring.
    kept = [p for p in slice_ if any(_alive(code, c, chosen, slice_) for c in code.defuse.consumers(p))]
    while kept:
        p = kept.pop()
        slice_.discard(p)
        kept += [q for ps in code.defuse.sources(p).values() for q in ps if q in slice_]
    chosen |= slice_
    return sorted(i for i in chosen if code.executed[i] > 0)


@once_per_code
def dying(code: Listing, members: tuple[int, ...]) -> list[int]:
    """What goes when a computation goes: with it the tests that choose how to compute it (a 64-bit division asks
    whether 32 bits will do: BSSY, branch, BSYNC around the short way; powf asks what its base is), and what serves
    nothing else."""
    chosen = set(members)
    opened: dict[Operand, int] = {}
    for last, ins in enumerate(code.program.instructions):
        if ins.opcode == "BSSY":
            opened[ins.operands[0]] = last
        elif ins.opcode == "BSYNC" and (first := opened.pop(ins.operands[0], None)) is not None:
            ran = [i for i in range(first, last + 1) if code.executed[i] > 0]
            if 2 * sum(i in chosen for i in ran) > len(ran) and not any(_touches(code.classes[i]) for i in ran):
                chosen.update(ran)
    return feeding(code, tuple(_with_branches(code, set(feeding(code, tuple(chosen))))))


def _with_branches(code: Listing, members: set[int]) -> set[int]:
    """With the branches that only choose between ways on which nothing else is done, and their tests. A way that no
    warp took does nothing; a branch with such a way alone goes if what it asks for does."""
    chosen = set(members)
    ways = {b: way for b in code.ran(range(len(code))) if b not in chosen and (way := _ways(code, b)) is not None}
    asks = {t for b in ways for t in _tests(code, b) if {*code.ran(code.defuse.consumers(t))} <= chosen | ways.keys()}
    new = {0}
    while new:
        new = {
            b for b, way in ways.items()
            if b not in chosen and all(i in chosen or i in ways or i in asks for i in way)
            and not chosen.isdisjoint(way or _asked(code, b))
        }  # fmt: skip
        chosen |= new
    return chosen


def _tests(code: Listing, branch: int) -> list[int]:
    return [p for ps in code.defuse.sources(branch).values() for p in ps if "predicate" in code.classes[p].kind]


def _asked(code: Listing, branch: int) -> list[int]:
    """What decides a branch: its tests, and what they compare."""
    tests = _tests(code, branch)
    return [*tests, *(p for t in tests for ps in code.defuse.sources(t).values() for p in ps)]


def _ways(code: Listing, branch: int) -> list[int] | None:
    """What is executed between a branch of two ways and where they join; None for other instructions, and where one of
    the ways leads round a loop or they end apart."""
    block = code.cfg.block_of[branch]
    both = code.cfg.blocks[block]
    join = code.cfg.joins[block] if branch == both.end - 1 and len(both.successors) == 2 else None
    if join is None:
        return None
    starts = [b for b in both.successors if b != join]
    inside = reached(starts, lambda b: code.cfg.blocks[b].successors, (join,)) - {join}
    own = (i for b in inside for i in range(code.cfg.blocks[b].start, code.cfg.blocks[b].end))
    return None if block in inside else code.ran(i for i in own if not _jumps(code, i))


def _jumps(code: Listing, index: int) -> bool:
    """Leads on, whatever happens: nothing that is done."""
    return code[index].opcode in JUMPS and not is_conditional(code[index])


def behind(code: Listing, stores: Iterable[int]) -> list[int]:
    """The arithmetic that computes the values that stores write, from the loads on: addresses are left aside, and so is
    what never ran."""
    found: set[int] = set()
    work = [p for i in code.ran(stores) for r in stored(code, i) for p in code.defuse.producers(i, r)]
    while work:
        i = work.pop()
        if i in found or code.classes[i].access is not None or not code.executed[i]:
            continue
        found.add(i)
        work += [p for producers in code.defuse.sources(i).values() for p in producers]
    return sorted(found)


def purpose(code: Listing) -> set[int]:
    """What the kernel computes: the arithmetic behind all values that it writes to memory, and the tests of what it
    loaded, or computed in more steps than a bound takes (a hash of the thread's number). What else is integer serves
    addresses, loop counts and bounds."""
    found = set(behind(code, code.where(lambda ins, op: op.access in ("store", "atomic", "reduction"))))
    work = code.where(lambda ins, op: "predicate" in op.kind)
    while work:
        i = work.pop()
        if i not in found and code.classes[i].access is None and "load" in (code.slices.names([i]) or ()):
            found.add(i)
            work += [p for producers in code.defuse.sources(i).values() for p in producers]
    for test in code.where(lambda ins, op: "predicate" in op.kind):
        if test not in found and len(steps := _steps(code, test, found)) > BOUND:
            found |= steps
    return found


def _steps(code: Listing, test: int, known: set[int]) -> set[int]:
    """The arithmetic that a test takes, from what is loaded, given or known on."""
    seen, work = {test}, [test]
    while work:
        before = {p for ps in code.defuse.sources(work.pop()).values() for p in ps if code.classes[p].access is None}
        work += before - seen - known
        seen |= before - known
    return {i for i in seen if code.executed[i]}


def _alive(code: Listing, reader: int, chosen: set[int], slice_: set[int]) -> bool:
    return code.executed[reader] > 0 and reader not in chosen and reader not in slice_


def _touches(op: OpClass) -> bool:
    """Reads or writes memory that a rewrite must still read or write."""
    return op.access is not None and op.space != "constant"


def _serves(op: OpClass) -> bool:
    return not _touches(op) and bool(op.space == "constant" or op.kind & {"int", "int_mul", "move", "predicate"})
