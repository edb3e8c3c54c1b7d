"""Reports with few sections: the verdict survives with less confidence, and what is missing is said."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.kernels import read_kernels
from kscope.rules.base import FAINT
from tests.support import patches
from tests.support.edit import without_metrics
from tests.support.labels import LABELS

KERNELS = ("row_stats.thread", "gemm_f32.vector")
SETS = ("sol", "basic", "counters", "detailed")
"""--section SpeedOfLight; --set basic; all sections of counters without SourceCounters; --set detailed."""
Diagnose = Callable[[str], KernelAnalysis]


def read(name: str) -> KernelAnalysis:
    with open_input(patches.report(f"sections/{name}/report")) as path:
        return analyze_kernel(next(iter(read_kernels(path))), name)


@pytest.mark.parametrize("case", KERNELS)
@pytest.mark.parametrize("collected", SETS)
def test_the_verdict_survives(collected: str, case: str, diagnosis: Diagnose) -> None:
    few, full = read(f"{collected}.{case}"), diagnosis(case)
    assert few.errors == [] and few.verdict.regime in (full.verdict.regime, "unknown")
    assert few.verdict.confidence < full.verdict.confidence or collected == "detailed"
    assert all(re.search(r"--(section|set) \w", n.why) for n in few.not_applicable)
    if collected == "detailed":
        # Sectors by who asked for them are in no set but the full one.
        assert {n.code for n in few.not_applicable} <= {"MEM115"}
        assert {f.code for f in few.findings} <= {f.code for f in full.findings}
    else:
        silent, rules = len(few.not_applicable), len(few.not_applicable) + len(few.passed) + len(few.findings)
        assert f"{silent} of {rules} rules could not look" in few.verdict.sentence
        assert "no rule promises" not in few.verdict.sentence


def test_counters_alone_say_little_and_say_so() -> None:
    found = {f.code: f for f in read("counters.row_stats.thread").findings}
    assert found["GRD401"].confidence > 0.8, "the launch is known"
    for code in ("MEM101", "LAT302"):
        assert found[code].confidence <= FAINT and found[code].locations == []
        assert "--section SourceCounters" in found[code].why
    assert found["MEM101"].estimate is not None and found["MEM101"].estimate.speedup > 1.5


def bare(k: Kernel) -> Kernel:
    return msgspec.structs.replace(k, program=None, counters=None)


def without_states(k: Kernel) -> Kernel:
    return without_metrics(bare(k), lambda name: name.startswith("smsp__average_"))


@pytest.mark.parametrize(("less", "least"), [(bare, 0.9), (without_states, 0.8)], ids=["bare", "without states"])
def test_regimes_without_sections(
    less: Callable[[Kernel], Kernel], least: float, kernel: Callable[[str], Kernel], diagnosis: Diagnose
) -> None:
    right = []
    for case, label in sorted(LABELS.items())[::3]:
        found = analyze_kernel(less(kernel(case)), case)
        assert found.errors == [] and found.verdict.confidence < diagnosis(case).verdict.confidence + 0.05
        right.append(found.verdict.regime in label["regime"])
    assert sum(right) / len(right) >= least
