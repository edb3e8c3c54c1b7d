"""kscope: why is this GPU kernel slow, which instruction is responsible, what should the next version do.

The library mirrors the command line::

    import kscope
    analysis = kscope.analyze("report.ncu-rep")      # kscope.model.analysis.Analysis (JSON v1)
    for kernel in analysis.kernels:
        print(kernel.verdict.sentence)
"""

from __future__ import annotations

from kscope import _presenters
from kscope._version import __version__

TYPE_CHECKING = False  # the typing module itself takes 9 ms, and the reader starts before anything needs it
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from kscope.model.analysis import Analysis

__all__ = ["__version__", "analyze"]


def analyze(*paths: str | Path) -> Analysis:
    """Analyse profiler reports (or folders of them) and return one Analysis.

    Raises kscope.model.errors.KscopeError for input that is missing, unreadable or of an unknown kind.
    """
    from kscope.engine.run import analyze_paths  # heavy imports only when used

    return analyze_paths(paths)


def _repr_html(analysis: Analysis) -> str:
    from kscope.reports.notebook import repr_html

    return repr_html(analysis)


def _to_dataframe(analysis: Analysis, table: str, engine: str) -> Any:
    from kscope.reports.frames import to_dataframe

    return to_dataframe(analysis, table, engine)


_presenters.register("repr_html", _repr_html)
_presenters.register("to_dataframe", _to_dataframe)
