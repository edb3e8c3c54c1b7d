"""`kscope diff A B C` in Markdown, for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code, prose
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.versions.phrases import headline, labels, limit, moved, ratio

if TYPE_CHECKING:
    from kscope.model.contract.versions import Versions

HEAD = ("version", "time", "on the first", "on the one before", "limit", "changed", "next")


def render(found: Versions) -> str:
    """A table a kernel."""
    names = labels(found)
    parts = ["# kscope diff", f"**{prose(headline(found))}**",
             bullets(f"{v.number}: {code(name)}" for v, name in zip(found.versions, names, strict=True))]  # fmt: skip
    for line in found.lines:
        rows = [
            [str(s.version), words.time(s.time_us), ratio(s.on_first), ratio(s.on_before), prose(limit(s)), moved(s),
             prose(s.next or "")]
            for s in line.standings
        ]  # fmt: skip
        parts += [f"## {code(words.shorten(line.name, 100))}", table(HEAD, rows, (1, 2, 3))]
    parts.append(bullets(prose(note) for note in found.notes))
    parts.append(bullets(f"not read: {code(s.input)}: {code(s.message)}" for s in found.skipped))
    return "\n\n".join(part for part in parts if part) + "\n"
