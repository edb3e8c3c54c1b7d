"""`kscope diff` in Markdown, for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code, prose
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.phrases.diff import faster, gone, kept, most_moved, name_of, paired, ratio, value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.comparison import Change, Comparison, KernelPair
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
        parts += _pair(pair, verbose=options.verbose)
    for timeline in comparison.timelines:
        parts += [f"## {code(timeline.after.input)}", prose(timeline.sentence)]
        parts.append(bullets(f"{p.code} {prose(p.rule)}: {kept(p)}" for p in timeline.promises))
        parts += [_figures(timeline.changes)]
        parts += [_times(timeline.operators, "operator"), _times(timeline.kernels, "kernel")]
    parts.append(f"Only before: {', '.join(map(code, comparison.only_before))}" if comparison.only_before else "")
    parts.append(f"Only after: {', '.join(map(code, comparison.only_after))}" if comparison.only_after else "")
    parts.append(bullets(prose(note) for note in comparison.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _pair(pair: KernelPair, *, verbose: bool) -> list[str]:
    if not (pair.promises or pair.changes or pair.against or pair.gone or paired(pair)):
        return []
    return [
        f"## {code(name_of(pair, 80))}",
        f"Paired {paired(pair)}." if paired(pair) else "",
        bullets(prose(f"Against it: {cost}") for cost in pair.against),
        bullets(f"{p.code} {prose(p.rule)}: {kept(p)}" for p in pair.promises),
        f"Gone: {' '.join(pair.gone)} {gone(pair)}." if pair.gone else "",
        _figures(pair.changes if verbose else most_moved(pair.changes)),
    ]


def _times(changes: Sequence[Change], what: str) -> str:
    rows = [[code(words.shorten(c.what, 80), table=True), value(c.before, c), value(c.after, c)] for c in changes]
    return table((what, "before", "after"), rows, (1, 2)) if rows else ""


def _figures(changes: Sequence[Change]) -> str:
    rows = [[prose(c.what), value(c.before, c), value(c.after, c)] for c in changes]
    return table(("", "before", "after"), rows, (1, 2)) if rows else ""
