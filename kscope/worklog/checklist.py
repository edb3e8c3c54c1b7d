"""The checklist of a kernel: every opportunity from easiest to hardest with its state. Nothing is scratched off: what
was set aside under one limiter comes back when another one rules that it addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from kscope.arch.chips import instructions
from kscope.model.contract.analysis import Estimate, Finding, Frozen, KernelAnalysis
from kscope.model.contract.limiters import LIMITERS
from kscope.worklog.entries import Entry, Idea
from kscope.worklog.opportunities import EFFORT, Opportunity, opportunities

SCHEMA = "kscope.checklist/1"
State = Literal["back", "applicable", "tried", "set aside", "not yet", "not here"]
ORDER: tuple[State, ...] = ("back", "applicable", "tried", "set aside", "not yet", "not here")
"""back: set aside once, and applicable again. not here: the chip lacks what it needs."""
TITLES: dict[State, str] = {
    "back": "Back: set aside under another limit", "applicable": "Applicable now", "tried": "Tried",
    "set aside": "Set aside", "not yet": "Not applicable yet", "not here": "Not on this chip",
}  # fmt: skip


class Gain(Frozen, frozen=True, kw_only=True):
    """What a rule promises for it. held: how such promises held so far, in words."""

    code: str
    rule: str
    speedup: float
    low: float
    high: float
    capped_by: str
    held: str = ""


class Tried(Frozen, frozen=True, kw_only=True):
    """A version that tried it: its number, what it took, and what shows it."""

    version: int
    speedup: float | None
    how: str
    status: str
    shared_with: list[str] = []


class Item(Frozen, frozen=True, kw_only=True):
    """One opportunity. why: of the state, in a sentence; quoted foreign words."""

    opportunity: str
    title: str
    state: State
    effort: int
    effort_words: str
    effort_why: str
    why: str
    gain: Gain | None = None
    tried: list[Tried] = []
    rules: list[str] = []


class Checklist(Frozen, frozen=True, kw_only=True):
    """Items in the order of states, then of effort, then of gain. version: of the worklog, None for a report that is
    not in it."""

    schema: str
    kernel: str
    device: str
    regime: str
    limiter: str
    time_us: float | None
    sentence: str
    version: int | None
    items: list[Item]


class Now(Struct, frozen=True):
    """The version that the checklist is for; `version` is its number, None for one that is not in the worklog."""

    kernel: KernelAnalysis
    marks: Mapping[str, float]
    version: int | None = None

    @property
    def cc(self) -> int:
        """Compute capability as one number, 0 where the report has none."""
        digits = self.kernel.device.cc.replace(".", "")
        return int(digits) if digits.isdigit() else 0


class _Decided(Struct, frozen=True):
    """The last word on an opportunity. at: number of the version; limiter: that ruled then."""

    aside: bool
    at: int
    limiter: str
    why: str


def checklist(
    now: Now, lineage: Sequence[Entry], ideas: Sequence[Idea], held: Mapping[str, str] | None = None
) -> Checklist:
    """lineage: the entries of this ladder, dead ends too, in the order of their numbers. ideas: what the user decided,
    in the order of time. held: by code, how promises held so far."""
    items = [_item(row, now, lineage, ideas, held or {}) for row in opportunities().values()]
    place = {state: i for i, state in enumerate(ORDER)}
    verdict = now.kernel.verdict
    return Checklist(
        schema=SCHEMA, kernel=now.kernel.demangled or now.kernel.name, device=now.kernel.device.name,
        regime=verdict.regime, limiter=verdict.limiter, time_us=now.kernel.duration_us, sentence=verdict.sentence,
        version=now.version,
        items=sorted(items, key=lambda i: (place[i.state], i.effort, -(i.gain.speedup if i.gain else 0.0))),
    )  # fmt: skip


def _item(
    row: Opportunity, now: Now, lineage: Sequence[Entry], ideas: Sequence[Idea], held: Mapping[str, str]
) -> Item:
    fires = [f for f in now.kernel.findings if f.code in row.rules and f.severity != "info"]
    best = max(fires, key=lambda f: f.estimate.speedup if f.estimate else 0.0, default=None)
    tried = _tried(row, lineage, ideas)
    gain = _gain(best, best.estimate, held) if best is not None and best.estimate is not None else None
    state, why = _state(row, now, best, tried, _decided(row, lineage, ideas))
    return Item(
        opportunity=row.id, title=row.title, state=state, effort=row.effort, effort_words=EFFORT[row.effort],
        effort_why=row.effort_why, why=why, gain=gain if state in ("back", "applicable") else None, tried=tried,
        rules=list(row.rules),
    )  # fmt: skip


def _state(
    row: Opportunity, now: Now, finding: Finding | None, tried: Sequence[Tried], decided: _Decided | None
) -> tuple[State, str]:
    """The state and why it is so."""
    limiter = now.kernel.verdict.limiter
    if row.needs and now.cc and row.needs not in instructions(now.cc):
        return "not here", f"sm_{now.cc} has no {row.needs}"
    early = row.too_early(now.marks)
    reason = "" if early else _reason(row, limiter, finding)
    if decided is not None and decided.aside:
        then = f"set aside at version {decided.at}" + (f" ({decided.why})" if decided.why else "")
        if limiter == decided.limiter:
            return "set aside", f"{then}; the limit is still {_words(limiter)}"
        if reason:
            back = f"when the limit was {_words(decided.limiter)}; now it is {_words(limiter)}: {reason}"
            return "back", f"{then}, {back}"
        return "set aside", f"{then}; {early or _passes(row, now, limiter)}"
    if reason:
        return "applicable", reason
    if tried:
        return "tried", early or _passes(row, now, limiter)
    return "not yet", early or _passes(row, now, limiter)


def _reason(row: Opportunity, limiter: str, finding: Finding | None) -> str:
    """Why it applies; "" where it does not. What no rule measures, or a rule that promises nothing, counts where it
    takes load off the limiter."""
    addresses = limiter in row.limiters
    if finding is not None and finding.estimate is not None:
        return f"{finding.code} finds it" + (f", and it takes load off {_words(limiter)}" if addresses else "")
    if finding is not None and addresses:
        return f"{finding.code} finds it, without an estimate; it takes load off {_words(limiter)}"
    if not row.rules and addresses:
        return f"it takes load off {_words(limiter)}; no rule measures how much"
    return ""


def _passes(row: Opportunity, now: Now, limiter: str) -> str:
    """Why it does not apply."""
    blind = {one.code: one.why for one in now.kernel.not_applicable}
    if any(f.code in row.rules for f in now.kernel.findings):
        return f"nothing to gain: the limit is {_words(limiter)}"
    if unseen := [code for code in row.rules if code in blind]:
        return f"{unseen[0]} cannot tell: {blind[unseen[0]]}"
    if row.rules:
        return f"{' and '.join(row.rules)} find{'s' if len(row.rules) == 1 else ''} nothing here"
    return f"it is for other limits than {_words(limiter)}"


def _tried(row: Opportunity, lineage: Sequence[Entry], ideas: Sequence[Idea]) -> list[Tried]:
    """By versions, and by what the user said at one (which shares no gain that is known)."""
    seen = [
        Tried(
            version=one.number, speedup=one.step.speedup if one.step else None, how=attempt.how, status=one.status,
            shared_with=[a.opportunity for a in one.attempts if a.opportunity != row.id],
        )
        for one in lineage for attempt in one.attempts if attempt.opportunity == row.id
    ]  # fmt: skip
    told = {idea.entry: idea for idea in ideas if idea.opportunity == row.id and idea.what == "tried"}
    seen += [
        Tried(version=one.number, speedup=one.step.speedup if one.step else None,
              how=f"told: {told[one.uid].why}" if told[one.uid].why else "told", status=one.status)
        for one in lineage if one.uid in told
    ]  # fmt: skip
    return sorted(seen, key=lambda one: one.version)


def _decided(row: Opportunity, lineage: Sequence[Entry], ideas: Sequence[Idea]) -> _Decided | None:
    """The last of what versions showed and what the user said. A version that was set aside takes its attempts along,
    decided under the limiter of its parent."""
    by_uid = {one.uid: one for one in lineage}
    found: list[tuple[str, _Decided]] = []
    for one in lineage:
        if any(a.opportunity == row.id for a in one.attempts):
            before = by_uid.get(one.parent or "", one)
            gained = f"{one.step.speedup:.2f}x" if one.step and one.step.speedup else ""
            why = ", ".join(filter(None, (gained, one.why)))
            found.append((one.added, _Decided(one.status == "set aside", one.number, before.limiter, why)))
    for idea in ideas:
        if idea.opportunity == row.id and idea.entry in by_uid:
            at = by_uid[idea.entry].number
            found.append((idea.at, _Decided(idea.what == "set aside", at, idea.limiter, idea.why)))
    return max(found, key=lambda one: one[0])[1] if found else None


def _gain(finding: Finding, estimate: Estimate, held: Mapping[str, str]) -> Gain:
    return Gain(
        code=finding.code, rule=finding.rule, speedup=estimate.speedup, low=estimate.low, high=estimate.high,
        capped_by=estimate.capped_by, held=held.get(finding.code, ""),
    )  # fmt: skip


def _words(limiter: str) -> str:
    return next((words.kernel or words.program for name, words in LIMITERS.items() if name == limiter), limiter)
