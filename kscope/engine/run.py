"""Inputs to one Analysis. Imports nothing heavy at module level: the readers start first, then the rules are imported
while they decode."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kscope._version import __version__
from kscope.engine import ahead
from kscope.engine.request import Progress, Request
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import fault, in_words, show_traceback
from kscope.parsers.files.inputs import collect, open_input
from kscope.parsers.ncu.worker import Reader, Want

if TYPE_CHECKING:
    from kscope.features.views.footprint import Footprints
    from kscope.model.analysis import Analysis, JoinedAnalysis, KernelAnalysis, SkippedInput, TimelineAnalysis
    from kscope.model.detail import Detail
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
) -> Analysis:
    """Analyse reports, folders of them, or both, kernels sorted by time.

    select/ignore: rule codes, slugs or code prefixes. kernel: regular expression on the demangled name. top: keep
    the longest N. detail: filled with what charts and listings show (kscope.model.detail). footprints: filled with
    what a comparison needs of the kernels (kscope.features.views.footprint). problem: what the kernels were to
    solve, to compare with what they did (kscope.napkin.problem). With several inputs, one that cannot be read, or that
    kscope itself falls over, is listed in `skipped` and the others go on, and so is a kernel of a report; raises
    KscopeError when nothing can be read, and for a lone unreadable input.
    """
    request = Request(
        wanted=re.compile(kernel) if kernel else None, top=top, progress=progress, detail=detail,
        footprints=footprints, problem=problem,
    )  # fmt: skip
    faults: list[tuple[str, KscopeError]] = []
    inputs = _collect(paths, faults)
    recordings = [one for one in inputs if one[1] != "ncu"]
    request.reports = len(inputs) - len(recordings)
    if recordings:
        request.codes = _codes(select, ignore)
        return _with_timelines(inputs, recordings, request, faults)
    with contextlib.closing(_started(inputs, charts=request.draws)) as readers:
        first = next(readers)  # decodes while the next lines import
        request.codes = _codes(select, ignore)
        _prepare(draws=request.draws)
        return _analyze(itertools.chain([first], readers), request, faults)


def _with_timelines(
    inputs: Sequence[tuple[Path, str]],
    recordings: Sequence[tuple[Path, str]],
    request: Request,
    faults: Sequence[tuple[str, KscopeError]],
) -> Analysis:
    """Timelines, and kernel reports where there are any."""
    import msgspec

    from kscope.engine.recordings import analyze_recordings, shortened
    from kscope.model.analysis import Analysis

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
    _prepare(draws=request.draws)
    request.top = None  # of all kernels, once they are joined
    with contextlib.closing(_started(reports, charts=request.draws)) as readers:
        kernels = _analyze(readers, request, skipped, alone=not timelines)
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
    from kscope.engine.join import join_all
    from kscope.model.analysis import SkippedInput

    try:
        return *join_all(timelines, kernels), []
    except Exception as e:
        show_traceback(e)
        return [], timelines, [SkippedInput(input=timelines[0].input, what="join", message=in_words(e))]


def _no_match(wanted: re.Pattern[str]) -> KscopeError:
    hint = "run without --kernel to see their names"
    return KscopeError("no-match", f"no kernel matches {wanted.pattern!r}", hint, EXIT_USAGE)


def _skipped(faults: Sequence[tuple[str, KscopeError]]) -> list[SkippedInput]:
    from kscope.model.analysis import SkippedInput

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


def _started(
    inputs: Sequence[tuple[Path, str]], *, charts: bool
) -> Generator[tuple[str, Reader | KscopeError], None, None]:
    """A started reader for each input in turn; the input stays open, and unpacked, until the next one is asked for."""
    for path, _ in inputs:
        state = "opening"
        try:
            with open_input(path) as real:
                started = ahead.take(real, charts=charts) if real == str(path) else None
                with contextlib.closing(started or Reader(real, Want(charts=charts), str(path))) as reader:
                    state = "handed on"
                    yield str(path), reader
                    state = "read"
        except Exception as e:
            if state == "opening":
                yield str(path), fault(path, e)
            elif state == "handed on":  # the caller ends early: a fault of closing must not ask it to go on
                return


def _codes(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str] | None:
    from kscope.rules.registry import all_rules, matching

    if not select and not ignore:
        return None
    chosen = frozenset().union(*(matching(s) for s in select)) if select else frozenset(r.code for r in all_rules())
    return chosen.difference(*(matching(i) for i in ignore)) if ignore else chosen


def _prepare(*, draws: bool) -> None:
    """Load the rules and the tables that every kernel needs, while the first one is being decoded."""
    import kscope.engine.codes
    import kscope.engine.kernel
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
    readers: Iterable[tuple[str, Reader | KscopeError]],
    request: Request,
    before: Sequence[tuple[str, KscopeError]],
    *,
    alone: bool = True,
) -> Analysis:
    """alone: raises where none of the reports can be read; there is nothing else to analyse."""
    from kscope.engine.group import fold
    from kscope.engine.kernel_reports import Read, analyze_report
    from kscope.model.analysis import Analysis, SkippedInput

    into = Read(request)
    skipped = _skipped(before)
    faults: list[KscopeError] = []
    for number, (path, reader) in enumerate(readers):
        try:
            if isinstance(reader, KscopeError):
                raise reader
            skipped += analyze_report(path, number, reader, into)
        except Exception as e:
            faults.append(fault(path, e))
            skipped.append(
                SkippedInput(input=path, what="report", message=str(faults[-1]).removeprefix(f"{path}: "))
            )
    if faults and alone and not into.inputs:
        raise faults[0]
    kernels = fold(into.kernels)
    if request.wanted is not None and not kernels and into.inputs:
        raise _no_match(request.wanted)
    kernels = kernels[: request.top] if request.top else kernels
    if request.detail is not None and into.details is not None:
        shown = {k.id for k in kernels}
        request.detail.kernels.extend(d for d in into.details if d.id in shown)
    return Analysis(kscope=__version__, inputs=into.inputs, kernels=kernels, skipped=skipped)
