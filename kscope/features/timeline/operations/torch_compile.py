"""What torch.compile did in a recording: compiled graphs that ran, compilations, and which operators a kernel fuses.

Names are those of torch 2.4 to 2.13: "Torch-Compiled Region: FRAME/VERSION", "## Call CompiledFxGraph HASH ##", and for
compilations "entire_frame_compile" or "..compile_inner (dynamo_timed)" with "compile_id=FRAME/VERSION" inside.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import numpy as np
from msgspec import Struct

from kscope.features.timeline.operations.intervals import Cover, union
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.columns import Column, column
from kscope.model.timeline import Spans

COMPILING = r"^entire_frame_compile$|compile_inner( \(dynamo_timed\))?$"
_REGION = re.compile(r"^Torch-Compiled Region(?:: (\d+/\d+))?")
_GRAPH = "## Call CompiledFxGraph"
_COMPILE_ID = re.compile(r"compile_id=(\d+/\d+)")
_GENERATED = re.compile(r"^triton_(?:[a-z]+_)?fused_(.+?)(?:_\d+)?$")


class Compilation(Struct, frozen=True):
    """One compilation in the window; version: FRAME/VERSION, "" where the trace does not say. Times in ns."""

    version: str
    start: int
    end: int


class Compiled(Struct, frozen=True):
    """regions: calls of each compiled region, FRAME/VERSION -> count. pieces: compiled graphs that one thread ran in a
    step (1 where there are no steps to count in); between: host time between two of one step."""

    regions: dict[str, int]
    compilations: tuple[Compilation, ...]
    pieces: float
    between: Cover

    @property
    def recompilations(self) -> list[Compilation]:
        """Those of a frame that had been compiled before: version 1 and on."""
        return [c for c in self.compilations if c.version and not c.version.endswith("/0")]


def find_compiled(facts: TimelineFacts) -> Compiled | None:
    """What torch.compile did in the window; None where the recording shows no trace of it."""
    timeline = facts.timeline
    low, high, _ = facts.window
    regions = _named(timeline.operators, facts, r"^Torch-Compiled Region", low, high)
    graphs = _named(timeline.operators, facts, "^" + re.escape(_GRAPH), low, high)
    compiling = _named(timeline.operators, facts, COMPILING, low, high)
    if not len(regions) and not len(compiling):
        return None
    counts: dict[str, int] = {}
    for name in timeline.operators.name[regions].tolist():
        found = _REGION.match(timeline.names[name])
        key = (found[1] if found else "") or "?"
        counts[key] = counts.get(key, 0) + 1
    pieces, between = _pieces(facts, graphs if len(graphs) else regions, regions)
    return Compiled(counts, tuple(_compilations(facts, compiling)), pieces, between)


def _named(spans: Spans, facts: TimelineFacts, pattern: str, low: int, high: int) -> Column:
    wanted = facts.named(pattern)
    rows = np.flatnonzero(wanted[spans.name]) if len(spans) and wanted.any() else column([])
    return rows[(spans.start[rows] >= low) & (spans.start[rows] < high)]


def _compilations(facts: TimelineFacts, rows: Column) -> list[Compilation]:
    """The outermost compile spans, each with the version that is named inside it."""
    operators, names = facts.timeline.operators, facts.timeline.names
    ids = facts.named(r"compile_id=\d+/\d+")
    marks = np.flatnonzero(ids[operators.name]) if len(operators) else rows
    out: list[Compilation] = []
    for row in rows.tolist():
        start, end = int(operators.start[row]), int(operators.end[row])
        if out and start < out[-1].end:
            continue  # nested: the same compilation under its other name
        inside = marks[(operators.start[marks] >= start) & (operators.start[marks] < end)]
        said = _COMPILE_ID.search(names[int(operators.name[inside[0]])]) if len(inside) else None
        out.append(Compilation(said[1] if said else "", start, end))
    return out


def _pieces(facts: TimelineFacts, rows: Column, regions: Column) -> tuple[float, Cover]:
    """(compiled graphs a step on the thread of the regions, the host time between two of one step)."""
    operators = facts.timeline.operators
    low, high, _ = facts.window
    if len(regions):
        threads, counts = np.unique(operators.thread[regions], return_counts=True)
        rows = rows[operators.thread[rows] == threads[np.argmax(counts)]]
    steps = facts.steps
    if not len(rows) or steps is None or steps.periodic:
        return float(len(rows) > 0), union(rows[:0], rows[:0])
    step = np.searchsorted(steps.start, operators.start[rows], side="right") - 1
    begin, end = operators.start[rows], operators.end[rows]
    same = np.flatnonzero(step[1:] == step[:-1])
    between = union(end[same], np.maximum(begin[same + 1], end[same]), low, high)
    return len(rows) / len(steps.start), between


def fused(name: str) -> list[str]:
    """The operators that a kernel of torch.compile fuses, from its name: inductor joins them with underscores, in
    alphabetical order. Empty for other kernels."""
    found = _GENERATED.match(name)
    if found is None:
        return []
    words, out, at = found[1].split("_"), [], 0
    known = _operators()
    while at < len(words):
        ends = range(len(words), at + 1, -1)
        end = next((e for e in ends if "_".join(words[at:e]) in known), at + 1)
        if word := "_".join(words[at:end]):
            out.append(word)
        at = end
    return out


@cache
def _operators() -> frozenset[str]:
    """Operators of aten with an underscore in their name (torch 2.13)."""
    return frozenset(files("kscope.features").joinpath("aten_operators.txt").read_text("ascii").split())
