"""The GPU is idle while the host does something else than launching.

## What it does

Adds up the gaps behind long stretches of host time without CUDA calls, data loading, allocations and the loading of
code, and names the range or operator that the host was in.

## Why it costs time

Nothing runs on the GPU. One slow stretch a step (a data loader, preprocessing, logging, cudaMalloc) costs as much as
thousands of bad launches, and does not show in any kernel.

## Evidence

Share of the window and time a step by cause, with the innermost range or operator of the host.

## Fix

Overlap or remove the stretch: loader workers with prefetch, preprocessing on the GPU or ahead of time, logging every
n-th step, a caching allocator; warm up before measuring where code is loaded on first use.

Before:

    loader = DataLoader(data, batch_size=64)                                   # loads between two steps

After:

    loader = DataLoader(data, batch_size=64, num_workers=8, pin_memory=True, prefetch_factor=4)

## When it is wrong

A capture that includes start-up, evaluation or a deliberate wait shows these as idle: choose steady steps. A host
stretch is one of at least ten launch intervals (100 us to 1 ms); shorter ones count as launching (OVH601).

## Source

Definitions as in Nsight Systems' "GPU Gaps" expert rule; PyTorch performance tuning guide, data loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Outcome, counted, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain, quoted

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.03
WORDS = {
    "host": "host code without a CUDA call",
    "data_loading": "data loading",
    "allocation": "allocating or registering memory",
    "code_loading": "loading or compiling code",
    "start_up": "making contexts, streams, events or pools",
}
FIXES = {
    "host": "move that work off the step's path: ahead of time, to another thread or process, or to the GPU",
    "data_loading": "load ahead: more loader workers, prefetch, pinned memory, decoding on the GPU",
    "allocation": "allocate once: a caching or pool allocator (cudaMallocAsync), buffers reused across steps",
    "code_loading": "warm up before the steps that count; CUDA_MODULE_LOADING=EAGER moves it to the start",
    "start_up": "make streams, events, pools and communicators once, before the steps",
}
POOL = "keep what the pool frees (cudaMemPoolAttrReleaseThreshold, 0 by default), buffers reused across steps"
"""Instead of a pool, where the calls are a pool's already. CUDA Programming Guide, Stream Ordered Memory Allocator."""


class GpuIdle(TimelineRule):
    code = "OVH602"
    slug = "gpu-idle"
    title = "The GPU is idle while the host does other work"

    def check(self, view: TimelineView) -> Outcome:
        shares = {cause: view.share(cause) for cause in WORDS}
        # what torch.compile compiles again is OVH607's, and mended by other means
        shares["code_loading"] = max(shares["code_loading"] - view.recompiling, 0.0)
        total = sum(shares.values())
        if total < FIRES:
            return PASSED
        main = max(shares, key=lambda c: shares[c])
        places = view.causes.places(main)[:3]
        most = view.calls_named("alloc")[:1] if main == "allocation" else []
        calls = "".join(f", most in {count:,} calls of {quoted(name)}" for name, count, _ in most)
        doing = view.in_its_words(WORDS[main])
        where = f", under {', '.join(quoted(name) for name, _ in places)}" if places else ""
        return self.finding(
            title=f"The GPU is idle {percent(total)} of the time behind {doing}",
            why=(
                f"{view.a_step(shares[main] * view.span_us)} the host is in {doing}{calls}{where} while the GPU has "
                f"nothing to do ({counted(view.causes.gaps.count(main), 'gap')})."
            ),
            fix=POOL if any("Async" in name for name, _, _ in most) else FIXES[main],
            evidence=[
                derived(f"idle: {words}", shares[cause], "", "gaps between GPU operations / window")
                for cause, words in WORDS.items()
                if shares[cause] >= 0.001
            ],
            estimate=gain(total, shares[main] / 2, total, "the rest of the step"),
            confidence=0.75,
        )
