"""From a function that gives a row to a block to its text that keeps in registers what it had in shared memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Node
from kscope.fixes.rows import syntax
from kscope.fixes.rows.function import Function
from kscope.fixes.rows.held import Writer, held
from kscope.fixes.rows.inlined import Callee, joined_by
from kscope.fixes.rows.regions import joined, shuffling
from kscope.fixes.rows.regrouped import NEVER
from kscope.fixes.rows.syntax import inside, names, replaced, statements
from kscope.fixes.rows.varying import Form


class Kept(Struct, frozen=True):
    """The function's text, the values of its template, words of registers a lane more, whether no operation has another
    place, parameters through which it loads 16 bytes, names that it divides by once."""

    text: str
    values: Mapping[str, int]
    more: int
    exact: bool
    aligned: tuple[str, ...]
    over: tuple[str, ...]


def in_registers(
    fn: Function, block: int, lanes: int, rows: int, each: int, known: Mapping[str, int],
    called: Mapping[str, Callee], *, wide: bool = False, beside: bool = False,
) -> Kept | None:  # fmt: skip
    """None where the text is none that is understood. each: threads that a lane stands for. called: functions of the
    file. wide: whether lanes take four neighbours."""
    if "__align__" in fn.body or NEVER.search(re.sub(r"\b__shfl_(?:\w+_)?sync\b", "shuffle", fn.body)):
        return None
    body = syntax.tree(fn.body)
    if body is None:
        return None
    widths = frozenset(n for n, v in {**known, **fn.values}.items() if v == block)
    body = _Joins(called, block, widths, body).made()
    if body is None:
        return None
    form = Form(block, lanes, rows, each, widths, fn.values, handed(fn, body), fn.pointers, wide, beside)
    named = {**known, **fn.values}
    made = None
    for one in (body if not shuffling(body) else joined(body, block, named), joined(body, block, named, stores=True)):
        made = made or (None if shuffling(one) else _written(one, form))
    if made is None:
        return None
    text, writer = made
    values = {n: lanes if v == block and each == 1 else v for n, v in fn.values.items()}
    if (wide or beside) and not writer.aligned:
        return None
    more = sum(writer.held.values()) - len(writer.held)
    said = [tuple(sorted(found)) for found in (writer.aligned, writer.over)]
    return Kept(fn.code[: fn.opened] + text, values, more, writer.exact, *said)


def _written(body: Node, form: Form) -> tuple[str, Writer] | None:
    """The new body; where that is right for some numbers alone, the one of threads that lie apart for others."""
    made = held(body, form)
    if made is None or not made[1].tests:
        return made
    text, writer = made
    other = held(body, structs.replace(form, beside=False))
    if other is None or "__shared__" in text:
        return None
    return _either(" && ".join(f"{n} % {form.each} == 0" for n in sorted(writer.tests)), text, other[0]), writer


def _either(test: str, text: str, other: str) -> str:
    """Both bodies, the first one where a test holds."""
    (first, row, *then), (_, _, *rest) = text.split("\n"), other.split("\n")
    sides = [f"  {x}" for x in then[:-1]], [f"  {x}" for x in rest[:-1]]
    return "\n".join([first, row, f"  if ({test}) {{", *sides[0], "  } else {", *sides[1], "  }", "}"])


class _Joins:
    """Calls of functions that join a value of each thread, as what they come to."""

    def __init__(self, called: Mapping[str, Callee], block: int, wide: frozenset[str], body: Node) -> None:
        self.called, self.block, self.wide, self.body = called, block, wide, body
        self.meeting = {name for name, one in called.items() if one.meets}
        self.right, self.count = True, 0

    def made(self) -> Node | None:
        """The body; None where a function with a barrier in it does anything else."""
        if not self.meeting & {one[1] for one in inside(self.body) if one[0] == "call"}:
            return self.body
        found = ("block", self.statements(statements(self.body)))
        left = self.meeting & {one[1] for one in inside(found) if one[0] == "call"}
        return found if self.right and not left else None

    def statements(self, nodes: Sequence[Node]) -> list[Node]:
        out: list[Node] = []
        for node in nodes:
            if node[0] == "declare":
                for one in node[2]:
                    before, made = self.value(one[3], node[1])
                    out += [*before, ("declare", node[1], [(*one[:3], made)], node[3])]
            elif node[0] == "do":
                before, made = self.value(node[1], "")
                out += [*before, ("do", made)]
            elif node[0] == "for":
                out.append((*node[:4], ("block", self.statements(statements(node[4])))))
            elif node[0] == "block":
                out.append(("block", self.statements(node[1])))
            else:
                out.append(node)
        return out

    def value(self, value: Node | None, kind: str) -> tuple[list[Node], Node | None]:
        """(values that are joined before, the expression without their calls)."""
        out: list[Node] = []

        def how(one: Node) -> Node | None:
            if one[0] == "choose" or (one[0] == "binary" and one[1] in ("&&", "||")):
                return one  # perhaps not called
            if one[0] != "call" or one[1] not in self.meeting:
                return None
            made = self.join(one)
            if one is value and kind == self.called[one[1]].kind:
                return made
            self.count += 1
            name = f"{one[1]}_{self.count}"
            self.right &= not names(self.body)[name]
            out.append(("declare", self.called[one[1]].kind, [(name, "", [], made)], False))
            return ("name", name)

        return out, replaced(value, how) if value is not None else None

    def join(self, call: Node) -> Node:
        name, given = call[1:]
        known = self.called[name]
        own = [n for n, v in enumerate(given) if v[0] != "number" and n < len(known.given) and not known.given[n][1]]
        shared = [one for one in inside(self.body) if one[0] == "declare" and one[3]]
        sizes = {n: self.size(dims) for one in shared for n, _, dims, _ in one[2]}
        stars = [v[1] for v, one in zip(given, known.given, strict=False) if one[1]]
        nested = any(one[0] == "call" and one[1] in self.meeting for v in given for one in inside(v))
        if len(own) != 1 or len(given) != len(known.given) or nested or not all(sizes.get(n) for n in stars):
            self.right = False
            return call
        how = joined_by(self.called, name, given, own[0], sizes, self.block)
        self.right &= bool(how)
        return ("reduced", ("number", how), given[own[0]])

    def size(self, dims: Sequence[Node]) -> int:
        """Elements of an array of one side; 0 where they are not told."""
        if len(dims) != 1 or dims[0][0] not in ("number", "name"):
            return 0
        return self.block if dims[0][1] in self.wide else int(dims[0][1]) if str(dims[0][1]).isdigit() else 0


def handed(fn: Function, body: Node) -> bool:
    """Whether threads could hand something on through global memory: what is stored through one pointer is loaded
    through it, or another one may point there."""
    head = fn.code[: fn.opened]
    if not all(re.search(rf"__restrict__\s+{name}\b", head) for name in fn.pointers):
        return True
    made = {m[0]: m[3] for one in inside(body) if one[0] == "declare" for m in one[2] if m[1]}
    stored, loaded = set[str](), set[str]()
    targets = {id(one[2]) for one in inside(body) if one[0] == "assign" and one[1] == "="}
    for one in inside(body):
        if one[0] == "deref" or (one[0] == "index" and one[1][0] not in ("index", "name")):
            return True
        if one[0] == "index":
            (stored if id(one) in targets else loaded).add(_led(syntax.root(one), made))
    return "" in stored | loaded or bool(stored & loaded & set(fn.pointers))


def _led(name: str, made: Mapping[str, Node | None]) -> str:
    """The array that a pointer of the text leads to; "" where that is not told."""
    while name in made:
        value = made[name]
        name = syntax.root(value) if value is not None else ""
    return name
