"""A wavefront in a kernel's text: a loop of steps in which each thread works on the place `step - thread`, when that is
in range, with what its left neighbour and it have left in shared memory in the steps before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.wavefront.sums import (
    THREAD,
    TURNED,
    Linear,
    always,
    conjuncts,
    end_of,
    finishes,
    linear,
    most_of,
    reaches,
    sloped,
)  # fmt: skip
from kscope.fixes.wavefront.trees import assigned, declared, meets, named, nodes, split, used

SCALARS = {"int", "unsigned", "unsigned int", "float", "double", "long long", "unsigned char", "char", "short", "bool",
           "unsigned short", "uint32_t", "int32_t", "size_t", "uint8_t", "int8_t", "uint16_t", "int16_t"}  # fmt: skip


class Wave(Struct, frozen=True):
    """`statements`: of the kernel, a declaration for each name; the loop is the one at `at`. `derived`: expressions of
    names that follow from the thread's number, `own` those that the loop declares. `begin`: the step that it begins
    with. `hoisted`: tests of the place alone, `rest` others. `ends`: what is below zero in range, a sum of step and
    thread. `before`, `after`: what the loop does whatever the place is, `inside` what it does in range."""

    statements: Sequence[Node]
    at: int
    step: str
    begin: Node
    hoisted: Sequence[Node]
    rest: Sequence[Node]
    ends: Linear
    before: Sequence[Node]
    inside: Sequence[Node]
    after: Sequence[Node]
    uniform: Sequence[str]
    derived: Mapping[str, Node]
    own: Mapping[str, Node]


def wave(body: Node, block: int, known: Mapping[str, int]) -> Wave:
    """Raises Unplayable where there is none, or what makes it one does not follow from the text."""
    statements = split(body[1])
    found: list[Wave] = []
    refused: list[Unplayable] = []
    for n, one in enumerate(statements):
        if one[0] == "for" and meets(one) and one[4][0] == "block":
            try:
                found.append(_wave(body, statements, n, block, {**known, "blockDim.x": block}))
            except Unplayable as error:
                refused.append(error)
    if len(found) != 1:
        raise refused[0] if refused else Unplayable("no loop of steps")
    return found[0]


def _wave(body: Node, statements: Sequence[Node], at: int, block: int, known: Mapping[str, int]) -> Wave:
    count, begin, end, inside = _counted(statements[at])
    changed = assigned(body)
    uniform, derived = _told_apart(statements, changed, declared(body))
    parts = [one for one in split(inside[1]) if one[0] not in ("barrier", "meeting")]
    own = {one[2][0][0]: one[2][0][3] for one in parts if _follows(one, changed)}
    expanded = {**derived, **own}
    where = _tested(parts, count, own, expanded)
    tests = conjuncts(named(parts[where][1], {n: v for n, v in own.items() if _asked(v)}))
    hoisted = [one for one in tests if sloped(one, count, expanded)]
    rest = [one for one in tests if one not in hoisted and not always(one, expanded, block, known)]
    upper = _range([form for one in hoisted for form in sloped(one, count, expanded)], begin, count, known)
    limits = [Linear({}, block - 1), *(most_of(x, expanded) for x in rest)]
    if None in limits:
        raise Unplayable("threads that are left out")
    if not any(finishes(end, upper, count, most, known) for most in limits if most is not None):
        raise Unplayable("steps that end before the last thread has")
    _plain(body, inside)
    inner = parts[where][2]
    inner = split(inner[1] if inner[0] == "block" else [inner])
    return Wave(statements, at, count, begin, hoisted, rest, upper, parts[:where], inner, parts[where + 1 :],
                uniform, derived, own)  # fmt: skip


def _range(bounds: Sequence[tuple[str, Linear]], begin: Node, count: str, known: Mapping[str, int]) -> Linear:
    """What is below zero in range, if there is one such, and the first step is not within."""
    lower, upper = ([form for side, form in bounds if side == way] for way in ("down", "up"))
    if len(upper) != 1:
        raise Unplayable("no range of places")
    if not any(reaches(linear(begin, {}), x, count, known) for x in lower):
        raise Unplayable("places in front of the first step")
    return upper[0]


def _counted(loop: Node) -> tuple[str, Node, Linear, Node]:
    """(name of its count, what it begins with, the first that is none, what it does) of a loop by ones."""
    _, first, test, step, inside = loop
    made = first[2] if first[0] == "declare" else []
    if len(made) != 1 or first[1] != "int" or made[0][3] is None:
        raise Unplayable("a loop of another kind")
    one = ("+=", ("name", made[0][0]), ("number", 1))
    if step not in (("assign", *one), ("after", *one)):
        raise Unplayable("a loop of another step")
    return made[0][0], made[0][3], end_of(test, made[0][0]), inside


def _follows(one: Node, changed: set[str]) -> bool:
    """Whether a statement declares what follows from the step and the thread."""
    if one[0] != "declare":
        return False
    name, star, dims, first = one[2][0]
    return not star and not dims and first is not None and name not in changed and _pure(first)


def _tested(parts: Sequence[Node], count: str, own: Mapping[str, Node], by: Mapping[str, Node]) -> int:
    """Which of a step's statements is the test of the place."""
    tests = [n for n, one in enumerate(parts) if one[0] == "if" and one[3] == ("block", [])
             and any(sloped(x, count, by) for x in conjuncts(named(one[1], own)))]  # fmt: skip
    if len(tests) != 1:
        raise Unplayable("no test of the place")
    return tests[0]


