"""Reports of older versions: a capture's result under the names that they used reads like the capture."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from kscope.model.kernel import Metrics
from kscope.parsers.ncu import old_names
from kscope.parsers.ncu.frames import Want
from kscope.parsers.ncu.kernels import _launch, to_kernel
from kscope.parsers.ncu.native import extract
from tests.support import patches
from tests.support.apart import apart


class Old:
    """An action of NVIDIA's reader whose metrics have other names, and some of which are not there."""

    def __init__(self, action: Any, names: dict[str, str], lost: tuple[str, ...] = ()) -> None:
        """names: today's -> theirs."""
        self._action, self._today, self._lost = action, {old: new for new, old in names.items()}, lost
        self._old = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._action, name)

    def metric_names(self) -> list[str]:
        every = (self._old.get(n, n) for n in self._action.metric_names())
        return [n for n in every if not n.startswith(self._lost or ("\0",))]

    def metric_by_name(self, name: str) -> Any:
        if name in self._old or (self._lost and name.startswith(self._lost)):
            return None
        return self._action.metric_by_name(self._today.get(name, name))


@cache
def report(path: str) -> Any:
    import ncu_report

    return ncu_report.load_report(path)


def check(claim: str, path: str) -> None:
    globals()[claim](report(path)[0][0])


@pytest.mark.parametrize("claim", ["source_counters_of_2020", "counters_of_2019", "grid_and_block_of_2022"])
def test_reads_like_today(claim: str) -> None:
    apart(check, claim, str(patches.built("h200/bank_conflict.slow/report")))


def read(action: Any) -> Any:
    return to_kernel({**extract(action, 0, Want(metrics=True)), "sources": {}}, "a")


def source_counters_of_2020(action: Any) -> None:
    now, then = read(action), read(Old(action, old_names.PER_PC))
    assert now.counters is not None and then.counters is not None
    for name in old_names.PER_PC:
        if name in now.counters.by_name:
            assert then.counters.by_name[name] == now.counters.by_name[name], name
    assert sum(then.counters.by_name["memory_l1_wavefronts_shared"]) > 1e6


def counters_of_2019(action: Any) -> None:
    states = {old_names.STATES.format(r): old_names.OLD_STATES + r for r in ("wait", "long_scoreboard", "barrier")}
    names = {new: old for old, new in old_names.WHOLE.items() if action.metric_by_name(new) is not None} | states
    stalls = {n: n.replace(old_names.STALLS, old_names.OLD_STALLS) for n in action.metric_names()
              if n.startswith(old_names.STALLS) and not n.endswith("_not_issued")}  # fmt: skip
    assert len(names) > 9 and len(stalls) > 10
    now, then = read(action), read(Old(action, {**names, **stalls}))
    for name in names:
        assert then.metrics[name] == now.metrics[name], name
    assert then.duration_ns == now.duration_ns
    assert now.counters is not None and then.counters is not None
    assert then.counters.by_name.keys() == now.counters.by_name.keys()


def test_no_instruction_is_spelt_twice() -> None:
    told = old_names.today(old_names.OLD_STATES + "no_instructions")
    assert told.endswith("stalled_no_instruction_per_issue_active.ratio")


def grid_and_block_of_2022(action: Any) -> None:
    """Only their sizes: 65,536 blocks of 256 threads, not a grid of 1."""
    then = read(Old(action, {}, lost=("launch__grid_dim_", "launch__block_dim_")))
    now = read(action)
    assert then.launch.blocks == now.launch.blocks > 1000 and then.launch.threads == now.launch.threads
    assert then.launch.known and then.launch.grid[1:] == (1, 1)


def test_neither_grid_nor_block() -> None:
    found = _launch(Metrics({}, {}))
    assert not found.known and found.blocks == 1
