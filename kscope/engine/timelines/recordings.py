"""Timelines among the inputs: those that are ranks of one job are diagnosed together, others each on its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from kscope.engine.timelines import job as jobs
from kscope.engine.timelines.rank_processes import Here, Ranks, Reader, ranks
from kscope.features.timeline.jobs.job import Meanwhile, RankFacts
from kscope.features.timeline.jobs.ranks import Matched, Table, match
from kscope.model.contract.analysis import Input, JobAnalysis, TimelineAnalysis
from kscope.model.contract.detail import Detail
from kscope.model.errors import KscopeError
from kscope.model.faults import fault
from kscope.model.timeline import Place, Timeline

KERNELS = 50
_READERS = {"nsys": "nsys", "nsys-rep": "nsys_export", "nsys-parquet": "nsys_parquet", "kineto": "kineto"}
"""Kinds of `parsers.files.inputs.kind_of` that are timelines, and the modules of `parsers.timeline` that read them."""
Progress = Callable[[str, int, "int | None"], None]


class Recordings(msgspec.Struct):
    """What was read of the recordings among the inputs."""

    inputs: list[Input] = []
    timelines: list[TimelineAnalysis] = []
    jobs: list[JobAnalysis] = []
    faults: list[tuple[str, KscopeError]] = []


def analyze_recordings(
    inputs: Sequence[tuple[Path, str]],
    codes: frozenset[str] | None,
    wanted: re.Pattern[str] | None,
    top: int | None,
    progress: Progress | None,
    detail: Detail | None = None,
    every: bool = False,
) -> Recordings:
    """wanted and top narrow the table of kernels, not the verdict. every: all kernels that are wanted, for a join;
    `shortened` cuts the table afterwards."""
    read = Recordings()
    found = _jobs(inputs)
    in_job = {at: group for group in found for at, _ in group.members}
    done: set[int] = set()
    for at, (path, kind) in enumerate(inputs):
        if at in done:
            continue
        done |= {place for place, _ in in_job[at].members} if at in in_job else {at}
        if progress is not None:
            progress(str(path), at, len(inputs))
        if at in in_job:
            group = in_job[at]
            members = {place: (inputs[place][0], rank, _reader(inputs[place][1])) for place, rank in group.members}
            with ranks(members) as them:
                _job(group, dict(enumerate(inputs)), them, codes, read, detail)
        else:
            _alone(path, kind, codes, read, detail)
    for number, one in enumerate(read.timelines):
        if wanted is not None:
            one = msgspec.structs.replace(one, top_kernels=[k for k in one.top_kernels if wanted.search(k.name)])
        read.timelines[number] = one if every else shortened(one, top)
    return read


def _jobs(inputs: Sequence[tuple[Path, str]]) -> list[jobs.Group]:
    """Which inputs are ranks of one job. One input is none; nor are two that say nothing of ranks."""
    if len(inputs) < 2:
        return []
    from kscope.parsers.timeline.distributed import place

    return jobs.groups([(path, place(path) if kind == "kineto" else Place()) for path, kind in inputs])


def _alone(path: Path, kind: str, codes: frozenset[str] | None, read: Recordings, detail: Detail | None) -> None:
    """A recording of its own; where it holds several processes that communicate, these are ranks of a job."""
    from kscope.engine.timelines.timeline import analyze_view
    from kscope.features.timeline.facts import TimelineView
    from kscope.features.timeline.operations.processes import ranks_of
    from kscope.features.views.timeline import timeline_detail

    try:
        timeline = _reader(kind)(path)
        if parts := ranks_of(timeline):
            group = jobs.Group(path.name, 0, tuple((rank, rank) for rank in range(len(parts))))
            readers: dict[int, tuple[Path, int, Reader]] = {
                rank: (path, rank, lambda _, part=part: part) for rank, part in enumerate(parts)  # type: ignore[misc]
            }
            _job(group, dict.fromkeys(readers, (path, kind)), Here(readers), codes, read, detail)
            return
        view = TimelineView(timeline)
        one = analyze_view(view, codes)
        if detail is not None:
            detail.timelines.append(timeline_detail(view, len(read.timelines)))
    except Exception as e:
        read.faults.append((str(path), fault(path, e)))
        return
    read.timelines.append(one)
    read.inputs.append(_input(path, kind, timeline.tool_version))


def _job(
    group: jobs.Group,
    inputs: Mapping[int, tuple[Path, str]],
    them: Ranks,
    codes: frozenset[str] | None,
    read: Recordings,
    detail: Detail | None,
) -> None:
    """The ranks of a job, matched; a rank that cannot be read leaves the others."""
    some = _Answering(them, group, inputs, read.faults)
    tables = some.each("table")
    matched = match(some.of(tables)) if len(some.places) > 1 else None
    facts, meanwhile = _settled(some, matched, tables, group) if matched is not None else ({}, {})
    analyses = some.each("analysis", codes)
    base = len(read.timelines)
    versions = some.each("version")
    if detail is not None:
        drawn = some.ask("detail", {at: (base + i,) for i, at in enumerate(some.places)})
        detail.timelines.extend(some.of(drawn))
    read.timelines += some.of(analyses)
    found = [_input(*inputs[at], versions[at]) for at in some.places]
    read.inputs += [one for one in dict.fromkeys(found) if one not in read.inputs]
    if matched is not None and len(some.places) == len(matched.clock):
        read.jobs.append(
            jobs.judge(group, some.of(facts), some.of(analyses), meanwhile, matched, some.of(tables), codes)
        )


class _Answering:
    """The ranks of a job that still answer, in order; those that no longer do are told as faults."""

    def __init__(
        self, them: Ranks, group: jobs.Group, inputs: Mapping[int, tuple[Path, str]],
        faults: list[tuple[str, KscopeError]],
    ) -> None:  # fmt: skip
        self.places = [at for at, _ in group.members]
        self._them, self._inputs, self._faults = them, inputs, faults

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """{place: arguments} to {place: answer}, of those that have one."""
        out = {}
        for at, said in self._them.ask(method, arguments).items():
            if isinstance(said, KscopeError):
                self._faults.append((str(self._inputs[at][0]), said))
                self.places.remove(at)
            else:
                out[at] = said
        return out

    def each(self, method: str, *arguments: Any) -> dict[int, Any]:
        """The same of all, with the same arguments."""
        return self.ask(method, dict.fromkeys(self.places, arguments))

    def of(self, found: Mapping[int, Any]) -> list[Any]:
        """What was found, of those that still answer."""
        return [found[at] for at in self.places]


def _settled(
    some: _Answering, matched: Matched, tables: Mapping[int, Table], group: jobs.Group
) -> tuple[dict[int, RankFacts], dict[tuple[int, int], Meanwhile]]:
    """By place what each rank's time went into, once it knows the others; and what late ranks did meanwhile, by who
    waited and who was late."""
    ordered, all_tables = list(some.places), some.of(tables)
    told = jobs.known(matched, all_tables)
    facts = some.ask("settle", {at: (told[i],) for i, at in enumerate(ordered)})
    asked = jobs.asked(matched, all_tables)
    answers = some.ask("meanwhile", {at: (asked[i],) for i, at in enumerate(ordered) if at in facts})
    numbers = dict(group.members)
    return facts, {(w, numbers[at]): one for at, said in answers.items() for w, one in said.items()}


def _input(path: Path, kind: str, version: str | None) -> Input:
    return Input(path=str(path), kind="kineto" if kind == "kineto" else "nsys", tool_version=version)


def shortened(one: TimelineAnalysis, top: int | None) -> TimelineAnalysis:
    """With the first `top` (or KERNELS) of its kernels."""
    return msgspec.structs.replace(one, top_kernels=one.top_kernels[: top or KERNELS])


def _reader(kind: str) -> Callable[[Path], Timeline]:
    module = import_module(f"kscope.parsers.timeline.{_READERS[kind]}")  # each imports what the others do without
    read: Callable[[Path], Timeline] = module.read
    return read
