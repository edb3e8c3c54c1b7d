"""Full reports as `ncu` would have given them with fewer sections: the same kernels, without the metrics that were not
asked for.

The names of a set are real where there is a capture of it (`fixtures/sections`: SpeedOfLight alone, basic, detailed,
every section of counters). The others are put together from what a full report says of its sections itself: their
header and body metrics, and the lists of names that its `group:` and `breakdown:` metrics hold. tests/test_partial.py
compares the two ways where both exist.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from kscope.model.kernel import Kernel, Metrics
from tests.support import patches
from tests.support.apart import apart

ALWAYS = ("device__", "launch__", "nvlink__", "numa__", "c2clink__", "profiler__", "thread_inst_executed_true")
"""Beginnings of the names that every capture of `fixtures/sections` holds, whatever was asked for."""
PC_ONLY = ("thread_inst_executed_true",)
SAMPLING = ("FBSP.", "FE_B.", "GPC_B.", "LTS.", "SM_A.", "SM_B.", "SM_C.", "TPC.", "pmsampling:", "warpsampling:")
GROUPS = {  # a full report names the parts of these sections in `group:` metrics, not as the sections' own
    "MemoryWorkloadAnalysis_Tables": (
        "group:memory__first_level_cache_table", "group:memory__l2_cache_table", "group:memory__shared_table",
        "group:memory__l2_cache_evict_policy_table", "group:memory__dram_table",
    ),
    "MemoryWorkloadAnalysis_Chart": ("group:memory__chart",),
    "SourceCounters": ("group:smsp__pcsamp_warp_stall_reasons", "group:smsp__pcsamp_warp_stall_reasons_not_issued"),
}  # fmt: skip
SOURCE = (
    "smsp__pcsamp",
    "memory_",
    "inst_executed",
    "thread_inst_executed",
    "derived__memory_",
    "sass__inst_executed_",
)
SETS: dict[str, tuple[str, ...]] = {
    "sol": ("SpeedOfLight",),
    "basic": ("LaunchStats", "Occupancy", "SpeedOfLight", "WorkloadDistribution"),
    "detailed": (
        "ComputeWorkloadAnalysis", "LaunchStats", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Chart", "Occupancy",
        "SourceCounters", "SpeedOfLight", "SpeedOfLight_RooflineChart", "WorkloadDistribution",
    ),
    "counters": (
        "ComputeWorkloadAnalysis", "InstructionStats", "LaunchStats", "MemoryWorkloadAnalysis",
        "MemoryWorkloadAnalysis_Tables", "Occupancy", "SchedulerStats", "SpeedOfLight", "WarpStateStats",
        "WorkloadDistribution",
    ),
    "roofline": (
        "SpeedOfLight", "SpeedOfLight_RooflineChart", "SpeedOfLight_HierarchicalDoubleRooflineChart",
        "SpeedOfLight_HierarchicalHalfRooflineChart", "SpeedOfLight_HierarchicalSingleRooflineChart",
        "SpeedOfLight_HierarchicalTensorRooflineChart", "WorkloadDistribution",
    ),
    "memory": ("MemoryWorkloadAnalysis_Tables",),
    "memory_all": ("MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Chart", "MemoryWorkloadAnalysis_Tables"),
    "compute": ("ComputeWorkloadAnalysis",),
    "states": ("SchedulerStats", "WarpStateStats"),
    "launch": ("LaunchStats", "Occupancy"),
    "source": ("SourceCounters",),
    "source_no_sass": ("SourceCounters",),
    "time": (),
    "no_rules": ("*",),
    "no_sampling": ("*",),
    "no_sass": ("*",),
}  # fmt: skip
"""Set -> its sections; "*" stands for all. `time`: only gpu__time_duration (`--metrics gpu__time_duration.sum`);
`source_no_sass` and `no_sass`: the machine code could not be disassembled, as for a chip that is too old."""


def reduced(kernel: Kernel, collected: str) -> Kernel:
    """The kernel of a full report, with what the set of this name would have collected. Raises KeyError."""
    wanted = SETS[collected]
    if wanted == ("*",):
        return msgspec.structs.replace(kernel, **_without(collected, kernel))
    keep = names(collected)
    metrics = {n: v for n, v in kernel.metrics.items() if n in keep or n.startswith(ALWAYS)}
    texts = {n: t for n in ("device__attribute_display_name",) if (t := kernel.metrics.text(n)) is not None}
    source = "SourceCounters" in wanted
    lost = "SASS could not be read: the disassembler of this version does not know the chip"
    return msgspec.structs.replace(
        kernel, metrics=Metrics(metrics, texts),
        counters=kernel.counters if source else None,
        program=kernel.program if source and collected != "source_no_sass" else None,
        sources=kernel.sources if source else {},
        opcodes=kernel.opcodes if "sass__inst_executed_per_opcode_with_modifier_all" in keep else {},
        timelines=None, charts=None, nvidia=(), sections=tuple(wanted),
        notes=(*kernel.notes, lost) if collected == "source_no_sass" else kernel.notes,
    )  # fmt: skip


def _without(what: str, kernel: Kernel) -> dict[str, Any]:
    if what == "no_rules":
        return {"nvidia": ()}
    if what == "no_sampling":
        left = tuple(s for s in kernel.sections if not s.startswith("PmSampling"))
        return {"timelines": None, "charts": None, "sections": left}
    return {"program": None, "sources": {}, "notes": (*kernel.notes, "SASS could not be read: unknown chip")}


@cache
def names(collected: str) -> frozenset[str]:
    """Metric names of a set: those of its capture where there is one, else of its sections in a full report."""
    real = f"sections/{collected}.row_stats.thread/report"
    if real in patches.names("sections"):
        return apart(_every, str(patches.built(real)))
    return of_sections(*SETS[collected]) | ({"gpu__time_duration.sum"} if collected == "time" else frozenset())


@cache
def of_sections(*sections: str) -> frozenset[str]:
    """Metric names that a full report says belong to the sections, with every roll-up of each."""
    return apart(_of_sections, str(patches.built("h200/row_stats.thread/report")), sections)


def _every(path: str) -> frozenset[str]:
    return frozenset(_action(path).metric_names())


def _of_sections(path: str, sections: tuple[str, ...]) -> frozenset[str]:
    action = _action(path)
    named: set[str] = set()
    for section in action.sections():
        if section.identifier() in sections:
            own = [m.name() for m in (*section.header_metrics(), *section.body_metrics())]
            lists = [n for n in (*own, *GROUPS.get(section.identifier(), ())) if n.startswith(("group:", "breakdown:"))]
            named.update(own)
            for one in lists:
                metric = action.metric_by_name(one)
                named.update(str(metric.value()).split(",") if metric is not None else ())
    stems = {_rolled(n) for n in named}
    every = {n for n in action.metric_names() if _rolled(n) in stems and not n.startswith(SAMPLING)}
    if "SourceCounters" in sections:
        every |= {n for n in action.metric_names() if n.startswith(SOURCE)}
    return frozenset(every)


def _rolled(name: str) -> str:
    """ncu keeps avg, max, min and sum of what it collects."""
    return re.sub(r"\.(?:avg|max|min|sum)(?=\.|$)", ".*", name)


@cache
def _action(path: str) -> Any:
    """The first result of a report, by NVIDIA's reader; kept, since a name list costs a decode."""
    import ncu_report

    _KEPT.append(report := ncu_report.load_report(path))
    return report[0][0]


_KEPT: list[Any] = []
"""Reports whose results are in use: the reader frees the file with the report."""
