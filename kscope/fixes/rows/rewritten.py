"""What statements of a row's threads become where lanes stand for them: names, places, and what lanes join."""

from __future__ import annotations

from kscope.fixes.given.grammar import Node
from kscope.fixes.given.kinds import words
from kscope.fixes.rows import syntax
from kscope.fixes.rows.beside import ALWAYS, Access, Finder
from kscope.fixes.rows.regrouped import ROW, WARP
from kscope.fixes.rows.syntax import lines, names, replaced, spelled
from kscope.fixes.rows.trees import THREAD, ZERO, Fold, fair, round_of
from kscope.fixes.rows.varying import Form, Names, Unclear

EACH, BY = "part_n", "by_n"
CALLS = {"fmaxf": {"": "fmaxf", "double": "fmax", "int": "max", "unsigned": "max"},
         "fminf": {"": "fminf", "double": "fmin", "int": "min", "unsigned": "min"}}  # fmt: skip
ELEMENT = ("name", EACH)


class Lane(Names):
    """held: words that a lane holds of names of its threads. tests: numbers that must be multiples of these."""

    def __init__(self, body: Node, form: Form) -> None:
        super().__init__(body, form)
        self.held: dict[str, int] = {}
        self.tests: set[str] = set()
        self.finder = self.finding() if form.beside else None

    def thread_named(self, made: list[Node], pad: str) -> list[str]:
        inner = names(*(self.changed(one, ELEMENT) for one in made))
        used = [(self.kinds[a], a) for a in sorted(self.alias) if inner[a]]
        used += [("unsigned", "thread_n")] if inner["thread_n"] else []
        return [f"{pad}const {kind} {name} = {self.number()};" for kind, name in used]

    def number(self) -> str:
        """Of one of a lane's threads."""
        form = self.form
        return f"{form.each} * threadIdx.x + {EACH}" if form.beside else f"threadIdx.x + {form.lanes} * {EACH}"

    def changed(self, node: Node, each: Node | None, *, first: bool = False) -> Node:
        """With rows for blocks, and elements of what a lane holds. each: which of its threads it is; first: whether its
        number is 0."""

        def how(one: Node) -> Node | None:
            if one[0] == "index" and one[1][0] == "name" and one[1][1] in self.own:
                name = ("name", one[1][1])
                at = ZERO[0] if one[2] in ZERO else each
                return ("index", name, at) if self.form.each > 1 else name
            if one[0] != "name":
                return self.all_below(one) or self.narrowed(one)
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

    def finding(self) -> Finder:
        """What finds accesses that lie side by side."""
        if self.folds:
            raise Unclear("threads that meet far apart")
        once = {n for n, count in syntax.declared(self.body).items() if count == 1} - self.written - set(self.leads)
        made = {n: v for one in syntax.inside(self.body) if one[0] == "declare" for n, star, dims, v in one[2]
                if n in once and not star and not dims and v is not None and v != THREAD
                and not any(x[0] in ("index", "deref", "call", "reduced") for x in syntax.inside(v))}  # fmt: skip
        made |= dict.fromkeys(self.alias, THREAD)
        taken = {*self.counts, *self.kinds}
        signed = frozenset(n for n in self.alias if self.kinds[n] == "int")
        return Finder(self.form.each, made, self.leads, self.form.pointers, self.numbers(), taken, signed)

    def registers(self, one: Access, pad: str) -> str:
        each = self.form.each
        return f"{pad}__align__({words(one.kind)[1] * each}) {one.kind} {one.put}[{each}];"

    def accessed(self, one: Access, pad: str, *, store: bool) -> list[str]:
        """All elements by one access."""
        wide = one.carrier(self.form.each)
        self.tests |= set(one.tests)
        place = replaced(self.changed(one.at, ELEMENT), lambda x: self.first() if x == ("name", "thread_n") else None)
        asked = "" if one.test == ALWAYS else f"if ({spelled(self.below(one.test[3], signed=one.signed))}) "
        sides = f"*({wide} *){one.put}", f"*({'' if store else 'const '}{wide} *)&{spelled(place)}"
        to, of = reversed(sides) if store else sides
        return [*([] if store else [self.registers(one, pad)]), f"{pad}{asked}{to} = {of};"]

    def first(self) -> Node:
        """The number of the first one of a lane's threads."""
        return ("binary", "*", ("number", str(self.form.each)), ("name", "threadIdx.x"))

    def below(self, bound: Node, *, signed: bool) -> Node:
        """Whether threads are below a number that is a multiple of a lane's: all of them, or none."""
        return ("binary", "<", ("cast", "int", self.first(), 0) if signed else self.first(), bound)

    def all_below(self, one: Node) -> Node | None:
        """A test that comes out the same for all threads of a lane."""
        tests = set[str]()
        if self.finder is None or one[:2] != ("binary", "<") or one[2][0] != "name":
            return None
        if self.finder.expanded(one[2]) != THREAD or not self.finder.multiple(one[3], tests):
            return None
        self.tests |= tests
        return self.below(one[3], signed=one[2][1] in self.finder.signed)
