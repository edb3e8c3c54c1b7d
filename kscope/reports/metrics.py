"""`kscope metrics`: raw metrics as text, CSV and JSON. Names, units and descriptions are the profiler's own words."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from kscope.model.errors import one_line, printable
from kscope.reports import words
from kscope.reports.terminal import Page, cells, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.raw_metrics import KernelMetrics, RawMetric
    from kscope.reports import Options

HEAD = ("kernel_id", "kernel", "pc", "sass", "metric", "value", "unit", "description")
LONGEST = 72
"""Columns of a name before its value goes to a line of its own: nine tenths of the names in our captures."""


def to_text(kernels: Sequence[KernelMetrics], options: Options, *, instructions: bool) -> str:
    """Name, value and unit a line, the description below where it says more; per instruction a table of its own."""
    page = Page(max(options.width, 50), color=options.color, unicode=options.unicode)
    for kernel in kernels:
        page.blank()
        page.line((words.shorten(kernel.name, page.width), "bold"))
        page.line((f"  {len(kernel.metrics)} of {kernel.counted:,} metrics", "dim"))
        page.blank()
        longest = min(max((cells(m.name) for m in kernel.metrics), default=0), LONGEST, page.width - 24)
        for metric in kernel.metrics:
            _row(page, metric, longest)
        if instructions:
            _instructions(page, kernel)
    return page.text()


def _row(page: Page, metric: RawMetric, longest: int) -> None:
    value = f"{_value(metric.value)} {one_line(metric.unit)}".rstrip()
    name = one_line(metric.name)
    if cells(name) <= longest and cells(value) <= page.width - longest - 4:
        page.line("  ", (pad(name, longest), "code"), f"  {value}")
    else:
        page.paragraph(name, lead=("  ", ""), indent=4, style="code")
        page.paragraph(value, lead=("      ", ""), indent=6)
    if metric.description:
        page.paragraph(one_line(metric.description), lead=("      ", ""), indent=6, style="dim")


def _instructions(page: Page, kernel: KernelMetrics) -> None:
    found = [m for m in kernel.metrics if m.by_instruction]
    if not found:
        page.blank()
        page.line(("  none of them was taken at single instructions", "dim"))
    for metric in found:
        page.blank()
        page.paragraph(f"{one_line(metric.name)} by instruction, {one_line(metric.unit) or 'a count'}",
                       lead=("  ", ""), indent=4, style="bold")  # fmt: skip
        for pc, value in sorted(metric.by_instruction):
            page.line(f"  {_value(value):>14}  {pc:06x}  ", (one_line(kernel.sass.get(pc, "")), "dim"))


def _value(value: float | str | None) -> str:
    if isinstance(value, str):
        return one_line(value) or '""'
    return "no value" if value is None else words.number(value)


def to_csv(kernels: Sequence[KernelMetrics], *, instructions: bool) -> str:
    """A row a metric, and with `instructions` a row for each of its instructions. Values are not rounded."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(HEAD)
    for kernel in kernels:
        for m in kernel.metrics:
            about = (_cell(m.name), m.unit, _cell(m.description))
            table.writerow([kernel.id, _cell(kernel.name), "", "", about[0], _plain(m.value), *about[1:]])
            for pc, value in sorted(m.by_instruction) if instructions else ():
                sass = _cell(kernel.sass.get(pc, ""))
                table.writerow([kernel.id, _cell(kernel.name), f"{pc:#06x}", sass, about[0], _plain(value), *about[1:]])
    return out.getvalue()


def _cell(text: str) -> str:
    """A foreign text as a cell: on one line, and no formula where a spreadsheet would compute one."""
    text = printable(one_line(text))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _plain(value: float | str | None) -> str:
    if value is None:
        return ""
    return _cell(value) if isinstance(value, str) else f"{value:.17g}"


def to_json(kernels: Sequence[KernelMetrics], path: str, *, instructions: bool) -> str:
    """`{"schema", "input", "kernels": [{"id", "name", "metrics": [{"name", "value", "unit", "description",
    "instructions"?: [{"pc", "sass", "value"}]}]}]}`; what has no value is null."""
    rows = []
    for kernel in kernels:
        metrics: list[dict[str, object]] = []
        for m in kernel.metrics:
            row: dict[str, object] = {
                "name": m.name, "value": _finite(m.value), "unit": m.unit, "description": m.description
            }  # fmt: skip
            if instructions and m.by_instruction:
                row["instructions"] = [
                    {"pc": pc, "sass": kernel.sass.get(pc), "value": _finite(v)} for pc, v in sorted(m.by_instruction)
                ]
            metrics.append(row)
        rows.append({"id": kernel.id, "name": kernel.name, "counted": kernel.counted, "metrics": metrics})
    document = {"schema": "kscope.metrics/1", "input": path, "kernels": rows}
    return json.dumps(document, ensure_ascii=True, allow_nan=False) + "\n"


def _finite(value: float | str | None) -> float | str | None:
    return None if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else value
