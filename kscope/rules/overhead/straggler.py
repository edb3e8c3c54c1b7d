"""One rank is late, and all others wait for it.

## What it does

Finds each collective in the recordings of all ranks, brings their clocks together, and adds up how long the ranks that
came first waited for the last one with nothing else to do. Most of it falls to one rank.

## Why it costs time

A collective ends when its last rank has come: the job runs at the pace of its slowest rank, and the GPUs of the others
spin inside NCCL's kernels, where a profiler of one rank shows them busy.

## Evidence

The share of time that ranks wait for others, whom they wait for, at which collective and in which step, and what the
awaited rank spends more time on than the others: its kernels, or its host, in which range.

## Fix

What makes it late: a loader, logging or checkpointing that only it does, a slower or hotter GPU, more rows than the
others. Work that it has too much of is divided anew; host work moves off the step's path.

Before:

    if rank == 0: save_samples(model)                          # 7 other GPUs wait

After:

    if rank == 0: pool.submit(save_samples, copy_of(model))    # beside the steps

## When it is wrong

Four recorded steps tell of these steps. A rank that profiles more than the others is late by that.

## Source

HolisticTraceAnalysis (straggler analysis); waits as in Scalasca's "wait at NxN": from a rank's arrival to the last's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.contract.job import COMPUTING
from kscope.model.quoted import quoted
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.job_base import JobRule
from kscope.rules.timeline_base import gain

if TYPE_CHECKING:
    from kscope.features.timeline.jobs.job import JobView

FIRES = 0.03
WORDS = {"computing": "runs kernels", "communication": "sends", "copying": "copies", "launch": "waits for launches",
         "host": "waits for its host's code", "data_loading": "waits for data"}  # fmt: skip


class Straggler(JobRule):
    code = "OVH611"
    slug = "straggler"
    title = "One rank is late and the others wait"

    def check(self, job: JobView) -> Outcome:
        late = job.straggler
        if late is None or job.waiting < FIRES:
            return PASSED
        more = job.excess(late)
        main = next(iter(more), COMPUTING)
        places = next(r.places.get(main, ()) for r in job.ranks if r.number == late)
        where = f", in {', '.join(map(quoted, places[:2]))}" if places else ""
        host, work = job.lateness(late)
        share = host * job.spared(late) + work * job.balanced
        worst = max((one for one in job.late if one.late == late), key=lambda one: one.wait, default=None)
        at = f" Most at {quoted(worst.what)}: {worst.wait / 1e6:.2f} ms in step {worst.step}." if worst else ""
        others = ", ".join(f"rank {r} {percent(s)}" for r, s in sorted(job.waited.items())[:8] if r != late and s > 0)
        return self.finding(
            title=f"Rank {late} is late: the others wait {percent(job.waiting)} of the time, on average over all",
            why=(
                f"waits in collectives for others: {others} of its time. Rank {late} "
                f"{WORDS.get(main, f'is in {main}').replace('_', ' ')} {percent(more.get(main, 0.0))} of the time more "
                f"than the others do{where}.{at}"
            ),
            fix=(
                f"give rank {late} less to compute, or all the same" if main == COMPUTING
                else f"take that work off rank {late}'s step: ahead of time, beside the step, or shared by all ranks"
            ),
            evidence=[
                derived("ranks wait", job.waiting, "", "mean over the ranks, of their windows"),
                *(derived(f"rank {r} waits", s, "") for r, s in sorted(job.waited.items())[:8]),
                *(derived(f"rank {late} more than others: {w.replace('_', ' ')}", s, "", "of the window")
                  for w, s in list(more.items())[:4]),
                derived("collectives matched", job.matched, ""),
            ],
            estimate=gain(share, share / 2, max(share, job.spared(late)), "the next slowest rank, and its host"),
            confidence=0.85,
        )  # fmt: skip
