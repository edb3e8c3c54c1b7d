"""A wavefront's text for one warp: what stands around the loop goes through the threads of the block in groups of a
warp, in the loop a lane takes neighbouring threads' places, with their states in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.recurrence.linear import bare
from kscope.fixes.wavefront.shape import SCALARS, THREAD, Linear, Wave
from kscope.fixes.wavefront.trees import MET, assigned, declared, lines, meets, named, nodes, replaced, split, used, value

LANE, TID, COLUMN, TIME = "lane_n", "tid_n", "column_n", "time_n"


class State(Struct, frozen=True):
    """What a place of the loop writes for the right neighbour and for the next step. sites: what its readers read, by
    their place: own, left, above. first: the number that it is at first, or else the text of the place that tells."""

    kind: str
    arrays: frozenset[str]
    site: int
    target: Node
    readers: Mapping[int, str]
    first: str | None
    beside: Node | None
    """Where the left neighbour's is read."""
    own: Node | None


class Emitted(Struct):
    """What a text is made of. carried: types of variables that stretches hand to each other."""

    wave: Wave
    states: Sequence[State]
    block: int
    carried: dict[str, str] = {}

    @property
    def columns(self) -> int:
        return self.block // WARP


def text(wave: Wave, states: Sequence[State], block: int) -> str:
    """The body, with its braces. Raises Unplayable where something else would come of it."""
    made = Emitted(wave, states, block)
    _carry(made)
    out = [f"const int {LANE} = threadIdx.x;"]
    out += [line for one in wave.statements if one[0] == "declare" and one[3] for line in lines(_sized(one, block))]
    out += [f"__shared__ {kind} {name}_n[{block}];" for name, kind in made.carried.items()]
    out += _stretches(made, wave.statements[: wave.at])
    out += _loop(made)
    out += _stretches(made, wave.statements[wave.at + 1 :])
    return "{\n" + "\n".join(out) + "\n}"


def _sized(tree: Node, block: int) -> Node:
    return named(tree, {"blockDim.x": ("number", block)})  # type: ignore[no-any-return]


def _units(statements: Sequence[Node], uniform: Sequence[str]) -> list[Node | list[Node]]:
    """Stretches of statements between which threads meet, and what is done once for all or holds meetings."""
    out: list[Node | list[Node]] = []
    now: list[Node] = []
    for one in statements:
        single = one[0] == "declare" and (one[3] or one[2][0][0] in uniform)
        if one in (("barrier",), ("meeting",)) and one[0] == "barrier" or single or (one[0] in ("for", "if") and _barred(one)):
            out += [now] if now else []
            now = []
            if single and not one[3] or one[0] in ("for", "if"):
                out.append(one)
        else:
            now.append(one)
    return [*out, now] if now else out


def _barred(tree: Node) -> bool:
    return any(n == ("barrier",) for n in nodes(tree))


def _all(made: Emitted, statements: Sequence[Node]) -> list[list[Node]]:
    """Every stretch, those within loops too."""
    out: list[list[Node]] = []
    for unit in _units(statements, made.wave.uniform):
        if isinstance(unit, list):
            out.append(unit)
        elif unit[0] == "for":
            out += _all(made, _block(unit[4]))
        elif unit[0] == "if":
            out += _all(made, _block(unit[2]))
    return out


def _block(node: Node) -> list[Node]:
    return split(node[1] if node[0] == "block" else [node])


def _carry(made: Emitted) -> None:
    """Finds variables that more than one stretch has, or the loop."""
    wave = made.wave
    every = declared(list(wave.statements))
    stretches = [*_all(made, wave.statements[: wave.at]), *_all(made, wave.statements[wave.at + 1 :])]
    in_loop = used(wave.statements[wave.at])
    dead = {one for one in every if one in _pointers(wave)}
    for n, unit in enumerate(stretches):
        for one in unit:
            if one[0] != "declare" or one[2][0][0] in wave.derived:
                continue
            name, star, dims, _ = one[2][0]
            others = [x for m, x in enumerate(stretches) if m != n and name in used(x)]
            if not others and name not in in_loop or name in dead:
                continue
            if star or dims or one[1] not in SCALARS or every.count(name) > 1:
                raise Unplayable("a variable that cannot be handed on")
            made.carried[name] = one[1]
    loose = assigned(list(wave.statements)) - made.carried.keys() - dead
    for name in loose & set(wave.uniform):
        raise Unplayable(name)


