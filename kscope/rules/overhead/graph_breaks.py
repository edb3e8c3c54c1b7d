"""A step runs in several compiled graphs, and the GPU waits between them.

## What it does

Counts the compiled graphs that the program's thread runs in a step, and adds up the GPU's idle time between two of one
step.

## Why it costs time

At a graph break torch.compile leaves the compiled code, runs Python, checks guards and enters the next graph. Nothing
is fused across it, the queue runs dry, and mode="reduce-overhead" gets a CUDA graph for each piece only. A break that
reads a value of the GPU (.item(), a branch on a tensor) waits for the whole queue as well.

## Evidence

Compiled graphs a step, the frames that they belong to, idle time between them.

## Fix

TORCH_LOGS=graph_breaks names the lines, fullgraph=True makes them errors. Keep values on the GPU (torch.where instead
of if), move printing and .item() behind the step, compile the outermost module instead of its parts.

Before:

    y = block(x)
    if y.sum().item() > limit: y = y / 2          # breaks the graph, and waits for the GPU

After:

    y = block(x)
    y = torch.where(y.sum() > limit, y / 2, y)

## When it is wrong

Modules that are compiled one by one show the same way: a trace does not tell a break from the end of a compiled
function. Where the queue is full between two graphs, a break costs little.

## Source

PyTorch documentation, torch.compile: graph breaks, fullgraph, TORCH_LOGS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Missing, Outcome, counted, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.02


class GraphBreaks(TimelineRule):
    code = "OVH608"
    slug = "graph-breaks"
    title = "A step runs in several compiled graphs"

    def check(self, view: TimelineView) -> Outcome:
        compiled = view.compiled
        if compiled is None:
            return Missing("the recording shows nothing of torch.compile")
        share = view.idle_within(compiled.between)
        if compiled.pieces < 2 or share < FIRES:
            return PASSED
        frames = sorted(compiled.regions)
        return self.finding(
            title=f"A step runs in {compiled.pieces:.0f} compiled graphs; between them the GPU is idle",
            why=(
                f"{compiled.pieces:.0f} compiled graphs of {counted(len(frames), 'region')} ({', '.join(frames[:5])}) "
                f"run in each step: graph breaks, or parts compiled one by one. Between them the GPU is idle "
                f"{percent(share)} of the time."
            ),
            fix="TORCH_LOGS=graph_breaks names the lines; keep values on the GPU, compile the outermost module",
            evidence=[
                derived("compiled graphs a step", compiled.pieces, ""),
                derived("compiled regions", len(frames), "", ", ".join(frames[:8])),
                derived("idle between them", share, "", "gaps between GPU operations / window"),
            ],
            estimate=gain(share * 0.75, share / 3, share, "the graphs' own time"),
            confidence=0.7,
        )
