"""The profiler's own metrics of one kernel, all that the report holds and not only those that rules read."""

from __future__ import annotations

import contextlib
from pathlib import Path

from kscope.mcp.answers import Absent, MetricRow, MetricsAnswer
from kscope.mcp.arguments import Metrics
from kscope.mcp.desk import Desk
from kscope.mcp.keys import find
from kscope.mcp.pages import having, page
from kscope.model.errors import KscopeError
from kscope.model.faults import fenced
from kscope.model.units import unit_of
from kscope.parsers.files.inputs import kind_of, open_input
from kscope.parsers.ncu.worker import Reader, Skipped, Want

Values = dict[str, float | str]


def metrics(desk: Desk, asked: Metrics) -> MetricsAnswer:
    path = desk.roots.file(asked.path)
    if kind_of(path) != "ncu":
        raise KscopeError("unsupported", f"{path}: a timeline has no metrics of single kernels",
                          "ncu --set full records them")  # fmt: skip
    _, one = find(desk.analysis(path).kernels, asked.key)
    index = int(one.id.partition(".")[2])
    values = desk.kept(path, ("metrics", index), lambda: _read(path, index))
    names = sorted(values)
    chosen = [names[i] for i in having(names, asked.contains)]
    rows = [MetricRow(name=n, value=values[n], unit="" if isinstance(values[n], str) else unit_of(n)) for n in chosen]
    kept, after = page(rows, asked.offset, asked.limit)
    absent = []
    if not rows:
        what = f"no metric of this kernel's {len(names)} has these words in its name; what was not collected is not "
        what += "zero: ncu --set full, or --metrics NAME (ncu --query-metrics lists them)"
        absent.append(Absent(what=what))
    return MetricsAnswer(rows=kept, total=len(rows), next_offset=after, absent=absent)


def _read(path: Path, index: int) -> Values:
    """Every metric of the `index`-th kernel. Raises KscopeError where it cannot be read."""
    want = Want(counters=False, sass=False, sources=False, nvidia=False, timelines=False, metrics=True)
    with fenced(path), open_input(path) as real, contextlib.closing(Reader(real, want, str(path))) as reader:
        for raw in reader.kernels():
            if isinstance(raw, Skipped):
                if raw.index == index:
                    raise KscopeError("unreadable", f"{path}: kernel {index}: {raw.message}", "record it again")
            elif raw["index"] == index:
                numbers, texts = raw["metrics"]
                return {**texts, **numbers}
    raise KscopeError("unreadable", f"{path}: kernel {index} is gone", "the file has changed: ask diagnose again")
