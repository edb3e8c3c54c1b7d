"""What each warp state and each cause of idle time means, in a few words. Source: NVIDIA Kernel Profiling Guide, warp
stall reasons; the wait for wgmma results under `barrier` and `warpgroup_arrive` as seen on sm_90."""

from __future__ import annotations

REASONS = {
    "barrier": "waits at a block barrier, or for wgmma results",
    "branch_resolving": "waits for a branch target",
    "dispatch_stall": "the dispatcher holds the instruction back",
    "drain": "waits at its end until its stores are accepted",
    "gmma": "waits to start or finish wgmma",
    "imc_miss": "waits for a constant that the cache missed",
    "lg_throttle": "the queue of global and local accesses is full",
    "long_scoreboard": "waits for a result of global, local or texture memory",
    "math_pipe_throttle": "the math pipe it needs is busy",
    "membar": "waits at a memory fence",
    "mio_throttle": "the queue of shared memory, special functions and branches is full",
    "misc": "waits for something else",
    "no_instructions": "waits for instructions to be fetched",
    "not_selected": "could issue, another warp was chosen",
    "selected": "issues",
    "short_scoreboard": "waits for a result of shared memory or a special function",
    "sleeping": "sleeps by its own wish (nanosleep)",
    "tex_throttle": "the texture queue is full",
    "wait": "waits for a fixed latency, a few cycles",
    "warpgroup_arrive": "waits to start or finish wgmma",
}
"""Reason in JSON v1 -> what people read."""

NOT_IDLE = {
    "inside_graph": "between the nodes of a graph",
    "graph_not_recorded": "in graphs that were not recorded",
    "profiler": "in the profiler",
    "one_off": "once, not in the steady state",
}
CAUSES = {
    "launch": "waiting for launches",
    "graph_launch": "waiting for a graph launch",
    "synchronization": "after a synchronisation",
    "blocking_copy": "host prepares a copy",
    "host": "host code without CUDA calls",
    "data_loading": "data loading",
    "allocation": "allocating memory",
    "code_loading": "loading or compiling code",
    "start_up": "making streams, events, pools",
    "queued": "issued, waiting its turn",
    "unknown": "unknown: no API call",
    **NOT_IDLE,
}
"""Cause in JSON v1 -> what people read."""
