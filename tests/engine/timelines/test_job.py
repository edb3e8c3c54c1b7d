"""Ranks of one job: labels that were written before anything was recorded, an independent count, clocks, matching."""

from __future__ import annotations

import json
import lzma
import tomllib
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.engine.timelines import rank_processes
from kscope.features.timeline.facts import TimelineView
from kscope.model.contract.analysis import Analysis, JobAnalysis, from_json, to_json
from kscope.parsers.timeline import kineto
from kscope.reports import Options, render
from kscope.rules.job_base import JobRule
from kscope.rules.registry import all_rules
from tests.support import traces
from tests.support.traces import event
from tests.test_schema import validator

RANKS = traces.TRACES / "ranks"
LABELS: dict[str, dict[str, Any]] = tomllib.loads((RANKS / "RANKS.toml").read_text("utf-8"))
MISSED = {("all_to_all_chunks", "exposed")}
"""What the recordings do not show: under the profiler the ranks issue chunks at uneven pace and wait for another."""
CODES = {r.code for r in all_rules() if issubclass(r, JobRule)}


def paths(name: str) -> list[Path]:
    return [traces.path(f"ranks/{name}.rank{rank}") for rank in (0, 1)]


@cache
def analysis(name: str) -> Analysis:
    return analyze_paths(paths(name))


def job(name: str) -> JobAnalysis:
    (one,) = analysis(name).jobs
    return one


@pytest.mark.parametrize("name", LABELS)
def test_labels(name: str) -> None:
    one, label = job(name), LABELS[name]
    assert one.verdict is not None and one.errors == []
    if "regime" in label:
        limiter = one.verdict.limiter
        assert (limiter if limiter == "communication" else one.verdict.regime) in label["regime"]
    worth = [f.rule for f in one.findings if f.severity != "info"]
    if "first" in label:
        assert worth[0] in label["first"]
    assert not worth or worth[0] not in label.get("not_first", ())
    if "straggler" in label:
        assert one.straggler == label["straggler"] == one.critical
    if "exposed" in label:
        sent = [t.communication for t in analysis(name).timelines if t.communication is not None]
        share = sum(c.exposed_us for c in sent) / sum(c.us for c in sent)
        assert (share > 0.5) == (label["exposed"] == "most") or (name, "exposed") in MISSED
    assert {f.code for f in one.findings if f.code in CODES} | set(one.passed) == CODES


def events(path: Path) -> list[dict[str, Any]]:
    """By json of the standard library, with decimals."""
    return json.loads(lzma.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]


