"""The joined verdict in Markdown for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code, prose
from kscope.reports.markdown.tables import table
from kscope.reports.phrases.joined import about, badge, bound, parts_of, unused

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JoinedAnalysis


def sections(joined: JoinedAnalysis) -> list[str]:
    """Markdown for people."""
    word, sentence, _ = badge(joined)
    parts = ["## The program", f"**{prose(word)}** {prose(sentence)}", f"{prose(about(joined))}."]
    rows = [[words.percent(k.share), words.time(k.total_us), str(k.count),
             code(words.shorten(k.name, 80), table=True), f"grid {words.dims(k.grid)} block {words.dims(k.block)}",
             prose(bound(k))] for k in joined.kernels[:20]]  # fmt: skip
    parts.append(table(["share", "time", "count", "kernel", "launch", "bound by"], rows, (0, 1, 2)))
    if text := unused(joined):
        parts.append(f"{prose(text)}.")
    if joined.suggestions:
        rows = [[f"{one.code} {prose(one.rule)}", code(words.middle(one.kernel, 60), table=True) if one.kernel else "",
                 prose(words.expectation(one.estimate)), prose(parts_of(one)), prose(one.fix)]
                for one in joined.suggestions]  # fmt: skip
        parts += ["### What to change in the program, best first",
                  table(["rule", "kernel", "the program", "of which", "fix"], rows)]  # fmt: skip
    return parts
