"""The pack of machine code that nobody profiled: what to do, bounds, the code, and what only counters would tell."""

from __future__ import annotations

import re

import pytest

from kscope.cli.diagnose._bounded import analysis
from kscope.reports import Options
from kscope.reports.llm import bounded, tokens
from tests.support.sass import path

CUBIN = str(path("arithmetic.cu", "sm_90a"))


def pack(budget: int) -> str:
    found = analysis(CUBIN, "split_divide", "41us", "4096", "256", 0, None, None, annotate=True)
    return bounded.render(found, Options(budget=budget))


@pytest.mark.parametrize("budget", [200, 500, 1000, 20_000])
def test_budgets_are_kept(budget: int) -> None:
    text = pack(budget)
    assert tokens.count(text) <= budget
    assert "split_divide" in text and "Next: go on: CMP205" in text
    assert sum(line.startswith("```") for line in text.splitlines()) % 2 == 0


def test_a_rewrite_needs_nothing_else() -> None:
    text = pack(20_000)
    order = ["## Verdict, without counters", "## What the code proves", "## Bounds", "## Code, annotated",
             "## What only counters would tell"]  # fmt: skip
    assert [text.index(one) for one in order] == sorted(text.index(one) for one in order)
    found = analysis(CUBIN, "split_divide", "41us", "4096", "256", 0, None, None, annotate=True)
    (function,) = found.programs[0].functions
    code = text[text.index("## Code") :].split("```")[1]
    assert re.findall(r"^([0-9a-f]{4}) ", code, re.M) == [f"{row.pc:04x}" for row in function.listing]
    assert re.search(r"MUFU\.RCP R9, R9  ; CMP205", code) and "137.3 MB can have moved" in text


def test_less_room_holds_the_loop() -> None:
    code = pack(1800)
    assert "01b0 IABS" in code and "0000 LDC R1" not in code
