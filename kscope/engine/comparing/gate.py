"""Gates: which findings break a limit, which of them an earlier run had already, and where a gate could not look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kscope.engine.comparing.compare import comparable
from kscope.engine.comparing.kernel_names import without_parameters
from kscope.engine.comparing.pairing import name_of
from kscope.model.contract.analysis import Analysis, Finding, NotApplicable, RuleError, SkippedInput
from kscope.model.contract.comparison import Comparison, KernelPair, TimelinePair
from kscope.model.contract.sass_diff import SassComparison
from kscope.rules.registry import all_lints

SEVERITIES = ("info", "minor", "major", "critical")


class Limits(Struct, frozen=True):
    """What fails. words: each word of --fail-on that names rules, with their codes. severity: the lowest that fails.
    gain: a finding fails whose estimate is above it, or equal where `reached`."""

    words: tuple[tuple[str, frozenset[str]], ...] = ()
    severity: str | None = None
    gain: float | None = None
    reached: bool = False

    def __bool__(self) -> bool:
        return bool(self.words) or self.severity is not None or self.gain is not None

    def broken_by(self, finding: Finding) -> bool:
        """A rule that is named counts at any severity and gain."""
        if any(finding.code in codes for _, codes in self.words):
            return True
        if self.severity is not None and SEVERITIES.index(finding.severity) >= SEVERITIES.index(self.severity):
            return True
        if self.gain is None or finding.estimate is None:
            return False
        gain = finding.estimate.speedup
        return gain > self.gain or (self.reached and gain == self.gain)


class Subject(Struct, frozen=True):
    """One kernel, function or recording with what the rules said of it. kind: `kernel`, `function` or `recording`.
    empty: why it holds nothing that a rule could look at."""

    name: str
    kind: str
    findings: Sequence[Finding]
    passed: Sequence[str] = ()
    not_applicable: Sequence[NotApplicable] = ()
    errors: Sequence[RuleError] = ()
    empty: str = ""


class Violation(Struct, frozen=True):
    """One line of a gate: a rule's code or `SLOWER`, whom it is about, where (file:line, None where unknown; pc), and
    figures."""

    what: str
    name: str
    file: str | None = None
    line: int | None = None
    pc: int | None = None
    figures: str = ""


def subjects(analysis: Analysis, *, functions: bool = False) -> list[Subject]:
    """Kernels and recordings of an analysis; functions: those of machine code instead."""
    if functions:
        return [
            Subject(f.demangled or f.name, "function", f.findings, f.passed, f.not_applicable, f.errors)
            for program in analysis.programs for f in program.functions
        ]  # fmt: skip
    kernels = [
        Subject(name_of(k), "kernel", k.findings, k.passed, k.not_applicable, k.errors) for k in analysis.kernels
    ]
    return kernels + [
        Subject(
            t.input, "recording", t.findings, t.passed, t.not_applicable, t.errors,
            empty="" if t.coverage.operations else t.abstained or "no GPU operation was recorded",
        ) for t in analysis.timelines
    ] + [
        Subject(j.name, "job", j.findings, j.passed, j.not_applicable, j.errors) for j in analysis.jobs
    ]  # fmt: skip


def new_code(comparison: SassComparison) -> list[Subject]:
    """What only the new side of a comparison of binaries has."""
    known = sorted(one.of.code for one in all_lints())  # all of them ran on both sides
    paired = [Subject(f.demangled or f.after, "function", f.new, known) for f in comparison.functions]
    return paired + [Subject(f.demangled or f.name, "function", f.findings, known) for f in comparison.added]


def violations(found: Sequence[Subject], limits: Limits) -> Iterator[tuple[Subject, Finding]]:
    for subject in found:
        for finding in subject.findings:
            if limits.broken_by(finding):
                yield subject, finding


def of_finding(subject: Subject, finding: Finding) -> Violation:
    place = finding.locations[0] if finding.locations else None
    if place is None:
        return Violation(finding.code, subject.name)
    return Violation(finding.code, subject.name, place.file, place.line, place.pc)


def unseen(found: Sequence[Subject], limits: Limits, skipped: Sequence[SkippedInput] = ()) -> list[str]:
    """Why the gate could not look, one reason each; empty where it could."""
    if not limits:
        return []
    out = [f"{s.input}: {'' if s.what == 'report' else s.what + ' '}was not read" for s in skipped]
    looking = []
    for subject in found:
        name = _short(subject.name)
        out += [f"{name}: {e.code} failed ({e.message})" for e in subject.errors if _asked(e.code, limits)]
        if subject.empty:
            out.append(f"{subject.name}: {subject.empty}")
        elif not subject.findings and not subject.passed and subject.not_applicable:
            out.append(f"{name}: no rule had what it needs ({subject.not_applicable[0].why})")
        else:
            looking.append(subject)
    if limits.gain is not None and looking and all(s.kind == "function" for s in looking):
        out.append("gain: machine code alone tells none")
    for word, codes in limits.words:
        if looking and not any(codes & _looked(s) for s in looking):
            out.append(f"{word}: {_why(looking, codes)}")
    return out


def _asked(code: str, limits: Limits) -> bool:
    named = any(code in codes for _, codes in limits.words)
    return named or limits.severity is not None or limits.gain is not None


def _looked(subject: Subject) -> set[str]:
    return {f.code for f in subject.findings} | set(subject.passed)


def _why(found: Sequence[Subject], codes: frozenset[str]) -> str:
    for subject in found:
        for item in subject.not_applicable:
            if item.code in codes:
                return f"not applicable to {_short(subject.name)} ({item.why})"
    kinds = " or ".join(sorted({s.kind + "s" for s in found}))
    return f"it does not look at {kinds}, or was not selected"


def slower(comparison: Comparison, share: float) -> list[Violation]:
    """Pairs that take at least `share` (0.05: 5 %) longer than before; any at all for 0."""
    out = []
    for one in _pairs(comparison):
        if not comparable(one):
            continue
        assert one.speedup is not None  # of what is comparable
        more = 1 / one.speedup - 1
        if more > 0 and more >= share:
            out.append(Violation("SLOWER", _of(one), figures=f"{_times(one)}, {100 * more:.1f} % more"))
    return out


def not_compared(comparison: Comparison) -> list[str]:
    """Why --fail-if-slower could not look, one reason each; empty where it compared all that there was before."""
    out = [f"{s.input}: {'' if s.what == 'report' else s.what + ' '}was not read" for s in comparison.skipped]
    for one in _pairs(comparison):
        if comparable(one):
            continue
        if isinstance(one, KernelPair):
            names = dict.fromkeys((_short(name_of(one.before)), _short(name_of(one.after))))
            why = "paired by a guess" if one.guess else "the reports hold no times"
            out.append(f"{' and '.join(names)}: {why}")
        else:
            out.append(f"{_of(one)}: no GPU operation was recorded on both sides")
    out += [f"{_short(name)}: only before" for name in comparison.only_before]
    if not comparison.pairs and not comparison.only_before and not comparison.timelines:
        out.append("nothing of one side has a partner on the other")
    return out


def _pairs(comparison: Comparison) -> list[KernelPair | TimelinePair]:
    return [*comparison.pairs, *comparison.timelines]


def _of(pair: KernelPair | TimelinePair) -> str:
    return name_of(pair.after) if isinstance(pair, KernelPair) else pair.after.input


def _short(name: str) -> str:
    """A kernel without its parameters and what it returns."""
    return without_parameters(name).removeprefix("void ")


def _times(pair: KernelPair | TimelinePair) -> str:
    if isinstance(pair, KernelPair):
        return f"{pair.before.duration_us:.1f} us -> {pair.after.duration_us:.1f} us"
    time = next((row for row in pair.changes if row.unit == "us"), None)
    if time is None or time.before is None or time.after is None:  # a change too small for a row
        return f"a {pair.per}"
    return f"{time.before:.1f} us -> {time.after:.1f} us a {pair.per}"
