"""A pipeline spends its time on filling and draining.

## What it does

Measures, in a warp-specialised kernel, how long the unit that does the work (tensor pipe, memory) waits for its first
data and how long the kernel goes on behind its last work, against the steady phase in between.

## Why it costs time

Before the first product come the launch, barrier initialisation, the first copies from device memory; behind the last
one the last tile's epilogue. That part does not grow with the problem: T(n) = T_fixed + n t. On a small problem it is
most of the time, and every stall statistic shows waits that no change to the steady loop will shorten. Blocks that do
one tile each pay it again in every wave.

## Evidence

Timeline of the unit: the work before the plateau as time at the plateau level gives the end of the fill, likewise the
start of the drain. Samples of the prologue. Waves of blocks.

## Fix

More work a block: persistent blocks that take several tiles and prefetch the next one's first stages during the
epilogue; larger problems or several of them in one launch (grouped, batched); the prologue overlapped with the kernel
before (programmatic dependent launch); split-K or stream-K only where SMs are empty.

Before:

    gemm<<<tiles, 384>>>(...);                 // each block: init, fill, one tile, drain

After:

    gemm<<<sms, 384>>>(...);   // for (tile = blockIdx.x; tile < tiles; tile += gridDim.x), copies run ahead

## In SASS

The ring by which producer and consumers pass stages: each block fills it once before the first product can start,
however few steps it then makes.

From (capture ws_gemm.k256):

    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x30000], R2
    ...
    @!P0  SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ
    ...
    @!P0  SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ
    ...
    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR13+0x30020], R0
    ...
    @P1   SYNCS.ARRIVE.TRANS64 RZ, [UR13+0x30000], R0

## When it is wrong

One small problem that runs once has no more work to give; then the fill is its price, and only a shorter prologue or
an overlap with neighbours in the stream helps.

## Source

Timeline of PM sampling (Kernel Profiling Guide); the same split as a line through times over K: T(K) = T_fixed + K t.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.rules._shared.pipelines import PipelineRule, sampled, unit_title
from kscope.rules.base import PASSED, Missing, Outcome, Passed, derived, percent

SHARE = 0.08  # of the time, from which fill and drain are worth a remark
SURE = 0.2  # the same where only bounds are known
TURN = 0.03  # of the time, from which blocks that follow each other are: their cure is at hand
TURNS = 0.75  # of the turns of blocks that several tiles a block save: the tiles' own ends stay
HIDDEN = 0.5  # of fill and drain that prefetching, overlap with the neighbours or more work a launch takes away


class PipelinePriming(PipelineRule):
    code = "ASY501"
    slug = "pipeline-priming"
    title = "Filling and draining the pipeline takes the time"
    regime = "overhead"

    def check(self, facts: Facts, code: Code) -> Outcome:
        known = self.pipeline(facts, bounds=True)
        if isinstance(known, (Passed, Missing)):
            return known
        sp, loss = known
        ph = sp.phases
        assert ph is not None
        # Blocks of one tile, one after the other: each pays its own start and end. Several tiles a block save that and
        # leave the launch's own fill and drain.
        again, fixed = loss.turnover, loss.fill + loss.drain
        if not sp.resolved and sp.fixed_at_least < SURE:
            return self.unresolved(sp)
        if fixed + again < SHARE and again < TURN:
            return PASSED
        outside = max(0.0, (facts.counters.launch.duration_us or sp.span) - sp.span)
        waves = (
            f" {sp.generations:.1f} waves of one-tile blocks lose {percent(again)} more: each starts its own pipeline."
            if again
            else ""
        )
        bounds = "" if sp.resolved else (
            f" The timeline has too few bins to resolve that: it is {percent(sp.fixed_at_least)} at least."
        )  # fmt: skip
        return self.finding(
            title=f"Filling and draining the pipeline takes {percent(fixed + again)} of the time"
            if fixed > again
            else f"Each block starts a pipeline of its own: {percent(again)} of the time",
            why=(
                f"The {unit_title(sp)} starts {ph.fill:.1f} us behind the first warp and ends {ph.drain:.1f} us before "
                f"the last one; {outside:.1f} us pass before and after all blocks. Between them it runs at "
                f"{percent(ph.mean)}.{waves}{bounds} Fill and drain stay when the problem grows: {percent(fixed)} now, "
                f"{percent(fixed / (2 - fixed))} of twice the work."
            ),
            fix=("persistent blocks that take several tiles; " if again else "")
            + "load the next tile's first stages during the epilogue; more work a launch (batch, grouped); "
            "programmatic dependent launch to hide the prologue",
            evidence=[
                derived("fill", ph.fill, "us", f"{ph.unit} timeline, bins of {ph.bin:.2f} us, +-{ph.error:.1f} us"),
                derived("drain", ph.drain, "us", f"{ph.unit} timeline"),
                derived("before and after all blocks", outside, "us", "duration less the span of SM activity"),
                derived("steady", ph.steady, "us", f"at {percent(ph.mean)} of peak"),
            ],
            locations=sampled(code, [*sp.before, *(i for w in sp.data_waits for i in w.members)]),
            estimate=facts.estimate.regain(again, sure=TURNS, high=again + HIDDEN * fixed)
            if TURNS * again > HIDDEN * fixed
            else facts.estimate.regain(fixed, sure=HIDDEN),
            # judged: the larger the share, the farther from the error of the bins
            confidence=round(0.6 + 0.15 * min(1.0, (fixed + again) / SURE) * sp.resolved, 2),
        )
