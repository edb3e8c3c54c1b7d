"""One warp played on its own: its lanes go their way without anybody else's, as far as no data decide it, and leave
a list of what others can see. What memory holds is unknown; a way that it decides is Unplayable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.source import SIZES
from kscope.fixes.roles.assembly import CALL
from kscope.fixes.roles.events import Met, Stopped
from kscope.fixes.roles.expressions import Expressions, calls
from kscope.fixes.roles.functions import MATHS, meant
from kscope.fixes.roles.instructions import perform
from kscope.fixes.roles.lanes import DYNAMIC, Scope
from kscope.fixes.roles.texts import UNKNOWN, Called, Parameter
from kscope.fixes.roles.values import NEVER, Failed, Named, Place
from kscope.model.lazily import np

MARK = "marked_statement"
"""What stands, as a call with its number, in front of a barrier that may be left out."""

class Warp(Expressions):
    """Statements and calls."""

    def run(self, node: Node) -> None:
        self.pay()
        if self.on.any():
            getattr(self, f"_do_{node[0]}")(node)

    def _do_block(self, node: Node) -> None:
        before = self.names
        self.names = Scope(before)
        for one in node[1]:
            self.run(one)
        self.names = before

    def _do_do(self, node: Node) -> None:
        self.value(node[1])

    def _do_meeting(self, node: Node) -> None:
        if not self.whole():
            raise Unplayable("a barrier that not all come to")
        self.tell(Met(self.lanes()))

    def _do_barrier(self, node: Node) -> None:
        self.tell(Stopped(self.lanes(), 0, 0, waits=True))

    def _do_claim(self, node: Node) -> None:
        return

    def _do_if(self, node: Node) -> None:
        test, was = self.truth(self.value(node[1])), self.on
        if test is None:
            self._either(node)
            return
        for mask, part in ((test, node[2]), (~test, node[3])):
            self.on = was & mask & ~self.left
            self.run(part)
        self.on = was & ~self.left

    def _either(self, node: Node) -> None:
        """Both ways, where data decide: what they change is unknown."""
        was, left = self.on, self.left
        self.maybe += 1
        for part in node[2:4]:
            self.on = was
            self.run(part)
            if self.left is not left and not np.array_equal(self.left, left):
                raise Unplayable("a way that data decide")
        self.maybe -= 1
        self.on = was

    def _do_for(self, node: Node) -> None:
        names, was, around = self.names, self.on, (self.broken, self.continued)
        self.names = Scope(names)
        self.broken = self.continued = self.nobody
        self.run(node[1])
        begun = len(self.events)
        while True:
            self.pay()
            asked = self.value(node[2]) if self.on.any() else 0
            test = self.truth(asked, again=True)
            if test is None and _only_time(node):
                break
            if test is None:
                raise Unplayable("rounds that data decide")
            if isinstance(asked, Failed) and not (_waits(node[4]) and len(self.events) <= begun + 1):
                raise Unplayable("a try that does more than to wait")
            self.on = self.on & test
            if not self.on.any():
                break
            self.run(node[4])
            self.left = self.left & ~self.continued
            self.on, self.continued = self.on | self.continued, self.nobody
            if self.on.any():
                self.value(node[3])
        self.left = self.left & ~self.broken
        self.broken, self.continued = around
        self.names, self.on = names, was & ~self.left

    def _do_leave(self, node: Node) -> None:
        self.left = self.left | self.on
        if node[1] == "break":
            self.broken = self.broken | self.on
        else:
            self.continued = self.continued | self.on
        self.on = self.nobody

    def _do_return(self, node: Node) -> None:
        if node[1] is not None:
            self.result = self._mixed(self.value(node[1]), self.result)
        self.left, self.returned = self.left | self.on, self.returned | self.on
        self.alive = self.alive & ~self.on if not self.deep else self.alive
        self.on = self.nobody

    def _do_declare(self, node: Node) -> None:
        kind, shared = node[1], node[3]
        size = SIZES.get(kind, 0)
        for name, star, dims, value in node[2]:
            sides = tuple(self._whole(d) for d in dims)
            if shared:
                count = size
                for side in sides:
                    count *= side
                if star or not size or not sides:
                    raise Unplayable("shared memory")
                at = self.shared.place(f"{self.deep}{name}", count, last="[dynamic]" in name or count > DYNAMIC // 2)
                self.names.new(name, Place("", at, size, sides))  # type: ignore[attr-defined]
            elif sides and not star:
                self.own[len(self.own)] = {}
                self.names.new(name, Place(len(self.own) - 1, 0, size or 4, sides))  # type: ignore[attr-defined]
            elif star == "&" and value is not None:
                self.names.new(name, self._reference(value))  # type: ignore[attr-defined]
            else:
                first = NEVER if value is None else self.value(value)
                first = structs.replace(first, size=size or first.size) if isinstance(first, Place) and star else first
                first = UNKNOWN if name in self.taken else meant(kind, first)
                self.names.new(name, first)  # type: ignore[attr-defined]
                self.names.new(f"{name}#", kind)  # type: ignore[attr-defined]

    def _of_call(self, node: Node) -> Any:
        name, given = node[1], node[2]
        if name == MARK:
            self.mark = self._whole(given[0])
            return UNKNOWN
        if name.startswith(CALL):
            return perform(self, self.kernel.assembly[int(name[len(CALL) :])], given)
        if name in self.kernel.called:
            return self._called(self._meant(self.kernel.called[name], given), given)
        if name == "__syncwarp":
            raise Unplayable("a part of a warp")
        if name not in MATHS:
            raise Unplayable(name)
        return MATHS[name](self, [self.value(x) for x in given])

    def _meant(self, several: Sequence[Called], given: Sequence[Node]) -> Called:
        """The one that takes so many values, and arrays of these sizes."""
        found = [one for one in several if len(one.parameters) == len(given)]
        if len(found) > 1:
            found = [one for one in found if all(map(self._fits, one.parameters, given))]
        if len(found) != 1:
            raise Unplayable("a call")
        return found[0]

    def _fits(self, parameter: Parameter, node: Node) -> bool:
        place = self.names[node[1]] if parameter.sides and node[0] == "name" else None
        place = place.names[place.name] if isinstance(place, Named) else place
        return not parameter.sides or (isinstance(place, Place) and place.dims == (parameter.sides,))

    def _called(self, one: Called, given: Sequence[Node]) -> Any:
        if self.deep > 8:
            raise Unplayable("a call")
        if one.silent:
            return self._unknown(one, given)
        names = dict(self.outside)
        for p, x in zip(one.parameters, given, strict=True):
            if p.way == "&":
                names[p.name] = self._reference(x)
                continue
            value = self.value(x)
            if isinstance(value, Place) and p.way == "*":
                value = structs.replace(value, size=SIZES.get(p.kind, 0) or value.size) if not value.dims else value
            names[p.name] = value if isinstance(value, Place) else meant(p.kind, value)
            names[f"{p.name}#"] = p.kind
        kept = (self.names, self.taken, self.on, self.left, self.returned, self.result)
        self.names, self.taken, self.result, self.deep = names, one.taken, NEVER, self.deep + 1
        self.left = self.returned = self.nobody
        self.run(one.body)
        result, self.deep = UNKNOWN if self.result is NEVER else self.result, self.deep - 1
        self.names, self.taken, self.on, self.left, self.returned, self.result = kept
        return result

    def _unknown(self, one: Called, given: Sequence[Node]) -> Any:
        """What a function leaves that touches its arguments alone."""
        for p, x in zip(one.parameters, given, strict=True):
            to = self.value(x) if p.way == "*" else self._reference(x) if p.way == "&" else None
            if isinstance(to, Named):
                to.names[to.name] = UNKNOWN
            elif isinstance(to, Place) and isinstance(to.space, int):
                self.own[to.space] = None
            elif to is not None and not isinstance(to, Place):
                raise Unplayable("an argument")
        return UNKNOWN


def _only_time(node: Node) -> bool:
    """Whether a loop does nothing until the clock has come so far."""
    idle = node[4] == ("block", []) and node[3] == ("number", 0)
    return idle and [c[1] for c in calls(node[2])] in (["clock64"], ["clock"])


def _waits(node: Node) -> bool:
    """Whether a loop's round does nothing that it could not do again: it sleeps, or keeps the answer of a try."""
    if node[0] == "block":
        return all(map(_waits, node[1]))
    if node[0] != "do":
        return False
    one: Any = node[1]
    kept: bool = one[0] == "assign" and one[1] == "=" and one[2][0] == "name" and one[3][0] == "call"
    return kept or (one[0] == "call" and str(one[1]).startswith(("__nanosleep", CALL)))
