"""Inputs to one Analysis. Imports nothing heavy at module level: the readers start first, then the rules are imported
while they decode."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kscope._version import __version__
from kscope.engine.inputs.readers import part_of, started
from kscope.engine.inputs.request import Progress, Request
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import fault, in_words, show_traceback
from kscope.parsers.files import forked
from kscope.parsers.files.inputs import collect

if TYPE_CHECKING:
    from kscope.engine.inputs.kernel_reports import Part
    from kscope.features.views.footprint import Footprints
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.analysis import Analysis, JoinedAnalysis, KernelAnalysis, SkippedInput, TimelineAnalysis
    from kscope.model.contract.detail import Detail
    from kscope.napkin.problem import Problem


def analyze_paths(
    paths: Sequence[str | Path],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    kernel: str | None = None,
    top: int | None = None,
    progress: Progress | None = None,
    detail: Detail | None = None,
    footprints: Footprints | None = None,
    problem: Problem | None = None,
    lines: Lines | None = None,
    jobs: int = 1,
) -> Analysis:
    """Analyse reports, folders of them, or both, kernels sorted by time.

    select/ignore: rule codes, slugs or code prefixes. kernel: regular expression on the demangled name. top: keep
    the longest N. detail: filled with what charts and listings show (kscope.model.contract.detail). footprints: filled
    with what a comparison needs of the kernels (kscope.features.views.footprint). problem: what the kernels were to
    solve, to compare with what they did (kscope.napkin.problem). lines: text of source files by the names that reports
    give, where these hold none: for changes. jobs: processes among which the reports are shared
    out, or the kernels of one large report; the result is the same. They are forks of this one, so more than one is
    for programs without threads. With several inputs, one that cannot be read, or that kscope itself falls over, is
    listed in `skipped` and the others go on, and so is a kernel of a report; raises KscopeError when nothing can be
    read, and for a lone unreadable input.
    """
    request = Request(
        wanted=re.compile(kernel) if kernel else None, top=top, progress=progress, detail=detail,
        footprints=footprints, problem=problem, lines=lines,
    )  # fmt: skip
    faults: list[tuple[str, KscopeError]] = []
    inputs = _collect(paths, faults)
    recordings = [one for one in inputs if one[1] != "ncu"]
    request.reports = len(inputs) - len(recordings)
    if recordings:
        request.codes = _codes(select, ignore)
        return _with_timelines(inputs, recordings, request, faults, jobs)
    with contextlib.closing(_parts(inputs, request, jobs, select, ignore)) as parts:
        return _analyze(parts, request, faults)


def _parts(
    inputs: Sequence[tuple[Path, str]], request: Request, jobs: int, select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Generator[tuple[str, Part | KscopeError], None, None]:  # fmt: skip
    """What each report comes to, in order, by as many processes."""
    share = jobs if len(inputs) == 1 else 1
    with contextlib.closing(started(inputs, charts=request.draws, jobs=share)) as readers:
        path, first = next(readers)  # decodes while the next lines import
        if request.codes is None:
            request.codes = _codes(select, ignore)
        _prepare(draws=request.draws)
        if jobs > 1 and len(inputs) > 1 and forked.possible():
            from kscope.engine.inputs.shared_work import over_reports

            yield from over_reports((path, first), inputs, request, jobs)
            return
        if share > 1 and not isinstance(first, KscopeError) and first.turns is not None:
            from kscope.engine.inputs.shared_work import over_kernels

            yield path, over_kernels(path, 0, first, request)
            return
        yield path, part_of(path, 0, first, request)
        for number, (path, reader) in enumerate(readers, start=1):
            yield path, part_of(path, number, reader, request)


def _with_timelines(
    inputs: Sequence[tuple[Path, str]],
    recordings: Sequence[tuple[Path, str]],
    request: Request,
    faults: Sequence[tuple[str, KscopeError]],
    jobs: int,
) -> Analysis:
    """Timelines, and kernel reports where there are any."""
    import msgspec

    from kscope.engine.timelines.recordings import analyze_recordings, shortened
    from kscope.model.contract.analysis import Analysis

    reports = [one for one in inputs if one[1] == "ncu"]
    wanted, top = request.wanted, request.top
    read = analyze_recordings(
        recordings, request.codes, wanted, top, request.progress, request.detail, every=bool(reports)
    )
    timelines = read.timelines
    if not reports and not timelines:
        raise read.faults[0][1]
    skipped = [*faults, *read.faults]
    ran = any(t.coverage.operations for t in timelines)  # an empty recording says so itself
    if wanted is not None and not reports and ran and not any(t.top_kernels for t in timelines):
        raise _no_match(wanted)
    if not reports:
        return Analysis(
            kscope=__version__, inputs=read.inputs, timelines=timelines, jobs=read.jobs, skipped=_skipped(skipped)
        )
    request.top = None  # of all kernels, once they are joined
    with contextlib.closing(_parts(reports, request, jobs)) as parts:
        kernels = _analyze(parts, request, skipped, alone=not timelines)
    joined, timelines, left_out = _joined(timelines, kernels.kernels)
    return msgspec.structs.replace(
        kernels, inputs=[*kernels.inputs, *read.inputs], jobs=read.jobs,
        kernels=kernels.kernels[:top] if top else kernels.kernels,
        timelines=[shortened(t, top) for t in timelines], joined=joined, skipped=[*kernels.skipped, *left_out],
    )  # fmt: skip


def _joined(
    timelines: list[TimelineAnalysis], kernels: Sequence[KernelAnalysis]
) -> tuple[list[JoinedAnalysis], list[TimelineAnalysis], list[SkippedInput]]:
    """`join_all`; where that fails each stays as it was, and the third says so."""
    if not kernels or not timelines:
        return [], timelines, []
    from kscope.engine.timelines.join import join_all
    from kscope.model.contract.analysis import SkippedInput

    try:
        return *join_all(timelines, kernels), []
    except Exception as e:
        show_traceback(e)
        return [], timelines, [SkippedInput(input=timelines[0].input, what="join", message=in_words(e))]


def _no_match(wanted: re.Pattern[str]) -> KscopeError:
    hint = "run without --kernel to see their names"
    return KscopeError("no-match", f"no kernel matches {wanted.pattern!r}", hint, EXIT_USAGE)


def _skipped(faults: Sequence[tuple[str, KscopeError]]) -> list[SkippedInput]:
    from kscope.model.contract.analysis import SkippedInput

    return [SkippedInput(input=path, what="report", message=str(e)) for path, e in faults]


def _collect(paths: Sequence[str | Path], faults: list[tuple[str, KscopeError]]) -> list[tuple[Path, str]]:
    """The input files of all paths; a faulty one among several is kept for `skipped`, a lone one raises."""
    found: list[tuple[Path, str]] = []
    for path in paths:
        try:
            found += [f for f in collect([path], faults) if f not in found]
        except Exception as e:
            faults.append((str(path), fault(path, e)))
    if not found:
        raise faults[0][1] if faults else KscopeError("usage", "no input", "name a report or a folder", EXIT_USAGE)
    return found


def _codes(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str] | None:
    from kscope.rules.registry import all_rules, matching

    if not select and not ignore:
        return None
    chosen = frozenset().union(*(matching(s) for s in select)) if select else frozenset(r.code for r in all_rules())
    return chosen.difference(*(matching(i) for i in ignore)) if ignore else chosen


def _prepare(*, draws: bool) -> None:
    """Load the rules and the tables that every kernel needs, while the first one is being decoded."""
    import kscope.engine.inputs.codes
    import kscope.engine.kernels.kernel
    import kscope.parsers.ncu.kernels
    from kscope.arch import table
    from kscope.isa.opcodes import classify_name
    from kscope.rules.registry import all_rules

    all_rules()
    classify_name("EXIT")
    for name in ("units", "latency"):
        table(name)
    if draws:
        import kscope.features.views.kernel  # noqa: F401


def _analyze(
    parts: Iterable[tuple[str, Part | KscopeError]],
    request: Request,
    before: Sequence[tuple[str, KscopeError]],
    *,
    alone: bool = True,
) -> Analysis:
    """alone: raises where none of the reports can be read; there is nothing else to analyse."""
    from kscope.engine.group import Longest
    from kscope.model.contract.analysis import Analysis, Input, SkippedInput

    kernels = Longest(request.top, draws=request.draws)
    inputs: list[Input] = []
    skipped = _skipped(before)
    faults: list[KscopeError] = []
    for path, part in parts:
        try:
            if isinstance(part, KscopeError):
                raise part
            skipped += part.left_out(path)
        except Exception as e:
            faults.append(fault(path, e))
            skipped.append(
                SkippedInput(input=path, what="report", message=str(faults[-1]).removeprefix(f"{path}: "))
            )
            continue
        inputs.append(Input(path=path, kind="ncu", tool_version=part.version))
        kernels.add([part.kernels[i] for i in sorted(part.kernels)], [part.details[i] for i in sorted(part.details)])
        if request.footprints is not None and part.footprints is not None:
            request.footprints.take(part.footprints)
    if faults and alone and not inputs:
        raise faults[0]
    if request.wanted is not None and not kernels.any and inputs:
        raise _no_match(request.wanted)
    found = kernels.longest()
    if request.detail is not None:
        request.detail.kernels.extend(kernels.details())
    return Analysis(kscope=__version__, inputs=inputs, kernels=found, skipped=skipped)
