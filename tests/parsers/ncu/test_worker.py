"""The reader's process: the same kernels however it is started."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscope.parsers.ncu.worker import Reader, Skipped, Want
from tests.support.reports import fixture, plain


def read(path: Path, want: Want) -> list[dict[str, Any]]:
    with contextlib.closing(Reader(str(path), want)) as reader:
        raws = (raw for raw in reader.kernels() if not isinstance(raw, Skipped))
        return [{**raw, "sources": dict(raw["sources"])} for raw in raws]


@pytest.mark.parametrize("want", [Want(charts=True), Want(nvidia=False, timelines=False), Want(metrics=True)])
def test_a_reader_without_fork_keeps_its_options(want: Want, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes cannot be forked the reader is a new interpreter: it decodes what was asked for, all the same."""
    report = tmp_path / "report.ncu-rep"
    report.write_bytes(plain("tma_scale.stages2"))
    forked = read(report, want)
    monkeypatch.delattr(os, "fork")
    assert read(report, want) == forked
    assert forked and bool(forked[0]["charts"]) == want.charts and bool(forked[0]["nvidia"]) == want.nvidia


BUSY = """
import sys, ncu_report
action = ncu_report.load_report(sys.argv[1])[0][0]
print(action.sass_by_pc(action.metric_by_name("launch__function_pcs").as_uint64(0)))  # disassembles
import kscope
(kernel,) = kscope.analyze(sys.argv[2]).kernels
print("diagnosed", kernel.verdict.regime)
"""


@pytest.mark.parametrize("packed", [False, True])
def test_beside_nvidias_library_at_work(packed: bool, report: Callable[[str], Path], tmp_path: Path) -> None:
    """A notebook that has disassembled with ncu_report keeps its lock, for which a fork would wait."""
    path = report("bank_conflict.slow")
    command = [sys.executable, "-c", BUSY, str(path), str(fixture("bank_conflict.slow") if packed else path)]
    quick = {**os.environ, "KSCOPE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=quick)
    assert "diagnosed memory" in done.stdout, done.stderr
