"""Statements with all that is known of them put in: calls of templates by their bodies, constants by their numbers,
rounds of loops one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from kscope.fixes.cases.folded import Number, converted, folded, node, of, truth
from kscope.fixes.cases.templates import Definition, Given, Templates, matched
from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.rows.syntax import declared, inside, root
from kscope.fixes.rows.syntax import names as names_of

ROUNDS = 256  # of a loop that is written out (judged)
NODES = 2_000_000  # of all that is written out (judged: seconds)
DEEP = 300  # calls within calls (judged: what nvcc allows of templates is 900)
EMPTY: Node = ("block", [])
Names = Mapping[str, Node]


class Instances:
    def __init__(
        self, templates: Templates, types: Mapping[str, str], look_up: Callable[[Node], Node] = lambda call: call,
        around: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """types: of variables around, by their names; look_up: what a call stands for; around: all names of the kernel,
        which may hide those of a function."""
        self.look_up = look_up
        self.templates, self.types, self.left = templates, dict(types), NODES
        self.around = around
        self.fresh = count(1)
        self.deep = 0

    def statements(self, one: Node, names: Names, taken: frozenset[str] = frozenset()) -> list[Node]:
        """What a statement comes to. names: what stands for a name; taken: names that a declaration must not hide."""
        kind = one[0]
        if kind == "block":
            made = self._block(one[1], dict(names), taken)
            return [("block", made)] if any(x[0] == "declare" for x in made) else made
        if kind == "do":
            return self._done(one[1], names, taken)
        if kind == "if":
            test = self.put(one[1], names)
            known = truth(test)
            if known is not None:
                return self.statements(one[2] if known else one[3], names, taken)
            return [("if", test, *(_block(self.statements(side, names, taken)) for side in one[2:4]))]
        if kind == "for":
            return self._loop(one, names, taken)
        if kind == "leave":
            return [one]
        raise Unplayable(f"{kind} in a case")

    def _block(self, body: list[Node], names: dict[str, Node], taken: frozenset[str]) -> list[Node]:
        out: list[Node] = []
        for n, one in enumerate(body):
            if one[0] == "declare":
                out += self._declared(one, body[n + 1 :], names, taken)
            else:
                out += self.statements(one, names, taken)
        return out

    def _declared(self, one: Node, behind: list[Node], names: dict[str, Node], taken: frozenset[str]) -> list[Node]:
        _, kind, made, shared = one
        if shared:
            raise Unplayable("shared memory of a case")
        kept = []
        for name, star, dims, value in made:
            new = value and self.put(value, names)
            sides = [self.put(d, names) for d in dims]
            if star == "&" or (star and dims):
                raise Unplayable("a reference of a case")
            number = of(new) if new is not None and not star and not dims else None
            fixed = converted(number, kind) if number is not None else None
            if fixed is not None and not any(written(name, x, self.templates) for x in behind):
                names[name] = node(fixed)
                continue
            called = f"{name}_{next(self.fresh)}" if name in taken else name
            self.types[called] = kind
            names[name] = ("name", called)
            kept.append((called, star, sides, new))
        return [("declare", kind, kept, shared)] if kept else []

    def _done(self, one: Node, names: Names, taken: frozenset[str]) -> list[Node]:
        if one[0] == "call" and one[1] in self.templates.calls:
            self.deep += 1
            if self.deep > DEEP:
                raise Unplayable("deep")
            made = self._called(one, names, taken)
            self.deep -= 1
            return made
        return [("do", self.put(one, names))]

    def _called(self, one: Node, names: Names, taken: frozenset[str]) -> list[Node]:
        found, bound, first, around = self._entered(one, names, taken)
        body = list(found.body[1])
        if body and body[-1] == ("return", None):
            body.pop()
        made = [*first, *self._block(body, bound, around)]
        return [("block", made)] if any(x[0] == "declare" for x in made) else made

    def _entered(
        self, one: Node, names: Names, taken: frozenset[str]
    ) -> tuple[Definition, dict[str, Node], list[Node], frozenset[str]]:
        """(definition, names within it, declarations of what it takes by value and changes, names it must not hide)."""
        call = self.templates.calls[one[1]]
        values = [self.put(x, names) for x in call.arguments]
        if any(of(x) is None for x in values):
            raise Unplayable("a template of what is not known")
        found, numbers = matched(self.templates.definitions(call.name), values)
        given = [self.put(x, names) for x in one[2]]
        if len(given) != len(found.given):
            raise Unplayable("a call of another kind")
        own = {*numbers, *(p.name for p in found.given), *declared(found.body)}
        if (self.around | self.types.keys()) & names_of(found.body).keys() - own:
            raise Unplayable("a function's name that the kernel hides")
        around = taken | {x[1] for g in given for x in inside(g) if x[0] == "name"}
        bound = dict(numbers)
        first: list[Node] = []
        changed = {root(g) for p, g in zip(found.given, given, strict=True) if p.sign == "&"}
        for p, value in zip(found.given, given, strict=True):
            stands = self._stands(p, value, found, changed)
            if stands is not None:
                bound[p.name] = stands
            elif p.sign:
                raise Unplayable("a parameter of another kind")
            else:
                name = f"{p.name}_{next(self.fresh)}" if p.name in around else p.name
                bound[p.name], self.types[name] = ("name", name), p.kind
                first.append(("declare", p.kind, [(name, "", [], value)], False))
        return found, bound, first, frozenset(around)

    def _stands(self, p: Given, value: Node, found: Definition, changed: set[str]) -> Node | None:
        """What a parameter is another name for; None where it is a variable of its own."""
        known = of(value)
        steady = not written(p.name, found.body, self.templates)
        fixed = converted(known, p.kind) if known is not None and steady and p.sign != "*" else None
        if fixed is not None:
            return node(fixed)
        if value[0] != "name":
            return None
        kind = self.types.get(value[1], "")
        if p.sign == "&":  # what is of another type is copied for a reference to a constant
            return value if kind == p.kind or not (kind or p.constant) else None
        return value if steady and value[1] not in changed and (p.sign == "*" or kind == p.kind) else None

    def _loop(self, one: Node, names: Names, taken: frozenset[str]) -> list[Node]:
        _, first, test, step, body = one
        rounds = self._rounds(first, test, step, body, names)
        if rounds is not None:
            out: list[Node] = []
            for n in rounds:
                out += self.statements(body, {**names, first[2][0][0]: ("number", str(n))}, taken)
            return out
        inner = dict(names)
        made = self._declared(first, [("do", test), ("do", step), body], inner, taken) if first[0] == "declare" else (
            [] if first == EMPTY else self._done(first[1], inner, taken))  # fmt: skip
        if len(made) > 1:
            raise Unplayable("a loop of another kind")
        start = made[0] if made else EMPTY
        round_ = _block(self.statements(body, inner, taken))
        return [("for", start, self.put(test, inner), self.put(step, inner), round_)]

    def _rounds(self, first: Node, test: Node, step: Node, body: Node, names: Names) -> range | None:
        """Values of a loop's counter, where it counts up between numbers and leaves nowhere else."""
        if first[0] != "declare" or first[1] != "int" or len(first[2]) != 1:
            return None
        name, star, dims, value = first[2][0]
        if star or dims or value is None or self._leaves(name, body):
            return None
        ends = test[0] == "binary" and test[1] in ("<", "<=") and test[2] == ("name", name)
        counts = step[0] in ("assign", "after") and step[1] == "+=" and step[2] == ("name", name)
        if not ends or not counts:
            return None
        start, end, by = (of(self.put(x, names)) or Number("", 0) for x in (value, test[3], step[3]))
        if {start.kind, end.kind, by.kind} != {"int"} or by.value <= 0:
            return None
        found = range(int(start.value), int(end.value) + (test[1] == "<="), int(by.value))
        return found if len(found) <= ROUNDS else None

    def _leaves(self, name: str, body: Node) -> bool:
        """Whether a round may end elsewhere, or change the counter."""
        return any(x[0] == "leave" for x in inside(body)) or written(name, body, self.templates)

    def put(self, one: Node, names: Names) -> Node:
        """An expression with what its names stand for, numbers worked out."""
        self.left -= 1
        if self.left < 0:
            raise Unplayable("long")
        kind = one[0]
        if kind == "name":
            return names.get(one[1], one)
        if kind == "number":
            known = of(one)
            return node(known) if known is not None else one
        if kind in ("assign", "after"):
            value, to = self.put(one[3], names), self.put(one[2], names)
            if of(to) is not None:
                raise Unplayable("a constant that is written")
            return (kind, one[1], to, value)
        if kind == "address" and of(self.put(one[1], names)) is not None:
            raise Unplayable("the address of a constant")
        if kind == "call":
            if one[1] in self.templates.calls:
                raise Unplayable("the value of a template")
            return self.look_up(("call", one[1], [self.put(x, names) for x in one[2]]))
        if kind == "list":
            return ("list", [self.put(x, names) for x in one[1]])
        return folded(tuple(self.put(x, names) if isinstance(x, tuple) else x for x in one))


def written(name: str, tree: Node, templates: Templates) -> bool:
    """Whether something may change a name: it is assigned to, its address is taken, or a call has it by itself."""
    for one in inside(tree):
        if one[0] in ("assign", "after") and root(one[2]) == name:
            return True
        if one[0] == "address" and root(one[1]) == name:
            return True
        if one[0] == "declare" and any(made[1] == "&" and made[3] and root(made[3]) == name for made in one[2]):
            return True
        if one[0] == "call" and any(root(x) == name for x in one[2]) and _changes(one, name, templates):
            return True
    return False


def _changes(call: Node, name: str, templates: Templates) -> bool:
    if call[1] not in templates.calls:
        return not call[1].startswith("__") and call[1] not in _PURE
    try:
        found = templates.definitions(templates.calls[call[1]].name)
    except (Unplayable, RecursionError):
        return True
    return any(
        p.sign == "&"
        for one in found
        for p, x in zip(one.given, call[2], strict=False)
        if root(x) == name
    )


_PURE = frozenset(
    f"{name}{end}" for end in ("", "f")
    for name in ("fma", "fmax", "fmin", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "fabs", "max", "min", "abs", "pow")
)  # fmt: skip


def _block(found: list[Node]) -> Node:
    return ("block", found)
