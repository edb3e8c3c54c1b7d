"""Recordings without GPU work: why, in the words of the file, and what the host did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import TimelineAnalysis
from kscope.reports import Options, render
from tests.support import traces

STRINGS = ("id INTEGER, value TEXT", [(1, "cudaLaunchKernel_v7000"), (2, "cudaMalloc_v3020"), (3, "poll")])
RUNTIME = "start INTEGER, end INTEGER, nameId INTEGER, correlationId INTEGER, globalTid INTEGER"
CALLS = (RUNTIME, [(10, 20, 1, 1, 1 << 24), (30, 2_000_030, 2, 2, 1 << 24), (2_000_040, 2_000_050, 1, 3, 1 << 24)])
DIAGNOSTICS = "timestamp INTEGER, severity INTEGER, text TEXT"
CAPTURE = "name TEXT, value TEXT"


def export(folder: Path, **more: Any) -> TimelineAnalysis:
    (one,) = analyze_paths([traces.database(folder, {"StringIds": STRINGS, **more})]).timelines
    assert one.verdict is None and one.coverage.operations == 0 and one.findings == []
    assert one.abstained.startswith("no GPU operation was recorded")
    return one


def captured(*kinds: str, **more: str) -> tuple[str, list[tuple[str, str]]]:
    return CAPTURE, [*(("CAPTURE_EVENT_TYPE", kind) for kind in kinds), *more.items()]


def test_cuda_was_not_asked_for(tmp_path: Path) -> None:
    one = export(tmp_path, META_DATA_CAPTURE=captured("OSRuntime", "NvtxEvents"))
    assert 'CUDA was not traced, only "OSRuntime", "NvtxEvents"' in one.abstained
    assert "--trace=cuda" in one.abstained


def test_the_program_made_no_call(tmp_path: Path) -> None:
    one = export(tmp_path, META_DATA_CAPTURE=captured("Cuda", START_TRIGGER="CudaProfilerApi"))
    assert "made no CUDA call" in one.abstained and '"CudaProfilerApi"' in one.abstained
    again = tmp_path / "again"
    again.mkdir()
    now = export(again, META_DATA_CAPTURE=captured("Cuda", START_TRIGGER="Immediate"))
    assert "it was to start" not in now.abstained


def test_launches_without_their_kernels(tmp_path: Path) -> None:
    one = export(
        tmp_path, CUPTI_ACTIVITY_KIND_RUNTIME=CALLS, META_DATA_CAPTURE=captured("Cuda"),
        OSRT_API=("start INTEGER, end INTEGER, nameId INTEGER", [(0, 5_000_000, 3), (6_000_000, 7_000_000, 3)]),
        DIAGNOSTIC_EVENT=(DIAGNOSTICS, [
            (0, 1, "Profiling has started."), (1, 2, "No NVTX events collected. Does the process use NVTX?"),
            (2, 2, "Installed CUDA driver version (12.0) is not supported."), (3, 3, "CUPTI failed to\ninitialize"),
            (4, 1, "Number of CUDA events collected: \t3."),
        ]),
    )  # fmt: skip
    assert "launched 2 kernels" in one.abstained
    said = "\n".join(one.coverage.notes)
    assert 'the recording says: "CUPTI failed to initialize"; "Installed CUDA driver' in said, "gravest first"
    assert "Number of CUDA events collected: 3" in said and "NVTX events" not in said and "started" not in said
    assert "no table CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY" in said
    assert '3 CUDA calls, most time in "cudaMalloc" 1x 2.0 ms, "cudaLaunchKernel" 2x' in said
    assert 'calls of the system, most time in "poll" 2x 6.0 ms' in said


def test_nothing_is_known_of_why(tmp_path: Path) -> None:
    assert "none was made, or CUDA was not traced" in export(tmp_path).abstained


def test_environment_and_command_are_not_repeated(tmp_path: Path) -> None:
    secrets = {"PROCESS_0:ENVIRONMENT_VARIABLE": "TOKEN=hunter2", "PROCESS_0:COMMAND": "hunter2"}
    database = traces.database(tmp_path, {"StringIds": STRINGS, "META_DATA_CAPTURE": captured("NvtxEvents", **secrets)})
    analysis = analyze_paths([database])
    assert all("hunter2" not in render(f, analysis, Options(verbose=True)) for f in ("text", "json", "md", "llm"))


def test_torch_traces(tmp_path: Path) -> None:
    launch = traces.event("cuda_runtime", "cudaLaunchKernel", 0, 2, correlation=1)
    host = [traces.event("cpu_op", "aten::mm", 0, 5000), traces.event("cpu_op", "aten::add", 6000, 100)]
    for events, why in (
        ([*host, launch], "launched 1 kernel, whose times are not in the trace"),
        (host, "the trace holds the host alone"),
        ([*host, traces.event("cuda_runtime", "cudaMalloc", 1, 2)], "1 CUDA call and no launch"),
    ):
        (one,) = analyze_paths([traces.trace(tmp_path, events)]).timelines
        assert why in one.abstained
        assert '2 operators, most time in "aten::mm" 1x 5.0 ms' in "\n".join(one.coverage.notes)


@pytest.mark.parametrize("format_", ["text", "md", "llm", "html", "sarif", "json"])
def test_every_format_says_so(format_: str, tmp_path: Path) -> None:
    database = traces.database(tmp_path, {"StringIds": STRINGS, "META_DATA_CAPTURE": captured("x\x1b[31m`<b>", "y")})
    text = render(format_, analyze_paths([database]), Options(width=100))
    assert "\x1b" not in text and "worth 3 %" not in text.split("<script")[0]
    if format_ in ("text", "md", "llm"):
        assert "CUDA was not traced" in " ".join(text.split()) and "no rule had what it needs" in text
