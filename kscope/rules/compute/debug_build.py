"""The code was built for the debugger (-G): nothing else about it is worth a word.

## What it does

Recognises device code that `-G` left unoptimised: registers moved to themselves, every value passed through moves,
global memory reached by generic accesses. It stands first, and all other findings are withdrawn: the optimised code is
another program.

## Why it costs time

With -G ptxas keeps every variable alive and every line apart: no common subexpressions, no unrolling, no fused
multiply-adds, a move for each assignment. Gains of 5x to 250x were measured when the flag went.

## Evidence

Executed moves of a register to itself, all moves, generic loads and stores beside global ones; the instructions behind
stored values, which optimised code needs too.

## Fix

Build without `-G`: `-lineinfo` keeps the source lines for profilers, `-Xptxas -O3` is the default. For CMake a Release
or RelWithDebInfo build; for torch extensions `extra_cuda_cflags` without `-G`.

Before:

    nvcc -G kernel.cu

After:

    nvcc -lineinfo kernel.cu

## In SASS

Moves of a register to itself; or none.

Before (capture build.debug):

    MOV R7, R7
    ...
    LD.E R10, desc[UR4][R10.64]
    MOV R9, R10
    MOV R9, R9

After (capture build.optimised):

    LDG.E.CONSTANT R2, desc[UR4][R4.64+0x4]
    LDG.E.CONSTANT R3, desc[UR4][R4.64+-0x4]

## When it is wrong

The estimate counts the instructions that the results need and a third more for addresses; what memory does then is not
known before the code is built. Local arrays may become registers (the upper end); bytes of device memory stay, so that
a kernel which they limit gains nothing, and is told all the same: nothing else can be said of it.

## Source

nvcc documentation, --device-debug (-G); our own builds of one kernel with and without it, and published reports.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, Scale, total, up_to
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

SELF = 0.1  # of what executes: build.debug has 0.19, optimised code none
NEEDED = 1.3  # of the instructions behind the results: addresses and loop tests come to them. Fitted on build.optimised
LEAST = 0.02  # of the instructions: nothing gains more than 50x by this alone


class DebugBuild(ProfiledRule):
    code = "CMP212"
    slug = "debug-build"
    title = "This is a debug build: build it without -G first"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        idle = code.ran(facts.patterns.self_moves)
        share = code.issue_share(idle)
        if share < SELF:
            return PASSED
        moves = code.where(lambda ins, op: "move" in op.kind)
        generic = code.ran(code.where(lambda ins, op: op.space == "generic"))
        work = [i for i in facts.patterns.results if "move" not in code.classes[i].kind]
        work += code.where(lambda ins, op: op.access is not None and op.space in ("global", "generic", "shared"))
        kept = min(1.0, max(LEAST, NEEDED * code.issue_share(set(work))))
        # Fences at entry and exit, and every access on its own, load L2 too: only device memory's bytes stay.
        scale: Scale = {
            "instructions": kept, "alu": kept, "fma": kept, "fmaheavy": kept, "branches": kept, "constants": kept,
            "l2_requests": kept, "l2_sectors": kept, "l2_writes": kept, "lsu_instructions": kept,
            "mio_instructions": kept,
        }  # fmt: skip
        # Local arrays that become registers take their accesses along, which nothing tells from others here.
        lifted: Scale = {**scale, "l1_wavefronts": kept, "l1_writeback": kept, "l1_banks": kept}
        return self.finding(
            why=(
                f"{percent(share)} of all executed instructions move a register to itself and "
                f"{percent(code.issue_share(moves))} move one at all; {percent(code.issue_share(set(work)))} compute "
                "what is stored. Optimised code does neither: all other findings are withdrawn until it is built so."
            ),
            fix="build without -G (-lineinfo keeps source lines), then profile again",
            evidence=[
                derived("moves of a register to itself", total(code.executed, idle), "inst", "-G leaves them"),
                derived("share of all instructions", share, "", ""),
                derived("generic accesses", total(code.executed, generic), "inst", "LD.E, ST.E for LDG, STG"),
                derived("instructions that the results need", kept, "", "their share, a third more for addresses"),
            ],
            locations=code.locations(idle, 3, weight=code.executed),
            estimate=up_to(
                facts.estimate.relieve(1.0, kept, scale, latency=kept),
                facts.estimate.relieve(1.0, kept, lifted, latency=kept),
            ),
            confidence=0.95,
        )
