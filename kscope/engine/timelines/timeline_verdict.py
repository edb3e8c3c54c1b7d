"""The regime of a whole program, or the reason why the recording does not tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscope.arch.vendors import vendor
from kscope.engine.timelines import empty
from kscope.engine.verdict import sentences
from kscope.features.timeline.facts import BUSY, TimelineView
from kscope.features.timeline.operations.steady import TIMES
from kscope.model.contract.analysis import Limiter, Regime, Verdict
from kscope.model.contract.limiters import LIMITERS
from kscope.model.contract.timeline_figures import TopKernel
from kscope.model.units import counted, percent
from kscope.rules.timeline_base import UNTIED

KNOWN = 0.5  # of the kernels' time must have a kind that their names tell
GUESSED = 0.05  # share of the kernels' time whose kind is a guess, from which on the sentence says so
TOLD = 0.02  # share of the window that recording must have cost to be worth a word
OPAQUE = 0.1  # share of the window in graphs that were not recorded, from which on idle time is unknown; or between
# the nodes of those that were, from which on it is told

GROUPS: dict[Limiter, tuple[str, ...]] = {
    "launch": ("launch", "graph_launch"),
    "host": ("host", "data_loading", "allocation", "code_loading", "start_up"),
    "synchronization": ("synchronization",),
    "transfer": ("blocking_copy",),
}


def decide(view: TimelineView) -> tuple[Verdict | None, str]:
    """(verdict, "") or (None, why the recording does not tell)."""
    facts = view.facts
    if why := _untold(view):
        return None, why
    shares: dict[Limiter, float] = {limiter: view.share(*causes) for limiter, causes in GROUPS.items()}
    shares["transfer"] += view.causes.copying
    shares["communication"] = view.exposed_share
    cost = view.recorded_launch
    if view.computing / (1 - cost) >= BUSY:
        graphs = view.timeline.coverage.graph_rows > 0
        names = view.timeline.devices.values()
        inside = view.share("inside_graph")
        return busy(view.kernels, view.computing, facts.window[2], cost, devices=names, graphs=graphs, inside=inside)
    if view.one_pass:
        return None, (
            f"none of the {counted(view.operations, 'GPU operation')} ran {TIMES} times: the recording is of one pass, "
            "which does not tell what recurs; record several steps"
        )
    untold = view.share("queued", "unknown")
    if untold > max(shares.values()):
        why = "operations that were issued waited for others (streams, devices, events)"
        if facts.missing_launches > UNTIED:
            why = f"{percent(facts.missing_launches)} of the operations have no API call in the recording"
        idle = percent(1 - facts.busy_share)
        return None, f"the GPU is idle {idle} of the time, and the recording does not say why: {why}"
    doubtful = facts.missing_launches > UNTIED or bool(view.timeline.coverage.truncated)
    return starved(shares, view.computing, facts.window[2], cost, trust=0.8 if doubtful else 1.0), ""


def _untold(view: TimelineView) -> str:
    """Why the recording holds too little to tell anything; "" where it does not."""
    facts = view.facts
    if not len(view.timeline.ops):
        return empty.why(view.timeline)
    if not view.kernels and not view.timeline.coverage.graph_rows and not view.copies:
        return "the window holds neither kernels nor copies"
    lost = view.share("graph_not_recorded")
    if lost > OPAQUE:
        return (
            f"CUDA graphs ran whose kernels were not recorded ({percent(lost)} of the window): record with "
            "--cuda-graph-trace=node, or a torch profiler that traces graph kernels"
        )
    hidden = view.unseen
    if hidden.most:
        if hidden.captured > hidden.lost + hidden.pending:
            return (
                f"{hidden.captured:,} of {hidden.launches:,} launches only recorded a CUDA graph and ran nothing: "
                "record the steps that replay it"
            )
        return (
            f"{hidden.all:,} of {hidden.launches:,} launches have no GPU operation in the recording: what the GPU did "
            "is mostly unknown; record with one profiler at a time, for a shorter time"
        )
    if view.operations == 1 and facts.steps is None:
        return (
            "the window holds one GPU operation, and begins and ends with it: what the program does around it is not "
            "in the recording; record more of the program's steady state"
        )
    if view.operations < view.LEAST and facts.work_share < BUSY:
        return (
            f"the window holds {counted(view.operations, 'GPU operation')}: too few to tell what recurs; record more "
            "of the program's steady state"
        )
    if view.mostly_once:
        return (
            f"{percent(view.once_share)} of the recording happened once (start-up, loading, first launches), and what "
            "is left shows no step that recurs: record the program's steps after it has warmed up"
        )
    return ""


def starved(shares: dict[Limiter, float], computing: float, window: str, cost: float, *, trust: float = 1.0) -> Verdict:
    """The verdict where kernels are not the limit: the largest of these shares of the window is. cost: of the share of
    launches what recording took, which does not count. trust: factor (0..1) of the confidence."""
    shares = shares | {"launch": shares["launch"] - cost}
    main, second = sorted(shares, key=lambda limiter: -shares[limiter])[:2]
    other = shares[second]
    sure = 0.55 + 0.35 * min((shares[main] - other) / max(shares[main], 1e-9), 1.0)
    also = f"; {LIMITERS[second].beside} takes another {percent(other)}" if other >= 0.1 else ""
    beside = f", and another {percent(cost)} what recording cost" if main == "launch" and cost >= TOLD else ""
    words = LIMITERS[main]
    that_is = f"That is {percent(shares[main])} of the time{beside}"
    return sentences.verdict(
        "overhead", main, sure * trust, bound=f"on {words.alone or words.program}",
        reason=f"{words.why}. {that_is}" if words.why else that_is,
        contrast=f"kernels run {percent(computing)} of it ({window}){also}", program=True,
    )  # fmt: skip


def busy(
    kernels: Sequence[TopKernel],
    computing: float,
    window: str,
    cost: float = 0.0,
    *,
    devices: Iterable[str] = (),
    graphs: bool = False,
    inside: float = 0.0,
) -> tuple[Verdict | None, str]:
    """The GPU is busy: which kernels, and what their names say of them. computing: share of the window; cost: that of
    launches that recording made late. devices: their names. graphs: whether some kernels were recorded as one row a
    graph. inside: share of the window between the nodes of graphs, which counts as theirs."""
    counters = vendor(devices).counters
    without = f", {percent(computing / (1 - cost))} without what recording cost" if cost >= TOLD else ""
    without += f", {percent(inside)} of it between the nodes of graphs" if inside >= OPAQUE else ""
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
            f"table with {counters}"
        )
    share = by_kind[main] / whole
    guessed = sum(k.share for k in kernels if k.kind == main and k.kind_said_by != "name") / whole
    sure = min(0.3 + 0.4 * share, 0.7)
    tail = f"{f'{percent(guessed)} a guess, ' if guessed >= GUESSED else ''}judged by their names: {counters} on"
    tail += " the first of the table confirms it"
    limiter: Limiter = "dram_bandwidth" if main == "memory" else "fp32_pipe" if _single(kernels) else "tensor_pipe"
    regime: Regime = "memory" if main == "memory" else "compute"
    does = "moves data" if main == "memory" else "in matrix kernels"
    what = f"{said}, {percent(share)} of that {does}, {tail}"
    return sentences.verdict(regime, limiter, sure, bound="so far as names tell", reason=what, program=True), ""


def _single(kernels: Sequence[TopKernel]) -> bool:
    """Whether the longest matrix kernel is one of single precision outside the tensor cores, by its name."""
    name = next(k.name for k in kernels if k.kind == "compute").lower()
    return ("sgemm" in name or "_f32f32" in name or "ffma" in name) and "tensorop" not in name and "tf32" not in name
