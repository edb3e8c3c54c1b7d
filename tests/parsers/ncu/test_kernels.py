"""Nsight Compute reports to kernels: against what NVIDIA's own library says, and with readers that die."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kscope.engine.run import analyze_paths
from kscope.model.errors import KscopeError
from kscope.model.kernel import Kernel
from kscope.parsers.ncu import worker
from kscope.parsers.ncu.kernels import read_kernels, to_kernel
from tests.support import direct, reports

CASES = ("bank_conflict.slow", "spill.slow", "sgemm.blocktile2d", "launch_bound.tiny")
JOINED = ("bank_conflict.slow", "bank_conflict.fast", "atomics.slow")
NAMES = ["transpose_tile", "transpose_tile", "count_global"]
ABORTS = (15515, 251)
"""A byte of the embedded code, by its offset in the table of sources, and a value that NVIDIA's disassembler aborts on
(found by experiment with ncu_report 2026.3.1)."""
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="the stand-in readers are forked")


@pytest.fixture(scope="module")
def truth(report: Callable[[str], Path]) -> Callable[[str], dict[str, Any]]:
    """case -> what the library says of its kernel."""
    return cache(lambda case: direct.ask("values", report(case))[0])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Readers are forks of this process: when they crash on purpose, no traceback of it belongs on the screen."""
    enabled = faulthandler.is_enabled()
    faulthandler.disable()
    yield
    if enabled:
        faulthandler.enable(sys.__stderr__ or sys.stderr)


@pytest.fixture
def joined(report: Callable[[str], Path], tmp_path: Path) -> Path:
    """One report of three captures."""
    path = tmp_path / "joined.ncu-rep"
    reports.join_reports([report(case) for case in JOINED], path)
    return path


def read(path: Path) -> list[tuple[int, str | None]]:
    """(index, fault or None) of every kernel of a report, in the order in which the reader gives them."""
    out: list[tuple[int, str | None]] = []
    for item in worker.Reader(str(path), worker.Want()).kernels():
        skipped = isinstance(item, worker.Skipped)
        out.append((item.index, item.message) if skipped else (item["index"], None))
    return out


# --- what is read, against the library itself


@pytest.mark.parametrize("case", CASES)
def test_identity(case: str, kernel: Callable[[str], Kernel], truth: Callable[[str], dict[str, Any]]) -> None:
    k, t = kernel(case), truth(case)
    metrics = t["metrics"]
    assert (k.name, k.demangled, k.mangled) == (t["name"], t["demangled"], t["mangled"])
    assert k.mangled.startswith("_Z") and k.name in k.demangled
    for what, read in (("grid", k.launch.grid), ("block", k.launch.block)):
        assert read == tuple(metrics[f"launch__{what}_dim_{axis}"] for axis in "xyz")
    assert k.launch.blocks == metrics["launch__grid_size"] and k.launch.threads == metrics["launch__block_size"]
    assert k.launch.registers == metrics["launch__registers_per_thread"]
    assert k.launch.shared_static == metrics["launch__shared_mem_per_block_static"]
    assert k.launch.waves == metrics["launch__waves_per_multiprocessor"]
    assert k.duration_ns == metrics["gpu__time_duration.sum"]
    assert (k.device.name, k.device.cc, k.device.sm, k.device.sms) == ("NVIDIA H200", (9, 0), 90, 132)
    assert k.workload == "kernel" and k.index == 0
    assert k.notes == ()
    assert k.tool_version == "2025.3.1.0"
    assert "SpeedOfLight" in k.sections and "SourceCounters" in k.sections


@pytest.mark.parametrize("case", CASES)
def test_metrics(case: str, kernel: Callable[[str], Kernel], truth: Callable[[str], dict[str, Any]]) -> None:
    k, metrics = kernel(case), truth(case)["metrics"]
    assert len(k.metrics) > 700
    assert {n: metrics[n] for n in k.metrics} == dict(k.metrics)
    texts = [n for n, v in metrics.items() if isinstance(v, str) and k.metrics.text(n) is not None]
    assert texts and all(k.metrics.text(n) == metrics[n] for n in texts)
    assert not set(texts) & set(k.metrics), "a text is no number"
    for name in ("sm__cycles_active.avg", "dram__bytes_read.sum", "launch__occupancy_limit_registers"):
        assert k.metrics[name] == metrics[name]


