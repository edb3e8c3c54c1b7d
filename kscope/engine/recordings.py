"""Timelines among the inputs: each is read and diagnosed on its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from kscope.model.analysis import Input, TimelineAnalysis
from kscope.model.detail import Detail
from kscope.model.errors import KscopeError
from kscope.model.faults import fault
from kscope.model.timeline import Timeline

KERNELS = 50
KINDS = ("nsys", "nsys-rep", "kineto")
"""Kinds of `parsers.compressed.kind_of` that are timelines."""


def analyze_recordings(
    inputs: Sequence[tuple[Path, str]],
    codes: frozenset[str] | None,
    wanted: re.Pattern[str] | None,
    top: int | None,
    progress: Callable[[str, int, int | None], None] | None,
    detail: Detail | None = None,
    every: bool = False,
) -> tuple[list[Input], list[TimelineAnalysis], list[tuple[str, KscopeError]]]:
    """(inputs read, their analyses, faults). wanted and top narrow the table of kernels, not the verdict. every: all
    kernels that are wanted, for a join; `shortened` cuts the table afterwards."""
    from kscope.engine.timeline import analyze_view
    from kscope.features.timeline.facts import TimelineView
    from kscope.features.views.timeline import timeline_detail

    read: list[Input] = []
    found: list[TimelineAnalysis] = []
    faults: list[tuple[str, KscopeError]] = []
    for path, kind in inputs:
        if progress is not None:
            progress(str(path), 0, None)
        try:
            timeline = _reader(kind)(path)
            view = TimelineView(timeline)
            one = analyze_view(view, codes)
            if detail is not None:
                detail.timelines.append(timeline_detail(view, len(found)))
        except Exception as e:
            faults.append((str(path), fault(path, e)))
            continue
        if wanted is not None:
            one = msgspec.structs.replace(one, top_kernels=[k for k in one.top_kernels if wanted.search(k.name)])
        found.append(one if every else shortened(one, top))
        version = timeline.tool_version
        read.append(Input(path=str(path), kind="kineto" if kind == "kineto" else "nsys", tool_version=version))
    return read, found, faults


def shortened(one: TimelineAnalysis, top: int | None) -> TimelineAnalysis:
    """With the first `top` (or KERNELS) of its kernels."""
    return msgspec.structs.replace(one, top_kernels=one.top_kernels[: top or KERNELS])


def _reader(kind: str) -> Callable[[Path], Timeline]:
    from kscope.parsers.timeline import kineto, nsys, nsys_export

    readers: dict[str, Callable[[Path], Timeline]] = {
        "kineto": kineto.read, "nsys": nsys.read, "nsys-rep": nsys_export.read,
    }  # fmt: skip
    return readers[kind]