def _pointers(wave: Wave) -> set[str]:
    """Pointers that the loop turns."""
    inside = wave.statements[wave.at]
    turned = {one[2][0][0] for one in wave.statements if one[0] == "declare" and "*" in one[2][0][1]} & assigned(inside)
    return turned


def _stretches(made: Emitted, statements: Sequence[Node]) -> list[str]:
    out: list[str] = []
    turned = _pointers(made.wave)
    after = statements and statements[-1] is made.wave.statements[-1] and len(statements) < len(made.wave.statements)
    for unit in _units(statements, made.wave.uniform):
        if isinstance(unit, list):
            out += _stretch(made, unit)
        elif unit[0] == "declare":
            out += lines(_sized(unit, made.block))
        else:
            control = unit[1:4] if unit[0] == "for" else unit[1:2]
            if (used(control) - set(declared(control))) & ({THREAD} | made.carried.keys() | made.wave.derived.keys()):
                raise Unplayable("a meeting of some threads")
            if unit[0] == "if" and unit[3] != ("block", []):
                raise Unplayable("meetings of two kinds")
            inner = _block(unit[4] if unit[0] == "for" else unit[2])
            head = lines(_sized((*unit[:4], ("block", [])) if unit[0] == "for" else (*unit[:2], ("block", []), ("block", [])), made.block))
            out += [head[0], *_stretches(made, inner), "}"]
    if after and turned & used(list(statements)):
        raise Unplayable("pointers that have been turned")
    return out


def _stretch(made: Emitted, unit: Sequence[Node]) -> list[str]:
    """Statements of all threads, a warp's after the other."""
    env: dict[str, Node] = {THREAD: ("name", TID), "blockDim.x": ("number", made.block)}
    env |= {name: ("index", ("name", f"{name}_n"), ("name", TID)) for name in made.carried}
    kept: list[Node] = []
    for one in unit:
        name = one[2][0][0] if one[0] == "declare" else ""
        if name in made.wave.derived:
            continue
        if name in made.carried:
            first = one[2][0][3]
            kept += [("do", ("assign", "=", ("name", name), first))] if first is not None else []
        else:
            kept.append(one)
    if not kept:
        return []
    inner = [*_derived(made, kept), *kept]
    return [
        "#pragma unroll",
        f"for (int at_n = 0; at_n < {made.columns}; at_n++) {{",
        f"const int {TID} = at_n * {WARP} + {LANE};",
        *(line for one in inner for line in lines(named(one, env))),
        "}",
        "__syncwarp();",
    ]


def _derived(made: Emitted, kept: Sequence[Node]) -> list[Node]:
    """Declarations of what follows from the thread's number, as far as statements ask for it."""
    wanted = used(list(kept))
    while True:
        more = {x for name in wanted & made.wave.derived.keys() for x in used(made.wave.derived[name])} - wanted
        if not more:
            break
        wanted |= more
    return [one for one in made.wave.statements if one[0] == "declare" and one[2][0][0] in wanted & made.wave.derived.keys()]


