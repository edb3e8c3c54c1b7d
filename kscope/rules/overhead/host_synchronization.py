"""The host waits for the GPU, and the GPU then waits for the host.

## What it does

Adds up the gaps that begin while the host is inside a synchronising call (cudaStreamSynchronize, cudaDeviceSynchronize,
cudaEventSynchronize), and counts such calls.

## Why it costs time

A host that waits issues nothing. When the GPU has finished, the queue is empty: the next kernel starts only after the
call has returned, the host has found its way to the next launch, and the launch has travelled. Every launch after it
starts from an empty queue as well.

## Evidence

Share of the window in these gaps; synchronising calls a step, the time in them, the range or operator around them, and
the operation that they wait for: by what the recording says of the call, else the one that finished last before it
returned ("probably").

## Fix

Keep the host ahead: no .item(), .cpu(), print of a tensor or boolean test of one inside the step; read results every
n-th step or from a pinned buffer behind an event; sizes that are known on the host instead of masks.

Before:

    losses.append(loss.item())                         # waits for the whole step

After:

    losses.append(loss.detach())                       # read them all after the loop

## When it is wrong

A step has to end somewhere: one synchronisation at its end, with little after it, costs a few microseconds. A long call
while the GPU is busy is the healthy case and does not count.

## Source

PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"; CUDA C++ Best Practices Guide 10.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Outcome, counted, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain, quoted

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.02


class HostSynchronization(TimelineRule):
    code = "OVH603"
    slug = "host-synchronization"
    title = "Synchronisation drains the queue"

    def check(self, view: TimelineView) -> Outcome:
        share = view.share("synchronization")
        calls = view.calls_named("sync")
        if share < FIRES or not calls:
            return PASSED
        count = sum(n for _, n, _ in calls)
        places = [quoted(name) for name, _ in view.causes.places("synchronization")[:3]]
        steps = view.facts.steps
        each = f"{counted(count, 'time')} in all"
        if steps is not None and not steps.periodic:
            each = f"{counted(count / len(steps.start), 'time')} a step"
        return self.finding(
            title=f"Synchronisation leaves the GPU idle {percent(share)} of the time",
            why=(
                f"{quoted(calls[0][0])} and its like are called {each}; {view.a_step(view.us('synchronization'))} pass "
                "between the GPU running dry and the next operation"
                + (f", under {', '.join(places)}." if places else ".")
                + self._for(view)
            ),
            fix=(
                "do not read GPU values inside the step: no .item(), .cpu() or print; read later, or through a pinned "
                "buffer and an event"
            ),
            evidence=[
                derived("idle after a synchronisation", share, "", "gaps between GPU operations / window"),
                *(derived(f"calls of {name}", n, "", f"{us / 1e3:.2f} ms in them") for name, n, us in calls[:3]),
            ],
            estimate=gain(share, share / 2, share + view.share("launch") / 2, "the launches and the kernels' own time"),
            confidence=0.7,
        )

    def _for(self, view: TimelineView) -> str:
        """What most of the idle time follows."""
        found = view.waits.host
        if not found or not found[0].idle:
            return ""
        said = ", probably," if found[0].said_by == view.waits.GUESS else ""
        return f" What the host waits for is{said} mostly {quoted(found[0].on)}."
