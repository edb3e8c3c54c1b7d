"""A wavefront in a kernel's text: a loop of steps in which each thread works on the place `step - thread`, when that is
in range, with what its left neighbour and it have left in shared memory in the steps before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.wavefront.trees import assigned, declared, meets, named, nodes, split, used

THREAD = "threadIdx.x"
SCALARS = {"int", "unsigned", "unsigned int", "float", "double", "long long", "unsigned char", "char", "short", "bool",
           "unsigned short", "uint32_t", "int32_t", "size_t", "uint8_t", "int8_t", "uint16_t", "int16_t"}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Linear(Struct, frozen=True):
    """A sum of names, each so many times, and a number."""

    of: Mapping[str, int]
    number: int

    def plus(self, other: Linear, times: int = 1) -> Linear:
        of = dict(self.of)
        for name, many in other.of.items():
            of[name] = of.get(name, 0) + times * many
        return Linear({n: m for n, m in of.items() if m}, self.number + times * other.number)


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
    hoisted: list[Node] = []
    rest: list[Node] = []
    bounds: list[tuple[str, Linear]] = []
    for one in _conjuncts(named(parts[where][1], {n: v for n, v in own.items() if _asked(v)})):
        if sloped := _sloped(one, count, expanded):
            hoisted.append(one)
            bounds += sloped
        elif not _any(one, expanded, block, known):
            rest.append(one)
    lower, upper = ([form for side, form in bounds if side == way] for way in ("down", "up"))
    limits = [Linear({}, block - 1), *(_most(x, expanded) for x in rest)]
    if len(upper) != 1 or not lower or None in limits:
        raise Unplayable("no range of places for each of the first threads")
    if not any(_reaches(linear(begin, {}), x, count, known) for x in lower):
        raise Unplayable("places in front of the first step")
    if not any(_finishes(end, upper[0], count, most, known) for most in limits if most is not None):
        raise Unplayable("steps that end before the last thread has")
    _plain(body, inside)
    inner = parts[where][2]
    inner = split(inner[1] if inner[0] == "block" else [inner])
    return Wave(statements, at, count, begin, hoisted, rest, upper[0], parts[:where], inner, parts[where + 1 :],
                uniform, derived, own)  # fmt: skip


def _counted(loop: Node) -> tuple[str, Node, Linear, Node]:
    """(name of its count, what it begins with, the first that is none, what it does) of a loop by ones."""
    _, first, test, step, inside = loop
    made = first[2] if first[0] == "declare" else []
    if len(made) != 1 or first[1] != "int" or made[0][3] is None:
        raise Unplayable("a loop of another kind")
    one = ("+=", ("name", made[0][0]), ("number", 1))
    if step not in (("assign", *one), ("after", *one)):
        raise Unplayable("a loop of another step")
    return made[0][0], made[0][3], _end(test, made[0][0]), inside


def _follows(one: Node, changed: set[str]) -> bool:
    """Whether a statement declares what follows from the step and the thread."""
    if one[0] != "declare":
        return False
    name, star, dims, first = one[2][0]
    return not star and not dims and first is not None and name not in changed and _pure(first)


def _tested(parts: Sequence[Node], count: str, own: Mapping[str, Node], by: Mapping[str, Node]) -> int:
    """Which of a step's statements is the test of the place."""
    tests = [n for n, one in enumerate(parts) if one[0] == "if" and one[3] == ("block", [])
             and any(_sloped(x, count, by) for x in _conjuncts(named(one[1], own)))]  # fmt: skip
    if len(tests) != 1:
        raise Unplayable("no test of the place")
    return tests[0]


def _plain(body: Node, inside: Node) -> None:
    """Raises Unplayable where threads go ways of their own, or meet in steps otherwise."""
    if any(n[0] in ("return", "switch") for n in nodes(body)):
        raise Unplayable("threads that return")
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
    return (node[0] == "binary" and node[1] in ("&&", *_TURNED)) or node[0] == "call"


def _conjuncts(test: Node) -> list[Node]:
    """Tests that all must hold: of what is at least the largest of some, too."""
    if test[0] == "binary" and test[1] in _TURNED:
        for low, high, op in ((test[2], test[3], test[1]), (test[3], test[2], _TURNED[test[1]])):
            if high[0] == "call" and high[1] == ("min" if "<" in op else "max"):
                return [x for one in high[2] for x in _conjuncts(("binary", op, low, one))]
    if test[0] == "binary" and test[1] == "&&":
        return [*_conjuncts(test[2]), *_conjuncts(test[3])]
    return [test]


