"""The critical path: pieces without gaps, each of them where the recording says that something was waited for."""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.critical_path import KINDS, CriticalPath, critical_path, kernels, on_host
from kscope.model.timeline import Sync
from kscope.parsers.timeline import kineto, nsys
from kscope.reports import Options, render
from tests.support import traces
from tests.support.traces import event, launch, trace

CASES = ("item_loop.json", "launch_bound.json", "gpu_bound.json", "sync_bound.json", "memcpy_bound.json", "rnn.json",
         "train_step.json", "launch.sqlite", "busy.sqlite")  # fmt: skip
HOST, GPU, BETWEEN = (KINDS.index(kind) for kind in ("host", "gpu", "between"))


@cache
def walked(case: str) -> tuple[TimelineView, CriticalPath]:
    path = traces.path(case.partition(".")[0])
    view = TimelineView((nsys if ".sqlite" in case else kineto).read(path))
    assert view.critical is not None
    return view, view.critical


@pytest.mark.parametrize("case", CASES)
def test_pieces_follow_one_another_and_add_up(case: str) -> None:
    view, path = walked(case)
    assert (path.end > path.start).all() and (path.start[1:] == path.end[:-1]).all()
    last = max(int(view.timeline.ops.end.max()), int(view.timeline.calls.end.max()))
    assert path.end[-1] == last and path.start[0] >= view.facts.window[0]
    whole = int(path.end[-1] - path.start[0])
    assert sum(path.time(kind) for kind in KINDS) == whole
    assert sum(ns for _, ns in on_host(view.facts, path)) == path.time("host")
    assert sum(ns for _, ns in kernels(view.facts, path)) == pytest.approx(path.time("gpu"), abs=1)


@pytest.mark.parametrize("case", CASES)
def test_before_each_piece_of_the_host_something_was_over(case: str) -> None:
    """An operation that a wait was for, or nothing before it; and before each operation its launch, on that thread."""
    view, path = walked(case)
    calls, ends = view.timeline.calls, set(view.timeline.ops.end.tolist())
    pieces = np.flatnonzero(path.kind == HOST).tolist()
    assert pieces
    for i in pieces:
        assert int(path.start[i]) in ends or i == 0
        issued = calls.start[calls.thread == path.thread[i]]
        assert int(path.end[i]) in set(issued.tolist()) | {int(path.end[-1])}


def test_what_a_full_queue_hides_is_not_on_the_path() -> None:
    path = walked("gpu_bound.json")[1]
    assert path.time("gpu") / int(path.end[-1] - path.start[0]) > 0.95
    path = walked("launch_bound.json")[1]
    assert path.time("host") / int(path.end[-1] - path.start[0]) > 0.95


def test_synchronisations_alternate_with_the_host() -> None:
    """`.item()` in a loop: operations are on the path where the program waited for them."""
    view, path = walked("item_loop.json")
    calls, ops = view.timeline.calls, view.timeline.ops
    blocking = view.causes.calls["sync"] | view.causes.calls["copy"]
    awaited = {int(ops.end.max())}
    for start, end in zip(calls.start[blocking].tolist(), calls.end[blocking].tolist(), strict=True):
        over = ops.end[ops.end <= end]
        awaited |= {int(over.max())} if len(over) and int(over.max()) > start else set()
    ends = [
        int(path.end[i + 1] if i + 1 < len(path.kind) and path.kind[i + 1] == BETWEEN else path.end[i])
        for i in np.flatnonzero(path.kind == GPU).tolist()
    ]
    assert len(ends) > 100 and set(ends) <= awaited
    assert critical_path(view.facts, np.zeros(len(calls), dtype=bool)) is not None


def test_figures_and_words(tmp_path: Path) -> None:
    (one,) = analyze_paths([traces.path("item_loop")]).timelines
    path = one.critical
    assert path is not None
    assert path.gpu_pct + path.between_pct + path.launch_pct + path.host_pct == pytest.approx(100, abs=0.01)
    assert path.parts == sorted(path.parts, key=lambda part: -part.us) and len(path.pieces) <= 300
    assert all(begin < end for begin, end, _ in path.pieces)
    text = traces.plain("item_loop").decode()
    bare = tmp_path / "host.json"
    kept = [line for line in text.splitlines() if '"cat":"kernel"' not in line and "gpu_mem" not in line]
    bare.write_text("\n".join(kept))
    (host,) = analyze_paths([bare]).timelines
    assert host.critical is None


STEPS = 6


def _across(recorded: bool) -> list[dict[str, Any]]:
    """Each step: stream 7 waits for an event behind "sender" on stream 9, which ends long after "before" on stream 7
    and the launch of "user"; "other" on stream 11 ends last before "user" begins, and is no reason."""
    out: list[dict[str, Any]] = []
    for i in range(STEPS):
        at, number = 1000.0 * i, 10 * i
        out += launch(number + 1, at + 1, at + 10, 100, name="before")
        out += launch(number + 2, at + 4, at + 20, 600, name="sender", stream=9)
        out.append(event("cuda_runtime", "cudaEventRecord", at + 8, 2, correlation=number + 3))
        out += launch(number + 4, at + 12, at + 30, 591.5, name="other", stream=11)
        out.append(event("cuda_runtime", "cudaStreamWaitEvent", at + 16, 2, correlation=number + 5))
        if recorded:
            ids = {"wait_on_stream": 9, "wait_on_cuda_event_record_corr_id": number + 3, "stream": 7, "device": 0}
            out.append(event("cuda_sync", "Stream Wait Event", at + 16, 2, tid=7, correlation=number + 5, **ids))
        # issued next, on another stream: not what was made to wait
        out += launch(number + 6, at + 18, at + 32, 10, name="elsewhere", stream=13)
        out += launch(number + 7, at + 20, at + 622, 200, name="user")
        out.append(event("cuda_runtime", "cudaStreamSynchronize", at + 24, 800, correlation=number + 8))
    return out


