"""Findings in code that the user did not write: what its caller can do comes first."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from kscope.features.sass.library_code import inside_advice
from kscope.model.contract.analysis import Finding, LibraryKernel

TENSOR = "CMP201"
"""What idles are tensor cores: sizes and layouts, that a caller can change otherwise, do not bring them."""


def for_the_caller(findings: Iterable[Finding], library: LibraryKernel | None) -> list[Finding]:
    """In a library's kernel a fix is what the caller can change; where most of a finding's places lie in a library's
    header, what the caller can do is said before how the header would be mended."""
    return [_of_library(f, library) if library is not None else _of_header(f) for f in findings]


def _of_library(finding: Finding, library: LibraryKernel) -> Finding:
    change = library.tensor if finding.code == TENSOR and library.tensor else library.change
    return structs.replace(finding, fix=f"as its caller: {change}. Inside {library.library}: {finding.fix}")


def _of_header(finding: Finding) -> Finding:
    advice = [a for place in finding.locations if (a := inside_advice(place.file)) is not None]
    if not advice or 2 * len(advice) < len(finding.locations):
        return finding
    return structs.replace(finding, fix=f"{advice[0]}; else {finding.fix}")