def test_metrics_that_are_absent(kernel: Callable[[str], Kernel]) -> None:
    metrics = kernel("launch_bound.tiny").metrics
    assert metrics.get("no__such.metric") is None and metrics.text("no__such.metric") is None
    assert metrics.first("no__such.metric", "launch__grid_size") == metrics["launch__grid_size"]
    assert metrics.total("no__such.metric", "launch__grid_size") == metrics["launch__grid_size"]
    with pytest.raises(KeyError):
        metrics["no__such.metric"]


@pytest.mark.parametrize("case", CASES)
def test_counters(case: str, kernel: Callable[[str], Kernel], truth: Callable[[str], dict[str, Any]]) -> None:
    counters, expected = kernel(case).counters, truth(case)["counters"]
    assert counters is not None and "inst_executed" in expected
    offsets = list(counters.offsets)
    assert offsets == sorted(set(offsets)) and offsets[0] == 0
    for name, column in expected.items():
        if not any(column.values()):
            continue  # a stall reason that was never sampled is left out
        values = counters.by_name[name]
        assert len(values) == len(offsets)
        assert sum(values) == sum(column.values())
        at = dict(zip(offsets, values, strict=True))
        assert {int(pc): v for pc, v in column.items()} == {pc: at[pc] for pc in map(int, column)}


def test_counters_as_arrays(kernel: Callable[[str], Kernel]) -> None:
    counters = kernel("bank_conflict.slow").counters
    assert counters is not None
    assert counters.pcs.dtype == "int64" and counters.pcs.tolist() == list(counters.offsets)
    executed = counters.get("inst_executed")
    assert executed is not None and executed.tolist() == list(counters.by_name["inst_executed"])
    assert counters.get("no_such_counter") is None
    assert set(counters.columns) == set(counters.by_name)


@pytest.mark.parametrize("case", CASES)
def test_sass(case: str, kernel: Callable[[str], Kernel], truth: Callable[[str], dict[str, Any]]) -> None:
    program, t = kernel(case).program, truth(case)
    assert program is not None and program.sm == 90
    by_pc = {ins.pc: ins for ins in program.instructions}
    assert set(map(int, t["sass"])) <= set(by_pc)
    targets = 0
    for pc, text in t["sass"].items():
        for absolute in re.findall(r"0x[0-9a-f]{9,16}\b", text):
            offset = int(absolute, 16) - t["entry"]
            assert offset % 16 == 0 and abs(offset) < 1 << 20
            text = text.replace(absolute, hex(offset))
            targets += 1
        ours = by_pc[int(pc)]
        assert ours.text.split() == text.split(), hex(int(pc))
        assert [ours.file, ours.line] == t["lines"].get(pc, [None, None])
    assert targets or case == "launch_bound.tiny", "only the tiny kernel executes no branch"


@pytest.mark.parametrize("case", CASES)
def test_sources(case: str, kernel: Callable[[str], Kernel], truth: Callable[[str], dict[str, Any]]) -> None:
    k, t = kernel(case), truth(case)
    assert "/corpus/dev_kernels.cu" in k.sources
    assert set(k.sources) == {file for file, _ in t["lines"].values()} & {f for f, text in t["sources"].items() if text}
    assert all(k.sources[file] == t["sources"][file] for file in k.sources)
    assert re.search(rf"__global__ void .*\b{k.name}\(", k.sources["/corpus/dev_kernels.cu"])


@pytest.mark.parametrize("case", CASES)
def test_nvidia_rules(case: str, kernel: Callable[[str], Kernel], truth: Callable[[str], dict[str, Any]]) -> None:
    ours = {(n.rule, n.title): n for n in kernel(case).nvidia}
    for rule, title, speedup in truth(case)["nvidia"]:
        if title:
            assert ours[rule, title].speedup_pct == speedup
    assert {n.rule for n in kernel(case).nvidia} == {rule for rule, _, _ in truth(case)["nvidia"]}
    assert all(n.kind in ("global", "local") for n in ours.values() if n.speedup_pct is not None)
    assert not any("@section" in n.message or "@url" in n.message for n in ours.values())


# --- several kernels in one report


