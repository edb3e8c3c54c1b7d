"""The synthetic fleet holds what it says, and the report finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscope.fleet import mapping
from kscope.fleet.summary import report
from kscope.parsers.ncu.kernels import read_kernels
from tests.fleet.test_ingest import put
from tools import make_fleet


def test_numbers_stand_where_they_are_changed(tmp_path: Path) -> None:
    case = make_fleet.base("hash.rounds")
    before, after = tmp_path / "a.ncu-rep", tmp_path / "b.ncu-rep"
    before.write_bytes(case.data)
    after.write_bytes(case.made(1_790_000_000, 1.25, 528))
    (old,), (new,) = read_kernels(str(before)), read_kernels(str(after))
    assert (new.duration_ns or 0) / (old.duration_ns or 1) == pytest.approx(1.25)
    assert new.launch.grid == (528, 1, 1) != old.launch.grid
    rate = "dram__bytes.sum.per_second"
    assert new.metrics[rate] * 1.25 == pytest.approx(old.metrics[rate])
    clock = "sm__cycles_elapsed.avg.per_second"
    assert new.metrics[clock] == old.metrics[clock]


@pytest.mark.slow
def test_what_was_planted_is_found(tmp_path: Path) -> None:
    truth = make_fleet.make(tmp_path / "in", reports=40, nights=8, seed=4, pack=True)
    put([str(tmp_path / "in")], tmp_path / "data", lambda tasks: mapping.by_processes(tasks, 2))
    said = report(tmp_path / "data")
    planted = truth["planted"]
    assert isinstance(planted, list) and planted
    assert sorted(m.since[:10] for m in said.slower) == sorted(p["date"] for p in planted if p["slower"])
    assert sorted(m.since[:10] for m in said.faster) == sorted(p["date"] for p in planted if not p["slower"])
    damaged = truth["damaged"]
    assert isinstance(damaged, list) and said.totals.refused == len(damaged)
