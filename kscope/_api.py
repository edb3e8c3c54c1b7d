"""What `import kscope` offers beside `analyze`: the other commands as functions, reports as text. Imported when one of
them is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kscope.model.contract.analysis import Analysis
from kscope.model.contract.comparison import Comparison

if TYPE_CHECKING:

    from kscope.model.contract.detail import Detail
    from kscope.model.raw_metrics import KernelMetrics
    from kscope.model.trace import KernelTrace


def analyze(
    paths: Sequence[str | Path], *, kernel: str | None, select: Sequence[str], ignore: Sequence[str], top: int | None,
    problem: str | None, detail: Detail | None,
) -> Analysis:  # fmt: skip
    from kscope.engine.run import analyze_paths
    from kscope.napkin.asked import build

    return analyze_paths(
        paths, kernel=kernel, select=select, ignore=ignore, top=top, detail=detail,
        problem=build(problem) if problem is not None else None,
    )  # fmt: skip


def sass(path: str | Path, *, function: str | None, arch: str | None, annotate: bool) -> Analysis:
    from kscope.engine.code.programs import binary_analysis, report_analysis
    from kscope.parsers.cubin.programs import read_programs
    from kscope.parsers.files.inputs import HEAD, open_input, sniff

    name = str(path)
    with open_input(name) as plain, open(plain, "rb") as file:
        report = sniff(file.read(HEAD)) == "ncu"
    if report:
        return report_analysis(name, arch=arch, function=function, annotate=annotate)
    return binary_analysis(name, read_programs(name, arch, function), annotate=annotate)


def diff(before: str | Path, after: str | Path, *, kernel: str | None) -> Comparison:
    from kscope.engine.comparing.compare import compare
    from kscope.engine.run import analyze_paths
    from kscope.features.views.footprint import Footprints, quoted

    old = Footprints()
    first = analyze_paths([before], kernel=kernel, footprints=old)
    new = Footprints(wanted=quoted([f for k in first.kernels for f in k.findings]))
    second = analyze_paths([after], kernel=kernel, footprints=new)
    return compare(first, second, (), (old, new))


def trace(path: str | Path) -> tuple[KernelTrace, ...]:
    from kscope.parsers.warp_trace import files

    return files.read(path)


def metrics(path: str | Path, regex: str, *, instructions: bool) -> list[KernelMetrics]:
    from kscope.model.faults import fenced
    from kscope.parsers.files.inputs import open_input
    from kscope.parsers.ncu.read_metrics import read

    with fenced(str(path)), open_input(Path(path)) as real:
        return list(read(str(path), str(real), regex, instructions=instructions))


def render(
    what: Analysis | Comparison, format: str, detail: Detail | None, budget: int, verbose: bool, width: int
) -> str:  # fmt: skip
    from kscope.reports import REPORTERS, Options
    from kscope.reports import render as as_format

    if isinstance(what, Comparison):
        return _comparison(what, format, verbose=verbose, width=width)
    if format not in REPORTERS:
        raise ValueError(f"no format {format!r}; there are {', '.join(REPORTERS)}")
    return as_format(format, what, Options(detail=detail, budget=budget, verbose=verbose, width=width, cuts=False))


def _comparison(found: Comparison, format: str, *, verbose: bool, width: int) -> str:
    from kscope.model.contract.comparison import comparison_json
    from kscope.reports import Options
    from kscope.reports.html.page import render_diff
    from kscope.reports.markdown.diff import render as markdown
    from kscope.reports.text.diff import render as text

    options = Options(verbose=verbose, width=width, cuts=False)
    known = {
        "text": lambda: text(found, options), "md": lambda: markdown(found, options),
        "html": lambda: render_diff(found), "json": lambda: comparison_json(found).decode() + "\n",
    }  # fmt: skip
    if format not in known:
        raise ValueError(f"no format {format!r}; there are {', '.join(known)}")
    return known[format]()
