"""A browser and rendered pages for the tests of the HTML report. Without a browser the tests that look are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.analysis import Analysis
from kscope.model.detail import Detail
from kscope.reports import Options, render
from tests.conftest import once
from tests.support import reports, traces

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def chromium() -> str | None:
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


def page_of(path: Path) -> tuple[Analysis, Detail, str]:
    detail = Detail()
    analysis = analyze_paths([path], detail=detail)
    return analysis, detail, render("html", analysis, Options(detail=detail))


@pytest.fixture(scope="session")
def written(shared: Path) -> Callable[[str], Path]:
    """name of a capture or recording -> its page, rendered once a run."""

    @cache
    def write(name: str) -> Path:
        path = shared / f"{name}.html"
        with once(path) as missing:
            if missing:
                source = reports.fixture(name) if name in reports.every_case() else traces.path(name)
                path.write_text(page_of(source)[2], encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    executable = chromium()
    if executable is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")
    with sync.sync_playwright() as play:
        running = play.chromium.launch(executable_path=executable, args=list(FLAGS))
        yield running
        running.close()


class Visit:
    """One page in the browser, with everything that must not happen: requests, console errors, exceptions."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.path = page, path
        self.requests: list[str] = []
        self.faults: list[str] = []
        page.on("request", lambda r: self.requests.append(r.url))
        page.on("console", lambda m: self.faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.faults.append(str(e)))

    def go(self, fragment: str = "") -> Any:
        """Load the page anew with a fragment, and wait until it is drawn."""
        self.page.goto("about:blank")
        self.requests.clear()
        self.page.goto(f"{self.path.as_uri()}{fragment}")
        self.page.wait_for_selector("html.ready")
        return self.page

    def check(self) -> None:
        assert self.faults == []
        assert [u for u in self.requests if not u.startswith(self.path.as_uri())] == []


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