def edges(spans: Iterable[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """(time, +1 or -1) of intervals inside a window, in order."""
    out = []
    for start, end in spans:
        start, end = max(start, low), min(end, high)
        if end > start:
            out += [(start, 1), (end, -1)]
    return sorted(out)


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("rank", [0, 1])
def test_exposed_time_against_a_count_that_shares_no_code(name: str, rank: int) -> None:
    """Every moment of the window is looked at: does a collective run, does another kernel? Within 1 %."""
    path = paths(name)[rank]
    low, high, _ = TimelineView(kineto.read(path)).facts.window
    found: list[tuple[int, str, int]] = []
    for e in events(path):
        if e["cat"] == "kernel":
            kind = "sends" if e["name"].startswith("nccl") else "computes"
            start = int(Decimal(e["ts"]) * 1000)
            found += [(t, kind, d) for t, d in edges([(start, start + int(Decimal(e["dur"]) * 1000))], low, high)]
    running = {"sends": 0, "computes": 0}
    total = exposed = last = 0
    for time, kind, delta in sorted(found):
        if running["sends"]:
            total += time - last
            exposed += (time - last) * (running["computes"] == 0)
        running[kind] += delta
        last = time
    seen = analysis(name).timelines[rank].communication
    assert seen is not None
    assert seen.us == pytest.approx(total / 1e3, rel=1e-3) and seen.exposed_us == pytest.approx(exposed / 1e3, rel=1e-2)
    assert seen.exposed_us / seen.us == pytest.approx(exposed / total, abs=0.01)
    assert sum(s.exposed_us for s in seen.steps) == pytest.approx(seen.exposed_us, rel=1e-3)
    assert sum(d.us for d in seen.devices) == pytest.approx(seen.us, rel=1e-3)


@pytest.mark.parametrize("name", LABELS)
def test_shares_add_up_and_steps_agree(name: str) -> None:
    """What a rank's time goes into has no rest; a step takes all ranks the same time."""
    one = job(name)
    for rank in one.ranks:
        parts = rank.computing_pct + rank.sending_pct + rank.waiting_pct + rank.copying_pct + rank.idle_pct
        assert parts == pytest.approx(100, abs=0.5)
        assert rank.step_us == pytest.approx(one.step_us, rel=0.12)
    assert sum(s.pct for s in one.shares) == pytest.approx(100, abs=1)
    assert one.matched_pct == 100 and one.matched >= 8
    assert all(abs(r.clock_us) < 100 for r in one.ranks)  # one host: the same clock


def moved(path: Path, folder: Path, us: int, drop: int = 0) -> Path:
    """The trace as recorded by a clock that is ahead, without its first collectives."""
    trace = json.loads(lzma.decompress(path.read_bytes()), parse_float=Decimal)
    sends = sorted(e["ts"] for e in trace["traceEvents"] if e["name"].startswith("nccl") and e["cat"] == "kernel")
    since = sends[drop]
    kept = []
    for e in trace["traceEvents"]:
        if e["name"].startswith("nccl") and e["cat"] == "kernel" and e["ts"] < since:
            continue
        kept.append({**e, "ts": e["ts"] + us})
    target = folder / path.name.removesuffix(".xz")
    target.write_text(json.dumps({**trace, "traceEvents": kept}, default=float))
    return target


@pytest.mark.parametrize("us", [0, 5_000, -40_000])
def test_clocks_are_brought_together(us: int, tmp_path: Path) -> None:
    """Another clock changes nothing but what is said of it."""
    first, second = paths("straggler_gpu")
    (one,) = analyze_paths([first, moved(second, tmp_path, us)]).jobs or [None]
    assert one is None  # two folders are two jobs
    both = [tmp_path / first.name, moved(second, tmp_path, us)]
    both[0].write_bytes(first.read_bytes())
    (one,) = analyze_paths([tmp_path]).jobs
    plain = job("straggler_gpu")
    assert one.straggler == 1 and one.ranks[1].clock_us == pytest.approx(plain.ranks[1].clock_us + us, abs=2)
    assert one.ranks[0].waiting_pct == pytest.approx(plain.ranks[0].waiting_pct, abs=0.1)


@pytest.mark.parametrize("name", ["ddp_overlap", "fsdp_exposed", "all_to_all"])
def test_recordings_that_begin_at_different_collectives(name: str, tmp_path: Path) -> None:
    first, second = paths(name)
    (tmp_path / first.name).write_bytes(first.read_bytes())
    moved(second, tmp_path, 7_000, drop=5)
    (one,) = analyze_paths([tmp_path]).jobs
    assert one.ranks[1].clock_us == pytest.approx(job(name).ranks[1].clock_us + 7_000, abs=10)
    assert one.matched >= job(name).matched - 5
    assert [r.waiting_pct for r in one.ranks] == pytest.approx([r.waiting_pct for r in job(name).ranks], abs=3)


def test_processes_of_their_own_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_processes, "ALONE", 0)
    monkeypatch.setattr(rank_processes.forked, "cores", lambda: 2)
    assert to_json(analyze_paths(paths("ddp_buckets"))) == to_json(analysis("ddp_buckets"))


def test_a_process_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.engine.timelines.rank_session import Session

    plain = Session.meanwhile

    def dies(self: Session, *asked: Any) -> Any:
        import os

        if self.number == 1:
            os._exit(9)
        return plain(self, *asked)

    monkeypatch.setattr(rank_processes, "ALONE", 0)
    monkeypatch.setattr(rank_processes.forked, "cores", lambda: 2)
    monkeypatch.setattr(Session, "meanwhile", dies)
    found = analyze_paths(paths("all_to_all"))
    assert not found.jobs and len(found.timelines) == 1
    assert "ended early" in found.skipped[0].message


def test_a_folder_holds_as_many_jobs_as_there_are(tmp_path: Path) -> None:
    for name in ("ddp_overlap", "uneven"):
        for path in paths(name):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "other.rank0.json").write_text('{"traceEvents": [')
    found = analyze_paths([tmp_path])
    assert [len(j.ranks) for j in found.jobs] == [2, 2] and len(found.timelines) == 4
    assert {Path(i).name for i in found.jobs[1].inputs} == {p.name for p in paths("uneven")}


