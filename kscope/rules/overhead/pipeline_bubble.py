"""Stages of a pipeline wait for one another at its ends.

## What it does

Adds up the waits in sends, receives and what follows them, where ranks hand their results on one way, as the stages of
a pipeline do.

## Why it costs time

With p stages and m micro-batches, each stage has work in m of m + p - 1 slots: with 2 stages and 2 micro-batches it
waits a third of the time, with 8 a ninth.

## Evidence

The share of time that stages wait, by rank, and the transfers at which they do.

## Fix

More and smaller micro-batches, until their kernels are too small to fill the GPU; a schedule that interleaves stages
(1F1B, interleaved, zero-bubble); stages of equal time.

Before:

    schedule = ScheduleGPipe(stage, n_microbatches=2)

After:

    schedule = Schedule1F1B(stage, n_microbatches=16)

## When it is wrong

Stages of unequal time wait as well: where one waits far more than another, move layers.

## Source

GPipe (arXiv 1811.06965): the bubble is (p - 1) / (m + p - 1) of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.quoted import quoted
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.job_base import JobRule
from kscope.rules.timeline_base import gain

if TYPE_CHECKING:
    from kscope.features.timeline.jobs.job import JobView

FIRES = 0.08
HALVED = 0.5  # twice the micro-batches: about half the bubble


class PipelineBubble(JobRule):
    code = "OVH613"
    slug = "pipeline-bubble"
    title = "Stages of a pipeline wait for one another"

    def check(self, job: JobView) -> Outcome:
        if not job.pipelined or job.waiting < FIRES:
            return PASSED
        by = ", ".join(f"rank {r} {percent(s)}" for r, s in sorted(job.waited.items()))
        worst = max(job.late, key=lambda one: one.wait, default=None)
        at = f" The longest wait is {worst.wait / 1e6:.2f} ms at {quoted(worst.what)}." if worst else ""
        share = job.waiting
        return self.finding(
            title=f"The pipeline's stages wait {percent(share)} of the time",
            why=f"stages hand on their results one way and wait at the ends of each step: {by} of the time.{at}",
            fix="more micro-batches, or a schedule that fills the ends (1F1B, interleaved, zero-bubble); even stages",
            evidence=[
                derived("stages wait", share, "", "mean over the ranks, of their windows"),
                *(derived(f"rank {r} waits", s, "") for r, s in sorted(job.waited.items())[:8]),
                derived("collectives matched", job.matched, ""),
            ],
            estimate=gain(HALVED * share, share / 4, share, "the stages' own work"),
            confidence=0.8,
        )
