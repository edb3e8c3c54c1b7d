"""What only charts need of a report: PM-sampled series and NVIDIA's occupancy tables. In the reader's process, like
kscope.parsers.ncu.native; asked for by `Want.charts`."""

from __future__ import annotations

from array import array

from kscope.parsers.ncu.metric_values import direct_calls

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from typing import Any

OCCUPANCY = {
    "registers": "launch__occupancy_per_register_count",
    "shared memory": "launch__occupancy_per_shared_mem_size",
    "block size": "launch__occupancy_per_block_size",
}
SERIES = (
    "sm__cycles_active.avg", "sm__pipe_tensor_cycles_active_realtime", "sm__inst_executed_pipe_fma_realtime",
    "sm__inst_executed_pipe_alu_realtime", "sm__pipe_fp64_cycles_active_realtime",
    "sm__inst_executed_pipe_xu_realtime", "sm__inst_executed_realtime.avg.pct", "l1tex__throughput.avg.pct",
    "lts__throughput.avg.pct", "dramc__throughput.avg.pct", "dram__throughput.avg.pct",
    "sm__mem_tensor_cycles_active_realtime",
)  # fmt: skip
STARTS = ("TPC.", "SM_A.", "SM_B.", "SM_C.", "LTS.", "FBSP.", "pmsampling:", "warpsampling:")
POINTS = 480
"""Of a series, at most: a long kernel has thousands of samples, a chart a few hundred pixels."""
WAITS = "warps_issue_stalled_"


def charts(action: Any) -> dict[str, Any]:
    """{"occupancy": {resource: (values, warps)}, "series": {metric: (ns, values)}}; step functions keep their steps."""
    return {"occupancy": _occupancy(action), "series": _series(action)}


def _occupancy(action: Any) -> dict[str, tuple[list[int], list[float]]]:
    direct = direct_calls()
    out = {}
    for resource, name in OCCUPANCY.items():
        metric = action.metric_by_name(name)
        n = metric.num_instances() if metric is not None else 0
        if n < 2 or not metric.has_correlation_ids():
            continue
        at = direct.integers(metric.correlation_ids(), n)
        warps = list(direct.doubles(metric, n))
        kept = [i for i in range(n) if i in (0, n - 1) or warps[i] != warps[i - 1]]
        out[resource] = ([at[i] for i in kept], [warps[i] for i in kept])
    return out


def wanted(name: str) -> bool:
    """Whether a chart draws the series of this metric."""
    return name.startswith(STARTS) and (WAITS in name or any(map(name.__contains__, SERIES)))


def _series(action: Any) -> dict[str, tuple[list[int], array[float]]]:
    """Read as they were sampled: `IAction.timelines()` would cut the silence around the kernel off, and takes longer
    than everything else here. The first instance is the whole kernel's, without a stamp."""
    direct = direct_calls()
    out: dict[str, tuple[list[int], array[float]]] = {}
    stamps: dict[tuple[int, int], list[int]] = {}
    for name in action.metric_names():
        if not wanted(name):
            continue
        metric = action.metric_by_name(name)
        n = metric.num_instances() if metric is not None else 0
        if n < 3 or not metric.has_correlation_ids():
            continue
        ids = metric.correlation_ids()
        key = (ids.as_uint64(1), n)
        step = -(-n // POINTS)
        first = 0 if ids.as_uint64(0) else 1
        if key not in stamps:
            found = direct.integers(ids, n, step)[first:]
            stamps[key] = [t - found[0] for t in found]
        out[name] = (stamps[key], direct.doubles(metric, n, step)[first:])
    return out
