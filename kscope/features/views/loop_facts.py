"""What a round of each loop is made of, with counts: how often it goes round, instructions by pipe, and what of them is
the same in every round, because nothing in the loop changes what it is computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.views.annotations import loop_numbers
from kscope.model.contract.detail import LoopFacts

if TYPE_CHECKING:
    from kscope.features.profile.code import Code
    from kscope.features.sass.cfg import Loop

MOST = 12
"""Loops that are told, those with most samples first."""
LEAST = 0.01
"""Share of samples below which a loop is not worth a word. Judged."""


def loop_facts(code: Code) -> list[LoopFacts]:
    """Loops with their counts, most samples first; empty without executions."""
    every, numbers = sum(code.samples) or 1.0, loop_numbers(code.cfg)
    found = []
    for n, loop in enumerate(code.cfg.loops):
        share = sum(code.samples[i] for i in loop.instructions) / every
        head = code.cfg.blocks[loop.header].start
        rounds = code.executed[head]
        if share >= LEAST and rounds:
            found.append(_facts(code, loop, numbers[n], share, rounds, head))
    return sorted(found, key=lambda x: -x.share)[:MOST]


def _facts(code: Code, loop: Loop, number: int, share: float, rounds: float, head: int) -> LoopFacts:
    fixed = _invariant(code, loop)
    mix: dict[str, float] = {}
    same: dict[str, float] = {}
    for i in loop.instructions:
        if not (per := code.executed[i] / rounds):
            continue
        pipe = code.classes[i].pipe
        mix[pipe] = mix.get(pipe, 0.0) + per
        if i in fixed:
            same[pipe] = same.get(pipe, 0.0) + per
    entries = _entries(code, loop)
    ins = code[head]
    return LoopFacts(
        number=number, start=ins.pc, end=code[loop.instructions[-1]].pc, depth=loop.depth, file=ins.file or "",
        line=ins.line or 0, share=round(share, 4), rounds=rounds,
        trips=round(rounds / entries, 1) if entries else None, mix={p: round(n, 2) for p, n in mix.items()},
        invariant={p: round(n, 2) for p, n in same.items()},
        same=[code[i].pc for i in sorted(fixed) if code.executed[i]],
    )  # fmt: skip


def _entries(code: Code, loop: Loop) -> float:
    """How often the loop is entered: executions of what leads into its header from outside, where all of it does."""
    blocks, cfg = set(loop.blocks), code.cfg
    out = 0.0
    for b in cfg.blocks[loop.header].predecessors:
        if b in blocks:
            continue
        ways = [s for s in cfg.blocks[b].successors if s != loop.header]
        around = sum(code.executed[cfg.blocks[s].start] for s in ways if _only_from(code, s, b))
        if len(ways) > sum(_only_from(code, s, b) for s in ways):
            return 0.0  # a branch past the loop whose own count is not known
        out += max(0.0, code.executed[cfg.blocks[b].end - 1] - around)
    return out


def _only_from(code: Code, block: int, before: int) -> bool:
    return list(code.cfg.blocks[block].predecessors) == [before]


def _invariant(code: Code, loop: Loop) -> set[int]:
    """Instructions without effect on memory or control whose sources all come from outside of the loop, or from others
    that are the same in every round."""
    inside = set(loop.instructions)
    plain = [i for i in loop.instructions if _plain(code, i)]
    fixed: set[int] = set()
    while True:
        more = {
            i for i in plain
            if i not in fixed
            and all(p not in inside or p in fixed for found in code.defuse.sources(i).values() for p in found)
        }  # fmt: skip
        if not more:
            return fixed
        fixed |= more


def _plain(code: Code, i: int) -> bool:
    """Whether an instruction computes a value from registers alone, on every path (no guard)."""
    op, ins = code.classes[i], code[i]
    return op.known and not op.access and op.pipe not in ("none", "cbu", "adu") and bool(ins.defs) and ins.guard is None
