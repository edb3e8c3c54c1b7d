"""Markdown for people: an issue, a pull request, a wiki. Headings, tables, escaped names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.escape import code, fence, prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kscope.model.analysis import Analysis, Finding, JobAnalysis, KernelAnalysis, TimelineAnalysis
    from kscope.reports import Options

PLACES_SHOWN = 4
HOT_SHOWN = 8
_TOOL = {"ncu": "Nsight Compute", "nsys": "Nsight Systems"}


def render(analysis: Analysis, options: Options) -> str:
    """The report, ending in a newline. `options.verbose` adds what passed and what could not be checked."""
    kernels = words.by_time(analysis.kernels)
    read = ", ".join(code(i.path) + (f" ({_TOOL.get(i.kind, '')} {code(i.tool_version)})" if i.tool_version else "")
                     for i in analysis.inputs)  # fmt: skip
    parts = ["# kscope report", f"kscope {prose(analysis.kscope)}, from {read or 'no input'}."]
    for joined in analysis.joined:
        from kscope.reports import _joined

        parts += _joined.sections(joined)
    if len(kernels) > 1:
        parts += ["## Kernels by time", _overview(kernels)]
    for kernel in kernels:
        parts += _kernel(kernel, verbose=options.verbose)
    for job in analysis.jobs:
        from kscope.reports._job import sections as of_job

        parts += of_job(job)
    for timeline in analysis.timelines:
        from kscope.reports._timeline_md import sections

        parts += sections(timeline, verbose=options.verbose)
    if not kernels and not analysis.timelines:
        parts.append("No kernels to show.")
    if analysis.skipped:
        parts += ["## Skipped", bullets(f"{code(s.input)}: {code(s.what)}: {code(s.message)}"
                                         for s in analysis.skipped)]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    lines = [head, ["---:" if i in right else "---" for i in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _overview(kernels: Sequence[KernelAnalysis]) -> str:
    whole = sum(words.total_us(k) for k in kernels)
    rows = []
    for kernel in kernels:
        first = next((f for f in kernel.findings if f.severity != "info"), None)
        gain = f" {words.times(first.estimate.speedup)}" if first and first.estimate else ""
        many = f" x{kernel.repeats.count}" if kernel.repeats and kernel.repeats.count > 1 else ""
        rows.append([
            words.percent(words.total_us(kernel) / whole) if whole else "",
            words.time(words.total_us(kernel)) if kernel.duration_us else "",
            code(words.shorten(_name(kernel), 60), table=True) + many,
            kernel.verdict.regime, words.limiter(kernel.verdict.limiter),
            words.headroom(kernel.headroom) if kernel.headroom else "",
            f"{first.code} {prose(first.rule)}{gain}" if first else "",
        ])  # fmt: skip
    return table(["share", "time", "kernel", "regime", "limiter", "up to", "first suggestion"], rows, right=(0, 1, 5))


def _name(kernel: KernelAnalysis) -> str:
    return one_line(kernel.demangled or kernel.name) or "(unnamed kernel)"


def _kernel(kernel: KernelAnalysis, *, verbose: bool) -> list[str]:
    word, sentence = words.badge(kernel)
    name = _name(kernel)
    short = words.shorten(name, 80)
    about = f"{words.time(kernel.duration_us)} on {code(words.device(kernel))}, {words.launch(kernel)}"
    if many := words.repeats(kernel):
        about += f"; {many}"
    parts = [f"## {code(short)}", f"**{prose(word)}** {prose(sentence)}", f"{about}."]
    if "..." in short:
        parts.append(f"Full name: {code(name)}")
    if kernel.nvtx:
        parts.append(f"NVTX: {code(' / '.join(kernel.nvtx))}")
    if kernel.workload != "kernel":
        parts.append(f"Profiled as one {code(kernel.workload)}, not as single kernels.")
    if kernel.warp_specialization is not None:
        from kscope.reports._pipeline import markdown as pipeline

        parts += pipeline(kernel)
    parts += [*_proof(kernel), *suggestions(kernel), *_rest(kernel, verbose=verbose)]
    return parts


def _proof(kernel: KernelAnalysis) -> list[str]:
    parts = []
    if kernel.utilization:
        rows = [[prose(u.unit), f"{u.pct:.0f} %", code(u.metric, table=True)]
                for u in sorted(kernel.utilization, key=lambda u: -u.pct)]  # fmt: skip
        parts += ["### How busy", table(["unit", "of peak", "metric"], rows, right=(1,))]
    if roof := kernel.roofline:
        text = f"Roofline: {roof.pct_of_roof:.0f} % of the roof; {prose(words.rates(roof))}"
        if roof.intensity is not None and roof.ridge is not None:
            text += f", {roof.intensity:.3g} FLOP/B against a ridge of {roof.ridge:.3g}"
        parts.append(text + ".")
    if kernel.stalls:
        rows = [[prose(words.reason(s.reason)), words.percent(s.share_raw), words.percent(s.share_adjusted)]
                for s in sorted(kernel.stalls, key=lambda s: -s.share_adjusted)]  # fmt: skip
        parts += ["### What warps wait for", table(["wait", "raw", "adjusted"], rows, right=(1, 2))]
    if kernel.hot:
        lines = []
        for hot in kernel.hot[:HOT_SHOWN]:
            at = f"  // {words.basename(hot.file or '')}:{hot.line}  {hot.source or ''}" if hot.line else ""
            stall = hot.stall.replace("_", " ")
            lines.append(f"{words.percent(hot.share):>5}  {hot.pc:06x}  {hot.sass:40} {stall}{at}")
        parts += ["### Hottest instructions", fence(lines)]
    return parts


def suggestions(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis) -> list[str]:
    ranked = [f for f in kernel.findings if f.severity != "info"]
    info = [f for f in kernel.findings if f.severity == "info"]
    parts = ["### Suggestions"]
    for rank, finding in enumerate(ranked, 1):
        parts += _suggestion(rank, finding)
    if not ranked:
        parts.append(f"None: {words.nothing(kernel)}.")
    if info:
        listed = ", ".join(f"{prose(f.rule)} ({f.code})" for f in info)
        parts.append(f"Minor or for information: {listed}.")
    return parts


def _suggestion(rank: int, finding: Finding) -> list[str]:
    head = f"#### {rank}. {prose(finding.title)} ({finding.code} {prose(finding.rule)})"
    weight = f"{finding.severity}, confidence {words.percent(finding.confidence)}"
    parts = [head, f"**{prose(words.expectation(finding.estimate))}**, {weight}.", prose(finding.why)]
    items = [f"{code(words.evidence(e))}{' ' + prose(e.note) if e.note else ''}" for e in finding.evidence]
    for place in finding.locations[:PLACES_SHOWN]:
        share = f", {words.percent(place.share)} of samples" if place.share is not None else ""
        source = f": {code(place.source)}" if place.source else ""
        items.append(f"{code(words.place(place))} {code(place.sass or place.opcode)}{share}{source}")
    if more := len(finding.locations) - PLACES_SHOWN:
        items += [f"{more} more places"] if more > 0 else []
    parts.append(bullets(items))
    if finding.overlaps:
        parts.append(f"Explains the same samples as {', '.join(finding.overlaps)}: the gains do not add.")
    if finding.fix:
        parts.append(f"**Fix:** {prose(finding.fix)}")
    return parts


def _rest(kernel: KernelAnalysis, *, verbose: bool) -> list[str]:
    parts = [f"Rules passed: {len(kernel.passed)}, not applicable: {len(kernel.not_applicable)}."]
    if verbose:
        parts.append(f"Passed: {', '.join(kernel.passed)}." if kernel.passed else "")
        parts.append(bullets(f"{n.code} not applicable: {prose(n.why)}" for n in kernel.not_applicable))
    parts.append(bullets(f"{e.code} failed: {code(e.message)}" for e in kernel.errors))
    if kernel.nvidia:
        rows = [[code(n.rule, table=True), code(n.title, table=True),
                 f"{n.speedup_pct:.0f} %" if n.speedup_pct is not None else ""]
                for n in sorted(kernel.nvidia, key=lambda n: -(n.speedup_pct or 0.0))]  # fmt: skip
        parts += ["### NVIDIA's own rules", table(["rule", "title", "their estimate"], rows, right=(2,))]
    parts.append(bullets(f"Note: {prose(note)}" for note in kernel.notes))
    return parts