@pytest.mark.parametrize("recorded", [True, False])
def test_a_stream_that_waits_for_an_event_leads_to_the_stream_it_waited_for(tmp_path: Path, recorded: bool) -> None:
    made = trace(tmp_path, _across(recorded))
    view = TimelineView(kineto.read(made))
    path = view.critical
    assert path is not None
    names = dict(kernels(view.facts, path))
    assert (path.events, path.unknown) == ((STEPS, 0) if recorded else (0, STEPS))
    other = {"sender": STEPS * 600_000} if recorded else {"before": STEPS * 100_000}  # which the stream ran before
    assert names == other | {"user": STEPS * 200_000}
    between = 622 - 620 if recorded else 622 - 110  # from the end of either to the begin of "user", us
    assert path.time("between") == STEPS * between * 1000
    text = render("text", analyze_paths([made]), Options(width=300))
    assert ("6 times from one stream to another that it waited for" in text) == recorded
    assert ("6 waits between streams not followed, their events were not recorded" in text) != recorded


def test_an_event_that_was_over_in_time_holds_nothing_up(tmp_path: Path) -> None:
    """Its operation ends before the launch of what waits for it, or it was recorded before anything ran."""
    events = _across(True)
    for one in events:
        if one["name"] == "sender":
            one["dur"] = 15.0 if one["ts"] % 2000 > 500 else 0.5
    view = TimelineView(kineto.read(trace(tmp_path, events)))
    assert view.critical is not None and view.critical.events == 0 and view.critical.unknown == 0


def test_events_of_an_export(tmp_path: Path) -> None:
    """The record of an event is found by its id; of a wait the call's name says what it is, whatever its number is."""
    tid, pid = 5 << 24 | 5, 5 << 24
    calls, kernels_, syncs, events = [], [], [], []
    for i in range(STEPS):
        at, n = 1_000_000 * i + 1, 10 * i
        calls += [(at, at + 2000, tid, n + 1, 1, 0), (at + 4000, at + 6000, tid, n + 2, 2, 0),
                  (at + 8000, at + 9000, tid, n + 3, 3, 0), (at + 10_000, at + 12_000, tid, n + 4, 1, 0),
                  (at + 14_000, at + 820_000, tid, n + 5, 4, 0)]  # fmt: skip
        kernels_.append((at + 10_000, at + 510_000, 0, 9, n + 1, pid, 5))
        kernels_.append((at + 512_000, at + 812_000, 0, 7, n + 4, pid, 6))
        events.append((0, 9, n + 2, pid, 8))
        syncs += [(at + 8000, at + 9000, 0, 7, n + 3, pid, 1, 8), (at + 14_000, at + 820_000, 0, 7, n + 5, pid, 2, -1)]
    names = ["", "cudaLaunchKernel_v7000", "cudaEventRecord_v3020", "cudaStreamWaitEvent_v3020",
             "cudaStreamSynchronize_v3020", "sender", "user"]  # fmt: skip
    made = traces.database(tmp_path, {
        "StringIds": ("id, value", list(enumerate(names))),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start, end, globalTid, correlationId, nameId, eventClass", calls),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start, end, deviceId, streamId, correlationId, globalPid, demangledName", kernels_),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
            "start, end, deviceId, streamId, correlationId, globalPid, syncType, eventId", syncs),
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("deviceId, streamId, correlationId, globalPid, eventId", events),
    })  # fmt: skip
    view = TimelineView(nsys.read(made))
    assert view.critical is not None and (view.critical.events, view.critical.unknown) == (STEPS, 0)
    assert dict(kernels(view.facts, view.critical)) == {"sender": STEPS * 500_000, "user": STEPS * 300_000}


KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
RANKS = ("ddp_overlap.rank0", "fsdp_exposed.rank1", "pipeline_8.rank0", "all_to_all_chunks.rank0")


@pytest.mark.parametrize("name", RANKS)
def test_waits_that_were_not_recorded_are_counted(name: str) -> None:
    """These recordings have the calls but not what they are for. Counted in the file itself."""
    view = TimelineView(kineto.read(traces.path(f"ranks/{name}")))
    assert view.critical is not None
    events = [e for e in json.loads(traces.plain(f"ranks/{name}"))["traceEvents"] if e.get("ph") == "X"]
    low, high = (at / 1e3 for at in view.facts.window[:2])
    launched = {e["args"]["correlation"] for e in events if e["cat"] in KERNELS and low <= e["ts"] < high}
    calls = [e for e in events if e["cat"] in ("cuda_runtime", "cuda_driver")]
    first = min(e["ts"] for e in calls if e["args"]["correlation"] in launched)
    waits = [e["ts"] for e in calls if e["name"] == "cudaStreamWaitEvent"]
    expected = sum(min(first, low) <= at < high for at in waits)
    assert expected > 10 and (view.critical.events, view.critical.unknown) == (0, expected)


def test_kinds_of_waits_are_those_of_their_calls(tmp_path: Path) -> None:
    """Versions number them differently."""
    path = tmp_path / "t.sqlite"
    path.write_bytes(traces.plain("sync"))
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION y JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
            "ON r.correlationId = y.correlationId JOIN StringIds s ON s.id = r.nameId GROUP BY 1"
        ).fetchall()
    db.close()
    assert rows == [("cudaStreamSynchronize_v3020", 12)]
    found = nsys.read(path).awaited
    assert found is not None and found.kind.tolist().count(Sync.STREAM) == 12
    assert Sync.STREAM_WAIT not in found.kind.tolist()