def _plain(body: Node, inside: Node) -> None:
    """Raises Unplayable where threads go ways of their own, or meet in steps otherwise."""
    if any(n[0] in ("return", "switch") for n in nodes(body)):
        raise Unplayable("threads that return")
    if any(n[0] == "call" and n[1].startswith("__syncthreads") for n in nodes(body)):
        raise Unplayable("a barrier that counts")
    if any(n[0] == "leave" and len(n) == 2 for n in nodes(inside)):
        raise Unplayable("a step that ends early")
    if _called(inside) or any(meets(n) for n in nodes(inside) if n[0] in ("for", "if")):
        raise Unplayable("steps in which lanes meet otherwise")


def _told_apart(
    statements: Sequence[Node], changed: set[str], every: Sequence[str]
) -> tuple[list[str], dict[str, Node]]:
    """(names of one value for the block, expressions of those that follow from the thread's number)."""
    uniform: list[str] = []
    derived: dict[str, Node] = {}
    varying: set[str] = {THREAD}
    arrays: set[str] = set()
    for one in statements:
        if one[0] != "declare":
            continue
        name, star, dims, first = one[2][0]
        if one[3] or dims:
            arrays.add(name)
            continue
        if (name in changed and "*" not in star) or first is None or every.count(name) > 1 or star == "&":
            varying.add(name)
            continue
        names = used(first)
        reads = any(n[0] in ("index", "deref") for n in nodes(first))
        if not names & varying and not (reads and names & arrays) and not _called(first):
            uniform.append(name)
        elif _pure(first) and names <= {THREAD, *uniform, *derived} | _free(names, statements):
            derived[name] = first
            varying.add(name)
        else:
            varying.add(name)
    return uniform, derived


def _free(names: set[str], statements: Sequence[Node]) -> set[str]:
    """Names that the kernel does not declare: parameters, constants, dimensions."""
    return names - set(declared(list(statements)))


def _called(node: Node) -> bool:
    return any(n[0] == "call" and ("_sync" in n[1] or n[1].startswith("atomic")) for n in nodes(node))


def _pure(node: Node) -> bool:
    never = ("index", "deref", "assign", "after", "list")
    return not any(n[0] in never or (n[0] == "call" and n[1] not in ("min", "max")) for n in nodes(node))


def _asked(node: Node) -> bool:
    """Whether it is a test, or a bound of one."""
    return (node[0] == "binary" and node[1] in ("&&", *TURNED)) or node[0] == "call"