def test_joined(joined: Path) -> None:
    kernels = list(read_kernels(str(joined)))
    assert [k.index for k in kernels] == [0, 1, 2]
    assert [k.name for k in kernels] == NAMES
    assert [k.notes for k in kernels] == [(), (), ()]
    assert {k.tool_version for k in kernels} == {"2025.3.1.0"}
    assert len({k.duration_ns for k in kernels}) == 3, "each with its own values"


@FORKS
def test_memory_bound(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that has grown past the bound is replaced between kernels: all of them come, in order, once."""
    monkeypatch.setattr(worker, "MEMORY_BOUND", 1)
    assert [k.name for k in read_kernels(str(joined))] == NAMES
    kernels = worker.extract_all(str(joined), worker.Want())
    assert len(set(pids_of(kernels, monkeypatch))) == 3, "one reader a kernel"


@FORKS
def test_one_reader_below_the_bound(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = pids_of(worker.extract_all(str(joined), worker.Want()), monkeypatch)
    assert len(pids) == 3 and len(set(pids)) == 1 and os.getpid() not in pids


@FORKS
def test_one_reader_of_a_large_process(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a notebook holds is not what its reader has grown by."""
    held = np.ones(40 << 20, dtype=np.float64)
    monkeypatch.setattr(worker, "MEMORY_BOUND", 300 << 20)
    pids = pids_of(worker.extract_all(str(joined), worker.Want()), monkeypatch)
    assert held.nbytes > 300 << 20 and len(pids) == 3 and len(set(pids)) == 1


def pids_of(kernels: Iterator[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process that each kernel comes from. The reader is a fork, so it decodes with what is patched here."""
    from kscope.parsers.ncu import native

    monkeypatch.setattr(native, "extract", lambda action, index, *_: {"index": index, "pid": os.getpid()})
    return [k["pid"] for k in kernels]


# --- readers that crash


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_native_crash_costs_one_kernel(victim: int, joined: Path) -> None:
    """A damaged byte that NVIDIA's library aborts on: the kernel that needs it is lost, and named; no other is."""
    data = bytearray(joined.read_bytes())
    tables = [b for b, _ in reports.parts(bytes(data))[1] if not b.results and b.end > b.payload]
    offset, value = ABORTS
    assert data[tables[victim].payload + offset] != value
    data[tables[victim].payload + offset] = value
    joined.write_bytes(data)
    found = read(joined)
    assert [index for index, _ in found] == [0, 1, 2]
    assert [fault is not None for _, fault in found] == [i == victim for i in range(3)]
    assert "crashed (SIGABRT)" in str(found[victim][1]) and f"kernel {victim}" in str(found[victim][1])
    if victim == 1:
        result = analyze_paths([joined])
        assert sorted(k.name for k in result.kernels) == ["count_global", "transpose_tile"]
        assert [(s.input, s.what) for s in result.skipped] == [(str(joined), "kernel 1")]
        assert "crashed (SIGABRT)" in result.skipped[0].message


def die(how: signal.Signals) -> None:
    os.kill(os.getpid(), how)
    time.sleep(60)


@FORKS
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.parametrize("victims", [{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}])
def test_killed_on_some_kernels(
    victims: set[int], how: signal.Signals, joined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kscope.parsers.ncu import native

    def extract(action: Any, index: int, *_: Any) -> dict[str, Any]:
        if index in victims:
            die(how)
        return {"index": index}

    monkeypatch.setattr(native, "extract", extract)
    found = read(joined)
    assert [index for index, _ in found] == [0, 1, 2]
    assert {index for index, fault in found if fault is not None} == victims
    assert all(how.name in fault for _, fault in found if fault is not None)


@FORKS
def test_killed_before_the_first_kernel(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead before it could say how many kernels there are: the report is lost, not the analysis."""
    monkeypatch.setattr(worker, "serve", lambda *_: die(signal.SIGSEGV))
    with pytest.raises(KscopeError, match="SIGSEGV") as e:
        read(joined)
    assert e.value.code == "reader-crash" and e.value.status == 3 and joined.name in e.value.message
    assert e.value.hint


@FORKS
def test_python_fault_costs_one_kernel(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.parsers.ncu import native

    def extract(action: Any, index: int, *_: Any) -> dict[str, Any]:
        if index == 1:
            raise RuntimeError("two\nlines")
        return {"index": index}

    monkeypatch.setattr(native, "extract", extract)
    assert read(joined) == [(0, None), (1, "RuntimeError: two lines"), (2, None)]


@FORKS
def test_part_that_cannot_be_read_is_noted(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part of a kernel fails to decode: it is left out and named, everything else is there."""
    from kscope.parsers.ncu import native

    def fail(*_: Any) -> Any:
        raise ValueError("broken table")

    monkeypatch.setattr(native, "_opcodes", fail)
    first = next(worker.extract_all(str(joined), worker.Want()))
    kernel = to_kernel(first, "x")
    assert kernel.notes == ('opcode counts could not be read: "broken table"',)
    assert not kernel.opcodes and kernel.program is not None and kernel.metrics


# --- readers that say nothing


@FORKS
def test_silent_from_the_start(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SILENCE", 0.3)
    monkeypatch.setattr(worker, "serve", lambda *_: time.sleep(60))
    before = time.monotonic()
    with pytest.raises(KscopeError) as e:
        read(joined)
    assert time.monotonic() - before < 20
    assert e.value.status == 3 and e.value.hint and joined.name in e.value.message


@FORKS
def test_a_small_report_is_given_up_sooner(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's disassembler can run for ever on damaged code."""
    assert worker._patience("missing") < 60 <= worker._patience(str(joined)) <= worker.SILENCE
    monkeypatch.setattr(worker, "_SILENCE_AT_LEAST", 0.3)
    monkeypatch.setattr(worker, "_BYTES_A_SECOND", 1 << 30)
    monkeypatch.setattr(worker, "serve", lambda *_: time.sleep(60))
    before = time.monotonic()
    with pytest.raises(KscopeError):
        read(joined)
    assert time.monotonic() - before < 20


@FORKS
def test_silent_on_one_kernel(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.parsers.ncu import native

    def extract(action: Any, index: int, *_: Any) -> dict[str, Any]:
        if index == 1:
            time.sleep(60)
        return {"index": index}

    monkeypatch.setattr(worker, "SILENCE", 5.0)
    monkeypatch.setattr(native, "extract", extract)
    before = time.monotonic()
    found = read(joined)
    assert time.monotonic() - before < 30
    assert [(index, fault is None) for index, fault in found] == [(0, True), (1, False), (2, True)]


@FORKS
def test_no_reader_is_left_behind(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that stops early: the reader is ended and waited for, so that no process and no zombie stays."""
    from kscope.parsers.ncu import native

    monkeypatch.setattr(native, "extract", lambda *_: {"pid": os.getpid()})
    kernels = worker.Reader(str(joined), worker.Want()).kernels()
    pid = next(kernels)["pid"]
    os.kill(pid, 0)
    kernels.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_unwanted_parts_are_not_read(joined: Path) -> None:
    want = worker.Want(counters=False, sass=False, sources=False, nvidia=False)
    kernel = to_kernel(next(worker.extract_all(str(joined), want)), "x")
    assert kernel.program is None and kernel.counters is None and not kernel.sources and not kernel.nvidia
    assert kernel.metrics and kernel.name == "transpose_tile"


def test_timelines(report: Callable[[str], Path]) -> None:
    """PM sampling of kernels with asynchronous work: SM activity and its units, each series from its own zero on."""
    kernel = next(read_kernels(str(report("wgmma_flight.sixteen"))))
    assert kernel.timelines is not None
    tensor = next(n for n in kernel.timelines.by_name if "sm__pipe_tensor_cycles_active" in n)
    active = next(n for n in kernel.timelines.by_name if "sm__cycles_active" in n)
    times, values = kernel.timelines.times[tensor], kernel.timelines.by_name[tensor]
    assert len(times) == len(values) == len(kernel.timelines.by_name[active]) + 1  # the silence behind it is cut off
    assert times[0] == 0 and list(times) == sorted(times)
    assert 85 < max(values) <= 100
    assert kernel.timelines.t_ns[tensor].tolist() == list(times)
    assert kernel.timelines.values[tensor].tolist() == list(values)
    duration = kernel.metrics["gpu__time_duration.sum"]
    assert duration * 0.9 < times[-1] < duration * 1.2


def test_ordinary_kernels_have_their_timelines_unread(joined: Path) -> None:
    assert all(k.timelines is None for k in read_kernels(str(joined)))
