"""Each instruction waits for the one before: one chain, too few warps to cover it.

## What it does

Finds loops whose arithmetic forms one carried chain of fixed-latency instructions, with the schedulers idle between
them.

## Why it costs time

An FMA takes 4 cycles until the next can use its result. One chain in one warp fills a quarter of the issue slots; a
scheduler with few warps has nothing else to issue.

## Evidence

`wait` samples on instructions that depend on themselves around the loop (def-use cycle), free issue slots, warps a
scheduler.

## Fix

Several independent accumulators, combined at the end; unrolling with reassociation; or more warps.

Before:

    for (i...) a = a * x + c;                                      // one chain

After:

    for (i...) { a0 = a0 * x + c; a1 = a1 * x + c; a2 = ...; a3 = ...; }

## When it is wrong

A recurrence that is inherently serial has no independent parts; then more warps (problems) at once is the way.

## Source

Kernel Profiling Guide, stall reason wait; latencies: kscope/arch/opcodes.toml.
"""

from __future__ import annotations

from kscope.features.code import Code
from kscope.features.facts import Facts
from kscope.rules.base import PASSED, Outcome, Rule, derived, measured, percent

STRAIGHT = 8  # dependent instructions in a row from which a straight run counts as a chain
PARALLEL = 4.0  # accumulators after the change: the latency of an FMA in cycles


class DependencyChain(Rule):
    code = "LAT303"
    slug = "dependency-chain"
    title = "Dependent instructions leave issue slots empty"
    regime = "compute"
    needs_sass = True
    needs_samples = True

    def check(self, facts: Facts) -> Outcome:
        code, stalls = facts.code, facts.stalls
        assert code is not None
        share = stalls.of("wait")
        issuing = facts.kernel.metrics.get("smsp__issue_active.avg.pct_of_peak_sustained_active")
        if share < 0.2 or (issuing is not None and issuing > 75):
            return PASSED
        chain = carried(code)
        if not chain:
            return PASSED
        mine = code.blamed_share(chain, "wait") + code.blamed_share(chain, "selected")
        if mine < 0.15:
            return PASSED
        # Of the time that is waiting, the chain's part shrinks with independent chains side by side.
        waiting = max(share, 1 - stalls.of("selected", "not_selected"))
        part = min(1.0, share / waiting)
        estimate = facts.bounds.overlap(1 / (1 - part + part / PARALLEL))
        return self.finding(
            why=(
                f"{len(chain)} instructions of the loop form a carried chain, starting with {code[chain[0]].text}: "
                f"{percent(share)} of warp time is waiting for a fixed latency, and the schedulers issue in "
                f"{issuing or 0:.0f} % of their cycles."
            ),
            fix="independent accumulators (4 or more), combined after the loop; unroll and reassociate; more warps",
            evidence=[
                derived("warp time waiting for fixed latency", share, "", "stall reason wait"),
                measured(facts, "smsp__issue_active.avg.pct_of_peak_sustained_active"),
                measured(facts, "sm__warps_active.avg.per_cycle_active"),
            ],
            locations=code.locations(chain),
            estimate=estimate,
            confidence=0.8,
        )


def carried(code: Code) -> list[int]:
    """Arithmetic instructions of the hot code that form a serial chain: they reach themselves over def-use around an
    innermost loop (plain counters aside), or belong to a straight run of STRAIGHT or more, each needing the one
    before. Hottest first."""
    found = []
    for loop in code.cfg.loops:
        if not loop.innermost:
            continue
        inside = set(loop.instructions)
        able = [i for i in loop.instructions if _arithmetic(code, i) and code.blamed[i] > 0 and not _counter(code, i)]
        depth = _depths(code, able)
        found += [i for i in able if depth[i] >= STRAIGHT or _cycles(code, i, inside)]
    return code.hottest(found)


def _arithmetic(code: Code, index: int) -> bool:
    op = code.classes[index]
    return op.scoreboard is None and op.access is None and op.pipe in ("fma", "fmaheavy", "fp64", "fp16", "alu")


def _depths(code: Code, able: list[int]) -> dict[int, int]:
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


def _counter(code: Code, index: int) -> bool:
    ins = code[index]
    constants = [o for o in ins.operands[1:] if o.startswith(("0x", "-0x", "c[")) or o in ("RZ", "PT", "!PT")]
    return ins.opcode in ("IADD3", "UIADD3", "VIADD", "IADD", "LEA", "ISETP", "VIADDMNMX") and len(constants) >= 1


def _cycles(code: Code, start: int, inside: set[int]) -> bool:
    seen: set[int] = set()
    work = [c for c in code.defuse.consumers(start) if c in inside]
    while work:
        i = work.pop()
        if i == start:
            return True
        if i in seen or code.classes[i].scoreboard == "long":
            continue
        seen.add(i)
        work += [c for c in code.defuse.consumers(i) if c in inside]
    return False
