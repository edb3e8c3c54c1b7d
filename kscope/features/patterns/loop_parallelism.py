"""Into how many pieces the work of one thread can fall: what more blocks can share out, and what stays one chain.

A loop without a carried value gives a piece a round. One that carries a sum, a minimum or a linear recurrence
(h = a h + b, whatever a and b) too: pieces are joined behind (Blelloch, "Prefix Sums and Their Applications", 1990),
but where each round stores what is carried so far, the pieces must know what went before, and the loads run twice. A
loop that carries anything else (a pointer that is loaded, z = z^2 + c, max(a + x, b), a shuffle) runs its rounds one
after the other, however many threads there are; so does one that ends where the data of a round says (a walk over a
tree, an iteration until it converges), for nobody knows of a round before the one before it has run
(kscope.features.patterns.carried_values).
"""

from __future__ import annotations

import math

from msgspec import Struct

from kscope.features.patterns.carried_values import carried, entries
from kscope.features.sass import slices
from kscope.features.sass.cfg import calls_made
from kscope.features.sass.listing import Listing
from kscope.features.sass.warp_simulation import Walk

_MOVES = ("load", "store", "atomic", "reduction")


class Pieces(Struct, frozen=True):
    """Shares of the thread's unloaded path by the pieces that it can fall into: `parts` holds (share, pieces), the
    shares sum up to 1. `serial`: instructions of the heaviest ring that cannot be divided, none if there is none.
    `twice`: the loads must run a second time, for what is carried is stored on the way. `loops`: those whose rounds can
    be dealt out around the heaviest part that can fall into pieces, outermost first; `each`: elements of one array that
    a pass of the innermost of them loads, several where its rounds are written out behind each other."""

    parts: tuple[tuple[float, float], ...]
    serial: tuple[int, ...]
    twice: bool
    loops: tuple[int, ...] = ()
    each: int = 1

    @property
    def most(self) -> float:
        """Threads that can share the work of one, until what cannot be divided is all that is left."""
        return 1 / max(self.left(math.inf), 1e-9)

    def left(self, factor: float) -> float:
        """Share of the path that is left when `factor` times the threads share the work."""
        return sum(share / max(1.0, min(factor, pieces)) for share, pieces in self.parts)


def pieces(code: Listing, walk: Walk) -> Pieces:
    """Pieces of the work of one thread, from its loops (outermost first), what they carry, and how often they ran. What
    a called function does belongs to the loops that call it."""
    cfg = code.cfg
    parts: dict[float, float] = {}
    in_loop: dict[int, float] = {}
    rounds: dict[int, float] = {}
    dealt: dict[tuple[int, ...], float] = {}
    called = _called_from(code)
    for b, cycles in enumerate(walk.block_cycles):
        start = cfg.blocks[b].start
        spent = cycles * code.executed[start]
        if not spent:
            continue
        for call, share in called.get(b, {None: 1.0}).items():
            around = cfg.loops_around(start) + (cfg.loops_around(call) if call is not None else [])
            can, way = 1.0, list[int]()
            for number in reversed(around):
                if carried(code, number).serial:
                    in_loop[number] = in_loop.get(number, 0.0) + spent * share
                    break
                if number not in rounds:
                    rounds[number] = rounds_side_by_side(code, number)
                can *= rounds[number]
                way.append(number)
            dealt[tuple(way)] = dealt.get(tuple(way), 0.0) + spent * share if can > 1 else 0.0
            parts[can] = parts.get(can, 0.0) + spent * share
    every = sum(parts.values())
    worst = max(in_loop, key=lambda n: in_loop[n], default=None)
    heaviest = max(dealt, key=lambda way: dealt[way], default=())
    return Pieces(
        tuple((spent / every, can) for can, spent in sorted(parts.items())) if every else ((1.0, 1.0),),
        carried(code, worst).serial if worst is not None else (),
        any(what.stored for n in range(len(cfg.loops)) if not (what := carried(code, n)).serial),
        heaviest,
        elements_a_pass(code, heaviest[-1]) if heaviest else 1,
    )


def _called_from(code: Listing) -> dict[int, dict[int | None, float]]:
    """For blocks of called functions: the calls from the kernel's own code that reach them, with their share of the
    executions."""
    calls = [(code.cfg.blocks[call.block].end - 1, call) for call in calls_made(code.program, code.cfg)]
    elsewhere = {b for _, call in calls for b in call.body}
    out: dict[int, dict[int | None, float]] = {}
    for at, call in calls:
        if call.block not in elsewhere and code.executed[at]:
            for b in call.body:
                out.setdefault(b, {})[at] = code.executed[at]
    return {b: {at: n / sum(of.values()) for at, n in of.items()} for b, of in out.items()}


def shareable(code: Listing, number: int) -> bool:
    """Whether the rounds of a loop can be divided among threads."""
    return not chained(code, number)


def chained(code: Listing, number: int) -> tuple[int, ...]:
    """The instructions of a loop that make its rounds one chain; empty where rounds can be divided."""
    return carried(code, number).serial


def exchanges(code: Listing, number: int) -> bool:
    """A loop loads and changes one array, at places that its data pick (rows exchanged one after the other) or at
    others than those that it loads: a round may need what an earlier one has stored, which only the data, or whoever
    wrote it, can say. What is changed where it was loaded is none."""
    picks, places, unknown = set[str](), dict[str, dict[bool, set[object]]](), not any(code.executed)
    for i in code.cfg.loop_body(number):
        kind, ran = code.classes[i], code.executed[i] > 0 or unknown
        array = slices.pointer(code, i) if kind.space == "global" and kind.access in _MOVES and ran else None
        if array is None:
            continue
        found = slices.address_origins(code, i) or frozenset[str]()
        if not found.isdisjoint({"load", "table"}) and not slices.steps_from_loaded(code, i):
            picks.add(array)
        places.setdefault(array, {}).setdefault(kind.access == "load", set()).add(slices.place(code, i))
    both = {array: of for array, of in places.items() if len(of) == 2}
    return any(array in picks or not of[True] <= of[False] for array, of in both.items())


def rounds_side_by_side(code: Listing, number: int) -> float:
    """Independent items of a loop each time it is entered: rounds, times the loads of one from one array, for it may
    be unrolled."""
    return trips(code, number) * elements_a_pass(code, number)


def elements_a_pass(code: Listing, number: int) -> int:
    """Loads of a pass of a loop from one array, 1 where it loads nothing."""
    loads: dict[str | None, int] = {}
    for i in code.cfg.loop_body(number):
        if code.classes[i].access in ("load", "async_copy"):
            array = slices.pointer(code, i)
            loads[array] = loads.get(array, 0) + 1 if array is not None else 1
    return max(loads.values(), default=1)


def trips(code: Listing, number: int) -> float:
    """Rounds of a loop each time that it is entered, by executions; 1 where it never ran."""
    times = code.executed[code.cfg.blocks[code.cfg.loops[number].header].start]
    return max(1.0, times / entries(code, number)) if times else 1.0
