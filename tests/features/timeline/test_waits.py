"""Waits are followed to whom they wait for: by ids where the recording has them, else by time, which is said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import TimelineAnalysis
from kscope.model.contract.timeline_figures import WaitFigures
from kscope.reports import Options, render
from tests.support import traces
from tests.support.traces import event, launch

_Events = list[dict[str, Any]]
STEPS = 20


def made(folder: Path, events: _Events) -> TimelineAnalysis:
    (one,) = analyze_paths([traces.trace(folder, events)]).timelines
    return one


def _drained(kind: str = "") -> _Events:
    """Steps of 1 ms: a long kernel on stream 7, a short one on stream 9 that ends later, then a wait for stream 7 in
    cudaStreamSynchronize, after which the host takes 50 us to the next launch."""
    out: _Events = []
    for i in range(STEPS):
        at = 560.0 * i
        out.append(event("user_annotation", f"ProfilerStep#{i}", at, 550))
        out += launch(10 * i + 1, at + 1, at + 10, 500, name="asked_for")
        out += launch(10 * i + 2, at + 5, at + 400, 109.5, name="beside", stream=9)
        number = 10 * i + 3
        out.append(event("cuda_runtime", "cudaStreamSynchronize", at + 10, 500.5, correlation=number))
        if kind:
            out.append(event("cuda_sync", kind, at + 10, 500.5, tid=7, stream=7, device=0, correlation=number))
    return out


def _told(one: TimelineAnalysis) -> WaitFigures:
    return next(w for w in one.waits if w.call)


def test_by_the_stream_that_is_recorded(tmp_path: Path) -> None:
    wait = _told(made(tmp_path, _drained("Stream Sync")))
    assert (wait.call, wait.on, wait.said_by, wait.count) == ("cudaStreamSynchronize", "asked_for", "recorded", STEPS)
    assert wait.us == STEPS * 500 and wait.device is None


def test_by_time_where_nothing_is_recorded(tmp_path: Path) -> None:
    one = made(tmp_path, _drained())
    wait = _told(one)
    assert (wait.on, wait.said_by) == ("asked_for", "guess") and wait.us == STEPS * 500
    assert wait.idle_us == pytest.approx(sum(i.us for i in one.idle if i.cause == "synchronization"), rel=1e-6)
    assert wait.idle_us > 900
    finding = next(f for f in one.findings if f.code == "OVH603")
    assert 'What the host waits for is, probably, mostly "asked_for"' in finding.why
    text = render("text", analyze_paths([tmp_path / "t.json"]), Options(width=200))
    assert 'the host waits in "cudaStreamSynchronize" for "asked_for" (20 times, 10.0 ms, probably)' in text


def test_a_call_for_the_whole_device_is_no_guess(tmp_path: Path) -> None:
    events = _drained()
    for one in events:
        one["name"] = one["name"].replace("StreamSynchronize", "DeviceSynchronize")
    assert _told(made(tmp_path, events)).said_by == "device"


def _across(recorded: bool) -> _Events:
    """Stream 7 waits for an event that was recorded behind "sender" on stream 9; "other" on stream 11 ends nearer to
    the begin of "user", and is no reason."""
    out: _Events = []
    for i in range(STEPS):
        at, number = 1000.0 * i, 10 * i
        out.append(event("user_annotation", f"ProfilerStep#{i}", at, 990))
        out += launch(number + 1, at + 1, at + 10, 100, name="before")
        out += launch(number + 2, at + 4, at + 20, 600, name="sender", stream=9)
        out.append(event("cuda_runtime", "cudaEventRecord", at + 8, 2, correlation=number + 3))
        out += launch(number + 4, at + 12, at + 30, 591.5, name="other", stream=11)
        out.append(event("cuda_runtime", "cudaStreamWaitEvent", at + 16, 2, correlation=number + 5))
        if recorded:
            ids = {"wait_on_stream": 9, "wait_on_cuda_event_record_corr_id": number + 3, "stream": 7, "device": 0}
            out.append(event("cuda_sync", "Stream Wait Event", at + 16, 2, tid=7, correlation=number + 5, **ids))
        out += launch(number + 6, at + 20, at + 622, 200, name="user")
    return out


@pytest.mark.parametrize(("recorded", "on", "said"), [(True, "sender", "recorded"), (False, "other", "guess")])
def test_a_stream_waits_for_anothers_event(tmp_path: Path, recorded: bool, on: str, said: str) -> None:
    one = made(tmp_path, _across(recorded))
    (wait,) = [w for w in one.waits if w.stream is not None]
    assert (wait.device, wait.stream, wait.on, wait.said_by, wait.count) == (0, 7, on, said, STEPS)
    # from the end of "before" at 110 us until "sender" ends at 620 us, "other" at 621.5
    assert wait.us == pytest.approx(STEPS * (510 if recorded else 511.5)) and wait.main is False


def test_an_export_says_by_its_event_ids(tmp_path: Path) -> None:
    tid, pid = 5 << 24 | 5, 5 << 24
    calls, kernels, syncs, events = [], [], [], []
    for i in range(STEPS):
        at, n = 560_000 * i + 1, 10 * i
        calls += [(at, at + 2000, tid, n + 1, 1, 0), (at + 4000, at + 6000, tid, n + 2, 2, 0),
                  (at + 7000, at + 9000, tid, n + 3, 1, 0), (at + 10_000, at + 511_000, tid, n + 4, 3, 0)]  # fmt: skip
        kernels += [(at + 10_000, at + 510_000, 0, 7, n + 1, pid, 4), (at + 15_000, at + 510_500, 0, 9, n + 3, pid, 5)]
        events.append((0, 7, n + 2, pid, 8))
        syncs.append((at + 10_000, at + 511_000, 0, -1, n + 4, pid, 1, 8))
    names = ["", "cudaLaunchKernel_v7000", "cudaEventRecord_v3020", "cudaEventSynchronize_v3020", "asked_for", "beside"]
    of_kernel = "start, end, deviceId, streamId, correlationId, globalPid, demangledName"
    path = traces.database(tmp_path, {
        "StringIds": ("id, value", list(enumerate(names))),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start, end, globalTid, correlationId, nameId, eventClass", calls),
        "CUPTI_ACTIVITY_KIND_KERNEL": (of_kernel, kernels),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
            "start, end, deviceId, streamId, correlationId, globalPid, syncType, eventId", syncs),
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("deviceId, streamId, correlationId, globalPid, eventId", events),
    })  # fmt: skip
    (one,) = analyze_paths([path]).timelines
    wait = _told(one)
    assert (wait.call, wait.on, wait.said_by) == ("cudaEventSynchronize", "asked_for", "recorded")
    assert wait.us == pytest.approx(STEPS * 500) and wait.idle_us > 0


def test_waits_of_a_thread_that_issues_nothing_take_no_square_of_time(tmp_path: Path) -> None:
    """A thread that makes streams wait beside one that launches: each wait looked through all later launches (a minute
    here, on a processor that takes two seconds now)."""
    count = 20_000
    events = [one for i in range(count) for one in launch(i + 1, 10 * i, 10 * i + 5, 3)]
    events += [event("cuda_runtime", "cudaStreamWaitEvent", 10 * i + 1, 1, tid=99, correlation=10**6 + i)
               for i in range(count)]  # fmt: skip
    path = traces.trace(tmp_path, events)
    begun = time.process_time()
    (one,) = analyze_paths([path]).timelines
    assert not one.waits and time.process_time() - begun < 20