def test_a_rank_that_cannot_be_read_leaves_the_other(tmp_path: Path) -> None:
    first, second = paths("uneven")
    (tmp_path / first.name).write_bytes(first.read_bytes())
    (tmp_path / second.name.removesuffix(".xz")).write_text('{"schemaVersion": 1, "traceEvents": []}')
    found = analyze_paths([tmp_path])
    assert len(found.timelines) == 1 and len(found.skipped) == 1 and not found.jobs


def test_a_lone_rank_says_that_waits_are_unknown() -> None:
    alone = analyze_paths(paths("ddp_exposed")[:1])
    assert not alone.jobs
    (one,) = alone.timelines
    assert one.rank == 0 and one.communication is not None and one.communication.waiting_us is None
    assert one.verdict is not None and one.verdict.limiter == "communication"
    assert one.findings[0].rule == "exposed-communication"


def made(folder: Path, delays: tuple[int, int], steps: int = 4) -> list[Path]:
    """Two ranks of 20 kernels of 50 us a step, each with so many us more, then an all-reduce of 100 us for both."""
    out = []
    for rank in (0, 1):
        every: list[dict[str, Any]] = []
        for step in range(steps):
            whole = 1_120 + max(delays)
            begin = step * whole
            every.append(event("user_annotation", f"ProfilerStep#{step}", begin, whole - 1))
            for i in range(20):
                number = 100 * step + i + 1
                args = {"device": rank, "stream": 7, "correlation": number}
                length = 50 + delays[rank] // 20
                every.append(event("cuda_runtime", "cudaLaunchKernel", begin + 2 * i, 1, correlation=number))
                every.append(event("kernel", "gemm", begin + 10 + length * i, length, tid=7, **args))
            arrives = begin + 10 + 20 * (50 + delays[rank] // 20)
            ends = begin + 10 + 20 * (50 + max(delays) // 20) + 100
            args = {"device": rank, "stream": 9, "correlation": 100 * step + 50, "Collective name": "allreduce",
                    "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "dtype": "Float", "Group size": 2,
                    "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}  # fmt: skip
            every.append(event("cuda_runtime", "cudaLaunchKernel", begin + 60, 1, correlation=args["correlation"]))
            every.append(event("cuda_runtime", "cudaStreamSynchronize", begin + 62, ends - begin - 61))
            every.append(event("kernel", "ncclDevKernel_AllReduce", arrives, ends - arrives, tid=9, **args))
        info = {"rank": rank, "world_size": 2}
        target = folder / f"made.rank{rank}.json"
        target.write_text(json.dumps({"distributedInfo": info, "baseTimeNanoseconds": 10**18, "traceEvents": every}))
        out.append(target)
    return out


def test_waits_of_a_job_made_up_so_that_they_are_known(tmp_path: Path) -> None:
    """Rank 1 takes 1,000 us a step longer: rank 0 waits just that long, and sending takes 100 us."""
    (one,) = analyze_paths(made(tmp_path, (0, 1_000))).jobs
    assert one.straggler == 1 and one.matched == 4 and one.findings[0].code == "OVH611"
    assert [late.waiting_us for late in one.late] == [1_000] * 4 and {late.late for late in one.late} == {1}
    assert one.ranks[1].awaited_us == pytest.approx(4_000) and one.ranks[1].waiting_pct == 0
    first = analyze_paths(made(tmp_path, (0, 1_000))).timelines[0].communication
    assert first is not None and first.waiting_us == pytest.approx(4_000) and first.exposed_us == pytest.approx(4_400)
    assert first.kinds[0].bytes == 4 * (4 << 20) and first.kinds[0].what == "all_reduce"
    even = analyze_paths(made(tmp_path, (0, 0))).jobs[0]
    assert even.straggler is None and all(r.waiting_pct == 0 for r in even.ranks)


def export(folder: Path, rank: int, late: int, clock: int, skip: int) -> Path:
    """An export of Nsight Systems, which tells nothing of ranks but by its name: kernels of 400 us, an all-reduce that
    ends on both ranks at once, and a clock of its own."""
    kernels, calls = [], []
    begin = 0
    for step in range(12):
        begin += 2_000_000 + 37_000 * (step % 5)
        if step < skip:
            continue
        for name, stream, start, end in (
            (1, 7, begin, begin + 400_000 + late),
            (2, 9, begin + 400_000 + late, begin + 1_100_000),
            (1, 7, begin + 1_100_000, begin + 1_950_000),
        ):
            number = len(kernels) + 1
            kernels.append((start + clock, end + clock, rank, stream, number, 16 << 24, name))
            calls.append((start + clock - 50_000, start + clock - 45_000, (16 << 24) + 5, number, 3, 0))
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, demangledName INT",
            kernels,
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            "start INT, end INT, globalTid INT, correlationId INT, nameId INT, eventClass INT", calls,
        ),
        "StringIds": ("id INT, value TEXT", [(1, "sgemm"), (2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
                                             (3, "cudaLaunchKernel")]),
    }  # fmt: skip
    target = folder / f"app.rank{rank}.sqlite"
    traces.database(folder, tables).rename(target)
    return target


def test_exports_of_nsight_systems_are_ranks_by_their_names(tmp_path: Path) -> None:
    """Clocks 90 s apart, no description of collectives, and one recording begins three steps later."""
    export(tmp_path, 0, 0, 0, 0)
    export(tmp_path, 1, 500_000, 90_000_000_000, 3)
    (one,) = analyze_paths([tmp_path]).jobs
    assert one.straggler == 1 and one.matched == 9 and len(one.ranks) == 2
    assert [late.waiting_us for late in one.late] == [500] * 9
    assert one.ranks[0].awaited_us == 0 and one.ranks[1].awaited_us == pytest.approx(9 * 500)


def test_processes_of_one_export_are_ranks(tmp_path: Path) -> None:
    """Both ranks in one export, as nsys records torchrun: the same job, told apart by process."""
    import sqlite3

    first, second = export(tmp_path, 0, 0, 0, 0), export(tmp_path, 1, 500_000, 0, 0)
    both, other = sqlite3.connect(first), sqlite3.connect(second)
    for table, of_process in (("KERNEL", 5), ("RUNTIME", 2)):
        rows = [list(r) for r in other.execute(f"SELECT * FROM CUPTI_ACTIVITY_KIND_{table}")]
        for row in rows:
            row[of_process] += 1 << 24
        both.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES ({','.join('?' * len(rows[0]))})", rows)
    both.commit()
    found = analyze_paths([first])
    (one,) = found.jobs
    assert one.straggler == 1 and one.matched == 12 and [r.rank for r in one.ranks] == [0, 1]
    assert len(found.inputs) == 1 and [t.rank for t in found.timelines] == [0, 1]
    assert [t.devices[0].device for t in found.timelines] == [0, 1]
    assert [late.waiting_us for late in one.late] == [500] * 10
    text = render("text", found, Options(width=100))
    assert text.count("app.rank0.sqlite") == 2 and "1 more recording" in text


def test_a_rank_that_is_missing_is_named(tmp_path: Path) -> None:
    targets = made(tmp_path, (0, 500))
    for target in targets:
        target.write_text(target.read_text().replace('"world_size": 2', '"world_size": 4'))
    (one,) = analyze_paths(targets).jobs
    assert one.world == 4 and any("2 of 4 ranks" in note and "not 2, 3" in note for note in one.notes)


@pytest.mark.parametrize("format_", ["text", "md", "llm", "html", "sarif"])
def test_reports(format_: str) -> None:
    text = render(format_, analysis("straggler_gpu"), Options(width=100))
    assert "OVH611" in text
    if format_ in ("text", "md"):
        assert "2 ranks" in text and "others wait for it" in text and "exposed" in text
        assert text.index("straggler") < text.index("### Kernels by time" if format_ == "md" else "  share      time")


def test_schema_and_round_trip() -> None:
    found = analysis("pipeline_2")
    validator().validate(json.loads(render("json", found)))
    assert from_json(to_json(found)) == found


def test_every_rule_fires_somewhere_and_is_silent_somewhere() -> None:
    found = [job(name) for name in LABELS]
    assert {f.code for one in found for f in one.findings if f.severity != "info"} >= CODES
    assert {code for one in found for code in one.passed} == CODES
