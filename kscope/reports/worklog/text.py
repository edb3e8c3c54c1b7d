"""`kscope log show` and `plot` on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.terminal import Page, bar, cells, clip, pad
from kscope.reports.worklog import phrases
from kscope.worklog.entries import Entry
from kscope.worklog.ladder import Rung
from kscope.worklog.metrics import UNITS

_BAR = 30


def ladder(page: Page, ladders: Sequence[Sequence[Rung]], *, verbose: bool) -> None:
    """Every ladder, a version a line and what it was for below."""
    for rungs in ladders:
        page.blank()
        first, last = rungs[0].entry, max((r.entry for r in rungs), key=lambda e: e.number)
        names = dict.fromkeys(words.shorten(e.kernel, 40) for e in (first, last))
        page.line((" -> ".join(names), "bold"), f"   {one_line(first.device.name)}")
        page.line((f"  {phrases.headline(rungs)}", "dim"))
        page.blank()
        page.line(("    v       time    step   whole   roof  limit           what", "dim"))
        for rung in rungs:
            _row(page, rung, verbose=verbose)


def _row(page: Page, rung: Rung, *, verbose: bool) -> None:
    entry, aside = rung.entry, rung.entry.status == "set aside"
    gained = "good" if (rung.gain or 1) > 1.02 else "critical" if (rung.gain or 1) < 0.98 else ""
    mark = "x" if aside else "*" if rung.best else " "
    page.line(
        f"{'  ' * min(rung.depth, 4)}{mark} {entry.number:>3}  {words.time(entry.time_us):>9} ",
        (f"{phrases.factor(rung.gain):>7}", gained), f" {phrases.factor(rung.whole):>7}  {phrases.roof(entry):>5}  ",
        f"{pad(words.limiter(one_line(entry.limiter)), 14)}  ", (phrases.title(entry), "dim" if aside else "bold"),
    )  # fmt: skip
    lines = [phrases.promise(one) for one in (entry.step.delivered if entry.step else [])]
    lines += [f"set aside: {one_line(entry.why)}" if entry.why else "set aside"] if aside else []
    if verbose:
        lines += [f"tried {a.opportunity}: {one_line(a.how)}" for a in entry.attempts]
        lines += [f"note: {one_line(note)}" for note in entry.notes]
        lines += [at] if (at := phrases.where(entry)) else []
    for line in lines:
        page.paragraph(line, lead=(" " * 8, ""), indent=10, style="dim")


def version(page: Page, entry: Entry, parent: Entry | None, report: str) -> None:
    """One version with all that is known of it. report: where its packed report lies."""
    page.line((f"version {entry.number}  {phrases.title(entry)}", "bold"))
    facts = [
        ("kernel", one_line(entry.kernel)), ("time", words.time(entry.time_us) + phrases.spread(entry)),
        ("verdict", phrases.verdict(entry.regime, entry.limiter, entry.sentence)),
        ("roof", f"{phrases.roof(entry)}, headroom {entry.headroom:.2f}x by {one_line(entry.bounded_by)}"
         if entry.pct_of_roof is not None and entry.headroom else ""),
        ("parent", f"version {parent.number}: {entry.step.sentence}" if parent is not None and entry.step else ""),
        ("status", f"{entry.status}" + (f": {one_line(entry.why)}" if entry.why else "")),
        ("code", phrases.where(entry)), ("device", one_line(entry.device.name)),
        ("tools", _tools(entry)), ("added", one_line(entry.added)), ("report", report),
    ]  # fmt: skip
    for name, value in facts:
        if value:
            page.paragraph(value, lead=(f"  {pad(name, 9)} ", "dim"), indent=12)
    for note in entry.notes:
        page.paragraph(one_line(note), lead=("  note      ", "dim"), indent=12)
    for one in entry.step.delivered if entry.step else []:
        page.paragraph(phrases.promise(one), lead=("  promise   ", "dim"), indent=12)
    for attempt in entry.attempts:
        page.paragraph(f"{attempt.opportunity}: {one_line(attempt.how)}", lead=("  tried     ", "dim"), indent=12)
    page.blank()
    for claim in entry.claims:
        gain = f"promises {words.times(claim.speedup)} ({claim.low:.1f} - {claim.high:.1f})" if claim.speedup else ""
        page.line(f"  {pad(claim.code, 8)}  {pad(claim.rule, 30)}  {gain}")
    page.blank()
    for name, unit in UNITS.items():
        page.line((f"  {pad(name, 26)}  ", "dim"), _figure(entry.metrics.get(name), unit))


def plot(page: Page, ladders: Sequence[Sequence[Rung]]) -> None:
    """Bars of what part of the roof each version reaches, the roof at their end; of the best speed where a report has
    no roof. Branches hang below the version that they leave."""
    for rungs in ladders:
        page.blank()
        page.line((words.shorten(rungs[0].entry.kernel, 60), "bold"))
        page.line((f"  {phrases.headline(rungs)}", "dim"))
        shares, what = phrases.shares(rungs)
        page.line((f"  {pad('', 18)}% of the {what}", "dim"))
        for rung, share in zip(rungs, shares, strict=True):
            entry = rung.entry
            aside = entry.status == "set aside"
            drawn = bar(share, _BAR)
            lead = f"{'  ' * min(rung.depth, 3)}{'x' if aside else ' '} {entry.number:>3}"
            page.line(
                f"{pad(lead, 12)} {words.time(entry.time_us):>9}  ", (drawn, "dim" if aside else "bar"),
                " " * (_BAR - cells(drawn)), f"| {share * 100:3.0f} %  ",
                (clip(phrases.title(entry), max(page.width - 66, 8)), "dim"),
            )  # fmt: skip


def _tools(entry: Entry) -> str:
    tools, said = entry.tools, [f"kscope {one_line(entry.tools.kscope)}"]
    said += [f"ncu {one_line(tools.profiler)}"] if tools.profiler else []
    said += [f"SM at {tools.sm_clock_hz / 1e9:.2f} GHz"] if tools.sm_clock_hz else []
    said += [f"memory at {tools.dram_clock_hz / 1e9:.2f} GHz"] if tools.dram_clock_hz else []
    said += [f"flags {one_line(tools.flags)}"] if tools.flags else []
    return ", ".join(said)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "not collected"
    if unit in ("FLOP/s", "B/s", "B"):
        return words.si(value, unit)
    return f"{words.number(value)} {unit}".rstrip()
