"""A job of several ranks in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports.llm.blocks import Block, said, span
from kscope.reports.llm.findings import findings
from kscope.reports.phrases.job import HEAD, about, late, row, size, spends
from kscope.reports.phrases.timeline import badge

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JobAnalysis


def blocks(job: JobAnalysis, index: int) -> list[Block]:
    """Parts for a language model."""
    base = index * 100
    heading = f"## Job {index + 1}, {size(job)}: {span(job.name)}"
    word, sentence, _ = badge(job)
    out = [Block(base, "verdicts", heading, f"**{said(word)}** {said(sentence)}")]
    out += [Block(base + 1, "measurements", heading, f"- {said(text)}") for text in (about(job), spends(job))]
    for rank in job.ranks:
        cells = ", ".join(f"{name} {cell}" for name, cell in zip(HEAD, row(rank), strict=True))
        out.append(Block(base + 2, "ranks", heading, f"- {said(cells)}"))
    out += [Block(base + 4, "late collectives", heading, f"- {said(line)}") for line in late(job)]
    out += findings(job, base, f"{heading}: findings, best first (gains never add up)")
    out += [Block(base + 14, "notes", heading, f"- {said(note, 300)}") for note in job.notes]
    return out
