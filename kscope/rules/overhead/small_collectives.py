"""Many small collectives: their latency, not their bytes, is what they cost.

## What it does

Counts the collectives whose message is so small that sending it takes less than starting it, and adds up their time.

## Why it costs time

A collective costs tens of microseconds of the host and ten to thirty of the device however little it sends: within a
host NVLink moves a megabyte in that time. A hundred messages of 100 KB take ten times as long as one of 10 MB.

## Evidence

Their number a step, their sizes, the time they take, the time that they run with nothing beside them.

## Fix

Send once: larger DDP buckets (bucket_cap_mb, default 25), coalesced collectives (dist._coalescing_manager,
all_reduce_coalesced), one flat buffer for many tensors, FSDP units of whole layers.

Before:

    DistributedDataParallel(model, bucket_cap_mb=0.05)         # hundreds of all-reduces a step

After:

    DistributedDataParallel(model)                             # 25 MB at a time

## When it is wrong

Small messages on the way of everything (a token's logits, a loss) cannot be merged with others. Where they run beside
computation they cost the host alone.

## Source

NCCL documentation and nccl-tests: time against size is flat below about a megabyte within one host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Missing, Outcome, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain, quoted

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.03
SMALL = 1 << 20  # bytes: about what NVLink moves in the time that a collective takes to start
MANY = 8  # a step


class SmallCollectives(TimelineRule):
    code = "OVH610"
    slug = "small-collectives"
    title = "Many small collectives"
    needs_calls = False

    def check(self, view: TimelineView) -> Outcome:
        found = view.communication_figures
        if found is None:
            return Missing("nothing was sent between ranks or GPUs in the window")
        small = [k for k in found.kinds if 0 < k.bytes <= SMALL * k.count]
        if not any(k.bytes for k in found.kinds):
            return Missing("the recording does not tell the sizes of messages; torch's profiler does from 2.2 on")
        count = sum(k.count for k in small)
        steps = view.facts.steps
        times = len(steps.start) if steps is not None else 1
        if count < MANY * times:
            return PASSED
        size = sum(k.bytes for k in small) / count
        merged = max(SMALL / max(size, 1.0), 1.0)
        exposed = sum(k.exposed_us - (k.waiting_us or 0.0) for k in small)
        alone = min(max(exposed, 0.0) / max(view.span_us, 1e-3), view.exposed_share)
        host = view.idle_in_collectives
        share = (alone + host) * (1 - 1 / merged)
        if share < FIRES:
            return PASSED
        first = max(small, key=lambda k: k.count)
        return self.finding(
            title=f"{count / times:.0f} small collectives a step take {percent(share)} of the time",
            why=(
                f"{quoted(first.what)} is called {first.count / times:.0f} times a step for {size / 1e3:,.0f} KB each: "
                f"starting it takes longer than sending. {percent(alone)} of the time they run alone, {percent(host)} "
                "the GPU waits for the host to issue them."
            ),
            fix="send once: larger buckets (DDP's bucket_cap_mb), coalesced collectives, one flat buffer",
            evidence=[
                derived("small collectives", count / times, "", "a step"),
                derived("their size", size, "B", "mean"),
                derived("they run alone", alone, "", "of the window"),
                derived("the host issues them", host, "", "idle time in c10d's calls / window"),
            ],
            estimate=gain(share, share / 3, share, "their bytes"),
            confidence=0.7,
        )
