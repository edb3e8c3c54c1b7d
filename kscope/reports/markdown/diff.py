"""`kscope diff` in Markdown, for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code, prose
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.phrases.diff import faster, gone, kept, most_moved, name_of, paired, ratio, value

if TYPE_CHECKING:
    from kscope.model.comparison import Comparison
    from kscope.reports import Options


def render(comparison: Comparison, options: Options) -> str:
    """Markdown, for a pull request."""
    parts = ["# kscope diff"]
    if comparison.speedup:
        parts.append(f"**{faster(comparison.speedup)}** over {len(comparison.pairs)} kernels on both sides.")
    rows = [
        [code(name_of(p, 60), table=True), words.time(p.before.duration_us), words.time(p.after.duration_us),
         ratio(p.speedup), prose(p.sentence), " ".join(p.fixed), " ".join(p.new)]
        for p in comparison.pairs
    ]  # fmt: skip
    if rows:
        head = ("kernel", "before", "after", "speed-up", "what happened", "fixed", "new")
        parts.append(table(head, rows, (1, 2, 3)))
    for pair in comparison.pairs:
        if pair.promises or pair.changes or pair.gone or paired(pair):
            parts.append(f"## {code(name_of(pair, 80))}")
            parts.append(f"Paired {paired(pair)}." if paired(pair) else "")
            parts.append(bullets(f"{p.code} {prose(p.rule)}: {kept(p)}" for p in pair.promises))
            parts.append(f"Gone: {' '.join(pair.gone)} {gone(pair)}." if pair.gone else "")
            moved = pair.changes if options.verbose else most_moved(pair.changes)
            figures = [[prose(c.what), value(c.before, c), value(c.after, c)] for c in moved]
            parts.append(table(("", "before", "after"), figures, (1, 2)) if figures else "")
    for timeline in comparison.timelines:
        parts.append(f"## {code(timeline.after.input)}")
        parts.append(prose(timeline.sentence))
        figures = [[prose(c.what), value(c.before, c), value(c.after, c)] for c in timeline.changes]
        parts.append(table(("", "before", "after"), figures, (1, 2)) if figures else "")
    parts.append(f"Only before: {', '.join(map(code, comparison.only_before))}" if comparison.only_before else "")
    parts.append(f"Only after: {', '.join(map(code, comparison.only_after))}" if comparison.only_after else "")
    parts.append(bullets(prose(note) for note in comparison.notes))
    return "\n\n".join(part for part in parts if part) + "\n"
