"""A kernel's text played on whole numbers: all threads of all blocks step by step together, one order of those in which
a GPU may run them. Sums of whole numbers are exact, so that two texts give the same or do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.lanes_played import SHUFFLES, WARP, all_or_none, shuffled
from kscope.fixes.given.places import ATOMICS, MADE, Places, Pointer, Reference, Values, Vector, chosen, words
from kscope.fixes.given.races import Races
from kscope.fixes.given.remembered import remembered
from kscope.fixes.given.whole_numbers import CALLS, REAL, combined, drawn, real

STEPS = 100_000_000  # numbers that are worked on in all: a second at most (judged)
LEAST = 256  # of them that a step is taken for, however few it is of: what looking at its text costs
ROUNDS = 4096  # of one loop
_BITS = ("__float_as_int", "__int_as_float", "__float_as_uint", "__uint_as_float")


class Rules(Struct, frozen=True):
    """How to play. literals: what fractions are: none (Unplayable), `drawn` (a whole number for each, so that sums stay
    exact), `real` (what they say, and arrays of floats hold them: then the order of operations shows in the last bits).
    races: whether threads that use one place with nothing between them are Unplayable. kinds: types of pointers that
    are none to one word of four bytes. only: numbers of the blocks that are played, where not all are."""

    literals: str = ""
    races: bool = False
    kinds: Mapping[str, str] = {}
    only: tuple[int, ...] = ()


class Played(Struct, frozen=True):
    """What a play took: elements that threads loaded from global memory and which of them, words of shared memory a
    block and of local arrays a thread, barriers that warps passed."""

    loads: int
    shared: int
    own: int = 0
    passed: int = 0
    read: Mapping[str, Any] = {}


PLAIN = Rules()


@remembered
def play(
    text: str, grid: tuple[int, int], block: tuple[int, int], memory: dict[str, Any], numbers: Mapping[str, int],
    rules: Rules = PLAIN,
) -> Played:  # fmt: skip
    """Runs a kernel's body (from its brace on) on arrays, in place. memory: arrays of whole numbers by the names of
    pointers; numbers: what other names stand for. Raises Unplayable, also where something is read and nobody wrote."""
    number = {"drawn": drawn, "real": real}.get(rules.literals)
    body = Parser(text, number).body()
    try:
        one = _Threads(grid, block, memory, numbers, rules)
        with np.errstate(all="ignore"):
            one.run(body)
        return Played(one.loads, one.shared, sum(one.own.values()), one.passed, one.read)
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Unplayable(str(error)) from error


class _Threads(Places):
    """All threads, step by step together."""

    def __init__(
        self, grid: tuple[int, int], block: tuple[int, int], memory: dict[str, Any], numbers: Mapping[str, int],
        rules: Rules,
    ) -> None:  # fmt: skip
        super().__init__(memory, rules.literals == "real")
        blocks = np.array(rules.only or range(grid[0] * grid[1]))
        size, self.blocks = block[0] * block[1], len(blocks)
        self.threads = size * self.blocks
        self.each = np.arange(self.threads)
        self.block, lane = self.each // size, self.each % size
        self.lane, self.warp = lane, self.block * -(-size // WARP) + lane // WARP
        self.steps, self.passed = STEPS, 0
        self.means = {name[4:]: getattr(self, name) for name in dir(self) if name.startswith("_of_")}
        self.races = Races(self.block, self.warp) if rules.races else None
        self.names = {
            **numbers, "threadIdx.x": lane % block[0], "threadIdx.y": lane // block[0], "threadIdx.z": 0,
            "blockDim.x": block[0], "blockDim.y": block[1], "blockDim.z": 1, "blockIdx.z": 0,
            "blockIdx.x": blocks[self.block] % grid[0], "blockIdx.y": blocks[self.block] // grid[0],
            "gridDim.x": grid[0], "gridDim.y": grid[1], "gridDim.z": 1,
        }  # fmt: skip
        self.names |= {name: Pointer(name, 0, (), *words(rules.kinds.get(name, ""))) for name in memory}
        self.on = np.ones(self.threads, dtype=bool)
        self.alive = self.on.copy()

    def run(self, node: Node) -> None:
        self.pay()
        getattr(self, f"_do_{node[0]}")(node)

    def _do_block(self, node: Node) -> None:
        before = dict(self.names)
        for one in node[1]:
            self.run(one)
        hidden = self.names
        self.names = {name: hidden[name] for name in before}

    def _do_barrier(self, node: Node) -> None:
        if not all_or_none(self.on, self.alive, self.block if node[0] == "barrier" else self.warp):
            raise Unplayable("a barrier that not all come to")
        if node[0] == "barrier":
            self.passed += len(np.unique(self.warp[self.on]))
        if self.races is not None:
            (self.races.barrier if node[0] == "barrier" else self.races.met)(self.on)

    _do_meeting = _do_barrier

    def _do_claim(self, node: Node) -> None:
        if not np.all(self.value(node[1])):
            raise Unplayable("a static_assert that fails")

    def _do_do(self, node: Node) -> None:
        if node[1][0] == "call" and node[1][1] in ATOMICS and len(node[1][2]) == 2:
            self.joined(node[1][1], *(self.value(x) for x in node[1][2]))
        else:
            self.value(node[1])

    def _do_return(self, node: Node) -> None:
        self.alive = self.alive & ~self.on
        self.on = np.zeros_like(self.on)

    def _do_if(self, node: Node) -> None:
        test = self.value(node[1])
        was = self.on
        for mask, part in ((np.asarray(test) != 0, node[2]), (np.asarray(test) == 0, node[3])):
            self.on = was & self.alive & mask
            if self.on.any():
                self.run(part)
        self.on = was & self.alive

    def _do_for(self, node: Node) -> None:
        outside, was = dict(self.names), self.on
        self.run(node[1])
        for _ in range(ROUNDS):
            test = self.value(node[2])
            if np.ndim(test):
                self.on = self.on & (test != 0)
            if not (self.on.any() if np.ndim(test) else test):
                break
            self.run(node[4])
            self.value(node[3])
            self.pay()
        else:
            raise Unplayable("a long loop")
        inside = self.names
        self.names = {name: inside[name] for name in outside}
        self.on = was & self.alive

    def _do_declare(self, node: Node) -> None:
        _, kind, made, shared = node
        for name, star, dims, value in made:
            if dims and not star:
                self.array(name, kind, tuple(int(self.value(d)) for d in dims), value, shared=shared)
            elif shared or dims:
                raise Unplayable("a value of a block")
            else:
                self.names[name] = self.first(kind, star, value)

    def value(self, node: Node) -> Values:
        return self.means[node[0]](node)

    def _of_number(self, node: Node) -> Values:
        return node[1]

    def _of_cast(self, node: Node) -> Values:
        _, kind, inner, stars = node
        value, (width, size) = self.value(inner), words(kind)
        if isinstance(value, Pointer) != bool(stars) or stars > 1 or isinstance(value, Vector):
            raise Unplayable("a pointer as a number")
        if not stars:
            if self.real and size * width and not kind.startswith(("float", "double")):
                return np.trunc(value).astype(np.int64) if np.asarray(value).dtype.kind == "f" else value
            return value
        if value.size != size:
            raise Unplayable("words of another size")
        return Pointer(value.memory, value.at, (), width, size)

    def _of_name(self, node: Node) -> Values:
        known = self.names[node[1]]
        return self.got(known.to) if isinstance(known, Reference) else known

    def _of_index(self, node: Node) -> Values:
        to = self.spot(node)
        assert to is not None
        return self.got(to)

    _of_deref = _of_index

    def _of_member(self, node: Node) -> Values:
        to = self.spot(node)
        if to is not None:
            return self.got(to)
        whole = self.value(node[1])
        return whole.parts[self._letter(node[2], len(whole.parts))]

    def _of_address(self, node: Node) -> Values:
        to = self.spot(node[1])
        if to is None:
            raise Unplayable("the address of a register")
        return to

    def _of_choose(self, node: Node) -> Values:
        test, was = np.asarray(self.value(node[1])) != 0, self.on
        out = []
        for mask, part in ((test, node[2]), (~test, node[3])):
            self.on = was & mask
            if self.on.any():
                out.append(self.value(part))
        self.on = was
        return chosen(test, *out) if len(out) == 2 else out[0]

    def _of_unary(self, node: Node) -> Values:
        one = self.value(node[2])
        known = {"!": lambda v: np.asarray(v) == 0, "-": lambda v: -v, "~": lambda v: ~v, "+": lambda v: v}
        return known[node[1]](one)

    def _of_binary(self, node: Node) -> Values:
        _, op, left, right = node
        a = self.value(left)
        b = self._decided(op, a, right) if op in ("&&", "||") else self.value(right)
        self.pay(self.threads)
        return self._combined(op, a, b)

    def _decided(self, op: str, a: Values, right: Node) -> Values:
        """The right side only where the left one does not decide."""
        was = self.on
        self.on = was & ((np.asarray(a) != 0) == (op == "&&"))
        b = self.value(right) if self.on.any() else 0
        self.on = was
        return b

    def _combined(self, op: str, a: Values, b: Values) -> Values:
        if isinstance(b, Pointer) and op == "+":
            a, b = b, a
        if isinstance(a, Pointer) and not isinstance(b, (Pointer, Vector)) and op in "+-":
            return a.moved(b if op == "+" else -b)
        if self.real and op == "/" and "f" in (np.asarray(a).dtype.kind, np.asarray(b).dtype.kind):
            return a / b
        return combined(op, a, b)

    def _of_call(self, node: Node) -> Values:
        given = [self.value(x) for x in node[2]]
        self.pay(self.threads)
        if node[1] in ("fmaf", "__fmaf_rn"):
            return given[0] * given[1] + given[2]
        if node[1] in MADE and len(given) == MADE[node[1]] and not any(isinstance(x, (Pointer, Vector)) for x in given):
            return Vector(tuple(given))
        if node[1] in _BITS:
            if np.any(np.asarray(given[0])[..., self.on if np.ndim(given[0]) else None] < 0):
                raise Unplayable("bits of a negative number")  # those of others are in their order
            return given[0]
        if node[1] in SHUFFLES:
            return shuffled(node[1], given, self.lane, self.on, self.alive, self.warp)
        return (REAL[node[1]] if self.real and node[1] in REAL else CALLS[node[1]])(*given)

    def _of_assign(self, node: Node) -> Values:
        _, op, target, right = node
        value = self.value(right)
        to = self.spot(target)
        if op != "=":
            value = self._combined(op[:-1], self.value(target) if to is None else self.got(to), value)
        self._store(target, value, to)
        return value

    def _of_after(self, node: Node) -> Values:
        before = self.value(node[2])
        self._of_assign(node)
        return before

    def _store(self, target: Node, value: Values, to: Pointer | None) -> None:
        self.pay(self.threads)
        if to is not None:
            self.put(to, value)
        elif target[0] == "member":
            whole = self.value(target[1])
            n = self._letter(target[2], len(whole.parts))
            self._store(target[1], Vector((*whole.parts[:n], value, *whole.parts[n + 1 :])), None)
        elif target[0] != "name":
            raise Unplayable(target[0])
        else:
            old = self.names[target[1]]
            if isinstance(value, Pointer) and (not isinstance(old, Pointer) or value.dims[1:]):
                raise Unplayable("a pointer as a number")
            self.names[target[1]] = value if self.every else chosen(self.on, value, old)

    def pay(self, count: int = 0) -> None:
        self.steps -= max(count, LEAST)
        if self.steps < 0:
            raise Unplayable("long")
