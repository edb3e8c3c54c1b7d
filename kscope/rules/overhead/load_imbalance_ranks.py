"""Ranks have unequal work, and take turns at waiting for one another.

## What it does

Adds up the waits in collectives until the last rank comes, as OVH611 does, where no single rank causes most of them.

## Why it costs time

Every step lasts as long as its slowest rank takes. Batches of unequal length, experts of unequal load and uneven
shards make another rank the slowest each time: no rank looks slow on average, and all wait.

## Evidence

The share of time that ranks wait, whom for, and the collective with the longest wait and its step.

## Fix

Give all ranks the same work in the same step: bucket sequences by length across ranks, pack to equal numbers of tokens,
balance experts (capacity, auxiliary loss), equal shards.

Before:

    batch = next(loader)                                       # 16,384 rows on one rank, 6,144 on another

After:

    batch = packed(loader, tokens=11_264)                      # the same number everywhere

## When it is wrong

Few steps: what takes turns over four steps may be one straggler over a thousand, or the reverse. Waits of microseconds
are the ranks' launches, which are never exactly together.

## Source

Scalasca, "wait at NxN"; HolisticTraceAnalysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.quoted import quoted
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.job_base import JobRule
from kscope.rules.timeline_base import gain

if TYPE_CHECKING:
    from kscope.features.timeline.jobs.job import JobView

FIRES = 0.05


class LoadImbalanceRanks(JobRule):
    code = "OVH612"
    slug = "load-imbalance-ranks"
    title = "Ranks have unequal work and take turns at waiting"

    def check(self, job: JobView) -> Outcome:
        if job.straggler is not None or job.pipelined or job.waiting < FIRES:
            return PASSED
        whole = max(sum(job.caused.values()), 1)
        by = ", ".join(f"rank {r} {percent(t / whole)}" for r, t in sorted(job.caused.items(), key=lambda p: -p[1])[:4])
        worst = max(job.late, key=lambda one: one.wait, default=None)
        at = (
            f" The longest is {worst.wait / 1e6:.2f} ms at {quoted(worst.what)} in step {worst.step}, for rank "
            f"{worst.late}." if worst else ""
        )  # fmt: skip
        return self.finding(
            title=f"Ranks wait for one another {percent(job.waiting)} of the time, taking turns",
            why=f"who is late changes ({by} of the waits).{at}",
            fix="give all ranks the same work in a step: equal tokens, lengths bucketed across ranks, even shards",
            evidence=[
                derived("ranks wait", job.waiting, "", "mean over the ranks, of their windows"),
                *(derived(f"rank {r} waits", s, "") for r, s in sorted(job.waited.items())[:8]),
                derived("collectives matched", job.matched, ""),
            ],
            estimate=gain(job.balanced, job.balanced / 2, job.waiting, "the mean of the ranks' own work"),
            confidence=0.75,
        )  # fmt: skip
