"""The regime of a whole program, or the reason why the recording does not tell."""

from __future__ import annotations

from kscope.engine import empty, sentences
from kscope.features.timeline.facts import TimelineView
from kscope.model.analysis import Limiter, Regime, Verdict
from kscope.model.limiters import LIMITERS
from kscope.model.units import percent
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
    also = f"; {LIMITERS[second].beside} takes another {percent(other)}" if other >= 0.1 else ""
    words = LIMITERS[main]
    that_is = f"That is {percent(shares[main])} of the time"
    return sentences.verdict(
        "overhead", main, sure, bound=f"on {words.alone or words.program}",
        reason=f"{words.why}. {that_is}" if words.why else that_is,
        contrast=f"kernels run {percent(view.causes.work)} of it ({facts.window[2]}){also}", program=True,
    ), ""  # fmt: skip


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
    sure = min(0.3 + 0.4 * share, 0.7)
    tail = "judged by their names: ncu --set full on the first of the table confirms it"
    if main == "communication":
        what = f"{busy}, {percent(share)} of that in collectives, {tail}"
        return sentences.verdict("overhead", "transfer", sure, bound="on communication", reason=what, program=True), ""
    limiter: Limiter = "dram_bandwidth" if main == "memory" else "fp32_pipe" if _single(view) else "tensor_pipe"
    regime: Regime = "memory" if main == "memory" else "compute"
    does = "moves data" if main == "memory" else "in matrix kernels"
    what = f"{busy}, {percent(share)} of that {does}, {tail}"
    return sentences.verdict(regime, limiter, sure, bound="so far as names tell", reason=what, program=True), ""


def _single(view: TimelineView) -> bool:
    """Whether the longest matrix kernel is one of single precision outside the tensor cores, by its name."""
    name = next(k.name for k in view.kernels if k.kind == "compute").lower()
    return ("sgemm" in name or "_f32f32" in name or "ffma" in name) and "tensorop" not in name and "tf32" not in name
