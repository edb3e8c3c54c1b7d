"""`next`: stop where nothing is to be gained, go on where a fault was planted, by the labels of the captures."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.contract.analysis import Analysis, KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.model.units import times
from kscope.napkin.asked import build
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.kernels import read_kernels
from kscope.reports import Options, render
from kscope.reports.html import page
from tests.support import patches
from tests.support.edit import without_metrics
from tests.support.labels import LABELS, PAIRS
from tests.support.reports import said_of

Diagnose = Callable[[str], KernelAnalysis]


def told(kernel: KernelAnalysis) -> str:
    assert kernel.next_step is not None
    return kernel.next_step.do


@pytest.mark.parametrize("case", [case for case in LABELS if case in said_of()])
def test_every_label(case: str, diagnosis: Diagnose) -> None:
    wanted = "stop" if LABELS[case].get("no_gain") else "go_on"
    kernel = diagnosis(case)
    assert told(kernel) == wanted, kernel.next_step


@pytest.mark.parametrize("case", [case for case in PAIRS if case in said_of()])
def test_go_on_names_what_to_do(case: str, diagnosis: Diagnose) -> None:
    """The rule is one of the kernel's findings, and the gain is what that promises."""
    kernel = diagnosis(case)
    step = kernel.next_step
    assert step is not None and step.speedup is not None and step.speedup > 1.03
    finding = next(f for f in kernel.findings if f.code == step.code)
    assert finding.estimate is not None and finding.estimate.speedup == step.speedup
    assert step.words == f"go on: {times(step.speedup)}, {step.code}"
    odds = step.odds
    assert odds is not None and odds.least <= step.speedup < (odds.below or float("inf"))


def without_code_and_states(kernel: Kernel) -> Kernel:
    bare = msgspec.structs.replace(kernel, program=None, counters=None, sections=())
    return without_metrics(bare, lambda name: not name.startswith("gpu__time_duration"))


@pytest.mark.parametrize("case", ["triton_rowsum.along", "exp_chain.base", "bank_conflict.slow"])
def test_what_was_not_collected_is_to_be_measured(case: str, kernel: Callable[[str], Kernel]) -> None:
    """Neither stop nor a promise from a report with a time and nothing else."""
    found = analyze_kernel(without_code_and_states(kernel(case)), case)
    assert found.next_step is not None and found.next_step.do == "measure"
    assert "--set full" in found.next_step.words and found.next_step.code is None
    assert found.verdict.regime == "unknown" and found.next_step.command is not None


@pytest.mark.parametrize("collected", ["sol", "basic"])
def test_a_report_with_few_sections_never_says_stop(collected: str) -> None:
    for case in ("row_stats.thread", "gemm_f32.vector"):
        with open_input(patches.report(f"sections/{collected}.{case}/report")) as path:
            found = analyze_kernel(next(iter(read_kernels(path))), case)
        assert found.next_step is not None and found.next_step.do in ("measure", "go_on"), found.next_step


def test_the_problem_says_whether_its_roof_is_the_kernels(kernel: Callable[[str], Kernel]) -> None:
    """4096 x 4096 floats added to a row sum: the same kernel at its roof, asked for what it does and for a tenth."""
    own = kernel("uncoalesced.fast")
    read = own.metrics.get("dram__bytes_read.sum")
    assert read is not None
    floats = int(read / 4)
    same = analyze_kernel(own, "a", problem=build(f"reduce {floats} fp32")).next_step
    less = analyze_kernel(own, "b", problem=build(f"reduce {floats // 10} fp32")).next_step
    assert same is not None and same.do == "stop" and "to the roof of the problem" in same.words
    assert less is not None and less.do == "change_algorithm" and less.speedup is not None and 8 < less.speedup < 12
    assert re.match(r"change the algorithm: \d", less.words)


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
@pytest.mark.parametrize("case", ["bank_conflict.slow", "exp_chain.base"])
def test_every_format_says_it(format_: str, case: str, analysis: Callable[[str], object], diagnosis: Diagnose) -> None:
    step = diagnosis(case).next_step
    assert step is not None
    text = " ".join(render(format_, analysis(case), Options(width=100)).split())  # type: ignore[arg-type]
    assert step.words in text.replace("\\", "")


def test_json_calls_it_next(analysis: Callable[[str], object]) -> None:
    value = msgspec.json.decode(render("json", analysis("exp_chain.base")))  # type: ignore[arg-type]
    assert value["kernels"][0]["next"]["do"] == "stop"


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
def test_every_format_says_how_such_promises_fared(format_: str, analysis: Callable[[str], Analysis]) -> None:
    value = analysis("bank_conflict.slow")
    step = value.kernels[0].next_step
    assert step is not None and step.odds is not None and step.odds.below is None  # it promises twenty times and more
    told = f"{step.odds.built} built, {step.odds.gained} gained a tenth, {step.odds.slower} slower"
    assert told in " ".join(render(format_, value, Options(width=100)).split())  # type: ignore[arg-type]
    assert told in page.said(value.kernels[0])["next"]
