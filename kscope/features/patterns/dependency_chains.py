"""Arithmetic of a loop that forms one serial chain: each round needs the one before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from kscope.features.sass.columns import Column, total
from kscope.features.sass.listing import Listing


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


def carried(code: Listing, weight: Column) -> list[int]:
    """Arithmetic instructions of the one serial chain with most weight (one value an instruction; those of none left
    out): a group that reaches itself over def-use around an innermost loop, plain counters aside. Chains that do not
    need each other (the accumulators of an unrolled loop) run side by side, so none adds to another; a run of dependent
    instructions that starts anew each round is no chain of the loop. Heaviest first."""
    found: list[list[int]] = []
    for loop in code.cfg.loops:
        if loop.innermost:
            able = {i for i in loop.instructions if weight[i] > 0 and _arithmetic(code, i) and not _counter(code, i)}
            through = {i for i in loop.instructions if code.classes[i].scoreboard != "long"}
            found += [members for ring in rings(code, through) if (members := [i for i in ring if i in able])]
    return code.hottest(max(found, key=lambda ring: total(weight, ring), default=[]), weight)


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


def _counter(code: Listing, index: int) -> bool:
    ins = code[index]
    if "counting" not in code.classes[index].kind:
        return False
    return any(o.constant for o in ins.operands[1:])


def _rings(code: Listing, inside: set[int]) -> set[int]:
    """Instructions of a loop that reach themselves over def-use without leaving it or passing a load."""
    return {i for ring in rings(code, {i for i in inside if code.classes[i].scoreboard != "long"}) for i in ring}


def rings(
    code: Listing, through: Collection[int], stale: Callable[[int, int], bool] | None = None,
    handed: Mapping[int, tuple[int, ...]] | None = None,
) -> list[tuple[int, ...]]:  # fmt: skip
    """Groups of these instructions that reach themselves and each other over def-use alone: the strongly connected
    components of more than one instruction, and those that feed themselves (Tarjan 1972, without recursion). Members
    in address order. `stale(producer, consumer)`: ways that def-use cannot exclude but that are never taken; `handed`:
    what takes a value from an instruction otherwise than through a register."""
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
                if handed and i in handed:
                    near = (*near, *handed[i])
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
