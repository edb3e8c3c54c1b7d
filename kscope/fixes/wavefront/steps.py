"""The steps of a wavefront by one warp: a lane goes through neighbouring threads' places, their states in registers."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.recurrence.linear import bare
from kscope.fixes.wavefront.parts import (
    COLUMN,
    LANE,
    TID,
    TIME,
    TURN,
    Emitted,
    State,
    bound,
    columns,
    derived,
    pointers,
)
from kscope.fixes.wavefront.shape import Wave
from kscope.fixes.wavefront.sums import THREAD
from kscope.fixes.wavefront.trees import assigned, declared, lines, named, replaced, used, value

LONGEST = 4  # steps in which pointers come round (judged)
HELD = 160  # values of its places that a lane has in registers, of 255 (judged)


def loop(made: Emitted) -> list[str]:
    wave, out = made.wave, []
    inside = wave.statements[wave.at]
    names = {n: kind for n, kind in made.carried.items() if n in used(inside)}
    if made.columns * (len(names) + len(made.states)) > HELD:
        raise Unplayable("more than a lane's registers hold")
    for n, one in enumerate(made.states):
        out.append(f"{one.kind} own_{n}[{made.columns}];")
    out += [f"{kind} {name}_c[{made.columns}];" for name, kind in names.items()]
    loads = [f"{name}_c[{COLUMN}] = {name}_n[{TID}];" for name in names]
    firsts = [f"own_{n}[{COLUMN}] = {_first(made, one)};" for n, one in enumerate(made.states)]
    place = f"const int {TID} = {LANE} * {made.columns} + {COLUMN};"
    out += ["#pragma unroll", columns(made), place, *loads, *firsts, "}"]
    for n, one in enumerate(made.states):
        edge = _edge(made, one)
        out.append(f"{one.kind} last_{n} = own_{n}[{made.columns - 1}], above_{n} = {edge};")
    out += _steps(made)
    back = [f"{name}_n[{TID}] = {name}_c[{COLUMN}];" for name in names if name in assigned(inside)]
    if back:
        out += ["#pragma unroll", columns(made), place, *back, "}"]
    return [*out, *_left_there(made), "__syncwarp();"]


def _left_there(made: Emitted) -> list[str]:
    """The last states put where threads left them, as far as anything behind the loop asks for them."""
    wave, turned = made.wave, pointers(made.wave)
    asked = used(list(wave.statements[wave.at + 1 :]))
    asked |= {n for one in wave.statements if one[0] == "declare" and one[2][0][0] in asked for n in used(one[2][0][3])}
    put: list[Node] = [("do", ("assign", "=", one.target, ("index", ("name", f"own_{n}"), ("name", COLUMN))))
                       for n, one in enumerate(made.states) if one.arrays & asked or asked & turned]  # fmt: skip
    if not put:
        return []
    asks = used(put)
    before = [one for one in wave.before if one[0] == "declare" and (one[2][0][0] in wave.own or one[2][0][0] in asks)]
    asks |= used(before)
    if asks & made.carried.keys() or wave.rest:
        raise Unplayable("a place that is not known behind the loop")
    kept = [*derived(made, [*before, *put]), *before, *put]
    if not (asks | asked) & turned:
        return _put(made, kept, "")
    turn, again = _turns(made)
    begin, (_, _, test, *_) = _bracketed(wave.begin), wave.statements[wave.at]
    steps = f"{_bracketed(test[3])} - {begin}{' + 1' * (test[1] == '<=')}"
    return [f"for (int {TURN} = 0; {TURN} < {again}; {TURN}++) {{",
            *_put(made, kept, f" && ({wave.step} - {begin}) % {again} == {TURN}"), *turn, "}",
            f"for (int {TURN} = ({steps}) % {again}; {TURN} > 0; {TURN}--) {{", *turn, "}"]  # fmt: skip


def _put(made: Emitted, kept: Sequence[Node], when: str) -> list[str]:
    """Statements of each thread's last step, where it has one and so many steps say so."""
    wave = made.wave
    env: dict[str, Node] = {THREAD: ("name", TID), "blockDim.x": ("number", made.block)}
    tests = " && ".join(f"({value(x)})" for x in _expanded(made, wave.hoisted, ("name", wave.step), ("name", TID)))
    return [
        "#pragma unroll",
        columns(made),
        f"const int {TID} = {LANE} * {made.columns} + {COLUMN}, {wave.step} = {TID} + (int)({bound(wave, -1)});",
        f"if ({tests}{when}) {{",
        *(line for one in kept for line in lines(named(one, env))),
        "}",
        "}",
    ]


