"""Short recordings: what they hold of a start, of steps and of a queue, on events whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kscope.engine.timelines.timeline_verdict import decide
from kscope.features.timeline.facts import TimelineView
from kscope.parsers.timeline import kineto
from tests.support import traces
from tests.support.traces import event, launch

_Events = list[dict[str, Any]]


def view(folder: Path, events: _Events) -> TimelineView:
    return TimelineView(kineto.read(traces.trace(folder, events)))


def _slow_first(took: float, kernels: int = 20) -> _Events:
    """Kernels of one name each 20 us, and after ten of them the first of another: its launch takes so long."""
    out: _Events = []
    late = 0.0
    for i in range(kernels):
        at, name = 20.0 * i + late, "first" if i < kernels // 2 else "second"
        if i == kernels // 2:
            out.append(event("cuda_runtime", "cudaLaunchKernel", at, took, correlation=i + 1))
            out += [e for e in launch(i + 1, at, at + took + 5, 10, name) if e["cat"] == "kernel"]
            late = took
        else:
            out += launch(i + 1, at, at + 5, 10, name)
    return out


@pytest.mark.parametrize(("took", "loads"), [(60.0, True), (12.0, False)])
def test_the_first_launch_of_a_function_loads_it(took: float, loads: bool, tmp_path: Path) -> None:
    """By how long the other launches take, 2 us, not by a length of its own: the gap is no launching."""
    found = view(tmp_path, _slow_first(took)).causes.gaps
    assert (found.time("code_loading") + found.once_time >= took * 1e3) == loads
    again = _slow_first(took)
    for one in again:
        if one["cat"] == "kernel":
            one["name"] = "same"  # not its first launch: something else held it up
    assert view(tmp_path, again).us("code_loading") == 0


def _steps(count: int, empty: int) -> _Events:
    """Steps of 200 us with four kernels each, and empty ones behind them."""
    out: _Events = []
    for i in range(count + empty):
        out.append(event("user_annotation", f"ProfilerStep#{i}", 200 * i, 190 if i < count else 20))
        for k in range(4 if i < count else 0):
            out += launch(4 * i + k + 1, 200 * i + 40 * k, 200 * i + 40 * k + 10, 12 + i * k, f"k{k * i}")
    return out


def test_an_empty_step_behind_the_last_is_none(tmp_path: Path) -> None:
    """Which a profiler leaves that is stopped behind its last step."""
    whole, left = view(tmp_path, _steps(3, 0)).facts.steps, view(tmp_path, _steps(3, 1)).facts.steps
    assert whole is not None and left is not None and len(left.start) == 3
    assert left.start.tolist() == whole.start.tolist()
    assert left.length.tolist() == whole.length.tolist()
    assert view(tmp_path, _steps(1, 1)).facts.steps is None  # one step does not recur


def test_one_operation_is_no_busy_gpu(tmp_path: Path) -> None:
    """It fills its window whatever the program does; two tell of what is between them."""
    verdict, why = decide(view(tmp_path, launch(1, 0, 10, 5, "ampere_sgemm_128x64_nn")))
    assert verdict is None and "one GPU operation" in why
    both = [e for i in range(2) for e in launch(i + 1, 2 * i, 10 + 100 * i, 100, "ampere_sgemm_128x64_nn")]
    verdict, _ = decide(view(tmp_path, both))
    assert verdict is not None and verdict.regime == "compute"


def _queued(lost_from: float) -> _Events:
    """A host that issues four times as fast as the GPU works, without a pause; the recording ends at 1.9 ms and holds
    no operation that begins at `lost_from` us or later."""
    out: _Events = []
    for i in range(190):
        made = launch(i + 1, 10 * i, 42 * i + 10, 41, "ampere_sgemm_128x64_nn")
        out += [e for e in made if e["cat"] != "kernel" or e["ts"] < lost_from]
    return out


def test_what_still_waits_in_the_queue_is_not_lost(tmp_path: Path) -> None:
    """More than half of the launches have no operation; the GPU worked until the end, so that none had to begin."""
    cut = view(tmp_path, _queued(1900))
    assert cut.unseen.pending > cut.unseen.launches / 2 and not cut.unseen.most
    verdict, _ = decide(cut)
    assert verdict is not None and verdict.regime == "compute"


def test_operations_that_should_have_begun_are_lost(tmp_path: Path) -> None:
    """The GPU's rows end long before the recording does."""
    lost = view(tmp_path, _queued(300))
    assert lost.unseen.most and decide(lost)[0] is None
