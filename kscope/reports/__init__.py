"""Reporters: each one is a function of an Analysis and of nothing else; HTML draws a Detail beside it, if given."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis
    from kscope.model.contract.detail import Detail

REPORTERS = {
    "text": "kscope.reports.text.page",
    "json": "kscope.reports.jsonv1",
    "md": "kscope.reports.markdown.page",
    "llm": "kscope.reports.llm.page",
    "html": "kscope.reports.html.page",
    "sarif": "kscope.reports.sarif",
    "junit": "kscope.reports.junit",
    "github": "kscope.reports.github",
}
"""Format name -> module that is a Reporter; imported when asked for."""

SUFFIXES = {".json": "json", ".md": "md", ".txt": "text", ".html": "html", ".sarif": "sarif",
            ".xml": "junit"}  # fmt: skip
"""File suffix -> format, for `-o FILE` without `--format`."""


class Options(Struct, frozen=True):
    """How to render. `width` is in terminal columns (text only), `cuts` whether lines end there with a mark, or what
    cannot be wrapped goes on; `budget` in tokens (llm); `detail` is what HTML draws beside the Analysis."""

    width: int = 80
    color: bool = False
    unicode: bool = True
    verbose: bool = False
    budget: int = 2000
    detail: Detail | None = None
    cuts: bool = True


class Reporter(Protocol):
    """A module that writes an Analysis in one format."""

    def render(self, analysis: Analysis, options: Options) -> str:
        """The report, ending in a newline."""


def render(format: str, analysis: Analysis, options: Options | None = None) -> str:
    """The report in one of REPORTERS' formats, ending in a newline. Raises KeyError for an unknown format."""
    reporter = cast(Reporter, importlib.import_module(REPORTERS[format]))
    return reporter.render(analysis, options or Options())
