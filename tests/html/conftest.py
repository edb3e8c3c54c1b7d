"""A browser and rendered pages for the tests of the HTML report. Without a browser the tests that look are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis
from kscope.model.contract.detail import Detail
from kscope.reports import Options, render
from tests.conftest import once
from tests.support import reports, traces
from tests.support.browser import Visit


def page_of(path: Path) -> tuple[Analysis, Detail, str]:
    detail = Detail()
    analysis = analyze_paths([path], detail=detail)
    return analysis, detail, render("html", analysis, Options(detail=detail))


@pytest.fixture(scope="session")
def written(shared: Path) -> Callable[[str], Path]:
    """name of a capture or recording -> its page, rendered once a run."""

    @cache
    def write(name: str) -> Path:
        path = shared / f"{name.replace('/', '-')}.html"
        with once(path) as missing:
            if missing:
                source = reports.fixture(name) if name in reports.every_case() else traces.path(name)
                path.write_text(page_of(source)[2], encoding="utf-8")
        return path

    return write


@pytest.fixture
def visit(browser: Any, written: Callable[[str], Path]) -> Iterator[Callable[..., Visit]]:
    """visit(name or path, **context options) -> a Visit, checked at the end of the test."""
    contexts: list[Any] = []
    visits: list[Visit] = []

    def start(what: str | Path, **options: Any) -> Visit:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        visits.append(Visit(context.new_page(), what if isinstance(what, Path) else written(what)))
        return visits[-1]

    yield start
    for one in visits:
        one.check()
    for context in contexts:
        context.close()
