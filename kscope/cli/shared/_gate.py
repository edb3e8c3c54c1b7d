"""Gates of all commands: --fail-on, --baseline and --fail-if-slower to lines on standard error and an exit status."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared import _output
from kscope.model.errors import EXIT_OK, EXIT_THRESHOLD, KscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.engine.comparing.baseline import Baseline
    from kscope.engine.comparing.gate import Limits, Subject, Violation
    from kscope.engine.comparing.pairing import Rule
    from kscope.model.contract.analysis import Analysis, SkippedInput
    from kscope.model.contract.sass_diff import SassComparison

FAIL_ON = (
    "Exit 1 on a finding of this rule, of at least this severity (minor, major, critical), or that promises so much "
    "('gain>1.2'); each is one line on standard error. Exit 3 where the gate could not look."
)
BASELINE = "With --fail-on: let pass what this JSON of an earlier run had already, wherever recompiling moved it."

_GAIN = re.compile(r"gain\s*>(=?)\s*(\d+(?:\.\d+)?)x?", re.IGNORECASE)


def limits(fail_on: Sequence[str]) -> Limits:
    """The words of --fail-on. Raises KscopeError (status 2) for one that names nothing, click.BadParameter for a
    comparison that is not understood."""
    from kscope.engine.comparing.gate import SEVERITIES, Limits
    from kscope.rules.registry import matching

    words: list[tuple[str, frozenset[str]]] = []
    levels: list[int] = []
    gains: list[tuple[float, bool]] = []
    for word in (part.strip() for value in fail_on for part in value.split(",") if part.strip()):
        if word.lower() in SEVERITIES:
            levels.append(SEVERITIES.index(word.lower()))
        elif found := _GAIN.fullmatch(word):
            gains.append((float(found[2]), bool(found[1])))
        elif re.search("[<>=]", word):
            raise click.BadParameter(f"{word!r}: write a gain as gain>1.2 or gain>=1.2", param_hint="--fail-on")
        else:
            words.append((word, frozenset(matching(word))))
    gain = min(gains, key=lambda g: (g[0], not g[1]), default=(None, False))
    return Limits(tuple(words), SEVERITIES[min(levels)] if levels else None, gain[0], gain[1])


def rules(texts: Sequence[str]) -> list[Rule]:
    """--match. Raises click.BadParameter."""
    from kscope.engine.comparing.pairing import parse_rule

    try:
        return [parse_rule(text) for text in texts]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--match") from None


class Gate:
    """--fail-on and --baseline, read before any work is done."""

    def __init__(self, fail_on: Sequence[str], baseline: Path | None = None) -> None:
        """Raises KscopeError (status 2 for a word, 3 for a baseline that cannot be read), click.UsageError."""
        if baseline is not None and not fail_on:
            raise click.UsageError("--baseline is for --fail-on: say what fails.")
        self.baseline = baseline
        self.limits = limits(fail_on) if fail_on else None
        self.known: Baseline | None = None
        if baseline is not None and self.limits is not None:
            from kscope.engine.comparing.baseline import read_baseline

            self.known = read_baseline(baseline, self.limits)

    def of(self, analysis: Analysis) -> int:
        """Of kernels with all that their profile tells and of recordings; of functions where there is code alone."""
        if self.limits is None:
            return EXIT_OK
        from kscope.engine.comparing.gate import subjects

        functions = not analysis.kernels and not analysis.timelines
        return self.judge(subjects(analysis, functions=functions), analysis.skipped)

    def of_new(self, comparison: SassComparison) -> int:
        """Of what only the new one of two binaries has."""
        if self.limits is None:
            return EXIT_OK
        from kscope.engine.comparing.gate import new_code

        return self.judge(new_code(comparison), comparison.skipped)

    def judge(self, found: Sequence[Subject], skipped: Sequence[SkippedInput] = ()) -> int:
        """Print one line a violation; 1 where there is any. Raises KscopeError (status 3) where the gate could not look
        and nothing that it saw fails."""
        if self.limits is None:
            return EXIT_OK
        from kscope.engine.comparing.gate import of_finding, unseen, violations

        broken = list(violations(found, self.limits))
        if self.known is not None:
            known = self.known
            fresh = [(s, f) for s, f in broken if not known.knows(s, f)]
            if old := len(broken) - len(fresh):
                _output.say(f"kscope: {old} known from {self.baseline}, let pass")
            broken = fresh
        hint = "record what is missing, or take it out of the gate"
        return conclude([of_finding(s, f) for s, f in broken], unseen(found, self.limits, skipped), hint)


def conclude(broken: Sequence[Violation], reasons: Sequence[str], hint: str) -> int:
    """One line a violation; then the status. Raises KscopeError (status 3) where there are reasons and no violation."""
    from kscope.reports.gate import blind, line

    for one in broken:
        _output.say(line(one))
    if reasons and not broken:
        raise KscopeError("gate-blind", blind(reasons), hint)
    if reasons:
        _output.say(f"kscope: {blind(reasons)}")
    return EXIT_THRESHOLD if broken else EXIT_OK
