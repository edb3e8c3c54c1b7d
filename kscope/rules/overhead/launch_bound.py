"""The GPU runs dry because kernels are issued more slowly than it finishes them.

## What it does

Adds up the gaps in which the GPU had nothing queued and the host was issuing the next operation: in the launch call,
or in the framework's code between one call and the next.

## Why it costs time

A launch takes 2 to 5 us of the host, and a framework's eager operator 5 to 50 us around it. Kernels that are shorter
than that leave the GPU idle however fast they are, and no change to a kernel helps.

## Evidence

Share of the window in such gaps; medians of the kernel-to-call times, queue depth, interval between launches; share of
kernels below 10 us; share of launches that found the GPU with nothing left to do.

## Fix

Fewer and larger launches: record the step as a CUDA graph (torch.compile(mode="reduce-overhead")), fuse element-wise
chains (torch.compile), use foreach or fused optimizers, batch small problems.

Before:

    for layer in layers: x = layer(x)                  # 10 launches of 3 us each, 8 us apart

After:

    step = torch.compile(step, mode="reduce-overhead") # one graph launch

## When it is wrong

Recording itself slows the host: with shapes, stacks or modules recorded, a program that is barely GPU-bound looks
launch-bound. The estimate takes out what recording events costs (1 us each, measured), not that of Python stacks.
Where the queue was full for long, the host is ahead and the gaps are of another kind.

## Source

Definitions after arXiv 2504.11750 (TKLQT); CUDA C++ Programming Guide, CUDA Graphs; cost of recording measured on an
H200 with torch 2.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Outcome, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain, quoted

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.05
FULL = 0.3


class LaunchBound(TimelineRule):
    code = "OVH601"
    slug = "launch-bound"
    title = "The GPU waits for launches"

    def check(self, view: TimelineView) -> Outcome:
        share = view.share("launch")
        figures = view.facts.launches
        if share < FIRES or figures is None:
            return PASSED
        full = view.facts.queue_full / max(view.facts.span, 1)
        if full > FULL:
            return PASSED
        recording = view.recorded_launch
        expected = (share - recording) / (1 - recording)
        names = ", ".join(quoted(name) for name, _ in view.causes.places("launch")[:2])
        steps = view.facts.steps
        count = figures.count if steps is None or steps.periodic else figures.count / len(steps.start)
        each = "launches in all" if count == figures.count else "launches a step"
        return self.finding(
            title=f"The GPU waits for launches {percent(share)} of the time",
            why=(
                f"{view.a_step(view.us('launch'))} the GPU has nothing to do until the host issues the next operation: "
                f"{count:.0f} {each}, {figures.interval_us:.0f} us apart, {figures.depth:.0f} waiting in the queue. "
                f"{percent(figures.short)} of the kernels take less than 10 us"
                + (f"; most of it under {names}." if names else ".")
            ),
            fix=(
                "issue less: a CUDA graph of the step, torch.compile to fuse operators, foreach or fused optimizers, "
                "larger batches"
            ),
            evidence=[
                derived("idle waiting for launches", share, "", "gaps between GPU operations / window"),
                derived("launch to start, median", figures.latency_us, "us", "kernel start - API start"),
                derived("queue delay, median", figures.queue_us, "us", "kernel start - API end, floored at 0"),
                derived("queue depth, median", figures.depth, "", "issued - started, at each launch"),
                derived("launches into an idle GPU", figures.waits, ""),
                derived("kernels below 10 us", figures.short, ""),
                derived("cost of recording", recording, "", "0.55 us a call, 1.1 us an operator; out of the gain"),
            ],
            estimate=gain(expected, expected / 2, share, "the kernels' own time"),
            confidence=0.85 if figures.depth < 2 else 0.6,
        )
