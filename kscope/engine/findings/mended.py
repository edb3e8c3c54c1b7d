"""Findings with the changes that mend them (`kscope.fixes`), for a profiled kernel and for bare code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.model.kernel import source_lines

if TYPE_CHECKING:
    from kscope.features.facts import Facts
    from kscope.features.sass.listing import Listing
    from kscope.fixes.given.setting import Setting
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.analysis import Finding


def of_kernel(facts: Facts, findings: list[Finding], lines: Lines | None = None) -> list[Finding]:
    """The findings of a report's kernel, with changes to the sources that the report holds, or to those given."""
    if facts.code is None or all(f.severity == "info" for f in findings):
        return findings
    from kscope.engine.findings.kept import proposed

    return proposed(setting_of(facts, lines), facts.code, findings)


def setting_of(facts: Facts, lines: Lines | None = None) -> Setting:
    """What changes to a profiled kernel are made for. Raises LookupError where the report has no SASS."""
    from kscope.fixes.given.setting import Setting

    code, kernel = facts.code, facts.kernel
    if code is None:
        raise LookupError("the report has no SASS")
    texts: dict[str, Sequence[str]] = {}

    def embedded(file: str) -> Sequence[str]:
        if file not in texts:
            texts[file] = source_lines(kernel.sources.get(file, "")) or (lines(file) if lines is not None else ())
        return texts[file]

    name, us = kernel.demangled or kernel.name, (kernel.duration_ns or 0.0) / 1e3
    return Setting(code, embedded, kernel.launch, kernel.name, kernel.device.sms, name, us)


def of_code(code: Listing, findings: list[Finding], lines: Lines | None) -> list[Finding]:
    """The findings of a function that nobody ran. lines: text of source files, where it is at hand."""
    if not findings:
        return findings
    from kscope.fixes.given.setting import Setting
    from kscope.fixes.propose import proposed

    return proposed(Setting(code, lines or (lambda file: ()), None, code.function), findings)
