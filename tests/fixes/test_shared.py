"""Bank conflicts of captures: what is proposed clears them, as the measured version does or better."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import WAVEFRONTS as COUNTED
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Fix, KernelAnalysis


def changes(kernel: KernelAnalysis, code: str) -> list[Fix]:
    return [fix for finding in kernel.findings if finding.code == code for fix in finding.fixes]


@pytest.mark.parametrize(
    ("slow", "fast", "kind"),
    [
        ("bank_conflict.slow", "bank_conflict.fast", "pad"),
        ("bank_conflict.slow", "bank_conflict.fast", "swizzle"),
        ("gemm_bf16.mma", "gemm_bf16.swizzled", "swizzle"),
        ("mha.plain", "mha.swizzled", "swizzle"),
        ("fft1024.packed", "fft1024.padded", "pad"),
    ],
)
def test_wavefronts_after_are_those_of_the_measured_version(
    slow: str, fast: str, kind: str, diagnosis: Callable[[str], KernelAnalysis], facts: Callable[[str], Facts]
) -> None:
    """`before` is what the profiler counted in the slow version, `after` at most what it counted in the fast one."""
    fix = next(f for f in changes(diagnosis(slow), "MEM103") if f.kind == kind)
    counted = {}
    for case in (slow, fast):
        code = facts(case).code
        assert code is not None
        counted[case] = sum(code.column(COUNTED) or ())
    figures = [p for p in fix.proof if p.unit == "wavefronts"]
    assert sum(p.before for p in figures) == pytest.approx(counted[slow], rel=0.15)  # it counts no cp.async
    assert sum(p.after for p in figures) <= 1.1 * counted[fast]


def test_the_proposed_line_is_the_measured_version_s(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    (fix, swizzle) = changes(diagnosis("bank_conflict.slow"), "MEM103")
    assert [(e.line, e.becomes.strip()) for e in fix.edits] == [(70, "__shared__ float t[32][32 + PAD + 1];")]
    assert fix.price == next(f for f in diagnosis("bank_conflict.slow").findings if f.code == "MEM103").estimate
    assert fix.parameters == {"t.pitch": 128, "t.pad": 4}
    assert [c.state for c in fix.conditions] == ["proved", "proved", "check"]
    assert "other instances" in fix.conditions[-1].holds, "padding the fast one too would make it conflict"
    assert "(threadIdx.x) ^ ((threadIdx.y + j) & 31)" in swizzle.edits[0].becomes


def test_every_array_that_conflicts_is_cleared(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """Padding rows helps one of two arrays alone: what clears both stands first and has the price."""
    first, second = changes(diagnosis("gemm_f32.vector"), "MEM103")
    assert first.kind == "swizzle" and first.price is not None
    assert {e.line for e in first.edits} == {98, 99, 105}
    assert second.kind == "pad" and second.price is None


def test_addresses_from_data_are_refused_but_for_columns(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """Each thread's row as a column holds whatever the data; a layout by padding or XOR cannot be proved."""
    columns, fix = changes(diagnosis("digits.thread_rows"), "MEM103")
    assert fix.refused and not fix.code and not fix.edits and fix.price is None
    assert columns.printable and columns.parameters == {"row": 64, "rows": 128}


def test_what_conflicts_nowhere_gets_nothing(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    assert all(not f.fixes for f in diagnosis("bank_conflict.fast").findings if f.code == "MEM103")
