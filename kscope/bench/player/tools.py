"""What only a GPU has: graphs, streams, a profiler, persisting lines of L2, kernels that were compiled at run time."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from kscope.bench.player import native

PER_THREAD = 2  # cudaStreamPerThread (driver_types.h): what a launch without a stream goes to, and can be captured
RELAXED = 2  # cudaStreamCaptureModeRelaxed
PERSISTING = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE


class Graph:
    """Calls as one CUDA graph. kept: what the calls returned that are to be looked at."""

    def __init__(self, replay: Callable[[], Any], kept: list[Any], held: Any) -> None:
        self.replay, self.kept, self.held = replay, kept, held


def captured(side: Any, calls: Sequence[Callable[[], Any]], keep: set[int]) -> Graph:
    """Raises where the calls cannot be captured (they synchronise, or allocate outside the framework)."""
    return _by_runtime(side, calls, keep) if isinstance(side, native.Memory) else _by_torch(side.torch, calls, keep)


def _by_torch(torch: Any, calls: Sequence[Callable[[], Any]], keep: set[int]) -> Graph:
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for call in dict.fromkeys(calls[:3]):
            call()
    torch.cuda.current_stream().wait_stream(aside)
    torch.cuda.synchronize()
    graph, kept = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for i, call in enumerate(calls):
            out = call()
            if i in keep:
                kept.append(out)
    return Graph(graph.replay, kept, graph)


def _by_runtime(side: native.Memory, calls: Sequence[Callable[[], Any]], keep: set[int]) -> Graph:
    runtime, stream = side.runtime, ctypes.c_void_p(PER_THREAD)
    graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
    side.sync()
    side.check(runtime.cudaStreamBeginCapture(stream, RELAXED))
    try:
        for call in calls:
            call()
    finally:
        status = runtime.cudaStreamEndCapture(stream, ctypes.byref(graph))
    side.check(status)
    side.check(runtime.cudaGraphInstantiate(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)))

    def replay() -> None:
        side.check(runtime.cudaGraphLaunch(ready, stream))

    return Graph(replay, [None] * len(keep), graph)


def on_streams(side: Any, call: Callable[[], Any], outputs: Callable[[Any], list[Any]]) -> dict[str, Any]:
    """One call as a caller on the current stream sees it: seconds until that stream is done and until the device is,
    and whether a copy made on that stream right behind the call holds the same."""
    torch = side.torch
    torch.cuda.synchronize()
    begun = time.perf_counter()
    out = outputs(call())
    copies = [one.clone() for one in out if isinstance(one, torch.Tensor)]
    torch.cuda.current_stream().synchronize()
    stream = time.perf_counter() - begun
    torch.cuda.synchronize()
    device = time.perf_counter() - begun
    tensors = [one for one in out if isinstance(one, torch.Tensor)]
    same = all(torch.equal(_bits(torch, a), _bits(torch, b)) for a, b in zip(tensors, copies, strict=True))
    return {"stream_s": stream, "device_s": device, "same": same}


def _bits(torch: Any, one: Any) -> Any:
    """NaN equals NaN."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return one.contiguous().view(kinds[one.element_size()])


def persisting(device: str) -> int | None:
    """Bytes of L2 that are set aside for persisting lines; None where nobody can say. They are given back."""
    if device != "cuda":
        return None
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        size = ctypes.c_size_t()
        if driver.cuCtxGetLimit(ctypes.byref(size), PERSISTING):
            return None
        if size.value:
            driver.cuCtxResetPersistingL2Cache()
            driver.cuCtxSetLimit(PERSISTING, ctypes.c_size_t(0))
        return size.value
    except (OSError, AttributeError):
        return None


def emptied(side: Any) -> int:
    """Bytes of L2 that stay set aside where none should be: drivers set a part aside by default (an H100: 9.4 MiB)."""
    side.sync()
    persisting(side.device)
    return persisting(side.device) or 0


def profiled(side: Any, calls: Sequence[Callable[[], Any]]) -> dict[str, Any]:
    """Kernels and operators of the calls: name -> [count, microseconds on the device]. By torch.profiler (CUPTI on a
    GPU); nothing is timed for a verdict while it listens."""
    torch = getattr(side, "torch", None)
    if torch is None:
        return {"kernels": {}, "operators": {}}
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if side.device == "cuda" else [])]
    side.sync()
    with profile(activities=kinds) as seen:
        for call in calls:
            call()
        side.sync()
    kernels: dict[str, list[float]] = {}
    operators: dict[str, list[float]] = {}
    for event in seen.events():
        table = kernels if str(event.device_type).endswith("CUDA") else operators
        row = table.setdefault(event.name[:300], [0, 0.0])
        row[0] += 1
        row[1] += float(getattr(event, "self_device_time_total", 0.0) or 0.0)
    return {"kernels": kernels, "operators": operators}


def counted(
    side: Any, call: Any, groups: Sequence[Sequence[Callable[[], Any]]], between: Sequence[Callable[[], Any]]
) -> None:
    """Groups of calls as a profiler of kernels sees them: a mark before each and one behind the last; the calls between
    groups, which leave nothing of a group's data in the caches, it does not see."""
    raw = isinstance(side, native.Memory)
    runtime = side.runtime if raw else side.torch.cuda.cudart()
    mark = call.mark if raw else side.torch.cuda._sleep  # a kernel that does nothing, whose name says so
    for group in groups:
        for one in between:
            one()
        side.sync()
        runtime.cudaProfilerStart()
        mark(1)
        for one in group:
            one()
        side.sync()
        runtime.cudaProfilerStop()


def triton_code(call: Any) -> dict[str, str]:
    """PTX of Triton kernels that were compiled in this process, by name; "" where there is no Triton."""
    found: dict[str, str] = {}
    if "triton" not in sys.modules:
        return found
    import gc

    for one in gc.get_objects():
        if type(one).__name__ == "CompiledKernel" and hasattr(one, "asm"):
            text = one.asm.get("ptx", "")
            name = getattr(getattr(one, "metadata", None), "name", "") or getattr(one, "name", "kernel")
            found[str(name)] = text[:400_000] if isinstance(text, str) else ""
    return found
