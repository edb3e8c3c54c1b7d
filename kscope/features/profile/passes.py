"""How often a warp walks divergent code once more for other lanes, and what of it one lane alone needs.

Lanes that take different sides cost their warp one pass a side: with lanes of one kind side by side it makes one. Where
few lanes have something to do and the others nothing, the warp makes one pass as it is. To gather such lanes frees
other warps, and issue slots; a warp that walks for one lane takes as long as before.
"""

from __future__ import annotations

from collections.abc import Collection

from kscope.features.profile.code import Code
from kscope.features.sass.columns import total

CONTENDED = ("not_selected", "math_pipe_throttle", "dispatch_stall")
"""Waits for what the other warps of a scheduler take: issue slots and pipes."""


def single(code: Code, narrow: Collection[int]) -> float:
    """Share (0..1) of the samples in these divergent instructions that remains in a warp's own way when it walks them
    for lanes of one kind only, waits for what other warps take left out: 1 where it walks them once as it is."""
    every = total(code.samples, sorted(narrow))
    if not every:
        return 0.0
    thin = {code.cfg.block_of[i] for i in narrow}
    times = _times(code, thin)
    kept = 0.0
    for i in narrow:
        waits = sum(float(code.stall[r][i]) for r in CONTENDED if r in code.stall)
        kept += max(0.0, code.samples[i] - waits) / times[code.cfg.block_of[i]]
    return kept / every


def _times(code: Code, thin: Collection[int]) -> dict[int, float]:
    """Passes that a warp makes through each of these blocks and those beside it: sides entered over the executions of
    the fullest block of the loop (or straight code) that they leave, times those of the sides that it lies in."""
    cfg = code.cfg
    ran = [float(code.executed[b.start]) for b in cfg.blocks]
    loop_of = [cfg.loop_of[b.start] for b in cfg.blocks]
    fullest, entries, home = dict[int | None, float](), dict[int | None, float](), dict[int, int | None]()
    for n, block in enumerate(cfg.blocks):
        if n not in thin:
            fullest[loop_of[n]] = max(ran[n], fullest.get(loop_of[n], 0.0))
        elif before := [p for p in block.predecessors if p not in thin and ran[p]]:
            home[n] = loop_of[max(before, key=ran.__getitem__)]
            own = [p for p in block.predecessors if p in thin and not cfg.dominates(n, p)]
            entered = 0.0 if own else min(ran[n], sum(ran[p] for p in before))  # where sides meet again none begins
            entries[home[n]] = entries.get(home[n], 0.0) + entered
    out = dict[int, float]()
    for n in thin:
        times, at = 1.0, n
        while at not in home and (above := cfg.idom[at]) is not None and above in thin:
            times, at = times * _split(code, ran, above, at), above
        if at in home:
            times *= max(1.0, entries[home[at]] / max(fullest[home[at]], 1.0))
        out[n] = times
    return out


def _split(code: Code, ran: list[float], branch: int, side: int) -> float:
    """Sides of a branch that are entered, over its executions, where `side` is one: entered from there alone."""
    blocks = code.cfg.blocks
    sides = [s for s in blocks[branch].successors if set(blocks[s].predecessors) == {branch}]
    if side not in sides or not ran[branch]:
        return 1.0
    return max(1.0, sum(min(ran[s], ran[branch]) for s in sides) / ran[branch])
