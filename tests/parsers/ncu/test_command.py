"""How a report says that it was recorded."""

from __future__ import annotations

import io

import pytest

from kscope.parsers.files.ncu_command import _parsed, options
from tests.support import reports


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--set full --clock-control none -f ./app --cache-control none", {"set": "full", "clock-control": "none"}),
        ("-f ./app --set full", {}),
        ("--set=roofline --cache-control=none -k regex:gemm -s 3 -c 1 x", {
            "set": "roofline", "cache-control": "none", "kernel-name": "", "launch-skip": "3"}),
        ("-o out -f --set full ./a", {"set": "full"}),
        ("--clock-control $(reboot) ./a", {"clock-control": ""}),
        ("--set", {"set": ""}),
    ],
)  # fmt: skip
def test_options(words: str, found: dict[str, str]) -> None:
    assert _parsed(words.split()) == found


def test_of_a_report() -> None:
    data = reports.plain("row_stats.thread")
    found = options(io.BytesIO(data), len(data))
    assert found["set"] == "full" and found["clock-control"] == "none" and "cache-control" not in found


def test_a_report_that_does_not_say() -> None:
    data = reports.plain("row_stats.thread")
    without = data.replace(b"/ncu --", b"/ncx --")
    assert without != data and options(io.BytesIO(without), len(without)) == {}
