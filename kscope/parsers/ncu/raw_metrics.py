"""Metrics of a report with the profiler's own units and descriptions, beside the native library in the reader's
process. `kscope.parsers.ncu.read_metrics` asks for them.

Descriptions take the library 0.6 s for the 2,300 metrics of a kernel, so only names that match are asked for one.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kscope.parsers.ncu.frames import Want

Described = list[tuple[str, "float | str | None", str, str, list[tuple[int, float]]]]


def described(action: Any, want: Want) -> tuple[int, Described]:
    """(number of metrics, those whose name matches): name, value, unit, description, values by address. Nothing where
    none are asked for."""
    if want.described is None:
        return 0, []
    wanted = re.compile(want.described, re.IGNORECASE)
    names = [n for n in action.metric_names() if ":" not in n]  # groups and breakdowns list names, they count nothing
    out: Described = []
    for name in sorted(n for n in names if wanted.search(n)):
        metric = action.metric_by_name(name)
        value = metric.value()
        if not isinstance(value, str | int | float) or value != value:
            value = None
        by: list[tuple[int, float]] = []
        if want.by_instruction and metric.has_correlation_ids():
            where = metric.correlation_ids()
            by = [(where.as_uint64(i), metric.as_double(i)) for i in range(metric.num_instances())]
        description = re.sub(r"\s+", " ", metric.description() or "").strip()
        out.append((name, value, metric.unit() or "", description, by))
    return len(names), out
