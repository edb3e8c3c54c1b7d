"""The detail of one kernel, for reports that draw it."""

from __future__ import annotations

from kscope.features.facts import Facts
from kscope.features.views import charts
from kscope.features.views.source import code_detail
from kscope.model.detail import KernelDetail


def kernel_detail(facts: Facts, ident: str, report: str = "") -> KernelDetail:
    """Parts whose inputs the report lacks are None. ident: the id of the kernel in the Analysis; report: its plain
    file, whose embedded image knows the scheduling fields."""
    return KernelDetail(
        id=ident,
        roofs=charts.roofs(facts),
        memory=charts.memory_chart(facts),
        occupancy=charts.occupancy(facts),
        pm=charts.pm(facts),
        code=code_detail(facts, report),
    )
