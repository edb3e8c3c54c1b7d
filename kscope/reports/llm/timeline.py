"""A timeline in blocks: verdict, measurements, findings, what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.arch.vendors import vendor_of
from kscope.model.units import counted
from kscope.reports import words
from kscope.reports.escape import code
from kscope.reports.llm.blocks import Block, said, span
from kscope.reports.llm.findings import findings
from kscope.reports.phrases.timeline import about, badge, figures, generated, shape, worth_profiling

if TYPE_CHECKING:
    from kscope.model.contract.analysis import TimelineAnalysis
    from kscope.model.contract.timeline_figures import IdleCause

KERNELS_SHOWN = 6


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
    for rank, kernel in enumerate(timeline.top_kernels[:KERNELS_SHOWN]):
        name = code(words.middle(kernel.name, 100))
        text = f"- {words.percent(kernel.share)} {words.time(kernel.total_us)} x{kernel.count} {name} {shape(kernel)}"
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
    alone = f"- What binds a single kernel: profile it with {vendor_of(timeline.devices).counters}."
    out.append(Block(base + 14, "notes", title("not known"), alone))
    return out


def _among(row: IdleCause) -> str:
    return f", host in {', '.join(code(words.middle(name, 60)) for name in row.during)}" if row.during else ""
