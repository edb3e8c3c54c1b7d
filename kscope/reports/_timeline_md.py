"""A timeline in Markdown, for people and for language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.units import counted
from kscope.reports import words
from kscope.reports._llm_parts import Block, findings, said, span
from kscope.reports._timeline_text import CAUSES, about, badge, figures, generated, worth_profiling
from kscope.reports.escape import code, prose

if TYPE_CHECKING:
    from kscope.model.analysis import TimelineAnalysis
    from kscope.model.timeline_figures import IdleCause, TopKernel

KERNELS_SHOWN = 10
LLM_KERNELS = 6


def sections(timeline: TimelineAnalysis, *, verbose: bool) -> list[str]:
    """The parts of a timeline for people."""
    from kscope.reports.markdown import bullets, suggestions, table

    word, sentence, _ = badge(timeline)
    parts = [f"## {code(timeline.input)}", f"**{prose(word)}** {prose(sentence)}", f"{prose(about(timeline))}."]
    if timeline.idle:
        rows = [[prose(CAUSES.get(i.cause, i.cause)), f"{i.pct:.1f} %", words.time(i.us), str(i.gaps), _during(i)]
                for i in timeline.idle]  # fmt: skip
        head = ["cause", "of window", "time", "gaps", "host is in"]
        parts += ["### Where the GPU is idle", table(head, rows, (1, 2, 3))]
    kernels = timeline.top_kernels if verbose else timeline.top_kernels[:KERNELS_SHOWN]
    if kernels:
        rows = [[words.percent(k.share), words.time(k.total_us), str(k.count), words.time(k.mean_us),
                 code(words.shorten(k.name, 80), table=True), _shape(k)] for k in kernels]  # fmt: skip
        head = ["share", "time", "count", "mean", "kernel", "launch"]
        parts += ["### Kernels by time", table(head, rows, (0, 1, 2, 3))]
    made = [k for k in kernels if k.operators or k.source]
    if made:
        rows = [[code(words.shorten(k.name, 80), table=True), ", ".join(code(name, table=True) for name in k.operators),
                 code(k.source, table=True) if k.source else ""] for k in made]  # fmt: skip
        parts += ["### Kernels that torch.compile generated", table(["kernel", "fuses", "source"], rows)]
    parts.append(bullets(prose(line) for line in figures(timeline)))
    parts += suggestions(timeline)
    parts.append(bullets(f"Profile: {code(line)}" for line in worth_profiling(timeline)))
    parts.append(f"Rules passed: {len(timeline.passed)}, not applicable: {len(timeline.not_applicable)}.")
    parts.append(bullets(f"{n.code} not applicable: {prose(n.why)}" for n in timeline.not_applicable))
    parts.append(bullets(f"{e.code} failed: {code(e.message)}" for e in timeline.errors))
    parts.append(bullets(f"Note: {prose(note)}" for note in timeline.coverage.notes))
    return parts


def blocks(timeline: TimelineAnalysis, index: int) -> list[Block]:
    """The parts of a timeline for a language model: verdict, measurements, findings, what is not known."""
    base = index * 100

    def title(part: str) -> str:
        return f"## Timeline {index + 1}: {part}"

    word, sentence, _ = badge(timeline)
    out = [Block(base, "verdicts", title("verdict"), f"{span(timeline.input)}: **{said(word)}** {said(sentence)}")]
    out.append(Block(base + 1, "measurements", title("measured"), f"- {said(about(timeline))}"))
    out.append(Block(base + 1, "measurements", title("measured"), f"- gpu_busy_pct {timeline.gpu_busy_pct:.2f}"))
    for row in timeline.idle:
        text = f"- idle {code(row.cause)} {row.pct:.2f} % {words.time(row.us)}, {counted(row.gaps, 'gap')}{_among(row)}"
        out.append(Block(base + 3, "idle causes", title("measured"), text))
    for line in figures(timeline):
        out.append(Block(base + 4, "figures", title("measured"), f"- {said(line)}"))
    for rank, kernel in enumerate(timeline.top_kernels[:LLM_KERNELS]):
        name = code(words.middle(kernel.name, 100))
        text = f"- {words.percent(kernel.share)} {words.time(kernel.total_us)} x{kernel.count} {name} {_shape(kernel)}"
        text += f", {said(generated(kernel))}" if generated(kernel) else ""
        out.append(Block(base + 5 + rank * 4, "kernels", title("kernels by time"), text))
    out += findings(timeline, base, title("findings, best first (gains never add up)"))
    for item in timeline.not_applicable:
        out.append(Block(base + 14, "missing inputs", title("not known"), f"- {item.code}: {said(item.why, 200)}"))
    for error in timeline.errors:
        out.append(Block(base + 15, "failed rules", title("not known"), f"- {error.code}: {span(error.message)}"))
    for note in timeline.coverage.notes:
        out.append(Block(base + 14, "notes", title("not known"), f"- {said(note, 300)}"))
    for line in worth_profiling(timeline):
        out.append(Block(base + 14, "what to profile", title("not known"), f"- {code(line)}"))
    alone = "- What binds a single kernel: profile it with ncu --set full."
    out.append(Block(base + 14, "notes", title("not known"), alone))
    return out


def _during(row: IdleCause) -> str:
    return ", ".join(code(words.middle(name, 60), table=True) for name in row.during)


def _among(row: IdleCause) -> str:
    return f", host in {', '.join(code(words.middle(name, 60)) for name in row.during)}" if row.during else ""


def _shape(kernel: TopKernel) -> str:
    if not any(kernel.grid):
        return ""
    return f"grid {words.dims(kernel.grid)} block {words.dims(kernel.block)}"
