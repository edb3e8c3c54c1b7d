"""The text of a function that gives a row to a block, written so that some lanes of a warp have it and keep in
registers what threads had in shared memory: lanes fold what they hold, and the rest by shuffles. A lane stands for one
thread where loops go along the row, or for several, whose numbers stay as far apart as they were folded: then no
operation has another place."""

from __future__ import annotations

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.rows import syntax
from kscope.fixes.rows.quads import quads
from kscope.fixes.rows.regrouped import ROW, WARP
from kscope.fixes.rows.syntax import inside, lines, names, replaced, spelled, statements
from kscope.fixes.rows.trees import THREAD, ZERO, Fold, fair, first_thread, round_of
from kscope.fixes.rows.varying import OVER, Form, Names, Unclear, reduced

EACH, BY = "part_n", "by_n"
CALLS = {"fmaxf": {"": "fmaxf", "double": "fmax", "int": "max", "unsigned": "max"},
         "fminf": {"": "fminf", "double": "fmin", "int": "min", "unsigned": "min"}}  # fmt: skip
ELEMENT = ("name", EACH)
MOST = 64  # words that a lane holds of all its threads (judged: half of what 128 registers leave)
GROUP = ("barrier",)


class Writer(Names):
    """Statements one by one. section: those between two meetings, which a lane runs for each of its threads."""

    def __init__(self, body: Node, form: Form) -> None:
        super().__init__(body, form)
        self.section: list[Node] = []
        self.held: dict[str, int] = {}
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
        here, apart = names(*made), {*syntax.declared(*made), *self.varying}
        changes = [one[2] for x in made for one in inside(x) if one[0] in ("assign", "after")]
        if {one[1] for one in changes if one[0] == "name"} - apart:
            raise Unclear("what all threads count, once for each")
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
        inner = pad + "  "
        made, by = self.by_reciprocals(made)
        body = [x for one in made for x in lines(self.assigned(one), inner, self.kept(), self.grown(one))]
        if not body:
            return out
        counted = [*self.thread_named(made, inner), *(f"{inner}const float {n}{OVER} = 1 / {n};" for n in by)]
        first = f"for (int {EACH} = 0; {EACH} < {self.form.each}; {EACH}++)"
        return [*out, f"{pad}#pragma unroll", *syntax.headed(first, [*counted, *body], pad)]

    def size(self, dims: list[Node]) -> int:
        words = 1
        for d in dims:
            words *= self.width(d) or MOST + 1
        return words

    def thread_named(self, made: list[Node], pad: str) -> list[str]:
        inner = names(*(self.changed(one, ELEMENT) for one in made))
        used = [(self.kinds[a], a) for a in sorted(self.alias) if inner[a]]
        used += [("unsigned", "thread_n")] if inner["thread_n"] else []
        return [f"{pad}const {kind} {name} = threadIdx.x + {self.form.lanes} * {EACH};" for kind, name in used]

    def assigned(self, node: Node) -> Node:
        """A declaration as what is left of it where its name is declared in front of the section."""
        if node[0] == "declare" and node[2][0][0] in self.held:
            ((name, _, _, value),) = node[2]
            return ("block", []) if value is None else self.changed(
                ("do", ("assign", "=", ("name", name), value)), ELEMENT)  # fmt: skip
        return self.changed(node, ELEMENT)

    def changed(self, node: Node, each: Node | None, *, first: bool = False) -> Node:
        """With rows for blocks, and elements of what a lane holds. each: which of its threads it is; first: whether its
        number is 0."""

        def how(one: Node) -> Node | None:
            if one[0] == "index" and one[1][0] == "name" and one[1][1] in self.own:
                name = ("name", one[1][1])
                at = ZERO[0] if one[2] in ZERO else each
                return ("index", name, at) if self.form.each > 1 else name
            if one[0] != "name":
                return self.narrowed(one)
            return self.named(one, each, first)

        return replaced(node, how)

    def named(self, one: Node, each: Node | None, first: bool) -> Node | None:
        name = one[1]
        if name == "blockIdx.x":
            return ("name", ROW)
        if name == "blockDim.x" and self.form.each > 1:
            return ("number", str(self.form.block))
        if self.form.each == 1 and self.width(one) == self.form.block:
            raise Unclear("as wide as a block")  # what is no step along the row could be the number of anything else
        if name in self.alias or name == "threadIdx.x":
            if first or self.form.lanes == 1:
                return ZERO[0]
            return ("name", "thread_n") if name == "threadIdx.x" and self.form.each > 1 else None
        if name in self.held and self.form.each > 1:
            return ("index", one, each)
        return ("index", one, ("name", "threadIdx.y")) if name in self.shared else None

    def narrowed(self, one: Node) -> Node | None:
        """`k += B` by the lanes instead."""
        if self.form.each > 1 or one[0] == "declare":
            return None
        if one[0] == "assign" and one[1] == "+=" and self.width(one[3]) == self.form.block and one[2][0] == "name":
            by = one[3] if one[3][0] == "name" and one[3][1] in self.form.values else ("number", str(self.form.lanes))
            return ("assign", "+=", one[2], by)
        if one[0] == "number" and self.width(one) == self.form.block:
            raise Unclear("as wide as a block")
        return None

    def folded(self, one: Fold, pad: str) -> list[str]:
        """What a lane holds first, then lanes by shuffles; all get what the first one has."""
        out, form, o = [], self.form, one.name
        if form.each > 1:
            made = self._round(one, lambda n: ("index", ("name", n), ELEMENT),
                               lambda n: ("index", ("name", n), ("binary", "+", ELEMENT, ("name", o))))  # fmt: skip
            head, inner = f"for (int {EACH} = 0; {EACH} < {o}; {EACH}++)", pad + "  "
            out += [f"{pad}#pragma unroll", f"{pad}for (int {o} = {form.each // 2}; {o}; {o} >>= 1) {{",
                    f"{inner}#pragma unroll", *syntax.headed(head, lines(made, inner + "  "), inner), f"{pad}}}"]
        if form.lanes == 1:
            return out
        own = {n: f"{n}[0]" if form.each > 1 else n for n in one.arrays}
        made = self._round(one, lambda n: ("name", own[n]), lambda n: ("name", f"{n}_far"))
        far = [f"{pad}  const {self.kinds[n]} {n}_far = __shfl_xor_sync(~0u, {own[n]}, {o});" for n in one.arrays]
        out += [f"{pad}#pragma unroll", f"{pad}for (int {o} = {form.lanes // 2}; {o}; {o} >>= 1) {{", *far,
                *lines(made, pad + "  "), f"{pad}}}"]  # fmt: skip
        if not fair(one):  # lanes that compare in another order may have taken another of two that are equal
            width = f", {form.lanes}" if form.lanes < WARP else ""
            out += [f"{pad}{own[n]} = __shfl_sync(~0u, {own[n]}, 0{width});" for n in one.arrays if n in self.read]
        return out

    def _round(self, one: Fold, own: object, far: object) -> Node:
        made = round_of(one, self.alias, own, far)  # type: ignore[arg-type]
        if made is None:
            raise Unclear("the number of a round")
        return made

    def joined(self, node: Node, pad: str) -> list[str]:
        """A value of each thread joined by the lanes' own first, then by shuffles."""
        _, kind, ((name, _, _, (_, (_, how), value)),), _ = node
        form, inner = self.form, pad + "  "

        def both(a: str, b: str) -> str:
            return f"{a} + {b}" if how == "+" else f"{CALLS[how].get(kind, CALLS[how][''])}({a}, {b})"

        if form.each == 1:
            out = lines(("declare", kind, [(name, "", [], self.changed(value, None))], False), pad)
        else:
            one = spelled(self.changed(value, ELEMENT), 3)
            made = [*self.thread_named([("do", value)], inner), f"{inner}{name} = {EACH} ? {both(name, one)} : {one};"]
            out = [f"{pad}{kind} {name};", f"{pad}#pragma unroll",
                   *syntax.headed(f"for (int {EACH} = 0; {EACH} < {form.each}; {EACH}++)", made, pad)]  # fmt: skip
        if form.lanes == 1:
            return out
        there = f"__shfl_xor_sync(~0u, {name}, {BY})"
        return [*out, f"{pad}#pragma unroll", f"{pad}for (int {BY} = {form.lanes // 2}; {BY}; {BY} >>= 1) "
                f"{name} = {both(name, there)};"]  # fmt: skip


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
