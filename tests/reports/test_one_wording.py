"""What two places say of one thing they say in the same words: text, Markdown, the pack for a language model and the
words that the HTML report is given; no sentence that a person would have to mend."""

from __future__ import annotations

import re
from functools import cache

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis, KernelAnalysis
from kscope.model.units import at_most, precision, span, spelled, times, with_article
from kscope.reports import Options, render, words
from kscope.reports.html.page import said
from kscope.reports.phrases import order
from kscope.reports.terminal import STYLES
from tests.support.reports import fixture

CASES = ("bank_conflict.slow", "sgemm.blocktile2d", "ws_gemm.stages2", "dram_bound.triad", "tma_scale.stages2",
         "launch_bound.tiny", "gemm_bf16.wgmma")  # fmt: skip


@cache
def analysis(case: str) -> Analysis:
    return analyze_paths([fixture(case)])


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("case", CASES)
def test_the_same_figures_in_every_format(case: str) -> None:
    kernel = analysis(case).kernels[0]
    told = said(kernel)
    text = flat(render("text", analysis(case), Options(verbose=True, width=200)))
    pack = flat(render("llm", analysis(case), Options(budget=20_000)))
    if kernel.headroom is not None:
        bound = words.headroom(kernel.headroom)
        assert told["headroom"] == bound
        assert f"headroom {bound}" in text
        assert f"Headroom {bound}" in pack
    for finding in kernel.findings:
        expect = words.expectation(finding.estimate)
        assert told["expect"][finding.code] == expect
        assert expect in text, finding.code
    if kernel.next_step is not None and kernel.next_step.code and kernel.next_step.speedup:
        assert f"{times(kernel.next_step.speedup)}, {kernel.next_step.code}" in text


@pytest.mark.parametrize("case", CASES)
def test_whose_fault_it_is_stands_in_every_format(case: str) -> None:
    kernel = analysis(case).kernels[0]
    first = kernel.hot[0]
    assert first.cause
    for form in ("text", "llm", "md"):
        shown = flat(render(form, analysis(case), Options(verbose=True, budget=20_000, width=300)))
        assert first.cause in shown, form
    assert said(kernel)["hot"][0]["why"].endswith(first.cause)


def test_a_full_queue_names_who_fills_it() -> None:
    """The hottest instruction of a kernel with bank conflicts is an S2R that can do nothing for it."""
    first = analysis("bank_conflict.slow").kernels[0].hot[0]
    assert first.sass.startswith("S2R")
    assert first.cause.startswith("queues behind the LDS at 0290")
    assert first.cause_pcs == [0x290]
    short = render("text", analysis("bank_conflict.slow"), Options())
    assert "queues behind the LDS at 0290" in flat(short), "also without -v"


def test_a_spin_on_an_mbarrier_names_its_role_and_whom_it_waits_for() -> None:
    first, second = analysis("tma_scale.stages2").kernels[0].hot[:2]
    assert first.cause.startswith("the consumer waits for data that the producer asked for, at the SYNCS at")
    assert second.cause.startswith("the producer waits for the consumer")


def test_all_that_a_finding_covers_is_told() -> None:
    kernel = analysis("sgemm.blocktile2d").kernels[0]
    wide = next(f for f in kernel.findings if len(f.covered) > len(f.locations))
    assert wide.covered_share is not None
    assert set(wide.covered) > {place.pc for place in wide.locations}
    shown = sum(place.share or 0.0 for place in wide.locations)
    assert wide.covered_share >= shown - 0.01, "in all: not only of the places that are listed"
    text = flat(render("text", analysis("sgemm.blocktile2d"), Options(width=200)))
    assert f"waited for by {words.percent(wide.covered_share)} at all {len(wide.covered)}" in text


def test_sentences_that_were_mended() -> None:
    everything = " ".join(
        flat(render(form, analysis(case), Options(verbose=True, budget=20_000, width=400)))
        for case in CASES for form in ("text", "llm", "md")
    )  # fmt: skip
    assert not re.search(r"\b1 (stages|barriers|warps|blocks|rules)\b", everything)
    assert not re.search(r"\ba (8|11|18)-way|\ban (?!8|11\b|18\b)\d+-way", everything)
    assert not re.search(r"\btier [ABC]\b", everything), "a letter tells nobody anything"
    assert "TENSOR BF16" not in everything
    triad = analysis("dram_bound.triad").kernels[0]
    l2, dram = (next(u.pct for u in triad.utilization if u.unit == name) for name in ("L2", "device memory"))
    said_why = "handing the same bytes on" in triad.verdict.sentence
    assert (l2 > dram) == said_why, "why the fuller unit is not the limit"


def test_numbers_in_words() -> None:
    assert [times(x) for x in (1.094, 2.25, 21.4)] == ["1.09x", "2.2x", "21x"]
    assert span(1.3, 2.61, 2.3) == "1.3 - 2.6"
    assert [at_most(x) for x in (2.6, 128.0)] == ["2.6x", ">100x"]
    assert [with_article(n, "-way") for n in (2, 8, 11, 32)] == ["a 2-way", "an 8-way", "an 11-way", "a 32-way"]
    assert [precision(n) for n in ("fp32", "tensor bf16")] == ["FP32", "tensor BF16"]
    assert [spelled(n) for n in (1, 12, 40)] == ["one", "twelve", "40"]


def test_the_order_of_suggestions_has_a_reason() -> None:
    for case in CASES:
        kernel: KernelAnalysis = analysis(case).kernels[0]
        ranked = [f for f in kernel.findings if f.severity != "info"]
        assert bool(order.order(kernel.findings)) == (len(ranked) > 1)
        gains = [f.estimate.speedup if f.estimate else 1.0 for f in ranked]
        if len(ranked) > 1 and gains != sorted(gains, reverse=True):
            assert order.order(kernel.findings) != order.PLAIN


def _luminance(red: int, green: int, blue: int) -> float:
    parts = [c / 255 for c in (red, green, blue)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("style", ["compute", "memory", "overhead", "bar"])
def test_colours_of_the_terminal_can_be_read_on_black_and_on_white(style: str) -> None:
    number = int(re.search(r"38;5;(\d+)", STYLES[style])[1]) - 16  # type: ignore[index]
    levels = (0, 95, 135, 175, 215, 255)
    light = _luminance(levels[number // 36], levels[number // 6 % 6], levels[number % 6])
    assert (light + 0.05) / 0.05 >= 3
    assert 1.05 / (light + 0.05) >= 3
