"""A kernel's text played on whole numbers: all threads of all blocks step by step together, one order of those in which
a GPU may run them. Sums of whole numbers are exact, so that two texts give the same or do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kscope.fixes.given.c_types import HALVES, of_names, typed
from kscope.fixes.given.called import Function, called, trees, types
from kscope.fixes.given.converted import converted, of_function
from kscope.fixes.given.functions import addressed, result_of
from kscope.fixes.given.grammar import Node, Parser, Unplayable, whole
from kscope.fixes.given.kinds import (
    ATOMICS,
    FLOATS,
    Pointer,
    Reference,
    Values,
    Vector,
    as_float,
    chosen,
    part,
    with_part,
    words,
)
from kscope.fixes.given.lanes_played import SHUFFLES, WARP, all_or_none, shuffled, voted
from kscope.fixes.given.leaving import Leaving, left, statements
from kscope.fixes.given.operators import Operators
from kscope.fixes.given.races import Races
from kscope.fixes.given.remembered import remembered
from kscope.fixes.given.whole_numbers import NUMBERS, counted, mixed
from kscope.model.lazily import np

STEPS = 100_000_000  # numbers that are worked on in all: a second at most (judged)
PRIME = 0x9E3779B1  # that numbers of statements are hashed with: odd, as 2^64 asks for (Knuth)
LEAST = 256  # of them that a step is taken for, however few it is of: what looking at its text costs
_LOADS = ("__ldg", "__ldcs", "__ldcg", "__ldca", "__ldlu")


class Rules(Struct, frozen=True):
    """How to play. literals: what fractions are: none (Unplayable), `drawn` (a whole number for each, so that sums stay
    exact), `real` (what they say, and arrays of floats hold them: then the order of operations shows in the last bits).
    races: whether threads that use one place with nothing between them are Unplayable. kinds: types of pointers that
    are none to one word of four bytes. only: numbers of the blocks that are played, where not all are. tickets: whether
    what an atomicAdd returns may be used, as threads that come in the order of their numbers find it. opaque: functions
    of numbers that change nothing, of which is only known that they give the same for the same. functions: to be
    called. steps: most of them. paths: whether it is noted which statements each thread goes through. handed:
    arrays in which blocks hand words to each other, of which no races are looked for. endless: whether integers are
    played without an end, whatever their types."""

    literals: str = ""
    races: bool = False
    kinds: Mapping[str, str] = {}
    only: tuple[int, ...] = ()
    tickets: bool = False
    opaque: tuple[str, ...] = ()
    functions: Mapping[str, Function] = {}
    steps: int = STEPS
    paths: bool = False
    handed: tuple[str, ...] = ()
    endless: bool = False


class Played(Struct, frozen=True):
    """What a play took: elements that threads loaded from global memory and which of them, words of shared memory a
    block and of local arrays a thread, barriers that warps passed; of words in global memory which block wrote them,
    where races were looked for; of each thread a number that says which statements it went through, where asked.
    bytes: of shared memory, of what a block declares and up to the last that was written of what the launch gives,
    where it has addresses. gone: of statements, by their numbers, the most threads that went through one at a time,
    where asked."""

    loads: int
    shared: int
    own: int = 0
    passed: int = 0
    read: Mapping[str, Any] = {}
    writers: Mapping[str, Any] = {}
    paths: Any = None
    bytes: tuple[int, int] = (0, 0)
    gone: Mapping[int, int] = {}


PLAIN = Rules()


@remembered
def play(
    text: str, grid: tuple[int, ...], block: tuple[int, int], memory: dict[str, Any], numbers: Mapping[str, float],
    rules: Rules = PLAIN,
) -> Played:  # fmt: skip
    """Runs a kernel's body (from its brace on) on arrays, in place. memory: arrays of whole numbers by the names of
    pointers; numbers: what other names stand for. Raises Unplayable, also where something is read and nobody wrote."""
    read = NUMBERS.get(rules.literals, whole)
    try:
        body = Parser(text, lambda word: typed(word, read(word))).body()
        one = Threads((*grid, 1)[:3], block, memory, numbers, rules)
        body = body if rules.endless else one.converted(body, rules, memory)
        one.taken, one.body = addressed(body), body
        with np.errstate(all="ignore"):
            one.run(body)
        return one.took()
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Unplayable(str(error)) from error


class Threads(Leaving, Operators):
    """All threads, step by step together."""

    def __init__(
        self, grid: tuple[int, ...], block: tuple[int, int], memory: dict[str, Any], numbers: Mapping[str, float],
        rules: Rules,
    ) -> None:  # fmt: skip
        super().__init__(memory, rules.literals == "real")
        blocks = np.array(rules.only or range(grid[0] * grid[1] * grid[2]))
        self.halves = any(kind.startswith(HALVES) for kind in rules.kinds.values())
        self.upper = any("bfloat16" in kind for kind in rules.kinds.values())
        size, self.blocks = block[0] * block[1], len(blocks)
        self.threads, self.each = size * self.blocks, np.arange(size * self.blocks)
        self.block, lane = self.each // size, self.each % size
        self.lane, self.warp = lane, self.block * -(-size // WARP) + lane // WARP
        self.steps, self.passed, self.tickets = rules.steps, 0, rules.tickets
        self.opaque = rules.opaque
        self.means = {name[4:]: getattr(self, name) for name in dir(self) if name.startswith("_of_")}
        self.races = Races(self.block, self.warp, rules.handed) if rules.races else None
        self.names = {
            **numbers, "threadIdx.x": lane % block[0], "threadIdx.y": lane // block[0], "threadIdx.z": 0,
            "blockDim.x": block[0], "blockDim.y": block[1], "blockDim.z": 1,
            "blockIdx.x": blocks[self.block] % grid[0], "blockIdx.y": blocks[self.block] // grid[0] % grid[1],
            "blockIdx.z": blocks[self.block] // (grid[0] * grid[1]) if grid[2] > 1 else 0,
            "gridDim.x": grid[0], "gridDim.y": grid[1], "gridDim.z": grid[2],
        }  # fmt: skip
        self.names |= {name: Pointer(name, 0, (), *words(rules.kinds.get(name, ""))) for name in memory}
        self.start()
        self.paths = np.zeros(self.threads, dtype=np.uint64) if rules.paths else None
        self.numbered, self.most = dict[int, int](), dict[int, int]()
        self.body: Node = ("block", [])
        self.known, self.called = dict(self.names), trees(rules.functions, NUMBERS.get(rules.literals, whole))

    def converted(self, body: Node, rules: Rules, memory: Mapping[str, Any]) -> Node:
        """A body, and the functions that it calls, with the conversions of their types."""
        names = of_names(rules.kinds, memory)
        kinds = {name: types(rules.functions[name][0]) for name in self.called}
        for name, (parameters, tree) in self.called.items():
            inner = names | dict(zip(parameters, kinds[name][0], strict=True))
            self.called[name] = parameters, of_function(tree, inner, kinds[name][1], kinds, real=self.real)
        body, self.unsigned = converted(body, names, kinds, real=self.real)
        return body

    def took(self) -> Played:
        writers = self.races.writers() if self.races is not None else {}
        gone = {n: self.most[id(one)] for n, one in enumerate(statements(self.body)) if id(one) in self.most}
        return Played(self.loads, self.shared, sum(self.own.values()), self.passed, self.read, writers, self.paths,
                      gone=gone)  # fmt: skip

    def run(self, node: Node) -> None:
        self.pay()
        if self.paths is not None:
            number = self.numbered.setdefault(id(node), len(self.numbered) + 1)
            self.most[id(node)] = max(int(self.on.sum()), self.most.get(id(node), 0))
            self.paths[self.on] = self.paths[self.on] * np.uint64(PRIME) + np.uint64(number)
        getattr(self, f"_do_{node[0]}")(node)

    def _do_block(self, node: Node) -> None:
        before = dict(self.names)
        for one in node[1]:
            if self.every or self.on.any():  # what nobody comes to has no values
                self.run(one)
        self.names = left(before, self.names, node[1])

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

    def _do_declare(self, node: Node) -> None:
        kind, shared = node[1], node[3]
        for name, star, dims, value in node[2]:
            if dims and not star:
                if isinstance(self.names.get(name), Pointer):
                    raise Unplayable("a name that hides another")
                self.array(name, kind, tuple(int(self.value(d)) for d in dims), value, shared=shared)
            elif shared or dims:
                raise Unplayable("a value of a block")
            elif name in self.taken and not star:
                self.kept(name, kind, value)
            else:
                self.names[name] = self.first(kind, star, value)

    def value(self, node: Node) -> Values:
        return self.means[node[0]](node)

    def _of_number(self, node: Node) -> Values:
        return node[1]

    def _of_cast(self, node: Node) -> Values:
        _, kind, inner, stars = node
        value = self.value(inner) if stars or kind.startswith(FLOATS) else self.before_point(inner)
        if isinstance(value, Pointer) != bool(stars) or stars > 1 or isinstance(value, Vector):
            raise Unplayable("a pointer as a number")
        if stars or kind == "bool":
            return self.recast(value, kind) if stars else counted(np.asarray(value) != 0)
        if self.real and kind.startswith(FLOATS):
            return as_float(value)
        whole = self.real and np.asarray(value).dtype.kind == "f"
        return np.trunc(value).astype(np.int64) if whole else value

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
        return part(whole, self._letter(node[2], len(whole.parts) // whole.each))

    def _of_address(self, node: Node) -> Values:
        to = self.spot(node[1])
        if to is None:
            raise Unplayable("the address of a register")
        return to

    def _of_choose(self, node: Node) -> Values:
        test, was = np.asarray(self.value(node[1])) != 0, self.on
        out = []
        for mask, side in ((test, node[2]), (~test, node[3])):
            self.on = was & mask
            if self.on.any():
                out.append(self.value(side))
        self.on = was
        return chosen(test, *out) if len(out) == 2 else out[0]

    def _of_call(self, node: Node) -> Values:
        if node[1] in _LOADS and len(node[2]) == 1:
            return self.value(("deref", node[2][0]))
        given = [self.value(x) for x in node[2]]
        self.pay(self.threads)
        if node[1] == "__syncthreads_count":
            self._do_barrier(("barrier",))
            return np.bincount(self.block[self.on & (given[0] != 0)], minlength=self.blocks)[self.block]
        if node[1] == "atomicAdd" and self.tickets:
            return self.joined(node[1], *given)
        if node[1] in self.opaque:
            return mixed(node[1], given)
        if node[1] == "__ballot_sync":
            return voted(given, self.lane, self.on, self.alive, self.warp)
        if node[1] in self.called:
            return called(self, *self.called[node[1]], given)
        if node[1] in SHUFFLES:
            return shuffled(node[1], given, self.lane, self.on, self.alive, self.warp)
        return result_of(node[1], given, self.on, real=self.real, upper=self.upper)

    def _store(self, target: Node, value: Values, to: Pointer | None) -> None:
        self.pay(self.threads)
        if to is not None:
            self.put(to, value)
        elif target[0] == "member":
            whole = self.value(target[1])
            n = self._letter(target[2], len(whole.parts) // whole.each)
            self._store(target[1], with_part(whole, n, value), None)
        elif target[0] != "name":
            raise Unplayable(target[0])
        else:
            old = self.names[target[1]]
            if isinstance(value, Pointer) and (not isinstance(old, Pointer) or value.dims[1:]):
                raise Unplayable("a pointer as a number")
            if self.real and not isinstance(old, Pointer) and np.asarray(old).dtype.kind == "f":
                value = as_float(value)
            self.names[target[1]] = value if self.every else chosen(self.on, value, old)

    def pay(self, count: int = 0) -> None:
        self.steps -= max(count, LEAST)
        if self.steps < 0:
            raise Unplayable("long")
