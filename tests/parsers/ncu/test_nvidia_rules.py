"""Rules' results with tables, as Nsight Compute 2025 writes them (captures of our own)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.kernel import Kernel
from kscope.parsers.ncu.nvidia_rules import ROWS, plain, table


def test_tables_are_rows_of_text(kernel: Callable[[str], Kernel]) -> None:
    own = kernel("adam.step")
    (rule,) = (n for n in own.nvidia if n.tables and n.rule == "FPInstructions")
    (found,) = rule.tables
    assert found.headers == ["Location", "Source", "Opcode", "Executed Instructions"]
    assert len(found.rows) >= 3 and all(len(row) == len(found.headers) for row in found.rows)
    place, source, opcode, count = found.rows[0]
    assert place.startswith("u1.cu, line ") and "pp[j]" in source and opcode.startswith("F") and float(count) > 0
    said = next(n for n in analyze_kernel(own, "a").nvidia if n.rule == "FPInstructions" and n.tables)
    assert [t.rows for t in said.tables] == [found.rows]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("see @section:MemoryWorkloadAnalysis:Memory Workload Analysis@.", "see Memory Workload Analysis."),
        ("the @url:Guide:https://docs.nvidia.com/cuda/x.html#occupancy@ says", "the Guide says"),
        ("@source:u4.cu:100:u4.cu, line 101@", "u4.cu, line 101"),
        ("@sass:0x7f10:FADD R1@ and mail me@home", "FADD R1 and mail me@home"),
    ],
)
def test_links_become_their_words(text: str, words: str) -> None:
    assert plain(text) == words


def test_tables_that_are_none() -> None:
    assert table({"title": "t", "headers": ["a"], "data": []}) is None
    assert table({"title": "t", "headers": ["a", "b"], "data": [["1"], ["1", "2"]]}) is None
    long = table({"title": "t", "headers": ["a"], "data": [[float(i) for i in range(99)]]})
    assert long is not None and len(long[2]) == ROWS and long[2][7] == ["7"]
