"""One kernel in Markdown: its verdict, the proof, suggestions, what could not be checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import figure
from kscope.reports import next_step, words
from kscope.reports.escape import code, fence, prose
from kscope.reports.markdown import pipeline
from kscope.reports.markdown.suggestions import suggestions
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.phrases import hot as hottest

if TYPE_CHECKING:
    from kscope.model.contract.analysis import KernelAnalysis

HOT_SHOWN = 8


def name_of(kernel: KernelAnalysis) -> str:
    return one_line(kernel.demangled or kernel.name) or "(unnamed kernel)"


def sections(kernel: KernelAnalysis, *, verbose: bool) -> list[str]:
    word, sentence = words.badge(kernel.verdict)
    name = name_of(kernel)
    short = words.shorten(name, 80)
    about = f"{words.time(kernel.duration_us)} on {code(words.device(kernel))}, {words.launch(kernel)}"
    if many := words.repeats(kernel):
        about += f"; {many}"
    parts = [f"## {code(short)}", f"**{prose(word)}** {prose(sentence)}", f"{about}."]
    if "..." in short:
        parts.append(f"Full name: {code(name)}")
    if kernel.next_step:
        parts.append(f"**Next:** {prose(next_step.line(kernel.next_step))}.")
    if kernel.nvtx:
        parts.append(f"NVTX: {code(' / '.join(kernel.nvtx))}")
    if kernel.workload != "kernel":
        parts.append(f"Profiled as one {code(kernel.workload)}, not as single kernels.")
    if kernel.problem:
        parts += ["### The problem", bullets(prose(text) for text in words.problem(kernel.problem))]
    parts += pipeline.sections(kernel)
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
            text += f", {figure(roof.intensity)} FLOP/B against a ridge of {figure(roof.ridge)}"
        parts.append(text + ".")
    if kernel.stalls:
        rows = [[prose(words.reason(s.reason)), words.percent(s.share_raw), words.percent(s.share_adjusted)]
                for s in sorted(kernel.stalls, key=lambda s: -s.share_adjusted)]  # fmt: skip
        parts += ["### What warps wait for", table(["wait", "raw", "adjusted"], rows, right=(1, 2))]
    if kernel.hot:
        lines = []
        for hot in kernel.hot[:HOT_SHOWN]:
            at = f"  // {words.basename(hot.file or '')}:{hot.line}  {hot.source or ''}" if hot.line else ""
            lines.append(f"{words.percent(hot.share):>5}  {hot.pc:06x}  {hot.sass:40} {hottest.told(kernel, hot)}{at}")
        parts += ["### Hottest instructions", fence(lines)]
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