def _loop(made: Emitted) -> list[str]:
    wave, out = made.wave, []
    inside = wave.statements[wave.at]
    names = {n: kind for n, kind in made.carried.items() if n in used(inside)}
    for n, one in enumerate(made.states):
        out.append(f"{one.kind} own_{n}[{made.columns}];")
    out += [f"{kind} {name}_c[{made.columns}];" for name, kind in names.items()]
    loads = [f"{name}_c[{COLUMN}] = {name}_n[{TID}];" for name in names]
    firsts = [f"own_{n}[{COLUMN}] = {_first(made, one)};" for n, one in enumerate(made.states)]
    out += ["#pragma unroll", _columns(made), f"const int {TID} = {LANE} * {made.columns} + {COLUMN};", *loads, *firsts, "}"]
    for n, one in enumerate(made.states):
        edge = _edge(made, one, wave.begin)
        out.append(f"{one.kind} last_{n} = own_{n}[{made.columns - 1}], above_{n} = {edge};")
    out += _steps(made)
    back = [f"{name}_n[{LANE} * {made.columns} + {COLUMN}] = {name}_c[{COLUMN}];" for name in names if name in assigned(inside)]
    if back:
        out += ["#pragma unroll", _columns(made), *back, "}"]
    return [*out, *_left_there(made), "__syncwarp();"]


def _left_there(made: Emitted) -> list[str]:
    """The last states put where threads left them, as far as anything behind the loop asks for them."""
    wave = made.wave
    asked = used(list(wave.statements[wave.at + 1 :]))
    wanted = [(n, one) for n, one in enumerate(made.states) if one.arrays & asked]
    if not wanted:
        return []
    env: dict[str, Node] = {THREAD: ("name", TID), "blockDim.x": ("number", made.block)}
    put: list[Node] = [("do", ("assign", "=", one.target, ("index", ("name", f"own_{n}"), ("name", COLUMN)))) for n, one in wanted]
    asks = used(put)
    before = [one for one in wave.before if one[0] == "declare" and (one[2][0][0] in wave.own or one[2][0][0] in asks)]
    asks |= used(before)
    if asks & made.carried.keys() or asks & _pointers(wave):
        raise Unplayable("a place that is not known behind the loop")
    last = " ".join(f"{'-' if many > 0 else '+'} {abs(many)} * {name}" for name, many in wave.ends.of.items()
                    if name not in (wave.step, THREAD))  # fmt: skip
    kept = [*_derived(made, [*before, *put]), *before, *put]
    return [
        "#pragma unroll",
        _columns(made),
        f"const int {TID} = {LANE} * {made.columns} + {COLUMN}, "
        f"{wave.step} = {TID} + {-wave.ends.number - 1} {bare(last)};".replace("1 * ", "").replace(" ;", ";"),
        *(line for one in kept for line in lines(named(one, env))),
        "}",
    ]


def _columns(made: Emitted) -> str:
    return f"for (int {COLUMN} = 0; {COLUMN} < {made.columns}; {COLUMN}++) {{"


def _first(made: Emitted, one: State) -> str:
    if one.first is not None:
        return one.first
    if one.own is None:
        raise Unplayable("a state that begins with what nobody reads")
    return value(_placed(made, one.own, ("name", TID)))


def _edge(made: Emitted, one: State, step: Node) -> str:
    """What the first thread finds to the left of it."""
    if one.first is not None:
        return one.first
    if one.beside is None:
        return "0"
    return value(_placed(made, one.beside, ("number", 0)))


def _placed(made: Emitted, site: Node, thread: Node) -> Node:
    """A place of a thread, where it is the same in all steps."""
    by = {**made.wave.derived, **made.wave.own}
    for _ in range(len(by) + 1):
        site = named(site, by)
    if made.wave.step in used(site) or used(site) & _turned(made.wave):
        raise Unplayable("a place that another step has elsewhere")
    return named(site, {THREAD: thread, "blockDim.x": ("number", made.block)})  # type: ignore[no-any-return]


def _turned(wave: Wave) -> set[str]:
    inside = wave.statements[wave.at]
    return {n for n in declared(inside) if n not in wave.own} | assigned(inside)


