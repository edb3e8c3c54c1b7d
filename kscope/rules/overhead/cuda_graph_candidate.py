"""A sequence of launches repeats unchanged: it can be replayed as a CUDA graph.

## What it does

Cuts the launches of each thread at steps, synchronisations, allocations and pageable copies, finds the sequences that
occur again with the same operations and grids, and computes how long a replay would take.

## Why it costs time

Every repetition pays the framework and the driver again for decisions that were taken the first time. A graph is
launched by one call; its nodes follow one another within half a microsecond.

## Evidence

The sequence's length and repetitions, the time that one takes now (without what recording it cost), and as a graph: its
operations' own time plus 0.3 us a node.

## Fix

Capture the sequence once and replay it: torch.compile(mode="reduce-overhead"), torch.cuda.graph, or
cudaStreamBeginCapture. Inputs go into the same buffers each time.

Before:

    for batch in batches: model(batch)

After:

    with torch.cuda.graph(graph): out = model(buffer)      # once, after a warm-up
    for batch in batches: buffer.copy_(batch); graph.replay()

## When it is wrong

Sequences whose shapes, pointers or host decisions change cannot be replayed, which a trace shows only in names and
grids. Work between the launches that the host really needs stays. The 0.3 us a node are of an H200 with CUDA 13: of
older drivers and devices they are up to four times that.

## Source

CUDA C++ Programming Guide, CUDA Graphs. Replay time measured on an H200 on programs of 100 to 528 launches: the
saving predicted from the eager trace is 0.9 to 1.21 of the measured one on five programs that the constants come from,
and 1.26 and 0.68 of it on two others (fixtures/traces: rnn, mlp_train).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Outcome
from kscope.rules.timeline_base import TimelineRule, derived, gain, quoted

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.05
SLOW_NODES = 4  # how much longer a node may take on older drivers


class CudaGraphCandidate(TimelineRule):
    code = "OVH605"
    slug = "cuda-graph-candidate"
    title = "A repeated launch sequence could be a CUDA graph"

    def check(self, view: TimelineView) -> Outcome:
        from kscope.features.timeline.gaps.launch_sequences import NODE_NS  # numpy behind it

        found = [s for s in view.sequences.found if s.saved_ns > 0]
        devices = max(len(view.facts.devices), 1)
        recording = sum(s.recording_ns for s in found) / 1e3 / devices
        whole = max(view.span_us - recording, 1e-3)
        saved = sum(s.saved_ns for s in found) / 1e3 / devices
        share = min(saved / whole, view.share("launch", "queued"))
        if share < FIRES:
            return PASSED
        best = found[0]
        nodes = sum(s.length * s.count for s in found)
        slow = max(share - (SLOW_NODES - 1) * NODE_NS / 1e3 * nodes / devices / whole, share / 2)
        now, then = (ns / best.count / 1e3 for ns in (best.wall_ns, best.graph_ns))
        repeat = "sequence repeats" if len(found) == 2 else "sequences repeat"
        more = f"; {len(found) - 1} more {repeat} as well" if len(found) > 1 else ""
        return self.finding(
            title=f"{best.length} launches repeat unchanged {best.count} times",
            why=(
                f"the sequence takes {now:,.0f} us a time and would take {then:,.0f} us as one graph{more}. "
                f"It starts with {quoted(best.first[0])}."
            ),
            fix='torch.compile(mode="reduce-overhead"), or torch.cuda.graph or cudaStreamBeginCapture around it',
            evidence=[
                derived("operations in the sequence", best.length, ""),
                derived("repetitions", best.count, ""),
                derived("time of one repetition", now, "us", "GPU timeline, without the cost of recording"),
                derived("time of one replay", then, "us", "its operations + 0.3 us a node"),
                derived("cost of recording", recording, "us", "0.55 us a call, 1.1 us an operator, in all sequences"),
            ],
            estimate=gain(share, slow, min(share * 1.15, view.share("launch", "queued")), "the operations' own time"),
            confidence=0.75,
        )
