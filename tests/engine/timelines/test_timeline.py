"""Whole programs: the right verdict and first suggestion on every recording, and abstention where nothing is known."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.operations.api_names import as_hip
from kscope.model.contract.analysis import Finding, TimelineAnalysis, from_json, to_json
from kscope.reports import Options, render
from kscope.rules.registry import all_rules
from kscope.rules.timeline_base import TimelineRule
from tests.cli.running import kscope
from tests.support import traces
from tests.support.reports import fixture
from tests.support.traces import event, launch
from tests.test_schema import validator

CODES = {r.code for r in all_rules() if issubclass(r, TimelineRule)}


@cache
def diagnosis(name: str) -> TimelineAnalysis:
    (one,) = analyze_paths([traces.path(name)]).timelines
    return one


def made(folder: Path, events: list[dict[str, Any]]) -> TimelineAnalysis:
    (one,) = analyze_paths([traces.trace(folder, events)]).timelines
    return one


@pytest.mark.parametrize("name", traces.LABELS)
def test_verdict_and_first_suggestion(name: str) -> None:
    one, label = diagnosis(name), traces.LABELS[name]
    if not label["regime"]:
        assert one.verdict is None and "their names do not tell" in one.abstained
    else:
        assert one.verdict is not None and one.verdict.regime in label["regime"]
    if "first" in label:
        assert one.findings[0].rule in label["first"]
        assert one.findings[0].severity in ("major", "critical")
    else:
        assert not [f for f in one.findings if f.severity in ("major", "critical")]
    assert one.errors == []
    said = {f.code for f in one.findings} | set(one.passed) | {n.code for n in one.not_applicable}
    assert said == CODES


@pytest.mark.parametrize("name", traces.LABELS)
def test_figures_add_up(name: str) -> None:
    one = diagnosis(name)
    left_out = sum(i.us for i in one.idle if i.cause in ("profiler", "one_off"))
    idle = sum(i.us for i in one.idle)
    assert one.span_us * (1 - one.gpu_busy_pct / 100) == pytest.approx(idle, rel=1e-3, abs=1)
    parts = sum(i.pct for i in one.idle if i.cause != "profiler") + 100 * one.span_us * one.gpu_busy_pct / 100 / (
        one.span_us - left_out
    )
    assert parts == pytest.approx(100, abs=0.1)
    listed = sum(k.share for k in one.top_kernels)
    assert 0.95 < listed < 1.001 and (len(one.top_kernels) == 50 or listed == pytest.approx(1, abs=1e-3))


def test_every_rule_fires_somewhere_and_is_silent_somewhere() -> None:
    sends = ["ranks/ddp_exposed.rank0", "ranks/ddp_buckets.rank1", "ranks/ddp_overlap.rank0"]
    fired = {f.code for n in [*traces.LABELS, *sends] for f in diagnosis(n).findings if f.severity != "info"}
    assert fired == CODES
    assert {c for n in ("gpu_bound", "graph", "compiled", sends[2]) for c in diagnosis(n).passed} == CODES


def test_what_is_compiled_again_is_told_once() -> None:
    """As recompilation, with what mends it; not as loading that a warm-up would take away."""
    one = diagnosis("compiled_recompile")
    assert one.findings[0].code == "OVH607" and "1 recompilation (0/1), frame/version, falls" in one.findings[0].why
    assert "OVH602" in one.passed


@pytest.mark.parametrize(("name", "told"), [("stack_a_graph", True), ("gpu_bound", False)])
def test_time_between_the_nodes_of_graphs_is_told(name: str, told: bool) -> None:
    """It counts as that of the kernels, and none of them runs then."""
    one = diagnosis(name)
    inside = sum(i.pct for i in one.idle if i.cause == "inside_graph")
    assert one.verdict is not None and (inside > 10) == told
    assert ("of it between the nodes of graphs" in one.verdict.sentence) == told


def test_schema_and_round_trip() -> None:
    analysis = analyze_paths([traces.path("sync"), traces.path("train_step")])
    validator().validate(json.loads(render("json", analysis)))
    assert from_json(to_json(analysis)) == analysis
    assert [(i.kind, i.tool_version) for i in analysis.inputs] == [("nsys", "2025.3.2.0"), ("kineto", None)]


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
def test_reports(format_: str) -> None:
    analysis = analyze_paths([traces.path("launch_bound")])
    text = render(format_, analysis, Options(width=100))
    assert "OVERHEAD-BOUND" in text and "OVH601" in text and "layer_norm" in text
    assert text.index("OVERHEAD-BOUND") < text.index("OVH601")
    assert ("launch" if format_ == "llm" else "waiting for launches") in text
    if format_ == "text":
        assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
def test_hostile_names(format_: str, tmp_path: Path) -> None:
    name = "a|b`</details>\x1b[31m\n# heading"
    events = [e for i in range(30) for e in launch(i + 1, 10 * i, 10 * i + 5, 3, name)]
    events += [event("cpu_op", name, 0, 400), event("user_annotation", f"{name} 1", 0, 90)]
    text = render(format_, analyze_paths([traces.trace(tmp_path, events)]), Options(width=100))
    assert "\x1b" not in text and "\n# heading" not in text


def test_abstains(tmp_path: Path) -> None:
    nothing = made(tmp_path, [event("cpu_op", "aten::mm", 0, 5), event("cuda_runtime", "cudaMalloc", 1, 2)])
    assert nothing.verdict is None and "no GPU operation" in nothing.abstained
    assert {n.code for n in nothing.not_applicable} == CODES and nothing.findings == []
    alone = [e for i in range(40) for e in launch(i + 1, 10 * i, 10 * i + 5, 3) if e["cat"] == "kernel"]
    untied = made(tmp_path, alone)
    assert untied.verdict is None and untied.idle[0].cause == "unknown"
    some = [event("cuda_runtime", "cudaGraphLaunch", 100 * i, 8, correlation=900 + i) for i in range(5)]
    lost = made(tmp_path, [*some, *launch(1, 0, 5, 3), *launch(2, 600, 605, 3)])
    assert lost.verdict is None and "not recorded" in lost.abstained and lost.coverage.lost_graphs == 5


def test_one_pass_tells_nothing_of_what_recurs(tmp_path: Path) -> None:
    """Launches of kernels of which none runs three times: what the GPU waits for may happen once, and no gain is
    promised. Where the same kernels run again it is a loop bound on launches; where they fill the time, they bind."""

    def ran(passes: int, us: float, name: str = "k") -> TimelineAnalysis:
        events = [launch(16 * p + i + 1, 100 * (16 * p + i), 100 * (16 * p + i) + 5, us, f"{name}{i}")
                  for p in range(passes) for i in range(16)]  # fmt: skip
        return made(tmp_path, [e for pair in events for e in pair])

    once, often = ran(2, 3), ran(3, 3)
    assert once.verdict is None and "ran 3 times" in once.abstained and not once.findings
    assert {n.code for n in once.not_applicable} == CODES
    assert often.verdict is not None and often.verdict.limiter == "launch"
    assert [f.code for f in often.findings][:1] == ["OVH601"]
    full = ran(2, 98, "sgemm_")
    assert full.verdict is not None and full.verdict.regime == "compute" and "OVH601" in full.passed


def test_copies_are_told_in_units_that_show_them(tmp_path: Path) -> None:
    """Some kB are not 0.00 GB, and copies whose bytes a recorder leaves out are not of no bytes."""

    def told(copy: str = "Memcpy HtoD (Pageable -> Device)", **args: Any) -> str:
        events = [
            e for i in range(40) for e in (
                *launch(2 * i + 1, 40 * i, 40 * i + 5, 3),
                event("cuda_runtime", "cudaMemcpyAsync", 40 * i + 9, 2, correlation=2 * i + 2),
                event("gpu_memcpy", copy, 40 * i + 12, 20, tid=7, device=0, stream=7, correlation=2 * i + 2, **args),
            )
        ]  # fmt: skip
        return " ".join(render("text", analyze_paths([traces.trace(tmp_path, events)]), Options(width=100)).split())

    known, unknown = told(bytes=64), told()
    assert "transfer-bound" in known and "Most are host to device: 2.56 kB at 3 MB/s" in known
    assert "0.00 GB" not in known and "40 copies host to device, 2.56 kB at 3 MB/s" in known
    assert "40 copies host to device, bytes not recorded" in unknown and "0 B" not in unknown
    inside, pinned = told("Memcpy DtoD (Device -> Device)", bytes=64), told("Memcpy HtoD (Pinned -> Device)", bytes=64)
    assert "pin the host memory" in known and "copy less within the device" in inside
    assert not any(wrong in inside for wrong in ("pin the host", "keep it on the device"))
    assert "keep it on the device" in pinned and "pin the host" not in pinned


@pytest.mark.parametrize("api", ["cuda", "hip"])
def test_advice_names_the_api_of_the_recording(api: str, tmp_path: Path) -> None:
    """Launches that are late, and an allocation that lasts, of a program on an AMD device and on an NVIDIA one."""

    def found(apart: int, call: str = "") -> dict[str, Finding]:
        events = []
        for i in range(60):
            events += launch(i + 1, apart * i, apart * i + 5, 3)
            events += [event("cuda_runtime", call, apart * i + 10, apart - 100)] if call else []
        for one in events:
            one["name"] = one["name"].replace("cuda", api)
        return {f.code: f for f in made(tmp_path, events).findings}

    single, pool = (found(300, call)["OVH602"] for call in ("cudaMalloc", "cudaMallocAsync"))
    assert f'most in 59 calls of "{api}Malloc"' in single.why and f"({api}MallocAsync)" in single.fix
    assert f'calls of "{api}MallocAsync"' in pool.why and f"({api}MemPoolAttrReleaseThreshold" in pool.fix
    assert f"a {api.upper()} graph of the step" in found(20)["OVH601"].fix
    assert as_hip("warm up; CUDA_MODULE_LOADING=EAGER moves it") == "warm up"


def test_launches_without_their_operations(tmp_path: Path) -> None:
    """Coverage both ways: what was captured into a graph ran nothing, and what was lost is no idle time."""
    some = [e for i in range(40) for e in launch(i + 1, 10 * i, 10 * i + 5, 3)]
    calls = [event("cuda_runtime", "cudaLaunchKernel", 500 + 5 * i, 2, correlation=900 + i) for i in range(100)]
    begin = event("cuda_runtime", "cudaStreamBeginCapture", 495, 2)
    end = event("cuda_runtime", "cudaStreamEndCapture", 1_010, 5)
    captured = made(tmp_path, [*some, begin, *calls, end])
    assert captured.verdict is None and "100 of 140 launches only recorded a CUDA graph" in captured.abstained
    assert captured.coverage.captured_launches == 100 and captured.coverage.lost_launches == 0
    last = launch(41, 1_100, 1_105, 3)
    lost = made(tmp_path, [*some, *calls, *last])
    assert lost.verdict is None and "100 of 141 launches have no GPU operation" in lost.abstained
    few = made(tmp_path, [*some, *calls[:5], *last])
    assert few.verdict is not None and any("5 of 46 launches" in note for note in few.coverage.notes)
    assert made(tmp_path, [*some, *calls]).coverage.lost_launches == 0  # the recording ended before they ran


def test_unknown_names_are_not_guessed(tmp_path: Path) -> None:
    one = made(tmp_path, [e for i in range(20) for e in launch(i + 1, 10 * i, 100 + 100 * i, 99, "frobnicate")])
    assert one.verdict is None and "their names do not tell" in one.abstained


def test_with_a_kernel_report_and_options(tmp_path: Path) -> None:
    report = fixture("bank_conflict.slow")
    both = analyze_paths([traces.path("launch"), report, tmp_path / "none.sqlite"], kernel="gemm|transpose", top=2)
    assert len(both.kernels) == 1 and len(both.timelines) == 1 and len(both.skipped) == 1
    assert 0 < len(both.timelines[0].top_kernels) <= 2 and "gemm" in both.timelines[0].top_kernels[0].name.lower()
    only = analyze_paths([traces.path("launch")], select=["OVH605"]).timelines[0]
    assert [f.code for f in only.findings] == ["OVH605"] and only.passed == []


def test_folder(tmp_path: Path) -> None:
    """Traces and exports are found; other JSON files are none of ours."""
    (tmp_path / "t.json.xz").write_bytes(traces.path("graph").read_bytes())
    (tmp_path / "t.sqlite.xz").write_bytes(traces.path("busy").read_bytes())
    (tmp_path / "config.json").write_text('{"lr": 1}')
    (tmp_path / "t.nsys-rep").write_bytes(b"\xff\xfe\0")
    analysis = analyze_paths([tmp_path])
    assert {Path(i.path).name for i in analysis.inputs} == {"t.json.xz", "t.sqlite.xz"} and not analysis.skipped


def test_command(tmp_path: Path) -> None:
    done = kscope("analyze", traces.path("launch_bound"), "--fail-on", "OVH605")
    assert done.returncode == 1 and "OVERHEAD-BOUND" in done.stdout
    assert done.stderr == "FAIL OVH605 launch_bound.json.xz\n"
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(bytes(range(200, 256)) * 9)
    done = kscope("analyze", report, env={"PATH": str(tmp_path)})
    assert done.returncode == 4 and done.stderr.count("\n") == 1 and "nsys export" in done.stderr
