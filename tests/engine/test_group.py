"""Identical launches become one entry, others stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscope.engine.group import fold
from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import KernelAnalysis
from tests.support import reports


def timed(k: KernelAnalysis, *times: float | None) -> list[KernelAnalysis]:
    return [msgspec.structs.replace(k, id=f"0.{i}", duration_us=us) for i, us in enumerate(times)]


def test_same_report_three_times(report: Callable[[str], Path], tmp_path: Path) -> None:
    """Real launches: three equal ones and another, in one file."""
    path = tmp_path / "joined.ncu-rep"
    cases = ("launch_bound.tiny", "uncoalesced.slow", "launch_bound.tiny", "launch_bound.tiny")
    reports.join_reports([report(case) for case in cases], path)
    first, second = analyze_paths([path]).kernels
    assert (first.name, first.repeats) == ("rowsum_thread_per_row", None), "longest total time first"
    assert second.name == "tiny" and second.repeats is not None and second.duration_us is not None
    r = second.repeats
    assert r.count == 3 and r.min_us == r.median_us == r.max_us == second.duration_us
    assert r.total_us == pytest.approx(3 * second.duration_us)


def test_spread(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    (one,) = fold(timed(diagnosis("launch_bound.tiny"), 9.0, 2.0, 4.0, 3.0, 7.0))
    r = one.repeats
    assert r is not None and (r.count, r.min_us, r.median_us, r.max_us, r.total_us) == (5, 2, 4, 9, 25)
    assert (one.duration_us, one.id) == (4, "0.2"), "the launch of median time speaks for all"


def test_single_launch_has_no_spread(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    assert [k.repeats for k in fold([diagnosis("launch_bound.tiny")])] == [None]
    assert fold([]) == []


@pytest.mark.parametrize(
    "change",
    [
        {"demangled": "other()"}, {"input": "other.ncu-rep"}, {"nvtx": ["step 2"]}, {"workload": "graph"},
        {"launch": {"grid": (2, 1, 1)}}, {"launch": {"block": (32, 1, 1)}}, {"launch": {"shared_dynamic": 1024}},
        {"device": {"name": "NVIDIA B200"}},
    ],
    ids=lambda change: "-".join(change),
)  # fmt: skip
def test_differing_launches_stay_apart(change: dict[str, object], diagnosis: Callable[[str], KernelAnalysis]) -> None:
    k = diagnosis("launch_bound.tiny")
    values = {
        name: msgspec.structs.replace(getattr(k, name), **value) if isinstance(value, dict) else value
        for name, value in change.items()
    }
    assert len(fold([k, msgspec.structs.replace(k, **values), k])) == 2


def test_order_is_by_total_time(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    k = diagnosis("launch_bound.tiny")
    many = timed(k, *[2.0] * 10)
    lone = [
        msgspec.structs.replace(k, demangled=n, duration_us=us) for n, us in (("a", 15.0), ("b", 25.0), ("c", None))
    ]
    assert [g.demangled for g in fold([*lone, *many])] == ["b", k.demangled, "a", "c"]
