"""A job of several ranks, in each format: sentence, ranks, who waits for whom, suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.model.units import counted
from kscope.reports import words
from kscope.reports._llm_parts import Block, findings, said, span
from kscope.reports._suggestions import suggestions
from kscope.reports._timeline_text import CAUSES, badge
from kscope.reports.escape import code, prose

if TYPE_CHECKING:
    from kscope.model.analysis import Analysis, JobAnalysis, TimelineAnalysis
    from kscope.model.job import RankFigures
    from kscope.reports.terminal import Page

RANKS_SHOWN = 16
LATE_SHOWN = 3
_SHARES = {"computing": "kernels", "communication": "communication with nothing beside it", "copying": "copies"}
_HEAD = ("rank", "kernels", "sends", "waits", "copies", "idle", "others wait for it")


def size(job: JobAnalysis) -> str:
    """`2 of 8 ranks`."""
    of = f" of {job.world}" if job.world > len(job.ranks) else ""
    return f"{len(job.ranks)}{of} ranks"


def about(job: JobAnalysis) -> str:
    """Window, steps, what was matched."""
    steps = f"{counted(job.steps, 'step')} of {words.time(job.step_us)}" if job.step_us is not None else "no steps"
    clocks = max((abs(r.clock_us) for r in job.ranks), default=0.0)
    apart = f", clocks up to {words.time(clocks)} apart" if clocks >= 1 else ""
    return (
        f"window {words.time(job.span_us)}, {steps}; {counted(job.matched, 'collective')} found on all ranks that take "
        f"part ({job.matched_pct:.0f} %){apart}"
    )


def spends(job: JobAnalysis) -> str:
    """What the job's time goes into."""
    parts = [f"{s.pct:.0f} % {_SHARES.get(s.what, CAUSES.get(s.what, one_line(s.what)))}" for s in job.shares
             if s.pct >= 0.5]  # fmt: skip
    whose = f"rank {job.straggler}, which the others wait for" if job.straggler is not None else "all ranks, mean"
    return f"the time goes into {', '.join(parts)} ({whose}; a wait counts as what the awaited rank does)"


def late(job: JobAnalysis) -> list[str]:
    """The collectives that are waited at longest."""
    return [
        f"at {quoted(one.what)} in step {one.step} the others wait {words.time(one.waiting_us)} for rank {one.late}"
        for one in job.late[:LATE_SHOWN]
        if one.waiting_us >= 0.002 * job.span_us / max(job.steps, 1)
    ]


def _row(rank: RankFigures) -> list[str]:
    shares = (rank.computing_pct, rank.sending_pct, rank.waiting_pct, rank.copying_pct, rank.idle_pct)
    return [str(rank.rank), *(f"{share:.1f} %" for share in shares), words.time(rank.awaited_us)]


def in_full(analysis: Analysis, *, verbose: bool) -> list[TimelineAnalysis]:
    """The recordings to show in full: of a job that of the rank whose findings it lists."""
    folded = {(r.input, r.rank) for job in analysis.jobs for r in job.ranks if r.rank != job.critical}
    return [t for t in analysis.timelines if verbose or (t.input, t.rank) not in folded]


def render(page: Page, job: JobAnalysis, *, verbose: bool) -> None:
    """The terminal report."""
    page.line((f"{words.middle(one_line(job.name), page.width - 24)}: {size(job)}", "bold"))
    page.paragraph(about(job), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    word, sentence, style = badge(job)
    page.paragraph(sentence, lead=(f"  {word} ", style), indent=2)
    page.paragraph(spends(job), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    rows = [_row(r) for r in (job.ranks if verbose else job.ranks[:RANKS_SHOWN])]
    widths = [max(len(row[i]) for row in [list(_HEAD), *rows]) for i in range(len(_HEAD))]
    for number, row in enumerate([list(_HEAD), *rows]):
        text = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        page.line((f"  {text}", "" if number else "dim"))
    if left := len(job.ranks) - len(rows):
        page.line((f"  {left} more (kscope analyze -v)", "dim"))
    for line in late(job):
        page.paragraph(line, lead=("  ", ""), indent=4, style="dim")
    suggestions(page, job, verbose=verbose)
    page.blank()
    for note in job.notes:
        page.paragraph(one_line(note), lead=("  note  ", "dim"), indent=8)
    for error in job.errors:
        page.paragraph(one_line(error.message), lead=(f"  {error.code} failed  ", "critical"), indent=4)


def sections(job: JobAnalysis) -> list[str]:
    """Markdown for people."""
    from kscope.reports.markdown import bullets, table
    from kscope.reports.markdown import suggestions as listed

    word, sentence, _ = badge(job)
    parts = [f"## {code(job.name)}: {size(job)}", f"**{prose(word)}** {prose(sentence)}", f"{prose(about(job))}.",
             f"{prose(spends(job))}.", "### Ranks",
             table(list(_HEAD), [_row(r) for r in job.ranks], range(len(_HEAD))),
             bullets(prose(line) for line in late(job))]  # fmt: skip
    parts += listed(job)
    parts.append(bullets(f"Note: {prose(note)}" for note in job.notes))
    return parts


def blocks(job: JobAnalysis, index: int) -> list[Block]:
    """Parts for a language model."""
    base = index * 100
    heading = f"## Job {index + 1}, {size(job)}: {span(job.name)}"
    word, sentence, _ = badge(job)
    out = [Block(base, "verdicts", heading, f"**{said(word)}** {said(sentence)}")]
    out += [Block(base + 1, "measurements", heading, f"- {said(text)}") for text in (about(job), spends(job))]
    for rank in job.ranks:
        cells = ", ".join(f"{name} {cell}" for name, cell in zip(_HEAD, _row(rank), strict=True))
        out.append(Block(base + 2, "ranks", heading, f"- {said(cells)}"))
    out += [Block(base + 4, "late collectives", heading, f"- {said(line)}") for line in late(job)]
    out += findings(job, base, f"{heading}: findings, best first (gains never add up)")
    out += [Block(base + 14, "notes", heading, f"- {said(note, 300)}") for note in job.notes]
    return out
