"""One change that several findings ask for is written out at the first of them."""

from __future__ import annotations

import pytest

from kscope.engine.run import analyze_paths
from kscope.reports import Options, render
from kscope.reports.phrases.fixes import told_before
from tests.support.reports import fixture


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
def test_lines_stand_once(format_: str) -> None:
    analysis = analyze_paths([fixture("best4.block")])
    (kernel,) = analysis.kernels
    first = kernel.findings[0].fixes[0]
    again = [f.code for f in kernel.findings[1:] if any(x.identity == first.identity for x in f.fixes)]
    assert len(again) == 2, "the case has findings that ask for one change"
    text = " ".join(render(format_, analysis, Options()).split())
    assert text.count("template <int B> __device__ void best4_rows") == 1
    if format_ != "llm":  # a pack leaves out what its budget does not hold
        assert text.count(f"as at 1 ({kernel.findings[0].code}): {first.title}") == len(again)


def test_refusals_and_minor_findings_are_not_pointed_at() -> None:
    (kernel,) = analyze_paths([fixture("best4.block")]).kernels
    told = told_before(kernel.findings)
    codes = {f.code for f in kernel.findings[1:] if f.severity != "info"}
    assert told
    assert {code for code, _ in told} <= codes
