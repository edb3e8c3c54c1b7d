"""Times of libraries by nvbench, for tools/bench_truth.py: [[name, library, elements, nodes], ...] to {name: rows}.

nodes: calls in a CUDA graph that is launched instead of one call, where there are more than one.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import cuda.bench as nvbench

from kscope.bench.player import native

JOBS = json.loads(Path(sys.argv[1]).read_text())
runtime = native.runtime()


def allocate(count: int) -> int:
    pointer = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(count)) == 0
    assert runtime.cudaMemset(pointer, 0, ctypes.c_size_t(count)) == 0
    return pointer.value or 0


def captured(call: Any, pointers: Any, sizes: Any, nodes: int) -> ctypes.c_void_p:
    stream, graph, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
    assert runtime.cudaStreamBeginCapture(stream, 2) == 0
    for _ in range(nodes):
        call(pointers, sizes, stream)
    assert runtime.cudaStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert runtime.cudaGraphInstantiate(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)) == 0
    return ready


def work(state: nvbench.State) -> None:
    _, path, n, nodes = JOBS[state.get_int64("job")]
    call = ctypes.CDLL(path)["kscope_bench_call"]
    x, y = allocate(4 * n), allocate(4 * n)
    pointers, sizes = (ctypes.c_void_p * 2)(x, y), (ctypes.c_longlong * 1)(n)
    graph = captured(call, pointers, sizes, nodes) if nodes > 1 else None

    def launch(one: nvbench.Launch) -> None:
        stream = ctypes.c_void_p(one.get_stream().addressof())
        if graph is None:
            call(pointers, sizes, stream)
        else:
            runtime.cudaGraphLaunch(graph, stream)

    state.exec(launch)
    runtime.cudaFree(ctypes.c_void_p(x))
    runtime.cudaFree(ctypes.c_void_p(y))


bench = nvbench.register(work)
bench.add_int64_axis("job", list(range(len(JOBS))))
with tempfile.TemporaryDirectory() as folder:
    out = str(Path(folder, "out.json"))
    nvbench.run_all_benchmarks(["--quiet", "--timeout", "0.5", "--json", out])
    data = json.loads(Path(out).read_text())
found: dict[str, dict[str, float]] = {}
for state in data["benchmarks"][0]["states"]:
    job = next(int(axis["value"]) for axis in state["axis_values"] if axis["name"] == "job")
    rows = {}
    for summary in state.get("summaries", []):
        for value in summary.get("data", []):
            if value.get("name") == "value":
                rows[summary.get("tag", summary.get("name"))] = value["value"]
    found[JOBS[job][0]] = {"nodes": JOBS[job][3], **rows}
Path(sys.argv[2]).write_text(json.dumps(found))
