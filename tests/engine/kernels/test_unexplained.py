"""A large wait that no finding explains is named, with its place; one that is explained is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.engine.kernels.unexplained import EXPLAINS, unexplained
from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.rules.registry import all_rules
from tests.support.edit import with_metrics, without_columns


def test_barriers_without_a_finding(
    kernel: Callable[[str], Kernel], diagnosis: Callable[[str], KernelAnalysis]
) -> None:
    profiled = kernel("barrier.slow")
    (note,) = [n for n in unexplained(Facts(profiled), ()) if "barrier" in n]
    assert note.startswith("Unexplained: 7") and '"' in note and " at 0x" in note
    found = diagnosis("barrier.slow")
    assert "barrier-stalls" in [f.rule for f in found.findings]
    assert not any("wait for barrier" in n for n in found.notes)


def test_the_note_is_part_of_the_analysis(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    (note,) = [n for n in diagnosis("paged_kv.chunks").notes if n.startswith("Unexplained")]
    assert "wait for long scoreboard" in note and "STG.E.128 desc[UR4][R2.64], R4" in note


@pytest.mark.parametrize("case", ["dram_bound.triad", "divergence.fast", "ws_gemm.best"])
def test_waits_at_a_roof_are_the_roofs_and_roles_wait_by_design(
    case: str, diagnosis: Callable[[str], KernelAnalysis]
) -> None:
    assert not [n for n in diagnosis(case).notes if n.startswith("Unexplained")]


def test_counters_alone_say_what_but_not_where(kernel: Callable[[str], Kernel]) -> None:
    profiled = without_columns(kernel("barrier.slow"), lambda name: name.startswith("smsp__pcsamp"))
    (note,) = [n for n in unexplained(Facts(profiled), ()) if "barrier" in n]
    assert note.endswith("(--section SourceCounters)")


def test_constants_that_miss_their_cache_come_with_what_is_known_of_them(kernel: Callable[[str], Kernel]) -> None:
    """No capture waits for constants alone: the warps of one that waits for barriers are said to."""
    profiled = without_columns(kernel("barrier.slow"), lambda name: name.startswith("smsp__pcsamp"))
    (name,) = [n for n in profiled.metrics if "issue_stalled_barrier_per_issue_active.ratio" in n]
    other = name.replace("barrier", "imc_miss")
    moved = {other: profiled.metrics.get(name) or 0.0, name: 0.0}
    (note,) = [n for n in unexplained(Facts(with_metrics(profiled, moved)), ()) if "constants (imc miss)" in n]
    assert note.endswith("do not in shared memory (explain MEM111)")


def test_codes_are_those_of_rules() -> None:
    codes = [rule.code for rule in all_rules()]
    for why in EXPLAINS.values():
        assert all(any(code.startswith(begin) for code in codes) for begin in why)
