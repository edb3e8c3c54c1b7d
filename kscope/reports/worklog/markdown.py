"""A worklog that one could publish: for each version the hypothesis, the code, the profile, one bold number, and the
bridge to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.escape import code, fence, prose
from kscope.reports.worklog import phrases
from kscope.worklog.calibrate import Held
from kscope.worklog.entries import Entry, Idea
from kscope.worklog.ladder import Rung
from kscope.worklog.opportunities import opportunities

Change = Callable[[Entry], str]
"""The difference of the code that a version made, "" where it is not known."""


def render(
    ladders: Sequence[Sequence[Rung]], change: Change, held: Sequence[Held] = (), ideas: Sequence[Idea] = ()
) -> str:
    """The page, ending in a newline."""
    lines: list[str] = []
    for rungs in ladders:
        lines += _ladder(rungs, change, ideas)
    if held:
        lines += _held(held)
    return "\n".join(lines).rstrip("\n") + "\n"


def _ladder(rungs: Sequence[Rung], change: Change, ideas: Sequence[Idea]) -> list[str]:
    first, best = rungs[0].entry, next((r for r in rungs if r.best), rungs[0])
    name = words.without_parameters(first.kernel).removeprefix("void ")
    lines = [f"# Worklog of {code(name)}", ""]
    if best.whole:
        times = f"{words.time(first.time_us)} became {words.time(best.entry.time_us)}"
        at = f", {phrases.roof(best.entry)} of the roof" if phrases.roof(best.entry) else ""
        lines.append(f"**{words.times(best.whole)}** since the start: {times} on {code(first.device.name)}{at}.")
    else:
        lines.append(f"**{words.time(first.time_us)}** on {code(first.device.name)}.")
    lines += ["", "| version | time | step | since the start | of the roof | limit | what changed |",
              "|---:|---:|---:|---:|---:|---|---|"]  # fmt: skip
    for rung in rungs:
        entry = rung.entry
        aside = " (set aside)" if entry.status == "set aside" else ""
        lines.append(
            f"| {entry.number} | {words.time(entry.time_us)} | {phrases.factor(rung.gain)} | "
            f"{phrases.factor(rung.whole)} | {phrases.roof(entry)} | {words.limiter(one_line(entry.limiter))} | "
            f"{prose(phrases.title(entry))}{aside} |"
        )
    lines.append("")
    by_uid = {rung.entry.uid: rung.entry for rung in rungs}
    for rung in rungs:
        lines += _version(rung, by_uid.get(rung.entry.parent or ""), change)
        lines += _ideas([idea for idea in ideas if idea.entry == rung.entry.uid])
        lines += _bridge(rung.entry, rungs)
    return lines


def _version(rung: Rung, parent: Entry | None, change: Change) -> list[str]:
    entry = rung.entry
    lines = [f"## {entry.number}. {prose(phrases.title(entry))}", ""]
    rest = entry.message.strip().partition("\n")[2].strip()
    for paragraph in filter(None, rest.split("\n\n")):
        lines += [prose(paragraph), ""]
    lines += _code(change(entry))
    lines += [_number(rung, parent), ""]
    lines += [prose(_capital(phrases.verdict(entry.regime, entry.limiter, entry.sentence))), ""]
    if entry.step is not None:
        lines += [f"- {prose(_capital(phrases.promise(one)))}." for one in entry.step.delivered]
        lines += [""] if entry.step.delivered else []
    if entry.attempts:
        table = opportunities()
        titles = [table[a.opportunity].title if a.opportunity in table else a.opportunity for a in entry.attempts]
        seen = [f"{prose(t)} ({prose(a.how)})" for t, a in zip(titles, entry.attempts, strict=True)]
        lines += [f"Tried here: {'; '.join(seen)}.", ""]
    lines += [line for note in entry.notes for line in (prose(note), "")]
    if entry.status == "set aside":
        lines += [f"Set aside{': ' + prose(entry.why) if entry.why else ''}. It stays here: another version may want "
                  "it.", ""]  # fmt: skip
    return lines


def _ideas(ideas: Sequence[Idea]) -> list[str]:
    """What was decided at this version about ideas."""
    table, said = opportunities(), []
    for idea in ideas:
        title = table[idea.opportunity].title if idea.opportunity in table else idea.opportunity
        said.append(f"{prose(title)} ({idea.what}{': ' + prose(idea.why) if idea.why else ''})")
    return [f"Decided here: {'; '.join(said)}.", ""] if said else []


def _number(rung: Rung, parent: Entry | None) -> str:
    entry = rung.entry
    said = f"**{words.time(entry.time_us)}**{phrases.spread(entry)}"
    if parent is not None and rung.gain:
        turn = "faster" if rung.gain >= 1 else "slower"
        by = rung.gain if rung.gain >= 1 else 1 / rung.gain
        said += f", {words.times(by)} {turn} than version {parent.number}"
    if phrases.roof(entry):
        said += f", {phrases.roof(entry)} of the roof"
    at = phrases.where(entry)
    return said + (f" ({code(at)})." if at else ".")


def _code(difference: str) -> list[str]:
    """A unified difference without its file names, cut to a page."""
    kept = [line for line in difference.splitlines() if not line.startswith(("--- ", "+++ ", "index ", "diff "))]
    if not kept:
        return []
    more = len(kept) - phrases.PATCH_LINES
    shown = kept[: phrases.PATCH_LINES] + ([f"... {more} more lines"] if more > 0 else [])
    return [fence(shown, "diff"), ""]


def _bridge(entry: Entry, rungs: Sequence[Rung]) -> list[str]:
    """What the version promises, and what came after it."""
    claim = phrases.best_claim(entry)
    said = []
    if claim is not None:
        bounds = f"{words.times(claim.speedup)} ({claim.low:.1f} - {claim.high:.1f})"
        name = claim.title[1:2].isupper() or not claim.title[1:2].isalpha()  # FFMA, L2: stays as it is
        title = claim.title if name else claim.title[:1].lower() + claim.title[1:]
        said.append(prose(f"What it promises: {bounds} for {claim.code} ({title})") + ".")
    after = [r.entry for r in rungs if r.entry.parent == entry.uid]
    if ends := [str(one.number) for one in after if one.status == "set aside"]:
        said.append(f"Left again: version{'s' if len(ends) > 1 else ''} {', '.join(ends)}.")
    if on := [f"version {one.number}, {prose(phrases.title(one))}" for one in after if one.status == "kept"]:
        said.append(f"Next: {'; '.join(on)}.")
    return [" ".join(said), ""] if said else []


def _held(held: Sequence[Held]) -> list[str]:
    lines = ["## Promises", "", "| rule | versions | inside its bounds | of its promise |", "|---|---:|---:|---:|"]
    for row in held:
        share = f"{row.share:.2f}" if row.share is not None else "never alone"
        lines.append(f"| {prose(row.code)} {prose(row.rule)} | {row.versions} | {row.inside} | {share} |")
    lines += ["", "The last column: time saved over time promised to be saved, where nothing else shares the gain.", ""]
    return lines


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
