"""The regime of a whole program, or the reason why the recording does not tell."""

from __future__ import annotations

from kscope.engine import empty
from kscope.features.timeline.facts import TimelineView
from kscope.model.analysis import Limiter, Verdict
from kscope.model.units import counted, percent
from kscope.rules.timeline_base import UNTIED

BUSY = 0.7
"""Share of the window in kernels from which on the kernels are what to look at."""
KNOWN = 0.5  # of the kernels' time must have a kind that their names tell
OPAQUE = 0.1  # share of the window in graphs that were not recorded, from which on idle time is unknown

GROUPS: dict[Limiter, tuple[str, ...]] = {
    "launch": ("launch", "graph_launch"),
    "host": ("host", "data_loading", "allocation", "code_loading"),
    "synchronization": ("synchronization",),
    "transfer": ("blocking_copy",),
}
WORDS = {
    "launch": "launches: the host issues them more slowly than the GPU finishes",
    "host": "the host: it does other work while the GPU has nothing to do",
    "synchronization": "synchronisation: the host waits for the GPU and the GPU then for the host",
    "transfer": "copies that run without a kernel beside them",
}

ANOTHER = {
    "launch": "waiting for launches", "host": "other host work", "synchronization": "synchronisation",
    "transfer": "copying",
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
    if view.operations < view.LEAST and facts.work_share < BUSY:
        return None, (
            f"the window holds {counted(view.operations, 'GPU operation')}: too few to tell what recurs; record more "
            "of the program's steady state"
        )
    if view.causes.work >= BUSY:
        return _busy(view)
    shares = {limiter: view.share(*causes) for limiter, causes in GROUPS.items()}
    shares["transfer"] += view.causes.copying
    untold = view.share("queued", "unknown")
    main = max(shares, key=lambda limiter: shares[limiter])
    if untold > shares[main]:
        why = "operations that were issued waited for others (streams, devices, events)"
        if facts.missing_launches > UNTIED:
            why = f"{percent(facts.missing_launches)} of the operations have no API call in the recording"
        idle = percent(1 - facts.busy_share)
        return None, f"the GPU is idle {idle} of the time, and the recording does not say why: {why}"
    other = max((share for limiter, share in shares.items() if limiter != main), default=0.0)
    sure = 0.55 + 0.35 * min((shares[main] - other) / max(shares[main], 1e-9), 1.0)
    sure *= 0.8 if facts.missing_launches > UNTIED or view.timeline.coverage.truncated else 1.0
    second = max((limiter for limiter in shares if limiter != main), key=lambda limiter: shares[limiter])
    also = f"; {ANOTHER[second]} takes another {percent(other)}" if other >= 0.1 else ""
    sentence = (
        f"OVERHEAD-BOUND on {WORDS[main]}. That is {percent(shares[main])} of the time; kernels run "
        f"{percent(view.causes.work)} of it ({facts.window[2]}){also}."
    )
    return Verdict(regime="overhead", limiter=main, confidence=round(sure, 2), sentence=sentence), ""


def _busy(view: TimelineView) -> tuple[Verdict | None, str]:
    """The GPU is busy: which kernels, and what their names say of them."""
    busy = f"kernels run {percent(view.causes.work)} of the time ({view.facts.window[2]})"
    if not view.kernels:
        rows = busy.removeprefix("kernels ")
        return None, f"CUDA graphs recorded as one row each {rows}; their kernels are not there"
    by_kind: dict[str, float] = {}
    for kernel in view.kernels:
        by_kind[kernel.kind] = by_kind.get(kernel.kind, 0.0) + kernel.share
    main = max(("compute", "memory", "communication"), key=lambda kind: by_kind.get(kind, 0.0))
    told = 1 - by_kind.get("unknown", 0.0)
    if told < KNOWN:
        return None, (
            f"{busy}, so the kernels are the limit; their names do not tell what binds them: profile the first of the "
            "table with ncu --set full"
        )
    share = by_kind[main]
    sure = round(min(0.3 + 0.4 * share, 0.7), 2)
    tail = "judged by their names: ncu --set full on the first of the table confirms it"
    if main == "communication":
        text = f"OVERHEAD-BOUND on communication: {busy}, {percent(share)} of that in collectives, {tail}."
        return Verdict(regime="overhead", limiter="transfer", confidence=sure, sentence=text), ""
    if main == "memory":
        text = f"MEMORY-BOUND, so far as names tell: {busy}, {percent(share)} of that moves data, {tail}."
        return Verdict(regime="memory", limiter="dram_bandwidth", confidence=sure, sentence=text), ""
    text = f"COMPUTE-BOUND, so far as names tell: {busy}, {percent(share)} of that in matrix kernels, {tail}."
    limiter: Limiter = "fp32_pipe" if _single(view) else "tensor_pipe"
    return Verdict(regime="compute", limiter=limiter, confidence=sure, sentence=text), ""


def _single(view: TimelineView) -> bool:
    """Whether the longest matrix kernel is one of single precision outside the tensor cores, by its name."""
    name = next(k.name for k in view.kernels if k.kind == "compute").lower()
    return ("sgemm" in name or "_f32f32" in name or "ffma" in name) and "tensorop" not in name and "tf32" not in name
