"""The detail of one kernel, for reports that draw it."""

from __future__ import annotations

from kscope.features.facts import Facts
from kscope.features.views import charts
from kscope.features.views.loop_facts import loop_facts
from kscope.features.views.memory_chart import memory_chart
from kscope.features.views.source import code_detail
from kscope.model.contract.detail import KernelDetail

CLOCKS = {"SM": "smsp__cycles_elapsed.avg.per_second", "L2": "lts__cycles_elapsed.avg.per_second",
          "device memory": "dram__cycles_elapsed.avg.per_second"}  # fmt: skip
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kscope.model.contract.analysis import Finding


def kernel_detail(
    facts: Facts, ident: str, report: str = "", findings: Sequence[Finding] = (), limiter: str = ""
) -> KernelDetail:
    """Parts whose inputs the report lacks are None. ident: the id of the kernel in the Analysis; report: its plain
    file, whose embedded image knows the scheduling fields; findings and limiter: marked in the memory chart."""
    return KernelDetail(
        id=ident,
        roofs=charts.roofs(facts),
        memory=memory_chart(facts, findings, limiter),
        occupancy=charts.occupancy(facts),
        pm=charts.pm(facts),
        code=code_detail(facts, report),
        loops=loop_facts(facts.code) if facts.code is not None else [],
        clocks={name: hz for name, metric in CLOCKS.items() if (hz := facts.kernel.metrics.get(metric))},
        caches=_caches(facts.kernel.recorded),
    )


def _caches(recorded: Mapping[str, str]) -> str:
    """By the profiler's command line, where the report has it: it empties them unless told otherwise."""
    return "" if not recorded else "emptied" if recorded.get("cache-control", "all") == "all" else "kept"
