"""`kscope checklist` as text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.escape import code, prose
from kscope.reports.terminal import Page, pad
from kscope.reports.worklog import phrases
from kscope.worklog.checklist import ORDER, TITLES, Checklist, Gain, Item, State, Tried

SHORT: tuple[State, ...] = ("not yet", "not here")
"""States that are one line each; with -v as long as the others."""


def text(page: Page, found: Checklist, *, verbose: bool) -> None:
    at = f"version {found.version}, " if found.version is not None else ""
    name = words.shorten(words.without_parameters(found.kernel), 50)
    page.line((name, "bold"), f"   {at}{words.time(found.time_us)}   {one_line(found.device)}")
    page.paragraph(phrases.verdict(found.regime, found.limiter, found.sentence), lead=("  ", ""), indent=2)
    for state in ORDER:
        items = [item for item in found.items if item.state == state]
        if not items:
            continue
        page.blank()
        page.line((f"  {TITLES[state]}", "bold" if state in ("back", "applicable") else "dim"))
        for item in items:
            if state in SHORT and not verbose:
                page.line((f"  {pad(item.opportunity, 20)}  ", ""), (one_line(item.why), "dim"))
            else:
                _item(page, item, verbose=verbose)


def _item(page: Page, item: Item, *, verbose: bool) -> None:
    right = (f"{expectation(item.gain)}" if item.gain is not None else "", "good")
    left = [(f"  {item.opportunity}", "bold"), (f"   {item.effort_words}", "dim")]
    if not page.ends(left, right):
        page.line(*left)
        page.line("    ", right)
    page.paragraph(one_line(item.title), lead=("    ", ""), indent=4)
    page.paragraph(one_line(item.why), lead=("    ", ""), indent=4, style="dim")
    if item.gain is not None and item.gain.held:
        page.paragraph(f"{item.gain.code} {item.gain.held}", lead=("    ", ""), indent=4, style="note")
    for one in item.tried:
        page.paragraph(tried(one), lead=("    ", ""), indent=4, style="dim")
    if verbose:
        page.paragraph(f"effort: {item.effort_words}, since it is {item.effort_why}", lead=("    ", ""), indent=4,
                       style="dim")  # fmt: skip


def markdown(found: Checklist) -> str:
    """A list with boxes: ticked where it was tried and kept."""
    at = f"version {found.version}, " if found.version is not None else ""
    name = words.without_parameters(found.kernel).removeprefix("void ")
    lines = [f"# Checklist of {code(name)}", "",
             f"{at}{words.time(found.time_us)} on {code(found.device)}: "
             + prose(phrases.verdict(found.regime, found.limiter, found.sentence)), ""]  # fmt: skip
    for state in ORDER:
        items = [item for item in found.items if item.state == state]
        if items:
            lines += [f"## {TITLES[state]}", "", *_boxes(items), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _boxes(items: Sequence[Item]) -> list[str]:
    lines = []
    for item in items:
        box = "x" if item.state == "tried" else " "
        gain = f", {expectation(item.gain)}" if item.gain is not None else ""
        held = f" {item.gain.code} {item.gain.held}." if item.gain is not None and item.gain.held else ""
        lines.append(f"- [{box}] **{prose(item.title)}** ({code(item.opportunity)}, {item.effort_words}{gain}): "
                     f"{prose(item.why)}.{prose(held) if held else ''}")  # fmt: skip
        lines += [f"  - {prose(tried(one))}" for one in item.tried]
    return lines


def expectation(gain: Gain) -> str:
    """expect 2.2x (1.8 - 2.4, capped by L2)"""
    cap = f", capped by {one_line(gain.capped_by)}" if gain.capped_by else ""
    return f"expect {words.times(gain.speedup)} ({gain.low:.1f} - {gain.high:.1f}{cap})"


def tried(one: Tried) -> str:
    """tried in version 2: 12.6x (sectors over those needed: 6.6 -> 1), together with vector-access"""
    took = f": {words.times(one.speedup)}" if one.speedup else ""
    with_ = f", together with {', '.join(one.shared_with)}" if one.shared_with else ""
    aside = ", set aside" if one.status == "set aside" else ""
    return f"tried in version {one.version}{took} ({one_line(one.how)}){with_}{aside}"
