"""Arithmetic of a loop that forms one serial chain: each round, or each instruction, needs the one before."""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct

from kscope.features.sass.listing import Listing

STRAIGHT = 8  # dependent instructions in a row from which a straight run counts as a chain


class Recurrence(Struct, frozen=True):
    """The longest carried chain of an innermost loop: `members` in order, `latency` cycles a round until the next one
    may start, `issue` cycles that a warp's instructions of one round take to issue."""

    loop: int
    members: tuple[int, ...]
    latency: float
    issue: float

    @property
    def warps(self) -> float:
        """Warps a scheduler that are needed to fill the issue slots, if nothing else is in the way."""
        return self.latency / self.issue


def carried(code: Listing, hot: Collection[int]) -> list[int]:
    """Arithmetic instructions among `hot` that form a serial chain: they reach themselves over def-use around an
    innermost loop (plain counters aside), or belong to a straight run of STRAIGHT or more, each needing the one
    before. Hottest first."""
    found = []
    for loop in code.cfg.loops:
        if not loop.innermost:
            continue
        inside = set(loop.instructions)
        able = [i for i in loop.instructions if i in hot and _arithmetic(code, i) and not _counter(code, i)]
        depth = _depths(code, able)
        ring = _rings(code, inside)
        found += [i for i in able if depth[i] >= STRAIGHT or i in ring]
    return code.hottest(found)


def recurrences(code: Listing) -> list[Recurrence]:
    """The longest carried chain of each innermost loop that has one, by latency over issue time, longest first."""
    out = []
    for number, loop in enumerate(code.cfg.loops):
        if not loop.innermost or not code.executed[loop.instructions[0]]:
            continue
        able = [i for i in loop.instructions if _arithmetic(code, i) and not _counter(code, i)]
        able = [i for i in able if "predicate" not in code.classes[i].kind]  # a spin loop computes nothing
        carried_ones = _rings(code, set(loop.instructions))
        ring = [i for i in able if i in carried_ones]
        if ring:
            members, latency = _longest(code, ring)
            out.append(Recurrence(number, members, latency, _issue(code, loop.instructions)))
    return sorted(out, key=lambda r: -r.warps)


def _issue(code: Listing, body: Collection[int]) -> float:
    """Cycles in which one scheduler can issue these instructions: one a cycle, and each pipe at its own rate."""
    by_pipe: dict[str, float] = {}
    for i in body:
        by_pipe[code.classes[i].pipe] = by_pipe.get(code.classes[i].pipe, 0.0) + code.classes[i].issue
    by_pipe.pop("none", None)
    return max(float(len(body)), *by_pipe.values())


def _longest(code: Listing, ring: list[int]) -> tuple[tuple[int, ...], float]:
    """The longest way through the instructions of a ring in address order: one round of the chain."""
    best: dict[int, tuple[float, int]] = {}
    members = set(ring)
    for i in ring:
        feeds = [p for ps in code.defuse.sources(i).values() for p in ps if p in members and p < i]
        before = max(((best[p][0], p) for p in feeds), default=(0.0, -1))
        best[i] = (before[0] + code.classes[i].latency, before[1])
    at = max(best, key=lambda i: best[i][0])
    latency, way = best[at][0], [at]
    while best[at][1] >= 0:
        at = best[at][1]
        way.append(at)
    return tuple(reversed(way)), latency


def _arithmetic(code: Listing, index: int) -> bool:
    op = code.classes[index]
    return op.scoreboard is None and op.access is None and op.pipe in ("fma", "fmaheavy", "fp64", "fp16", "alu")


def _depths(code: Listing, able: list[int]) -> dict[int, int]:
    """Length of the longest chain of fixed-latency arithmetic, in address order, that each instruction is part of."""
    members = set(able)
    before: dict[int, int] = {}
    for i in able:
        feeds = [p for ps in code.defuse.sources(i).values() for p in ps if p in members and p < i]
        before[i] = 1 + max((before[p] for p in feeds), default=0)
    longest = dict(before)
    for i in reversed(able):
        for ps in code.defuse.sources(i).values():
            for p in ps:
                if p in members and p < i:
                    longest[p] = max(longest[p], longest[i])
    return longest


def _counter(code: Listing, index: int) -> bool:
    ins = code[index]
    if "counting" not in code.classes[index].kind:
        return False
    return any(o.constant for o in ins.operands[1:])


def _rings(code: Listing, inside: set[int]) -> set[int]:
    """Instructions of a loop that reach themselves over def-use without leaving it or passing a load."""
    return {i for ring in rings(code, {i for i in inside if code.classes[i].scoreboard != "long"}) for i in ring}


def rings(
    code: Listing, through: Collection[int], stale: Callable[[int, int], bool] | None = None
) -> list[tuple[int, ...]]:
    """Groups of these instructions that reach themselves and each other over def-use alone: the strongly connected
    components of more than one instruction, and those that feed themselves (Tarjan 1972, without recursion). Members
    in address order. `stale(producer, consumer)`: ways that def-use cannot exclude but that are never taken."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[tuple[int, ...]] = []
    ways: dict[int, tuple[int, ...]] = {}
    for root in sorted(through):
        if root in number:
            continue
        work = [(root, 0)]
        while work:
            i, place = work.pop()
            if i not in number:
                number[i] = low[i] = len(number)
                stack.append(i)
                on_stack.add(i)
            if i not in ways:  # asked for again behind each consumer
                near = code.defuse.consumers(i)
                ways[i] = near if stale is None else tuple(j for j in near if not stale(i, j))
            near = ways[i]
            for at in range(place, len(near)):
                j = near[at]
                if j not in through:
                    continue
                if j not in number:
                    work += [(i, at), (j, 0)]
                    break
                if j in on_stack:
                    low[i] = min(low[i], low[j])
            else:
                if low[i] == number[i]:
                    part: list[int] = []
                    while not part or part[-1] != i:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    if len(part) > 1 or i in near:
                        found.append(tuple(sorted(part)))
    return found
