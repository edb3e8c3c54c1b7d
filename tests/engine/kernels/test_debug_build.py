"""Of a debug build nothing is said but that it is one."""

from __future__ import annotations

from collections.abc import Callable

from kscope.model.contract.analysis import KernelAnalysis


def test_everything_else_is_withdrawn(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    found = diagnosis("build.debug")
    (only,) = found.findings
    assert only.code == "CMP212" and only.estimate is not None
    assert only.estimate.low < 120.2 / 22.0 < only.estimate.high, "the gain that was measured"
    withdrawn = {n.code for n in found.not_applicable if "debug build" in n.why}
    assert {"LAT303", "LAT308"} <= withdrawn and not any(n.startswith("Unexplained") for n in found.notes)
    assert "(CMP212)" in found.verdict.next


def test_optimised_code_keeps_its_findings(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    found = diagnosis("build.optimised")
    assert "CMP212" in found.passed and len(found.findings) > 1
