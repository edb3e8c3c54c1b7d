"""The limiters of the contract in words, once for every sentence, table and chart."""

from __future__ import annotations

from msgspec import Struct

from kscope.model.contract.findings import Limiter


class Words(Struct, frozen=True):
    """`short`: a label of at most 14 characters. `kernel`: what a kernel is bound on. Of what binds whole programs also
    `program` (what it is bound on), `alone` (the same where a timeline says more of it), `why`, `idle` (what the time
    is then spent on) and `beside` (the same as a second cause)."""

    short: str
    kernel: str = ""
    program: str = ""
    alone: str = ""
    why: str = ""
    idle: str = ""
    beside: str = ""


LIMITERS: dict[Limiter, Words] = {
    "dram_bandwidth": Words("DRAM bandwidth", "device-memory bandwidth"),
    "l2_bandwidth": Words("L2 bandwidth", "L2 bandwidth"),
    "l1_throughput": Words("L1 throughput", "L1 throughput"),
    "shared_memory": Words("shared memory", "shared memory"),
    "memory_latency": Words("memory latency", "memory latency"),
    "atomics": Words("atomics", "atomics"),
    "tensor_pipe": Words("tensor pipe", "the tensor pipe"),
    "fp32_pipe": Words("FP32 pipe", "the FP32 pipe"),
    "fp64_pipe": Words("FP64 pipe", "the FP64 pipe"),
    "integer_pipe": Words("integer pipe", "the integer pipe"),
    "special_function": Words("XU pipe", "special functions"),
    "instruction_issue": Words("instr. issue", "instruction issue"),
    "dependency_latency": Words("dependencies", "dependent instructions"),
    "instruction_fetch": Words("instr. fetch", "instruction fetch"),
    "divergence": Words("divergence", "divergent warps"),
    "launch": Words(
        "launch", "its own launch", program="launches", idle="launch gaps", beside="waiting for launches",
        why="the host issues them more slowly than the GPU finishes",
    ),
    "small_grid": Words("small grid", "a grid too small for the device"),
    "tail": Words("tail", "a partial last wave"),
    "imbalance": Words("imbalance", "uneven work across SMs"),
    "barrier": Words("barrier", "barriers"),
    "pipeline_fill": Words("pipeline fill", "filling and draining its pipeline"),
    "host": Words(
        "host", program="the host", idle="host work", beside="other host work",
        why="it does other work while the GPU has nothing to do",
    ),
    "synchronization": Words(
        "host sync", program="synchronisation", idle="waiting for the host after a synchronisation",
        beside="synchronisation", why="the host waits for the GPU and the GPU then for the host",
    ),
    "transfer": Words(
        "transfer", "the bus to the host", program="copies", alone="copies that run without a kernel beside them",
        idle="copies", beside="copying",
    ),
    "communication": Words(
        "communication", program="communication", idle="communication with no kernel beside it",
        beside="communication with no other kernel beside it",
        why="ranks send and wait for one another while no other kernel runs",
    ),
    "unknown": Words("unknown", "what was not collected"),
}  # fmt: skip

SHORT: dict[str, str] = {name: words.short for name, words in LIMITERS.items()}
"""Limiter -> label, for tables and charts."""


def of_kernel(limiter: Limiter) -> str:
    """What a kernel is bound on; the limiter's own name where it binds programs alone."""
    return LIMITERS[limiter].kernel or limiter
