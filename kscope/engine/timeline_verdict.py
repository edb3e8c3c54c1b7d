"""The regime of a whole program, or the reason why the recording does not tell."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.engine import empty
from kscope.features.timeline.facts import TimelineView
from kscope.model.analysis import Limiter, Verdict
from kscope.model.timeline_figures import TopKernel
from kscope.model.units import counted, percent
from kscope.rules.timeline_base import UNTIED

BUSY = 0.7
"""Share of the window in kernels from which on the kernels are what to look at."""
KNOWN = 0.5  # of the kernels' time must have a kind that their names tell
GUESSED = 0.05  # share of the kernels' time whose kind is a guess, from which on the sentence says so
TOLD = 0.02  # share of the window that recording must have cost to be worth a word
BLIND = 0.5  # share of the launches without their operation, from which on the GPU's side is unknown
OPAQUE = 0.1  # share of the window in graphs that were not recorded, from which on idle time is unknown

GROUPS: dict[Limiter, tuple[str, ...]] = {
    "launch": ("launch", "graph_launch"),
    "host": ("host", "data_loading", "allocation", "code_loading", "start_up"),
    "synchronization": ("synchronization",),
    "transfer": ("blocking_copy",),
}
WORDS = {
    "launch": "launches: the host issues them more slowly than the GPU finishes",
    "host": "the host: it does other work while the GPU has nothing to do",
    "synchronization": "synchronisation: the host waits for the GPU and the GPU then for the host",
    "transfer": "copies that run without a kernel beside them",
    "communication": "communication: ranks send and wait for one another while no other kernel runs",
}

ANOTHER = {
    "launch": "waiting for launches", "host": "other host work", "synchronization": "synchronisation",
    "transfer": "copying", "communication": "communication with no other kernel beside it",
}  # fmt: skip


def decide(view: TimelineView) -> tuple[Verdict | None, str]:
    """(verdict, "") or (None, why the recording does not tell)."""
    facts = view.facts
    if not len(view.timeline.ops):
        return None, empty.why(view.timeline)
    if not view.kernels and not view.timeline.coverage.graph_rows and not view.copies:
        return None, "the window holds neither kernels nor copies"
    lost = view.share("graph_not_recorded")
    if lost > OPAQUE:
        return None, (
            f"CUDA graphs ran whose kernels were not recorded ({percent(lost)} of the window): record with "
            "--cuda-graph-trace=node, or a torch profiler that traces graph kernels"
        )
    hidden = view.unseen
    if hidden.lost + hidden.captured > BLIND * max(hidden.launches, 1):
        if hidden.captured > hidden.lost:
            return None, (
                f"{hidden.captured:,} of {hidden.launches:,} launches only recorded a CUDA graph and ran nothing: "
                "record the steps that replay it"
            )
        return None, (
            f"{hidden.lost:,} of {hidden.launches:,} launches have no GPU operation in the recording: what the GPU did "
            "is mostly unknown; record with one profiler at a time, for a shorter time"
        )
    if view.operations < view.LEAST and facts.work_share < BUSY:
        return None, (
            f"the window holds {counted(view.operations, 'GPU operation')}: too few to tell what recurs; record more "
            "of the program's steady state"
        )
    shares: dict[Limiter, float] = {limiter: view.share(*causes) for limiter, causes in GROUPS.items()}
    shares["transfer"] += view.causes.copying
    shares["communication"] = view.exposed_share
    cost = view.recorded_launch
    if view.computing / (1 - cost) >= BUSY:
        graphs = view.timeline.coverage.graph_rows > 0
        return busy(view.kernels, view.computing, facts.window[2], cost, graphs=graphs)
    untold = view.share("queued", "unknown")
    if untold > max(shares.values()):
        why = "operations that were issued waited for others (streams, devices, events)"
        if facts.missing_launches > UNTIED:
            why = f"{percent(facts.missing_launches)} of the operations have no API call in the recording"
        idle = percent(1 - facts.busy_share)
        return None, f"the GPU is idle {idle} of the time, and the recording does not say why: {why}"
    doubtful = facts.missing_launches > UNTIED or bool(view.timeline.coverage.truncated)
    return starved(shares, view.computing, facts.window[2], cost, trust=0.8 if doubtful else 1.0), ""


def starved(
    shares: dict[Limiter, float], computing: float, window: str, cost: float, *, trust: float = 1.0
) -> Verdict:
    """The verdict where kernels are not the limit: the largest of these shares of the window is. cost: of the share of
    launches what recording took, which does not count. trust: factor (0..1) of the confidence."""
    shares = shares | {"launch": shares["launch"] - cost}
    main, second = sorted(shares, key=lambda limiter: -shares[limiter])[:2]
    other = shares[second]
    sure = 0.55 + 0.35 * min((shares[main] - other) / max(shares[main], 1e-9), 1.0)
    also = f"; {ANOTHER[second]} takes another {percent(other)}" if other >= 0.1 else ""
    beside = f", and another {percent(cost)} what recording cost" if main == "launch" and cost >= TOLD else ""
    sentence = (
        f"OVERHEAD-BOUND on {WORDS[main]}. That is {percent(shares[main])} of the time{beside}; kernels run "
        f"{percent(computing)} of it ({window}){also}."
    )
    return Verdict(regime="overhead", limiter=main, confidence=round(sure * trust, 2), sentence=sentence)


def busy(
    kernels: Sequence[TopKernel], computing: float, window: str, cost: float = 0.0, *, graphs: bool = False
) -> tuple[Verdict | None, str]:
    """The GPU is busy: which kernels, and what their names say of them. computing: share of the window; cost: that of
    launches that recording made late. graphs: whether some kernels were recorded as one row a graph."""
    without = f", {percent(computing / (1 - cost))} without what recording cost" if cost >= TOLD else ""
    said = f"kernels run {percent(computing)} of the time ({window}{without})"
    if not kernels:
        rows = said.removeprefix("kernels ")
        return None, f"CUDA graphs recorded as one row each {rows}; their kernels are not there"
    by_kind: dict[str, float] = {}
    for kernel in kernels:
        if kernel.kind != "communication":
            by_kind[kernel.kind] = by_kind.get(kernel.kind, 0.0) + kernel.share
    whole = max(sum(by_kind.values()), 1e-9)
    main = max(("compute", "memory"), key=lambda kind: by_kind.get(kind, 0.0))
    if 1 - by_kind.get("unknown", 0.0) / whole < KNOWN:
        return None, (
            f"{said}, so the kernels are the limit; their names do not tell what binds them: profile the first of the "
            "table with ncu --set full"
        )
    share = by_kind[main] / whole
    guessed = sum(k.share for k in kernels if k.kind == main and k.kind_said_by != "name") / whole
    sure = round(min(0.3 + 0.4 * share, 0.7), 2)
    tail = f"{f'{percent(guessed)} a guess, ' if guessed >= GUESSED else ''}judged by their names: ncu --set full on"
    tail += " the first of the table confirms it"
    if main == "memory":
        text = f"MEMORY-BOUND, so far as names tell: {said}, {percent(share)} of that moves data, {tail}."
        return Verdict(regime="memory", limiter="dram_bandwidth", confidence=sure, sentence=text), ""
    text = f"COMPUTE-BOUND, so far as names tell: {said}, {percent(share)} of that in matrix kernels, {tail}."
    limiter: Limiter = "fp32_pipe" if _single(kernels) else "tensor_pipe"
    return Verdict(regime="compute", limiter=limiter, confidence=sure, sentence=text), ""


def _single(kernels: Sequence[TopKernel]) -> bool:
    """Whether the longest matrix kernel is one of single precision outside the tensor cores, by its name."""
    name = next(k.name for k in kernels if k.kind == "compute").lower()
    return ("sgemm" in name or "_f32f32" in name or "ffma" in name) and "tensorop" not in name and "tf32" not in name
