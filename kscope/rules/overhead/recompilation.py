"""torch.compile compiles while the steps run.

## What it does

Finds the compilations inside the window (dynamo's and inductor's own spans in the trace), with their frame and version,
and adds up how long the GPU was idle meanwhile.

## Why it costs time

A compilation takes the host seconds, and the step waits. Version 0 of a frame is the first compilation, which belongs
to the warm-up; version 1 and on are recompilations: a guard failed, because a shape, a type, a Python value or a flag
changed. Each change costs a compilation again, until torch gives up and runs the frame eagerly.

## Evidence

Compilations in the window with their versions, their time, the GPU's idle time in them.

## Fix

TORCH_LOGS=recompiles names the guard that failed. Mark the size that changes (torch._dynamo.mark_dynamic, or
dynamic=True), pad to a few sizes, pass numbers as tensors; warm up with every shape before the steps that count.

Before:

    for batch in batches: compiled(batch)                    # the last batch is smaller: everything is compiled again

After:

    torch._dynamo.mark_dynamic(batch, 0); compiled(batch)    # one version for all sizes

## When it is wrong

A recording that begins before the warm-up is over may hold recompilations that never happen again: record later. First
compilations happen once; they are shown and not priced.

## Source

PyTorch documentation, torch.compile: recompilation, dynamic shapes, TORCH_LOGS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Missing, Outcome, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.02


class Recompilation(TimelineRule):
    code = "OVH607"
    slug = "recompilation"
    title = "torch.compile compiles while the steps run"
    needs_calls = False

    def check(self, view: TimelineView) -> Outcome:
        compiled = view.compiled
        if compiled is None:
            return Missing("the recording shows nothing of torch.compile")
        found = compiled.compilations
        share = view.idle_during([(c.start, c.end) for c in found])
        again = compiled.recompilations
        if not again or share < FIRES:  # a first compilation happens once
            return PASSED
        spent = sum(c.end - c.start for c in found) / 1e3
        fall = "fall" if len(found) > 1 else "falls"
        versions = ", ".join(c.version for c in again[:4])
        named = f" ({versions})"
        first = len(found) - len(again)
        kinds = [f"{len(again)} recompilation{'s' * (len(again) > 1)}"]
        kinds += [f"{first} first compilation{'s' * (first > 1)}"] if first else []
        return self.finding(
            title=f"torch.compile works {spent / 1e3:,.0f} ms inside the steps: {' and '.join(kinds)}",
            why=(
                f"{' and '.join(kinds)}{named}, frame/version, {fall} into the window; "
                f"the GPU is idle {percent(share)} of it meanwhile."
            ),
            fix=(
                "TORCH_LOGS=recompiles names the guard that failed: mark changing sizes dynamic, pad to a few shapes, "
                "or warm up with every shape"
            ),
            evidence=[
                derived("compilations in the window", len(found), ""),
                derived("recompilations in the window", len(again), "", versions),
                derived("time in them", spent, "us"),
                derived("idle meanwhile", share, "", "gaps between GPU operations / window"),
            ],
            estimate=gain(share, share / 2, share, "the steps without compilation"),
            confidence=0.9,
        )
