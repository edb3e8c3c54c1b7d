"""The text of a function that gives a row to a block, written so that some lanes of a warp have it and keep in
registers what threads had in shared memory: lanes fold what they hold, and the rest by shuffles. A lane stands for one
thread where loops go along the row, or for several, whose numbers stay as far apart as they were folded: then no
operation has another place."""

from __future__ import annotations

from collections.abc import Mapping

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.rows import syntax
from kscope.fixes.rows.beside import Beside
from kscope.fixes.rows.quads import quads
from kscope.fixes.rows.regrouped import ROW, WARP
from kscope.fixes.rows.rewritten import BY, EACH, ELEMENT, Lane
from kscope.fixes.rows.syntax import inside, lines, names, spelled, statements
from kscope.fixes.rows.trees import THREAD, ZERO, first_thread
from kscope.fixes.rows.varying import OVER, Form, Unclear, reduced

MOST = 64  # words that a lane holds of all its threads (judged: half of what 128 registers leave)
GROUP = ("barrier",)


class Writer(Lane):
    """Statements one by one. section: those between two meetings, which a lane runs for each of its threads."""

    def __init__(self, body: Node, form: Form) -> None:
        super().__init__(body, form)
        self.section: list[Node] = []
        self.aligned: set[str] = set()

    def text(self) -> str:
        """The function's new body."""
        made = self.block(statements(self.body), "  ")
        return "\n".join(["{", f"  const unsigned {ROW} = {self.row()};", *made, "}"])

    def row(self) -> str:
        form = self.form
        return f"blockIdx.x * {form.rows} + {'threadIdx.x' if form.lanes == 1 else 'threadIdx.y'}"

    def block(self, nodes: list[Node], pad: str) -> list[str]:
        out: list[str] = []
        for node in nodes:
            out += self.statement(node, pad)
        return out + self.ended(pad)

    def statement(self, node: Node, pad: str) -> list[str]:
        if id(node) in self.folds:
            return self.ended(pad) + self.folded(self.folds[id(node)], pad)
        if node[0] == "declare" and reduced(node):
            return self.ended(pad) + self.joined(node, pad)
        if node == GROUP:
            return self.ended(pad) + self.met(pad)
        if node[0] == "declare":
            return self.declaration(node, pad)
        if node[0] == "return" or (node[0] == "if" and ("return",) in inside(node)):
            if self.varies(node) or self.form.lanes < WARP or node[0] == "return":
                raise Unclear("return")
            return self.ended(pad) + self.plain(node, pad)
        if self.meets(node):
            return self.ended(pad) + self.around(node, pad)
        if node[0] == "if" and first_thread(node[1], self.alias) and node[3] == ("block", []):
            return self.ended(pad) + self.by_first(node, pad)
        if self.form.each == 1 or not (self.varies(node) or self.stores(node)):
            return self.ended(pad) + self.plain(node, pad)
        self.section.append(node)
        return []

    def meets(self, node: Node) -> bool:
        return any(one == GROUP or id(one) in self.folds or one[0] == "reduced" for one in inside(node))

    def around(self, node: Node, pad: str) -> list[str]:
        """A loop, or a test, that all threads of a block come through alike, with a meeting in it."""
        if node[0] == "block":
            return [f"{pad}{{", *self.block(statements(node), pad + "  "), f"{pad}}}"]
        if node[0] not in ("for", "if") or self.varies(*(x for x in node[1:4 if node[0] == "for" else 2])):
            raise Unclear("a meeting of some")
        if self.form.lanes < WARP and not set(names(*node[1 : 4 if node[0] == "for" else 2])) <= self.alike(node):
            raise Unclear("rows that go apart")
        if node[0] == "for":
            body = self.block(statements(node[4]), pad + "  ")
            head = syntax.head(self.changed((*node[:4], ("block", [])), None))
            return [f"{pad}{head} {{", *body, f"{pad}}}"]
        then, other = (self.block(statements(x), pad + "  ") for x in node[2:4])
        rest = [f"{pad}}} else {{", *other] if other else []
        return [f"{pad}if ({spelled(self.changed(node[1], None))}) {{", *then, *rest, f"{pad}}}"]

    def plain(self, node: Node, pad: str) -> list[str]:
        made = self.changed(node, ZERO[0] if self.form.each > 1 else None)
        return lines(self.quadded(node, made), pad, self.kept(), self.grown(node))

    def quadded(self, was: Node, made: Node) -> Node:
        """A loop along the row by four neighbours a lane, where it can be."""
        if not self.form.quads or was[0] != "for" or was[3][0] != "assign" or self.width(was[3][3]) != self.form.block:
            return made
        found = quads(made, self.form.pointers, self.leads, made[3][3], self.written,
                      short=self.form.lanes < WARP)  # fmt: skip
        self.aligned |= set(found.arrays) if found is not None else set()
        return made if found is None else found.node

    def by_first(self, node: Node, pad: str) -> list[str]:
        if self.form.lanes == 1:
            return lines(self.changed(node[2], ZERO[0], first=True), pad, self.kept())
        test = ("unary", "!", THREAD) if node[1][0] == "unary" else ("binary", *node[1][1:2], THREAD, node[1][3])
        then = self.changed(node[2], ZERO[0], first=True)
        return lines(("if", test, then, node[3]), pad, self.kept())

    def met(self, pad: str) -> list[str]:
        shared = {n for n in self.shared if self.counts[n]} - self.own
        return [f"{pad}__syncwarp();"] if self.form.lanes > 1 and (shared or self.form.handed) else []

    def declaration(self, node: Node, pad: str) -> list[str]:
        _, kind, made, shared = node
        out: list[str] = []
        if shared:
            out += self.ended(pad)
            for name, _, dims, value in made:
                if value is not None:
                    raise Unclear("a value of a block")
                if not self.counts[name]:
                    continue
                if name in self.own:
                    self.hold(name, 1)
                    out.append(f"{pad}{kind} {name}{self.sides()};")
                else:
                    sides = "".join(f"[{spelled(d)}]" for d in dims)
                    out.append(f"{pad}__shared__ {kind} {name}[{self.form.rows}]{sides};")
            return out
        for one in made:
            name, star, dims, value = one
            if self.idle(name, value) or (name in self.alias and self.form.each > 1):
                continue
            single = ("declare", kind, [one], shared)
            if self.form.each > 1 and (name in self.varying or (value is not None and self.varies(value))):
                if star:
                    raise Unclear("a pointer of each thread")
                self.section.append(single)
            else:
                out += self.ended(pad) + self.plain(single, pad)
        return out

    def sides(self) -> str:
        return f"[{self.form.each}]" if self.form.each > 1 else ""

    def hold(self, name: str, words: int) -> None:
        self.held[name] = words * self.form.each
        if sum(self.held.values()) > MOST:
            raise Unclear("more than registers hold")

    def ended(self, pad: str) -> list[str]:
        """The section so far, for each thread that a lane stands for."""
        made, self.section = self.section, []
        if not made:
            return []
        side = self.finder.section(made, ELEMENT) if self.finder is not None else Beside(made, [], [])
        made = side.made
        self.aligned |= {one.array for one in (*side.loads, *side.stores)}
        here, apart = names(*made), {*syntax.declared(*made), *self.varying}
        changes = [one[2] for x in made for one in inside(x) if one[0] in ("assign", "after")]
        if {one[1] for one in changes if one[0] == "name"} - apart:
            raise Unclear("what all threads count, once for each")
        out = self.declared(made, here, pad)
        inner = pad + "  "
        made, by = self.by_reciprocals(made)
        body = [x for one in made for x in lines(self.assigned(one), inner, self.kept(), self.grown(one))]
        if not body:
            return out
        counted = [*self.thread_named(made, inner), *(f"{inner}const float {n}{OVER} = 1 / {n};" for n in by)]
        first = f"for (int {EACH} = 0; {EACH} < {self.form.each}; {EACH}++)"
        loop = [f"{pad}#pragma unroll", *syntax.headed(first, [*counted, *body], pad)]
        loads = [x for one in side.loads for x in self.accessed(one, pad, store=False)]
        made_before = [self.registers(one, pad) for one in side.stores]
        stores = [x for one in side.stores for x in self.accessed(one, pad, store=True)]
        return [*out, *loads, *made_before, *loop, *stores]

    def declared(self, made: list[Node], here: Mapping[str, int], pad: str) -> list[str]:
        """Names of a section that later ones use."""
        out = []
        for one in made:
            if one[0] != "declare":
                continue
            ((name, _, dims, _),) = one[2]
            if here[name] < self.counts[name] or syntax.declared(self.body)[name] > 1:
                if syntax.declared(self.body)[name] > 1:
                    raise Unclear("a name of two")
                self.hold(name, self.size(dims))
                out.append(f"{pad}{one[1]} {name}{self.sides()}{''.join(f'[{spelled(d)}]' for d in dims)};")
        return out

    def size(self, dims: list[Node]) -> int:
        words = 1
        for d in dims:
            words *= self.width(d) or MOST + 1
        return words

    def assigned(self, node: Node) -> Node:
        """A declaration as what is left of it where its name is declared in front of the section."""
        if node[0] == "declare" and node[2][0][0] in self.held:
            ((name, _, _, value),) = node[2]
            return ("block", []) if value is None else self.changed(
                ("do", ("assign", "=", ("name", name), value)), ELEMENT)  # fmt: skip
        return self.changed(node, ELEMENT)


def held(body: Node, form: Form) -> tuple[str, Writer] | None:
    """The new body; None where the old one is not understood."""
    try:
        one = Writer(body, form)
        text = one.text()
    except (Unclear, Unplayable):
        return None
    taken = {EACH, BY, ROW, "thread_n", "threadIdx.y", "threadIdx.z", *(f"{n}_far" for n in one.own),
             *(f"{n}{OVER}" for n in one.over)}
    return None if taken & {*one.counts, *one.kinds} else (text, one)
