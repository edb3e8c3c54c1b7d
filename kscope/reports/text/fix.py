"""`kscope fix`: one change in full, or as a patch; and what a new version has of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.model.errors import one_line, printable
from kscope.reports import words
from kscope.reports.phrases import fixes
from kscope.reports.terminal import Page

if TYPE_CHECKING:
    from kscope.model.contract.fixes import Checked, Fix, Proposal

LEAD = 12
LONGEST = 100_000  # columns of a line of source


def listed(page: Page, found: Sequence[Proposal]) -> None:
    """One line a change, numbered as `--number` counts."""
    for n, one in enumerate(found, 1):
        expect = words.expectation(one.fix.price) if one.fix.price is not None else ""
        style = "dim" if one.fix.refused else ""
        also = f"; also for {', '.join(one.also)}" if one.also else ""
        left = [(f" {n:>2}  ", "bold"), (one.code, "code"), (f"  {fixes.head(one.fix)}{also}", style)]
        if not page.ends(left, (expect, "bold")):
            page.paragraph(f"{fixes.head(one.fix)}{also}", lead=(f" {n:>2}  {one.code}  ", "code"), indent=LEAD)
            if expect:
                page.line(" " * LEAD, (expect, "bold"))


def full(page: Page, one: Proposal) -> None:
    """One change: why, the lines before and after, what was proved, what it takes, what is left to check, its worth."""
    fix = one.fix
    page.line((one_line(one.kernel), "bold"))
    page.paragraph(one_line(one.why), lead=(f"{one.code:{LEAD}}", "code"), indent=LEAD)
    page.paragraph(fixes.head(fix), lead=(f"{'change':{LEAD}}", "good"), indent=LEAD)
    if one.also:
        page.paragraph(f"{', '.join(one.also)}, the same change", lead=(f"{'answers':{LEAD}}", "dim"), indent=LEAD)
    for row in fix.proof:
        page.paragraph(fixes.proof(row), lead=(f"{'proved':{LEAD}}", "dim"), indent=LEAD)
    for text in fixes.conditions(fix):
        page.paragraph(text, lead=(f"{'if':{LEAD}}", "dim"), indent=LEAD)
    if fix.costs:
        page.paragraph(fixes.cost(fix), lead=(f"{'takes':{LEAD}}", "dim"), indent=LEAD)
    if not fix.refused:
        worth = words.expectation(fix.price) if fix.price is not None else "no figure"
        page.paragraph(worth, lead=(f"{'worth':{LEAD}}", "dim"), indent=LEAD)
        page.blank()
        whole = Page(LONGEST, color=page.color, unicode=True)  # lines to be pasted are not cut
        for line in patch(fix):
            style = "good" if line.startswith("+") else "major" if line.startswith("-") else "dim"
            whole.line((line, style))
        page.lines += whole.lines


def patch(fix: Fix) -> list[str]:
    """The change as a diff without context, one file after the other; functions to add stand above what first uses
    them, other words first. Of what cannot be seen tabs alone are kept."""
    out = [] if fix.above else [f"+{line}" for line in fix.code.splitlines()]
    file, moved = None, 0
    for edit in fix.edits:
        if edit.file != file:
            file, moved = edit.file, 0
            out += [f"--- {file}", f"+++ {file}"]
            if fix.above and edit is fix.edits[0]:
                added = fix.code.splitlines()
                out += [f"@@ -{fix.above - 1},0 +{fix.above},{len(added)} @@", *(f"+{line}" for line in added)]
                moved = len(added)
        lines = fixes.signed(edit)
        many = len(edit.becomes.splitlines())
        out += [f"@@ -{edit.line},1 +{edit.line + moved},{many} @@", *(sign + text for sign, text in lines)]
        moved += many - 1
    return ["\t".join(printable(part) for part in line.split("\t")) for line in out]


def checked(page: Page, found: Sequence[Checked]) -> None:
    """Each change against the new version: is it there, what did it bring, was the promise kept."""
    for one in found:
        told = {"yes": "is there", "partly": "is there in part", "no": "is not there", "unknown": "cannot be seen"}
        style = {"yes": "good", "partly": "major", "no": "critical", "unknown": "dim"}[one.has]
        page.line((f"{one.code}  {one.kind.replace('_', ' ')} ", "bold"), (told[one.has], style))
        if one.what:
            page.paragraph(f"{one.what}: {one.old:,.0f} before, {one.new:,.0f} now", lead=("  ", ""), indent=2)
        if one.delivered is not None:
            kept = {True: "in bounds", False: "out of bounds", None: "nothing was promised"}[one.kept]
            promised = f", promised {words.expectation(one.promised)}: {kept}" if one.promised is not None else ""
            page.paragraph(
                f"{one.old_us:,.1f} us before, {one.new_us:,.1f} us now: {one.delivered:.2f}x{promised}",
                lead=("  ", ""), indent=2,
            )  # fmt: skip
