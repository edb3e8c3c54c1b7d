"""Ranks send each other data while no other kernel runs.

## What it does

Adds up the time in which a collective or a transfer between GPUs runs on a device and no other kernel does. Where the
other ranks' recordings are there, what is spent until the last rank comes is taken out: that is waiting (OVH611 to
OVH613), not sending.

## Why it costs time

A collective that runs beside computation costs a few SMs; one that runs alone costs all of its time. What bounds the
gain is what there is to hide it behind: communication longer than everything else stays exposed with its rest.

## Evidence

Time in communication, its overlapped and its exposed part, by kind and communicator with their bytes and rates; how
long the same message takes at best.

## Fix

Start it as soon as its data is ready and wait for it as late as its result is needed. DDP: let it overlap with the
backward pass (no all_reduce loop of your own), buckets of 25 MB or more, gradient_as_bucket_view; accumulate gradients
under no_sync. FSDP: prefetch the next layer, wrap larger units, keep parameters after the forward pass where memory
allows. Tensor parallel and experts: cut the batch in chunks, so that one chunk travels while another is worked on.
Less to send: BF16 gradients, larger batches a rank.

Before:

    loss.backward()
    for p in model.parameters(): dist.all_reduce(p.grad)      # after everything, one by one

After:

    model = DistributedDataParallel(model)                    # during the backward pass, in buckets
    loss.backward()

## When it is wrong

In one rank's recording alone, a wait for a slower rank looks like communication: analyse the folder of all ranks. What
follows needs the result of some collectives at once; there only chunks help.

## Source

Definition as in HolisticTraceAnalysis ("communication computation overlap"); PyTorch documentation, DDP and FSDP notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.units import counted
from kscope.rules.base import PASSED, Missing, Outcome, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain, quoted

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.03


class ExposedCommunication(TimelineRule):
    code = "OVH609"
    slug = "exposed-communication"
    title = "Communication runs with nothing beside it"
    needs_calls = False

    def check(self, view: TimelineView) -> Outcome:
        found = view.communication_figures
        if found is None:
            return Missing("nothing was sent between ranks or GPUs in the window")
        share = view.sending_share
        if share < FIRES:
            return PASSED
        sent = found.pct / 100
        other = max(1 - sent, 0.0)  # what there is to hide it behind
        hidden = min(share, other)
        beyond = 0.0 if view.communication.waits is not None else view.communication_excess
        alone = max(share - beyond * sent, 0.0)
        first = max(found.kinds, key=lambda k: k.exposed_us)
        group = f" on {quoted(first.group)}" if first.group else ""
        waits = (
            f"; another {percent(view.exposed_share - share)} it waits for the last rank"
            if view.communication.waits is not None and view.exposed_share - share >= 0.01
            else ""
        )
        return self.finding(
            title=f"Communication runs alone {percent(share)} of the time",
            why=(
                f"{view.a_step(share * view.span_us)} the GPU sends and receives while no other kernel runs, of "
                f"{percent(sent)} of the time in communication{waits}. Most of it is {quoted(first.what)}{group}, "
                f"{counted(first.count, 'time')}, {first.bytes / max(first.count, 1) / 1e6:,.1f} MB each."
            ),
            fix=(
                "start it when its data is ready and wait when its result is needed: DDP's buckets, FSDP's prefetch, "
                "chunks that travel while others are worked on; or send less (BF16, larger batches, no_sync)"
            ),
            evidence=[
                derived("communication", sent, "", "union of its operations / window"),
                derived("exposed", view.exposed_share, "", "of the window: no other kernel runs"),
                *([derived("exposed, until the last rank comes", view.exposed_share - share, "", "not counted here")]
                  if view.communication.waits is not None else
                  [derived("longer than the fastest of its size", beyond, "", "of its time: waits, or contention")]),
                *(
                    derived(f"{k.what} {k.group}".strip(), k.exposed_us, "us",
                            f"exposed; {k.count} times, {k.us / 1e3:.2f} ms, {_rate(k.bytes, k.us)}")
                    for k in found.kinds[:4]
                ),
            ],
            estimate=gain(
                min(hidden, max(alone, share / 4)), min(hidden, alone) / 2, share, "the computation beside it"
            ),
            confidence=0.8 if view.communication.waits is not None else 0.65,
        )  # fmt: skip


def _rate(size: int, us: float) -> str:
    return f"{size / 1e3 / us:.1f} GB/s" if size and us else "bytes unknown"
