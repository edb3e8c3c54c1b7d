"""A timeline in Markdown for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports._reasons import CAUSES
from kscope.reports.escape import code, prose
from kscope.reports.markdown.suggestions import suggestions
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.phrases.timeline import about, badge, figures, shape, worth_profiling

if TYPE_CHECKING:
    from kscope.model.contract.analysis import TimelineAnalysis
    from kscope.model.contract.timeline_figures import IdleCause

KERNELS_SHOWN = 10


def sections(timeline: TimelineAnalysis, *, verbose: bool) -> list[str]:
    """The parts of a timeline for people."""
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
                 code(words.shorten(k.name, 80), table=True), shape(k)] for k in kernels]  # fmt: skip
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


def _during(row: IdleCause) -> str:
    return ", ".join(code(words.middle(name, 60), table=True) for name in row.during)
