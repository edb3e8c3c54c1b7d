"""The detail of one kernel, for reports that draw it."""

from __future__ import annotations

from kscope.features import detail_charts
from kscope.features.detail_code import code_detail
from kscope.features.facts import Facts
from kscope.model.detail import KernelDetail


def kernel_detail(facts: Facts, ident: str, report: str = "") -> KernelDetail:
    """Parts whose inputs the report lacks are None. ident: the id of the kernel in the Analysis; report: its plain
    file, whose embedded image knows the scheduling fields."""
    return KernelDetail(
        id=ident,
        roofs=detail_charts.roofs(facts),
        memory=detail_charts.memory_chart(facts),
        occupancy=detail_charts.occupancy(facts),
        pm=detail_charts.pm(facts),
        code=code_detail(facts, report),
    )
