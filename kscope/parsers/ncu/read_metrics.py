"""Reads the profiler's own metrics of a report: values, units, descriptions (`kscope metrics`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kscope.model.raw_metrics import KernelMetrics, RawMetric
from kscope.parsers.ncu.worker import Reader, Skipped, Want

FARTHEST = 1 << 32
"""Bytes from a kernel's entry within which its instructions lie: branches and calls are relative by 32 bits. PM-sampled
series have instances too, by time: nanoseconds since 1970, 1.8e18, and no address."""


def read(path: str, real: str, pattern: str, *, instructions: bool, number: int = 0) -> Iterator[KernelMetrics]:
    """The metrics of every kernel of a report. path: what the user wrote; real: the plain file; number: of the input.
    Kernels that cannot be read are left out; raises KscopeError for a report of which nothing can be."""
    want = Want(
        counters=instructions, sass=instructions, sources=False, nvidia=False, timelines=False, described=pattern,
        by_instruction=instructions,
    )  # fmt: skip
    with contextlib.closing(Reader(real, want, path)) as reader:
        for raw in reader.kernels():
            if isinstance(raw, Skipped):
                continue
            counted, rows = raw["described"]
            entry = raw["entry"]
            code = range(entry, entry + FARTHEST)
            yield KernelMetrics(
                id=f"{number}.{raw['index']}", name=raw["demangled"] or raw["name"] or "(unnamed)", counted=counted,
                metrics=tuple(
                    RawMetric(name, value, unit, text, tuple((at - entry, v) for at, v in by if at in code))
                    for name, value, unit, text, by in rows
                ),
                sass={row[0]: row[1] for row in raw["rows"]},
            )  # fmt: skip
