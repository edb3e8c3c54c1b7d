"""Timelines among the inputs: each is read and diagnosed on its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from kscope.model.analysis import Input, TimelineAnalysis
from kscope.model.detail import Detail
from kscope.model.errors import KscopeError
from kscope.model.timeline import Timeline

KINDS = ("nsys", "nsys-rep", "kineto")
"""Kinds of `parsers.compressed.kind_of` that are timelines."""


def analyze_recordings(
    inputs: Sequence[tuple[Path, str]],
    codes: frozenset[str] | None,
    wanted: re.Pattern[str] | None,
    top: int | None,
    progress: Callable[[str, int, int | None], None] | None,
    detail: Detail | None = None,
) -> tuple[list[Input], list[TimelineAnalysis], list[tuple[str, KscopeError]]]:
    """(inputs read, their analyses, faults). wanted and top narrow the table of kernels, not the verdict."""
    from kscope.engine.timeline import analyze_view
    from kscope.features.timeline_detail import timeline_detail
    from kscope.features.timeline_view import TimelineView

    read: list[Input] = []
    found: list[TimelineAnalysis] = []
    faults: list[tuple[str, KscopeError]] = []
    for path, kind in inputs:
        if progress is not None:
            progress(str(path), 0, None)
        try:
            timeline = _reader(kind)(path)
        except KscopeError as e:
            faults.append((str(path), e))
            continue
        view = TimelineView(timeline)
        one = analyze_view(view, codes, None if wanted is not None else top)
        if detail is not None:
            detail.timelines.append(timeline_detail(view, len(found)))
        if wanted is not None:
            kept = [k for k in one.top_kernels if wanted.search(k.name)]
            one = msgspec.structs.replace(one, top_kernels=kept[:top] if top else kept)
        found.append(one)
        version = timeline.tool_version
        read.append(Input(path=str(path), kind="kineto" if kind == "kineto" else "nsys", tool_version=version))
    return read, found, faults


def _reader(kind: str) -> Callable[[Path], Timeline]:
    from kscope.parsers import kineto, nsys, nsys_export

    readers: dict[str, Callable[[Path], Timeline]] = {
        "kineto": kineto.read, "nsys": nsys.read, "nsys-rep": nsys_export.read,
    }  # fmt: skip
    return readers[kind]
