"""Markdown for people: an issue, a pull request, a wiki. Headings, tables, escaped names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code, prose
from kscope.reports.markdown import job as of_job
from kscope.reports.markdown import joined as program
from kscope.reports.markdown import kernel as one_kernel
from kscope.reports.markdown import timeline as recording
from kscope.reports.markdown.tables import bullets, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import Analysis, KernelAnalysis
    from kscope.reports import Options

_TOOL = {"ncu": "Nsight Compute", "nsys": "Nsight Systems"}


def render(analysis: Analysis, options: Options) -> str:
    """The report, ending in a newline. `options.verbose` adds what passed and what could not be checked."""
    kernels = words.by_time(analysis.kernels)
    read = ", ".join(code(i.path) + (f" ({_TOOL.get(i.kind, '')} {code(i.tool_version)})" if i.tool_version else "")
                     for i in analysis.inputs)  # fmt: skip
    parts = ["# kscope report", f"kscope {prose(analysis.kscope)}, from {read or 'no input'}."]
    for joined in analysis.joined:
        parts += program.sections(joined)
    if len(kernels) > 1:
        parts += ["## Kernels by time", _overview(kernels)]
    for kernel in kernels:
        parts += one_kernel.sections(kernel, verbose=options.verbose)
    for job in analysis.jobs:
        parts += of_job.sections(job)
    for timeline in analysis.timelines:
        parts += recording.sections(timeline, verbose=options.verbose)
    if not kernels and not analysis.timelines:
        parts.append("No kernels to show.")
    if analysis.skipped:
        parts += ["## Skipped", bullets(f"{code(s.input)}: {code(s.what)}: {code(s.message)}"
                                         for s in analysis.skipped)]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


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
            code(words.shorten(one_kernel.name_of(kernel), 60), table=True) + many,
            kernel.verdict.regime, words.limiter(kernel.verdict.limiter),
            words.headroom(kernel.headroom) if kernel.headroom else "",
            f"{first.code} {prose(first.rule)}{gain}" if first else "",
        ])  # fmt: skip
    return table(["share", "time", "kernel", "regime", "limiter", "up to", "first suggestion"], rows, right=(0, 1, 5))
