"""A kernel of tensor instructions played on numbers: copies that arrive when they are waited for, fragments by lanes,
products of warps and of warpgroups."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, structs

from kscope.fixes.given.functions import addressed
from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import Pointer, Reference, Values, Vector
from kscope.fixes.given.lanes_played import all_or_none
from kscope.fixes.given.leaving import left
from kscope.fixes.given.played import Played, Rules
from kscope.fixes.given.remembered import remembered
from kscope.fixes.given.whole_numbers import NUMBERS
from kscope.fixes.warpgroup.fragments import WARP, bits, both, handed_out, multiplied
from kscope.fixes.warpgroup.instructions import Instruction, instructions
from kscope.fixes.warpgroup.matrices import CALLS, Matrices
from kscope.fixes.warpgroup.routines import ASSEMBLY, Assembly, Routine, with_calls
from kscope.fixes.warpgroup.syntax import DYNAMIC, TensorParser, given_by_launch, own_names
from kscope.model.lazily import np

_ROWS = re.compile(
    r"ldmatrix\.sync\.aligned\.(?:m8n8\.x([124])|x([124])\.m8n8)(?:\.trans)?\.shared(?:::cta)?(?:\.trans)?\.b16"
)
_PRODUCT = re.compile(r"mma\.sync\.aligned\.m16n8k(?:16|8)\.row\.col\.(f32|f16)\.(bf16|f16)\.\2\.\1")


class Program(Struct, frozen=True):
    """What a text is played with besides its rules: functions that it calls, bytes of shared memory that the launch
    gives; past: by how many bytes that begins behind a line of 1024."""

    routines: Mapping[str, Routine] = {}
    dynamic: int = 0
    past: int = 0


class _Lambda(Struct, frozen=True):
    parameters: tuple[str, ...]
    body: Node
    takes: frozenset[str]


@remembered
def play_program(
    text: str, grid: tuple[int, ...], block: tuple[int, int], memory: dict[str, Any], numbers: Mapping[str, float],
    rules: Rules, program: Program,
) -> Played:  # fmt: skip
    """As `play`, for a text with tensor instructions."""
    known: dict[str, Assembly] = {}
    number = NUMBERS.get(rules.literals)
    try:
        if len(given_by_launch(text)) > 1:
            raise Unplayable("two names of one place")
        templates = program.routines.keys()
        body = TensorParser(with_calls(text, known), number, templates).body()
        parts = {
            name: own_names(name, one.parameters, TensorParser(with_calls(one.body, known), number, templates).body())
            for name, one in program.routines.items()
        }
        one = Machine((*grid, 1)[:3], block, memory, {**numbers, DYNAMIC: program.dynamic}, rules)
        one.past, one.parts, one.assembly, one.sized = program.past, parts, known, given_by_launch(text)
        one.whole = {}
        one.taken = addressed(body).union(*(addressed(part) for _, part in parts.values()))
        one.begin()
        with np.errstate(all="ignore"):
            one.run(body)
        if one.pending:
            raise Unplayable("products that nobody waits for")
        return one.took()
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError, AttributeError) as error:
        raise Unplayable(str(error)) from error


class Machine(Matrices):
    """parts: functions of the device by name. whole: bodies in two parts, by their numbers."""

    parts: Mapping[str, tuple[tuple[str, ...], Node]]
    assembly: Mapping[str, Assembly]
    sized: Collection[str]
    whole: dict[int, tuple[list[Node], Node | None]]

    def took(self) -> Played:
        declared = sum(size for _, size, name in self.bases if name not in self.sized)
        return structs.replace(super().took(), bytes=(declared, max(map(self._used, self.sized), default=0)))

    def _used(self, name: str) -> int:
        """Bytes up to the last that was written."""
        rows = np.flatnonzero(self.written[f"[{name}]"].any(axis=1))
        return int(rows[-1] + 1) * self._size(f"[{name}]") if len(rows) else 0

    def _do_lambda(self, node: Node) -> None:
        _, name, parameters, body = node
        takes = _names(body) & self.names.keys() - {one.lstrip("&") for one in parameters}
        self.names[name] = _Lambda(parameters, body, frozenset(takes))

    def _do_declare(self, node: Node) -> None:
        hidden = {name for name, *_ in node[2]}
        if any(isinstance(one, _Lambda) and one.takes & hidden for one in self.names.values()):
            raise Unplayable("a name that hides another")
        super()._do_declare(node)

    def _of_call(self, node: Node) -> Values:
        name, given = node[1], node[2]
        if name.startswith(ASSEMBLY):
            return self._assembled(self.assembly[name], given)
        known = self.names.get(name)
        if isinstance(known, _Lambda):
            return self._called(known.parameters, known.body, given, self.names)
        if name in self.parts:
            return self._called(*self.parts[name], given, self.known)
        if name in CALLS:
            return self.fragment_call(name, given)
        if name == "__cvta_generic_to_shared":
            return self.address(self.value(given[0]))
        if name == "__pipeline_memcpy_async":
            to, source, count, *zeros = (self.value(x) for x in given)
            self.copy(self.address(to), source, count, count - (zeros or [0])[0])
            return 0
        if name == "__pipeline_commit":
            self.close()
            return 0
        if name == "__pipeline_wait_prior":
            self.land(self.value(given[0]))
            return 0
        return super()._of_call(node)

    def _divided(self, body: Node) -> tuple[list[Node], Node | None]:
        """A function's statements, and what it returns at its end, if anything; looked through once."""
        if id(body) not in self.whole:
            returns = bool(body[1]) and body[1][-1][0] == "return" and body[1][-1][1] is not None
            before = body[1][:-1] if returns else body[1]
            if any(map(_returns, before)):
                raise Unplayable("a function of another kind")
            self.whole[id(body)] = before, body[1][-1][1] if returns else None
        return self.whole[id(body)]

    def _called(self, parameters: tuple[str, ...], body: Node, given: list[Node], around: Mapping[str, Any]) -> Values:
        """The value of a call; names by reference get back what they are given there."""
        if len(given) != len(parameters):
            raise Unplayable("a function of another kind")
        before, last = self._divided(body)
        mine, back = {}, {}
        for parameter, node in zip(parameters, given, strict=True):
            name, spot = parameter.lstrip("&"), self.spot(node) if parameter[0] == "&" else None
            mine[name] = Reference(spot) if spot is not None else self.value(node)
            if parameter[0] == "&" and spot is None and not isinstance(mine[name], Pointer):
                back[name] = node
        outside = self.names
        self.names = {**around, **mine}
        for one in before:
            self.run(one)
        value = self.value(last) if last is not None else 0
        inner = self.names
        behind = left(outside, inner, body[1]) if around is outside else outside
        self.names = {n: v if n in mine else behind[n] for n, v in outside.items()}
        for name, node in back.items():
            self._store(node, inner[name], None)
        return value

    def _assembled(self, said: Assembly, given: list[Node]) -> Values:
        for one in instructions(said.text):
            self._instruction(one, said, given)
        return 0

    def _instruction(self, one: Instruction, said: Assembly, given: list[Node]) -> None:
        name = one.name
        self.pay(self.threads)

        def value(word: str) -> Values:
            if word.startswith("%"):
                base, _, more = word[1:].partition("+")
                return self.value(given[int(base)]) + int(more) if more else self.value(given[int(base)])
            return int(word, 0)

        def values(operand: int) -> list[Values]:
            return [value(word) for word in one.operands[operand]]

        def store(results: list[Values]) -> None:
            for word, result in zip(one.operands[0], results, strict=True):
                if said.hows[int(word[1:])][:1] not in "=+":
                    raise Unplayable("an operand that is not written")
                node = given[int(word[1:])]
                self._store(node, result, self.spot(node))

        if re.match(r"cp\.async\.c[ag]\.shared\.global", name):
            (to,), (source,), (count,), *more = map(values, range(len(one.operands)))
            self.copy(to, source, count, more[0][0] if more else count)
        elif name == "cp.async.commit_group":
            self.close()
        elif name == "cp.async.wait_group":
            self.land(values(0)[0])
        elif name == "cp.async.wait_all":
            self.land(-1)
        elif (m := _ROWS.fullmatch(name)) is not None:
            store(self._fragments(int(m[1] or m[2]), values(1)[0], turned=".trans" in name))
        elif (m := _PRODUCT.fullmatch(name)) is not None:
            if (m[2] == "bf16") != self.upper:
                raise Unplayable("numbers of another type")
            store(self._product(values(1), values(2), values(3), half=m[1] == "f16"))
        elif name.startswith("cvt.rn.") and name[7:] in ("bf16x2.f32", "f16x2.f32"):
            high, low = values(1)[0], values(2)[0]
            store([Vector((low, high), 2, 2)])
        elif name.startswith("fence.proxy.async"):
            self.fence()
        elif name.startswith("wgmma."):
            self.of_group(one, value, [given[int(w[1:])] for w in one.operands[0]] if "mma_async" in name else [])
        else:
            raise Unplayable(name)

    def _whole_warps(self) -> Any:
        """Threads that are here, which are whole warps."""
        if not all_or_none(self.on, self.alive, self.warp) or len(self.here(self.each)) % WARP:
            raise Unplayable("a fragment of some lanes")
        return self.here(self.each).reshape(-1, WARP)

    def _spread(self, threads: Any, numbers: Any) -> Any:
        out = np.zeros(self.threads, dtype=numbers.dtype)
        out[threads] = numbers
        return out

    def _fragments(self, count: int, at: Values, *, turned: bool) -> list[Values]:
        threads = self._whole_warps()
        asked = threads[:, : 8 * count]
        places = np.broadcast_to(at, self.on.shape)[asked]
        rows = self.rows(places.ravel(), asked.ravel()).reshape(len(threads), count, 8, 8)
        pairs = handed_out(rows, turned=turned)
        words = bits(Vector((pairs[..., 0], pairs[..., 1]), 2, 2), upper=self.upper)
        return [self._spread(threads, words[:, :, n]) for n in range(count)]

    def _product(self, a: list[Values], b: list[Values], c: list[Values], *, half: bool) -> list[Values]:
        """half: whether sums are two-byte numbers, two in a word."""
        threads = self._whole_warps()
        if half:
            c = [number for word in c for number in both(word, upper=self.upper)]

        def registers(of: list[Values], *, whole: bool) -> Any:
            words = [np.broadcast_to(bits(x, upper=self.upper) if whole else x, self.on.shape)[threads] for x in of]
            return np.stack(words, axis=2)

        if (len(a), len(b), len(c)) not in ((4, 2, 4), (2, 1, 4)):
            raise Unplayable("registers of another shape")
        if any(np.asarray(x).dtype.kind == "f" for x in (*a, *b) if not isinstance(x, Vector)):
            raise Unplayable("one number as two")
        left, right, sums = registers(a, whole=True), registers(b, whole=True), registers(c, whole=False)
        made = multiplied(left, right, sums, upper=self.upper)
        self.pay(2 * 16 * made.size)
        sums = [self._spread(threads, made[:, :, n]) for n in range(4)]
        return [Vector((sums[n], sums[n + 1]), 2, 2) for n in (0, 2)] if half else sums


def _names(node: object) -> set[str]:
    if not isinstance(node, (tuple, list)):
        return set()
    if len(node) == 2 and node[0] == "name":
        return {node[1]}
    if len(node) == 3 and node[0] == "call":
        return {node[1]} | _names(node[2])
    return set().union(*map(_names, node)) if node else set()


def _returns(node: object) -> bool:
    if not isinstance(node, (tuple, list)):
        return False
    return (len(node) == 2 and node[0] == "return") or any(_returns(part) for part in node)
