"""Findings in code that the user did not write: what its caller can do comes first."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from kscope.features.facts import Facts
from kscope.features.sass.library_code import inside_advice, library_of
from kscope.model.analysis import Finding


def for_the_caller(facts: Facts, findings: Iterable[Finding]) -> list[Finding]:
    """In a library's kernel a fix is what the caller can change; where most of a finding's places lie in a library's
    header, what the caller can do is said before how the header would be mended."""
    kernel = facts.kernel
    whose = library_of(kernel.demangled) or library_of(kernel.name)
    return [_of_library(f, *whose) if whose is not None else _of_header(f) for f in findings]


def note_on_library(facts: Facts) -> list[str]:
    """A sentence on whose kernel this is."""
    kernel = facts.kernel
    whose = library_of(kernel.demangled) or library_of(kernel.name)
    return [f"A kernel of {whose[0]}: its caller can change {whose[1]}"] if whose is not None else []


def _of_library(finding: Finding, who: str, advice: str) -> Finding:
    return structs.replace(finding, fix=f"as its caller: {advice}. Inside {who}: {finding.fix}")


def _of_header(finding: Finding) -> Finding:
    advice = [a for place in finding.locations if (a := inside_advice(place.file)) is not None]
    if not advice or 2 * len(advice) < len(finding.locations):
        return finding
    return structs.replace(finding, fix=f"{advice[0]}; else {finding.fix}")