def linear(node: Node, by: Mapping[str, Node]) -> Linear:
    """by: expressions that names stand for. Raises Unplayable where it is no sum."""
    if node[0] == "number":
        return Linear({}, int(node[1]))
    if node[0] == "name":
        return linear(by[node[1]], by) if node[1] in by else Linear({node[1]: 1}, 0)
    if node[0] == "cast" and node[1] in ("int", "unsigned") and not node[3]:
        return linear(node[2], by)
    if node[0] == "unary" and node[1] in "+-":
        return Linear({}, 0).plus(linear(node[2], by), 1 if node[1] == "+" else -1)
    if node[0] == "binary" and node[1] in ("+", "-", "*"):
        a, b = linear(node[2], by), linear(node[3], by)
        if node[1] != "*":
            return a.plus(b, 1 if node[1] == "+" else -1)
        if not a.of or not b.of:
            return Linear({}, 0).plus(b, a.number) if not a.of else Linear({}, 0).plus(a, b.number)
    raise Unplayable("no sum")


def _sloped(test: Node, step: str, by: Mapping[str, Node]) -> list[tuple[str, Linear]]:
    """What a comparison says of the place: (up, F) where it is F < 0 and F grows with it by one, (down, F) for F >= 0;
    none where it is about another thing."""
    if test[0] != "binary" or test[1] not in ("<", "<=", ">", ">="):
        return []
    op, left, right = test[1:]
    if op in (">", ">="):
        op, left, right = {">": "<", ">=": "<="}[op], right, left
    folded = left[0] == "cast" and left[1] in ("unsigned", "unsigned int") and not left[3]
    try:
        form = linear(left, by).plus(linear(right, by), -1)
        inner = linear(left, by)
    except Unplayable:
        return []
    form = form.plus(Linear({}, int(op == "<=")), -1)  # now: form < 0
    if (form.of.get(step), form.of.get(THREAD)) == (1, -1):
        both = folded and (inner.of.get(step), inner.of.get(THREAD)) == (1, -1)
        return [("up", form), *([("down", inner)] if both else [])]
    if (form.of.get(step), form.of.get(THREAD)) == (-1, 1):
        return [("down", Linear({}, -1).plus(form, -1))]  # -form > 0
    return []


def _most(test: Node, by: Mapping[str, Node]) -> Linear | None:
    """The largest thread for which a test holds that is `thread < ..`."""
    if test[0] != "binary" or test[1] not in ("<", "<=", ">", ">="):
        return None
    left, right = (test[2], test[3]) if "<" in test[1] else (test[3], test[2])
    try:
        form = linear(left, by).plus(linear(right, by), -1)
    except Unplayable:
        return None
    if form.of.get(THREAD) != 1:
        return None
    rest = Linear({THREAD: 1}, 0).plus(form, -1)
    return rest.plus(Linear({}, int("=" not in test[1])), -1)


def _any(test: Node, by: Mapping[str, Node], block: int, known: Mapping[str, int]) -> bool:
    """Whether a test holds for every thread: its number is at least zero, and below the block's."""
    most = _most(test, by)
    last = _number(most, known) if most is not None else None
    if last is not None and last >= block - 1:
        return True
    if test[0] != "binary" or test[1] not in ("<=", ">="):
        return False
    low, high = (test[2], test[3]) if test[1] == "<=" else (test[3], test[2])
    try:
        form = linear(high, by).plus(linear(low, by), -1)
    except Unplayable:
        return False
    return form.of == {THREAD: 1} and form.number >= 0


def _end(test: Node, step: str) -> Linear:
    """The first step that is none."""
    if test[0] != "binary" or test[1] not in ("<", "<=") or test[2] != ("name", step):
        raise Unplayable("a loop of another end")
    return linear(test[3], {}).plus(Linear({}, int(test[1] == "<=")))


def _number(form: Linear, known: Mapping[str, int]) -> int | None:
    if not all(name in known for name in form.of):
        return None
    return form.number + sum(known[name] * many for name, many in form.of.items())


def _reaches(begins: Linear, lower: Linear, step: str, known: Mapping[str, int]) -> bool:
    """Whether thread 0 is in front of the range before the first step. lower: in range where it is >= 0."""
    found = _number(_at(lower, step, begins, Linear({}, 0)).plus(Linear({}, -1)), known)
    return found is not None and found < 0


def _finishes(ends: Linear, upper: Linear, step: str, most: Linear, known: Mapping[str, int]) -> bool:
    """Whether at the first step that is none the last thread is out of range."""
    found = _number(_at(upper, step, ends, most), known)
    return found is not None and found >= 0


def _at(form: Linear, step: str, when: Linear, thread: Linear) -> Linear:
    """What a sum over step - thread is then for this one."""
    rest = Linear({n: m for n, m in form.of.items() if n not in (step, THREAD)}, form.number)
    return rest.plus(when).plus(thread, -1)
