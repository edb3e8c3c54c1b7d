"""A job of several ranks in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports.escape import code, prose
from kscope.reports.markdown.suggestions import suggestions
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.phrases.job import HEAD, about, late, row, size, spends
from kscope.reports.phrases.timeline import badge

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JobAnalysis


def sections(job: JobAnalysis) -> list[str]:
    """Markdown for people."""
    word, sentence, _ = badge(job)
    parts = [f"## {code(job.name)}: {size(job)}", f"**{prose(word)}** {prose(sentence)}", f"{prose(about(job))}.",
             f"{prose(spends(job))}.", "### Ranks",
             table(list(HEAD), [row(r) for r in job.ranks], range(len(HEAD))),
             bullets(prose(line) for line in late(job))]  # fmt: skip
    parts += suggestions(job)
    parts.append(bullets(f"Note: {prose(note)}" for note in job.notes))
    return parts
