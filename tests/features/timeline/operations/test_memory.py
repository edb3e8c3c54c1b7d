"""What a device's memory holds: against a walk through the same events, one by one."""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path
from typing import Any

import pytest

from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.operations.memory import BEFORE, Memory
from kscope.parsers.timeline.kineto import read
from tests.support import traces

TRACE = traces.path("item_loop")
HELD = 1 << 20  # allocated before the recording began


def allocations(trace: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Events of an allocator, as the profiler writes them, inside and outside of the trace's operators."""
    chance, live, total = random.Random(seed), list[tuple[int, int]](), HELD
    operators = [e for e in trace["traceEvents"] if e["cat"] == "cpu_op"]
    out = []
    times = sorted(chance.uniform(op["ts"], op["ts"] + op["dur"]) for op in chance.sample(operators, 200))
    for number, ts in enumerate(times):
        if live and chance.random() < 0.45:
            address, size = live.pop(chance.randrange(len(live)))
            change = -size
        else:
            size = chance.randrange(1, 64) * 512
            free = {1 << 40 | n << 20 for n in range(99)} - {address for address, _ in live}
            address, change = chance.choice(sorted(free)), size
            live.append((address, size))
        total += change
        out.append({
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "ts": round(ts, 3),
            "pid": operators[0]["pid"], "tid": operators[0]["tid"],
            "args": {"Total Reserved": HELD + (4 << 20), "Total Allocated": total, "Bytes": change, "Addr": address,
                     "Device Id": 0, "Device Type": 1, "Ev Idx": number},
        })  # fmt: skip
    return out


def found(trace: dict[str, Any], path: Path) -> list[Memory]:
    path.write_text(json.dumps(trace))
    return TimelineView(read(path)).memory


@pytest.mark.parametrize("seed", range(4))
def test_peak_and_holders_are_those_of_a_walk(seed: int, tmp_path: Path) -> None:
    trace = json.loads(lzma.decompress(TRACE.read_bytes()))
    events = allocations(trace, seed)
    trace["traceEvents"] += random.Random(seed).sample(events, len(events))  # files have them in any order
    (one,) = found(trace, tmp_path / "trace.json")
    top = max(events, key=lambda e: e["args"]["Total Allocated"])
    assert (one.peak, one.reserved) == (top["args"]["Total Allocated"], HELD + (4 << 20))
    assert one.holes == one.reserved - one.peak
    live: dict[int, tuple[int, float]] = {}
    for event in events[: events.index(top) + 1]:
        args = event["args"]
        live.pop(args["Addr"], None)
        if args["Bytes"] > 0:
            live[args["Addr"]] = (args["Bytes"], event["ts"])
    operators = sorted((e for e in trace["traceEvents"] if e["cat"] == "cpu_op"), key=lambda e: e["ts"])
    expected = {BEFORE: HELD}
    for size, ts in live.values():
        outer = next(e for e in operators if e["ts"] <= ts <= e["ts"] + e["dur"])
        expected[outer["name"]] = expected.get(outer["name"], 0) + size
    assert dict(one.holders) == expected and sum(expected.values()) == one.peak
    assert max(allocated for _, allocated, _ in one.curve) == one.peak


def test_what_steps_leave_behind(tmp_path: Path) -> None:
    trace = json.loads(lzma.decompress(TRACE.read_bytes()))
    operator = next(e for e in trace["traceEvents"] if e["cat"] == "cpu_op")
    first = min(e["ts"] for e in trace["traceEvents"])
    span = (max(e["ts"] + e["dur"] for e in trace["traceEvents"]) - first) / 6
    where = {"pid": operator["pid"], "tid": operator["tid"]}
    steps = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": first + n * span,
              "dur": span * 0.999, **where} for n in range(6)]  # fmt: skip

    def events(kept: int) -> list[dict[str, Any]]:
        total, out = HELD, []
        for n, step in enumerate(steps):
            for part, change in ((0.2, 4096 + kept), (0.6, -4096)):
                total += change
                args = {"Total Reserved": 4 * HELD, "Total Allocated": total, "Bytes": change,
                        "Addr": 1 << 30 | n << 16, "Device Id": 0, "Device Type": 1}  # fmt: skip
                out.append({"ph": "i", "name": "[memory]", "ts": step["ts"] + part * span, **where, "args": args})
        return out

    for kept in (512, 0):
        every = [*trace["traceEvents"], *steps, *events(kept)]
        (one,) = found({**trace, "traceEvents": every}, tmp_path / f"{kept}.json")
        assert one.levels == [HELD + (n + 1) * kept for n in range(6)] and one.growth == kept


@pytest.mark.parametrize(
    "change",
    [{"Addr": None}, {"Addr": "x"}, {"Total Allocated": -1}, {"Total Allocated": 1e400}, {"Bytes": [1]},
     {"Device Id": {}}, {"Device Type": 0}, {"Addr": 1 << 70}],
)  # fmt: skip
def test_rows_that_are_none(change: dict[str, Any], tmp_path: Path) -> None:
    trace = json.loads(lzma.decompress(TRACE.read_bytes()))
    events = allocations(trace, 1)[:1]
    events[0]["args"] |= change
    assert found({**trace, "traceEvents": trace["traceEvents"] + events}, tmp_path / "trace.json") == []


@pytest.mark.parametrize(
    ("name", "peak", "reserved", "growth"),
    [("steady", 311_518_720, 358_612_992, 0), ("growing", 361_857_024, 421_527_552, 1024 * 2048 * 4),
     ("holes", 624_001_024, 939_524_096, 0)],
)  # fmt: skip
def test_what_torch_itself_counted(name: str, peak: int, reserved: int, growth: int) -> None:
    """torch.cuda's own figures at the end of programs/memory.py, on an H100."""
    (one,) = TimelineView(read(traces.path(f"memory/{name}"))).memory
    assert (one.peak, one.reserved, one.growth) == (peak, reserved, growth)
    assert sum(size for _, size in one.holders) == peak
