"""A wavefront's text for one warp: what stands around the loop goes through the threads of the block in groups of a
warp, in the loop a lane takes neighbouring threads' places, with their states in registers."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.wavefront.parts import LANE, TID, Emitted, State, derived, pointers, sized
from kscope.fixes.wavefront.shape import SCALARS, Wave
from kscope.fixes.wavefront.steps import loop
from kscope.fixes.wavefront.sums import THREAD
from kscope.fixes.wavefront.trees import assigned, declared, lines, named, nodes, split, used


def text(wave: Wave, states: Sequence[State], block: int) -> str:
    """The body, with its braces. Raises Unplayable where something else would come of it."""
    made = Emitted(wave, states, block)
    _carry(made)
    out = [f"const int {LANE} = threadIdx.x;"]
    out += [line for one in wave.statements if one[0] == "declare" and one[3] for line in lines(sized(one, block))]
    out += [f"__shared__ {kind} {name}_n[{block}];" for name, kind in made.carried.items()]
    out += _stretches(made, wave.statements[: wave.at])
    out += loop(made)
    out += _stretches(made, wave.statements[wave.at + 1 :])
    return "{\n" + "\n".join(out) + "\n}"


def _units(statements: Sequence[Node], uniform: Sequence[str]) -> list[Node | list[Node]]:
    """Stretches of statements between which threads meet, and what is done once for all or holds meetings."""
    out: list[Node | list[Node]] = []
    now: list[Node] = []
    for one in statements:
        single = one[0] == "declare" and (one[3] or one[2][0][0] in uniform)
        if single or _barred(one):
            out += [now] if now else []
            now = []
            if (single and not one[3]) or (not single and one != ("barrier",)):
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
    dead = {one for one in every if one in pointers(wave)}
    for n, unit in enumerate(stretches):
        for one in unit:
            if one[0] != "declare" or one[2][0][0] in wave.derived:
                continue
            name, star, dims, _ = one[2][0]
            others = [x for m, x in enumerate(stretches) if m != n and name in used(x)]
            if (not others and name not in in_loop) or name in dead:
                continue
            if star or dims or one[1] not in SCALARS or every.count(name) > 1:
                raise Unplayable("a variable that cannot be handed on")
            made.carried[name] = one[1]
    loose = assigned(list(wave.statements)) - made.carried.keys() - dead
    for name in loose & set(wave.uniform):
        raise Unplayable(name)


def _stretches(made: Emitted, statements: Sequence[Node]) -> list[str]:
    out: list[str] = []
    for unit in _units(statements, made.wave.uniform):
        if isinstance(unit, list):
            out += _stretch(made, unit)
        elif unit[0] == "declare":
            out += lines(sized(unit, made.block))
        elif unit[0] not in ("for", "if") or (unit[0] == "if" and unit[3] != ("block", [])):
            raise Unplayable("meetings of two kinds")
        else:
            control = unit[1:4] if unit[0] == "for" else unit[1:2]
            if (used(control) - set(declared(control))) & ({THREAD} | made.carried.keys() | made.wave.derived.keys()):
                raise Unplayable("a meeting of some threads")
            inner = _block(unit[4] if unit[0] == "for" else unit[2])
            empty: Node = ("block", [])
            alone = (*unit[:4], empty) if unit[0] == "for" else (*unit[:2], empty, empty)
            out += [lines(sized(alone, made.block))[0], *_stretches(made, inner), "}"]
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
    inner = [*derived(made, kept), *kept]
    return [
        "#pragma unroll",
        f"for (int at_n = 0; at_n < {made.columns}; at_n++) {{",
        f"const int {TID} = at_n * {WARP} + {LANE};",
        *(line for one in inner for line in lines(named(one, env))),
        "}",
        "__syncwarp();",
    ]


