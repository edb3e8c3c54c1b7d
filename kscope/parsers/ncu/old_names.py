"""Metrics by the names that older versions of Nsight Compute gave them, so that their reports read like today's.

Sources: a report of 2020.3 on sm_80 and sm_86 holds SECTORS and WAVEFRONTS under the names here, with today's values (a
coalesced LDG of 4 bytes: 4 sectors; an STS without conflict: 1 wavefront). A report of 2019 on sm_61 holds the others;
what they count is read off their names, and agrees among themselves (duration times frequency is the cycles).
"""

from __future__ import annotations

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from typing import Any

PER_PC = {  # today's name -> 2020's
    "memory_l2_theoretical_sectors_global": "memory_l2_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal": "memory_l2_sectors_global_ideal",
    "memory_l2_theoretical_sectors_local": "memory_l2_sectors_local",
    "memory_l1_wavefronts_shared": "memory_l1_sectors_shared",
    "memory_l1_wavefronts_shared_ideal": "memory_l1_sectors_shared_ideal",
}
WHOLE = {  # 2019's name -> today's
    "gpu__time_duration": "gpu__time_duration.sum",
    "gpc__elapsed_cycles_max": "gpc__cycles_elapsed.max",
    "gpc__frequency": "gpc__cycles_elapsed.avg.per_second",
    "dram__read_bytes": "dram__bytes_read.sum",
    "dram__write_bytes": "dram__bytes_write.sum",
    "dram__frequency": "dram__cycles_elapsed.avg.per_second",
    "fbpa__sol_pct": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "ltc__sol_pct": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active_per_active_cycle_pct": "sm__issue_active.avg.pct_of_peak_sustained_active",
    "sm__active_warps_avg_per_active_cycle_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__thread_inst_executed_per_inst_executed": "smsp__thread_inst_executed_per_inst_executed.ratio",
}
STALLS = "smsp__pcsamp_warps_issue_stalled_"
OLD_STALLS = "smsp__pcsamp_warp_stall_"
OLD_STATES, STATES = "smsp__warp_cycles_per_issue_stall_", "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SPELLING = {"no_instructions": "no_instruction"}  # the counters' word for what the samples call so


def today(name: str) -> str:
    """The name that a whole-kernel metric has today; its own where that did not change."""
    if name.startswith(OLD_STATES):
        reason = name.removeprefix(OLD_STATES)
        return STATES.format(SPELLING.get(reason, reason))
    return WHOLE.get(name, name)


def per_pc(action: Any, name: str) -> Any:
    """The metric of an action by today's name, under whichever it has; None where it has none."""
    found = action.metric_by_name(name)
    return found if found is not None or name not in PER_PC else action.metric_by_name(PER_PC[name])


def stall_columns(names: list[str]) -> dict[str, str]:
    """Today's name of each sampled reason -> its name in the report, without the samples of idle issue slots."""
    return {
        STALLS + n.removeprefix(STALLS).removeprefix(OLD_STALLS): n
        for n in names if n.startswith((STALLS, OLD_STALLS)) and not n.endswith("_not_issued")
    }  # fmt: skip
