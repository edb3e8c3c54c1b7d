"""Copies take the time, with no kernel running beside them.

## What it does

Adds up the time in which only copies ran, and the gaps in which the host prepared one (staging of pageable memory).

## Why it costs time

A copy between host and device is bound by the link: tens of GB/s where the device's memory has thousands. From
pageable memory the driver goes through a staging buffer at a fraction even of that, and the call blocks the host.

## Evidence

Share of the window in which only copies ran; for each direction bytes, rate, the part from pageable memory, the part
that ran beside kernels.

## Fix

Keep the data on the device; copy smaller types; pin host memory and copy with non_blocking on a stream of its own while
the previous batch computes.

Before:

    x = batch.to("cuda")                               # pageable, and the step waits

After:

    x = batch.pin_memory().to("cuda", non_blocking=True)   # better: DataLoader(pin_memory=True), one batch ahead

## When it is wrong

Copies that run at the link's rate beside kernels cost nothing until they are longer than the kernels. Device-to-device
copies are memory traffic on the device: fuse them away, pinning does not help.

## Source

CUDA C++ Best Practices Guide 10.1 (pinned memory, overlapping transfers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.units import si
from kscope.rules.base import PASSED, Outcome, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.05
PIN = "pin the host memory (pin_memory=True) and copy ahead with non_blocking on another stream"
LESS = "copy less (keep it on the device, smaller types), and ahead of time on another stream"
IN_PLACE = "copy less within the device: no clone() or contiguous() of what can be used as it is"


class TransferBound(TimelineRule):
    code = "OVH604"
    slug = "transfer-bound"
    title = "Copies run alone"
    needs_calls = False

    def check(self, view: TimelineView) -> Outcome:
        alone, staging = view.causes.copying, view.share("blocking_copy")
        share = alone + staging
        if share < FIRES or not view.copies:
            return PASSED
        main = view.copies[0]
        # what the host prepares are copies of pageable memory, whichever take the device the longest
        pageable = max(c.pageable_pct for c in view.copies) if staging > alone else main.pageable_pct
        copied = sum(c.us for c in view.copies) / 1e3 / max(view.facts.span / 1e6, 1e-9)
        hidden = min(share, max(0.0, 1 - max(copied / max(len(view.facts.devices), 1), 1 - share)))
        moved = f"{si(main.bytes, 'B')} at {si(main.gb_per_s * 1e9, 'B/s')}" if main.bytes else "bytes not recorded"
        how = f", {main.pageable_pct:.0f} % of it pageable" if main.pageable_pct else ""
        return self.finding(
            title=f"Copies without a kernel beside them take {percent(share)} of the time",
            why=(
                f"{view.a_step(alone * view.span_us)} only copies run. Most are {main.direction}: "
                f"{moved}{how}; {main.overlapped_pct:.0f} % of their "
                "time runs beside kernels."
            ),
            fix=PIN if pageable else IN_PLACE if main.direction == "device to device" else LESS,
            evidence=[
                derived("only copies run", alone, "", "union of GPU operations without that of kernels / window"),
                derived("idle: host prepares a copy", staging, "", "gaps between GPU operations / window"),
                *(
                    derived(
                        c.direction, c.gb_per_s, "GB/s",
                        f"{c.count} copies, {c.bytes:,} bytes, {c.pageable_pct:.0f} % pageable, "
                        f"{c.overlapped_pct:.0f} % overlapped",
                    )
                    for c in view.copies
                ),
            ],
            estimate=gain(max(hidden, share / 2), share / 4, share, "the rest of the step"),
            confidence=0.75,
        )  # fmt: skip
