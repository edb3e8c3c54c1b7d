"""kscope: why is this GPU kernel slow, which instruction is responsible, what should the next version do.

The library mirrors the command line:

    import kscope
    analysis = kscope.analyze("report.ncu-rep")      # kscope.model.contract.analysis.Analysis (JSON v1)
    for kernel in analysis.kernels:
        print(kernel.verdict.sentence)
    print(analysis.render("md"))

guides/python.md goes through all of it.
"""

from __future__ import annotations

from kscope import _presenters
from kscope._version import __version__

TYPE_CHECKING = False  # the typing module itself takes 9 ms, and the reader starts before anything needs it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from kscope.model.contract.analysis import Analysis
    from kscope.model.contract.comparison import Comparison
    from kscope.model.contract.detail import Detail
    from kscope.model.raw_metrics import KernelMetrics
    from kscope.model.trace import KernelTrace

__all__ = ["__version__", "analyze", "charts", "diff", "metrics", "render", "sass", "trace"]


def analyze(
    *paths: str | Path, kernel: str | None = None, select: Sequence[str] = (), ignore: Sequence[str] = (),
    top: int | None = None, problem: str | None = None, detail: Detail | None = None,
) -> Analysis:  # fmt: skip
    """Analyse profiler reports (or folders of them) and return one Analysis.

    kernel: only kernels whose name matches this regular expression. select, ignore: rules by code, slug or family
    ("MEM"). top: the longest N. problem: what the kernels were to solve, as in `kscope napkin`. detail: filled with
    what charts and listings show (`charts()` makes one); `render("html")` and `render("llm")` say more with it.

    Raises kscope.model.errors.KscopeError for input that is missing, unreadable or of an unknown kind.
    """
    from kscope import _api  # heavy imports only when used

    return _api.analyze(
        paths, kernel=kernel, select=select, ignore=ignore, top=top, problem=problem, detail=detail
    )


def charts() -> Detail:
    """An empty Detail, for `analyze(..., detail=...)` to fill and `render(..., detail=...)` to draw."""
    from kscope.model.contract.detail import Detail

    return Detail()


def sass(path: str | Path, *, function: str | None = None, arch: str | None = None, annotate: bool = True) -> Analysis:
    """The machine code of a binary or a report, as `kscope sass`: `programs` of the Analysis has its functions, each
    with loops, mix, accesses, occupancy, lints, and with annotate the `listing`. Raises KscopeError."""
    from kscope import _api

    return _api.sass(path, function=function, arch=arch, annotate=annotate)


def diff(before: str | Path, after: str | Path, *, kernel: str | None = None) -> Comparison:
    """What changed between two reports, kernel by kernel, as `kscope diff`: times, findings, promises and what came of
    them. Raises KscopeError."""
    from kscope import _api

    return _api.diff(before, after, kernel=kernel)


def trace(path: str | Path) -> tuple[KernelTrace, ...]:
    """What the warps of kernels recorded of themselves, one trace a kernel (`kscope trace`). Raises KscopeError."""
    from kscope import _api

    return _api.trace(path)


def metrics(path: str | Path, regex: str = "", *, instructions: bool = False) -> list[KernelMetrics]:
    """The profiler's raw metrics whose names match, with units and descriptions; with `instructions` also their values
    at single instructions (`kscope metrics`). Raises KscopeError."""
    from kscope import _api

    return _api.metrics(path, regex, instructions=instructions)


def render(
    what: Analysis | Comparison, format: str = "text", *, detail: Detail | None = None, budget: int = 2000,
    verbose: bool = False, width: int = 100,
) -> str:  # fmt: skip
    """An Analysis or a Comparison as text: "text", "md", "html", "json"; an Analysis also as "llm" (in `budget`
    tokens), "sarif", "junit", "github". Raises ValueError for another format."""
    from kscope import _api

    return _api.render(what, format, detail, budget, verbose, width)


def _repr_html(analysis: Analysis) -> str:
    from kscope.reports.notebook import repr_html

    return repr_html(analysis)


def _to_dataframe(analysis: Analysis, table: str, engine: str) -> Any:
    from kscope.reports.frames import to_dataframe

    return to_dataframe(analysis, table, engine)


def _render(analysis: Analysis) -> Any:
    def shown(format: str = "text", **options: Any) -> str:
        return render(analysis, format, **options)

    return shown


_presenters.register("render", _render)
_presenters.register("repr_html", _repr_html)
_presenters.register("to_dataframe", _to_dataframe)
