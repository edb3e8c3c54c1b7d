"""The figures that every entry has, whatever its kernel is limited by: seemingly irrelevant ones may be asked for
later. None where a report does not hold one."""

from __future__ import annotations

from collections.abc import Mapping

from kscope.model.contract.analysis import KernelAnalysis

RAW: dict[str, tuple[str, str]] = {
    "occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
    "warps an SM": ("sm__warps_active.avg.per_cycle_active", ""),
    "instructions a cycle": ("sm__inst_executed.avg.per_cycle_elapsed", ""),
    "L1 hit rate": ("l1tex__t_sector_hit_rate.pct", "%"),
    "L2 hit rate": ("lts__t_sector_hit_rate.pct", "%"),
    "DRAM bytes read": ("dram__bytes_read.sum", "B"),
    "DRAM bytes written": ("dram__bytes_write.sum", "B"),
    "L2 sectors": ("lts__t_sectors.sum", "sector"),
    "cycles": ("sm__cycles_elapsed.max", "cycle"),
}
"""Name -> counter and unit."""
CLOCKS = {"sm_clock_hz": "sm__cycles_elapsed.avg.per_second", "dram_clock_hz": "dram__cycles_elapsed.avg.per_second"}
WANTED = (*(metric for metric, _ in RAW.values()), *CLOCKS.values())
UNITS = {
    "threads a block": "", "blocks": "", "waves": "", "registers a thread": "", "shared memory a block": "B",
    "FLOP/s": "FLOP/s", "DRAM bytes/s": "B/s", "FLOP a DRAM byte": "",
    **{name: unit for name, (_, unit) in RAW.items()},
    "tensor pipe busy": "%", "FP32 pipe busy": "%", "issue slots busy": "%", "L1 and shared memory busy": "%",
    "L2 busy": "%", "device memory busy": "%",
}  # fmt: skip
"""All names in order, with their units."""
_BUSY = {
    "tensor pipe": "tensor pipe busy", "FP32 (FMA) pipe": "FP32 pipe busy", "issue slots": "issue slots busy",
    "L1 and shared memory": "L1 and shared memory busy", "L2": "L2 busy", "device memory": "device memory busy",
}  # fmt: skip


def metrics(kernel: KernelAnalysis, raw: Mapping[str, float]) -> dict[str, float | None]:
    """Every name of UNITS. raw: counters of the kernel by their own names."""
    launch, roof = kernel.launch, kernel.roofline
    found: dict[str, float | None] = dict.fromkeys(UNITS)
    found |= {
        "threads a block": float(launch.block[0] * launch.block[1] * launch.block[2]),
        "blocks": float(launch.grid[0] * launch.grid[1] * launch.grid[2]), "waves": launch.waves,
        "registers a thread": float(launch.registers),
        "shared memory a block": float(launch.shared_static + launch.shared_dynamic),
        "FLOP/s": roof.flops_per_s if roof else None, "DRAM bytes/s": roof.bytes_per_s if roof else None,
        "FLOP a DRAM byte": roof.intensity if roof else None,
    }  # fmt: skip
    found |= {name: raw.get(metric) for name, (metric, _) in RAW.items()}
    found |= {_BUSY[u.unit]: u.pct for u in kernel.utilization if u.unit in _BUSY}
    return found