def _bracketed(node: Node) -> str:
    return f"({value(node)})" if node[0] not in ("name", "number") else value(node)


def _turns(made: Emitted) -> tuple[list[str], int]:
    """(statements that turn pointers, after how many steps each is where it was)."""
    wave, turned = made.wave, pointers(made.wave)
    kept = []
    for one in wave.after:
        if one[0] == "declare" and "*" in one[2][0][1]:
            kept.append((one[2][0][0], one[2][0][3], one))
        elif one[0] == "do" and one[1][:2] == ("assign", "=") and one[1][2][0] == "name" and one[1][2][1] in turned:
            kept.append((one[1][2][1], one[1][3], one))
    if assigned([one for _, _, one in kept]) != turned or any(value_[0] != "name" for _, value_, _ in kept):
        raise Unplayable("pointers that are turned otherwise")
    now = {name: name for name in turned}
    for times in range(1, LONGEST + 1):
        for name, value_, _ in kept:
            now[name] = now[value_[1]]
        if all(now[name] == name for name in turned):
            return [line for _, _, one in kept for line in lines(one)], times
    raise Unplayable("pointers that are turned otherwise")


def _first(made: Emitted, one: State) -> str:
    if one.first is not None:
        return one.first
    if one.own is None:
        raise Unplayable("a state that begins with what nobody reads")
    return value(_placed(made, one.own, ("name", TID)))


def _edge(made: Emitted, one: State) -> str:
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
    out = [f"const int end_n = {bound(wave, WARP - 1)};",
           f"for (int {TIME} = {value(wave.begin)}; {TIME} < end_n; {TIME}++) {{"]  # fmt: skip
    for n, one in enumerate(made.states):
        out.append(f"{one.kind} left_{n} = __shfl_up_sync(~0u, last_{n}, 1);")
        out.append(f"if ({LANE} == 0) left_{n} = {_edge(made, one)};")
        out.append(f"const {one.kind} came_{n} = left_{n};")
    around = [_live(made, part) for part in (wave.before, wave.after)]
    out.append(f"if ({' && '.join(f'({bare(value(x))})' for x in at_lane)}) {{")
    guarded: list[Node] = list(wave.inside)
    if wave.rest:
        test = wave.rest[0]
        for more in wave.rest[1:]:
            test = ("binary", "&&", test, more)
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
    turned = pointers(made.wave)
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
    out = ["#pragma unroll", columns(made), f"const int {TID} = {LANE} * {made.columns} + {COLUMN}, "
           f"{wave.step} = {TIME} - {LANE} + {TID};"]  # fmt: skip
    out += [f"{one.kind} new_{n} = own_{n}[{COLUMN}];" for n, one in enumerate(made.states)]
    put: dict[int, Node] = {}
    for n, state in enumerate(made.states):
        put |= dict.fromkeys(state.sites, ("name", f"new_{n}"))
        by: dict[str, Node] = {what: ("name", f"{what}_{n}") for what in ("left", "above")}
        by["own"] = ("index", ("name", f"own_{n}"), ("name", COLUMN))
        put |= {site: by[what] for site, what in state.readers.items()}
    kept = [replaced(one, lambda node: put.get(id(node))) for one in statements]
    needed = used(kept)
    kept = [one for one in kept if not (one[0] == "declare" and one[2][0][0] not in needed)]
    out += [line for one in [*derived(made, kept), *kept] for line in lines(named(one, env))]
    for n in range(len(made.states)):
        out.append(f"above_{n} = own_{n}[{COLUMN}]; own_{n}[{COLUMN}] = new_{n}; left_{n} = new_{n};")
    return [*out, "}", *(f"last_{n} = left_{n};" for n in range(len(made.states)))]