def _steps(made: Emitted) -> list[str]:
    wave = made.wave
    at_lane = _expanded(made, wave.hoisted, ("name", TIME), ("name", LANE))
    (until,) = _expanded(made, [wave.last], ("name", TIME), ("number", WARP - 1))
    out = [f"for (int {TIME} = {value(wave.begin)}; {value(until)}; {TIME}++) {{"]
    for n, one in enumerate(made.states):
        out.append(f"{one.kind} left_{n} = __shfl_up_sync(~0u, last_{n}, 1);")
        out.append(f"if ({LANE} == 0) left_{n} = {_edge(made, one, wave.begin)};")
        out.append(f"const {one.kind} came_{n} = left_{n};")
    around = [_live(made, part) for part in (wave.before, wave.after)]
    out.append(f"if ({' && '.join(f'({bare(value(x))})' for x in at_lane)}) {{")
    guarded: list[Node] = list(wave.inside)
    if wave.rest:
        test = wave.rest[0]
        for one in wave.rest[1:]:
            test = ("binary", "&&", test, one)
        guarded = [("if", test, ("block", guarded), ("block", []))]
    out += _walk(made, [*around[0], *guarded, *around[1]])
    if any(one[0] != "declare" for part in around for one in part):
        out += ["} else {", *_walk(made, [*around[0], *around[1]])]
    out += ["}", *(f"above_{n} = came_{n};" for n in range(len(made.states))), "}"]
    return out


def _expanded(made: Emitted, tests: Sequence[Node], step: Node, thread: Node) -> list[Node]:
    by = {**made.wave.derived, **made.wave.own}
    for _ in range(len(by) + 1):
        tests = named(list(tests), by)
    return named(list(tests), {made.wave.step: step, THREAD: thread, "blockDim.x": ("number", made.block)})  # type: ignore[no-any-return]


def _live(made: Emitted, part: Sequence[Node]) -> list[Node]:
    """Without pointers into shared memory, which nothing asks for any more."""
    turned = _pointers(made.wave)
    out = []
    for one in part:
        if one[0] == "declare" and "*" in one[2][0][1]:
            continue
        if one[0] == "do" and one[1][0] == "assign" and one[1][2][0] == "name" and one[1][2][1] in turned:
            continue
        out.append(one)
    return out


def _walk(made: Emitted, statements: Sequence[Node]) -> list[str]:
    """The places of a lane, one behind the other, each with what the one in front of it leaves."""
    wave, inside = made.wave, made.wave.statements[made.wave.at]
    env: dict[str, Node] = {THREAD: ("name", TID), "blockDim.x": ("number", made.block)}
    env |= {n: ("index", ("name", f"{n}_c"), ("name", COLUMN)) for n in made.carried if n in used(inside)}
    out = ["#pragma unroll", _columns(made), f"const int {TID} = {LANE} * {made.columns} + {COLUMN}, "
           f"{wave.step} = {TIME} - {LANE} + {TID};"]  # fmt: skip
    out += [f"{one.kind} new_{n} = own_{n}[{COLUMN}];" for n, one in enumerate(made.states)]
    put: dict[int, Node] = {}
    for n, one in enumerate(made.states):
        put[one.site] = ("name", f"new_{n}")
        by = {"own": ("index", ("name", f"own_{n}"), ("name", COLUMN)), "left": ("name", f"left_{n}"), "above": ("name", f"above_{n}")}
        put |= {site: by[what] for site, what in one.readers.items()}
    kept = [replaced(one, lambda node: put.get(id(node))) for one in statements]
    needed = used(kept)
    kept = [one for one in kept if not (one[0] == "declare" and one[2][0][0] not in needed)]
    out += [line for one in [*_derived(made, kept), *kept] for line in lines(named(one, env))]
    for n in range(len(made.states)):
        out.append(f"above_{n} = own_{n}[{COLUMN}]; own_{n}[{COLUMN}] = new_{n}; left_{n} = new_{n};")
    return [*out, "}", *(f"last_{n} = left_{n};" for n in range(len(made.states)))]
