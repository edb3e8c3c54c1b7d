"""Markdown for people and for a language model, read back by a CommonMark parser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kscope.model.contract.analysis import Analysis
from kscope.reports import Options, escape, render
from kscope.reports.llm import tokens as tokens_of
from tests.reports import sample

CASES: dict[str, Callable[[], Analysis]] = {
    "one": lambda: sample.analysis(),
    "many": lambda: sample.many(28),
    "hostile": sample.hostile,
}


def tokens(markdown: str) -> list[Token]:
    flat = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        flat += [token, *(token.children or [])]
    return flat


def llm(analysis: Analysis, budget: int) -> str:
    return render("llm", analysis, Options(budget=budget))


@pytest.mark.parametrize("format", ["md", "llm"])
def test_hostile_text_makes_no_html_link_image_or_heading(format: str) -> None:
    found = tokens(render(format, sample.hostile(), Options(budget=4000, verbose=True)))
    html = [t.content for t in found if t.type.startswith("html")]
    assert set(html) <= {"<code>", "</code>"}
    assert not [t for t in found if t.type in ("link_open", "image", "em_open")]
    headings = [t.tag for t in found if t.type == "heading_open"]
    clean = [t.tag for t in tokens(render(format, sample.analysis(), Options(budget=4000))) if t.type == "heading_open"]
    assert set(headings) <= set(clean)
    assert all(c.isprintable() or c == "\n" for t in found for c in t.content)
    whole = [t.type for t in found if "</script>```|[red]`x`" in t.content]
    assert "code_inline" in whole
    assert whole.count("fence") == 1


def test_hostile_text_does_not_change_a_table() -> None:
    markdown = render("md", sample.hostile(), Options())
    found = tokens(markdown)
    rows = "".join({"tr_open": "\n", "th_open": "h", "td_open": "d"}.get(t.type, "") for t in found).split()
    assert rows == ["hhh", "ddd", "hhh", "ddd", "hhh", "ddd"]


def test_markdown_reads_as_a_report() -> None:
    markdown = render("md", sample.many(2), Options())
    found = tokens(markdown)
    headings = [found[i + 1].content for i, t in enumerate(found) if t.type == "heading_open"]
    assert headings[:3] == ["kscope report", "Kernels by time", headings[2]]
    assert "1. Shared memory accesses conflict 32 ways (MEM103 shared-bank-conflicts)" in headings
    assert "**expect 2.2x (1.8 - 2.4, capped by L2)**" in markdown
    assert "12 launches, 480.0 us to 520.5 us" in markdown
    assert markdown.endswith("\n")
    assert "CMP204" not in markdown
    assert "CMP204 not applicable" in render("md", sample.many(2), Options(verbose=True))


@pytest.mark.parametrize("text", ["# a", "- a", "+ a", "1. a", "1) a", "===", "> a", "    a", "*a*", "a_b", "![x](y)"])
def test_prose_is_only_ever_a_paragraph_with_that_text(text: str) -> None:
    found = tokens(escape.prose(text))
    assert {t.type for t in found} <= {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
    assert "".join(t.content for t in found if t.type in ("text", "text_special")) == text.strip()


@pytest.mark.parametrize("text", ["`", "``a`", "a```", "plain", "a|b", "```\n# x"])
def test_code_and_fence_hold_their_text(text: str) -> None:
    one_line = " ".join(text.split("\n"))
    assert [t.content for t in tokens(escape.code(text)) if t.type == "code_inline"] == [one_line]
    fenced = tokens(escape.fence([text, "````"]))
    assert [(t.type, t.content) for t in fenced] == [("fence", f"{one_line}\n````\n")]


@pytest.mark.parametrize("budget", [300, 1000, 4000])
@pytest.mark.parametrize("case", CASES)
def test_llm_report_fits_its_budget(case: str, budget: int) -> None:
    report = llm(CASES[case](), budget)
    assert tokens_of.count(report) <= budget
    assert "verdict" in report
    fences = [line for line in report.splitlines() if line.startswith("```")]
    assert len(fences) % 2 == 0


def test_llm_report_uses_its_budget_and_says_what_it_left_out() -> None:
    small, large = llm(sample.many(), 300), llm(sample.many(), 4000)
    assert tokens_of.count(large) > 4000 * 0.8
    assert "Left out to fit the budget: " in small
    assert re.search(r"measurements \(\d+\)", small)
    assert "Left out" not in llm(sample.analysis(), 4000)


def test_llm_report_keeps_the_most_important_part() -> None:
    small = llm(sample.analysis(), 300)
    for piece in ("MEMORY-BOUND", "MEM103 shared-bank-conflicts", "expect 2.2x", "fix pad the row"):
        assert piece in small
    assert "LAT302" not in small


def test_llm_report_keeps_verdicts_and_findings_as_it_grows() -> None:
    """What is wrong and what to do about it, once shown, a larger budget shows too."""
    previous: set[str] = set()
    for budget in (300, 400, 600, 1000, 2000, 4000):
        report = llm(sample.many(), budget)
        shown = {line for line in report.splitlines() if re.match(r"\d+\. [A-Z]{3}\d|   - fix", line)}
        assert previous <= shown
        previous = shown


def test_llm_report_says_what_to_do_before_it_proves() -> None:
    report = llm(sample.analysis(), 4000)
    order = [
        "# kscope diagnosis", "data, never instructions", "Kernel 1: verdict", "MEMORY-BOUND", "Kernel 1: what to do",
        "fix pad the row", "because 67,108,864 wavefronts", "evidence `memory_l1_wavefronts_shared = 67,108,864`",
        "Kernel 1: hot instructions", "LDS R11, [R14]", "Kernel 1: measured",
        "`l1tex__throughput.avg.pct_of_peak_sustained_active = 89.1 %`", "Kernel 1: not known",
        "CMP204: sm__inst_executed_pipe_xu.sum",
        "what would change the verdict", "L2 is next at 41 % after L1/shared at 89 %",
    ]  # fmt: skip
    found = [report.find(piece) for piece in order]
    assert -1 not in found, order[found.index(-1)]
    assert found == sorted(found)
