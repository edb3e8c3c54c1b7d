"""The recordings that `make bench` makes are such as others can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kscope.parsers.timeline import kineto
from tests.support import tools

made = tools.load("bench_timelines")


@pytest.mark.parametrize("size", [1_000, 2_000_000])
def test_large_traces_are_json(size: int, tmp_path: Path) -> None:
    """One repetition, and several; with times since boot, and with absolute ones."""
    trace, epoch = tmp_path / "big.json", tmp_path / "epoch.json"
    assert made.big_trace(trace, size) == trace.stat().st_size >= size
    made.epoch_trace(trace, epoch)
    counts = [len(json.loads(path.read_bytes())["traceEvents"]) for path in (trace, epoch)]
    assert counts[0] == counts[1] > 1000
    assert len(kineto.read(trace).ops) > 100
