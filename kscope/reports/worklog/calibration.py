"""`kscope log calibrate` as text and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from kscope.model.errors import one_line
from kscope.reports.terminal import Page, pad
from kscope.worklog.calibrate import Held

_WIDTH = 80


def text(rows: Sequence[Held], versions: int) -> str:
    page = Page(_WIDTH, color=False, unicode=True)
    if not rows:
        page.line(f"No promise was put to the test in {versions} versions.")
        return page.text()
    page.line(f"{'':37}versions  inside  alone  of its promise")
    for row in rows:
        share = "-" if row.share is None else f"{row.share:.2f}"
        spread = f" ({row.low:.2f} - {row.high:.2f})" if row.alone > 1 else ""
        page.line(f"{pad(one_line(row.code), 8)}  {pad(one_line(row.rule), 25)}  {row.versions:>8}  {row.inside:>6}  "
                  f"{row.alone:>5}  {share}{spread}")  # fmt: skip
    page.blank()
    page.paragraph("inside: within the bounds of the promise. alone: nothing else shares the gain. Of its promise: "
                   "time saved over time promised to be saved, the median of those alone.")  # fmt: skip
    return page.text()


def as_csv(rows: Sequence[Held]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["code", "rule", "versions", "inside", "alone", "share", "low", "high"])
    writer.writerows([r.code, r.rule, r.versions, r.inside, r.alone, r.share, r.low, r.high] for r in rows)
    return out.getvalue()
