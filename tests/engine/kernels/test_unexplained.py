"""A large wait that no finding explains is named, with its place; one that is explained is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from kscope.engine.kernels.unexplained import EXPLAINS, unexplained
from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Kernel, Metrics
from kscope.rules.registry import all_rules
from tests.support.edit import without_columns


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


@pytest.mark.parametrize(
    ("case", "waits", "known"), [("barrier.slow", "barrier", True), ("drift.one", "long_scoreboard", False)]
)
def test_what_is_known_of_constants_is_said_of_loops(
    case: str, waits: str, known: bool, kernel: Callable[[str], Kernel]
) -> None:
    """No capture waits for constants: what these wait for, in a loop and outside of any, is given their name."""
    real = kernel(case)
    assert real.counters is not None
    columns = {
        name.replace(waits, "imc_miss"): column for name, column in real.counters.by_name.items() if "imc_" not in name
    }
    metrics = {name.replace(waits, "imc_miss"): v for name, v in real.metrics.items() if "imc_" not in name}
    counters = structs.replace(real.counters, by_name=columns)
    named = structs.replace(real, metrics=Metrics(metrics, {}), counters=counters)
    (note,) = [n for n in unexplained(Facts(named), ()) if "constants (imc miss)" in n]
    assert note.endswith("do not in shared memory (explain MEM111)") == known


def test_codes_are_those_of_rules() -> None:
    codes = [rule.code for rule in all_rules()]
    for why in EXPLAINS.values():
        assert all(any(code.startswith(begin) for code in codes) for begin in why)
