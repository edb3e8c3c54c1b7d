"""The web site of guides, rules, commands, contract and API: it builds, all its links hold, it needs no network."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from kscope.rules.registry import all_rules
from tests.conftest import once
from tests.support import thorough
from tests.support.browser import Visit

ROOT = Path(__file__).resolve().parents[1]
EXTERNAL = re.compile(r"^(?:[a-z]+:)?//", re.I)
LOADED = {**dict.fromkeys(("script", "img", "iframe", "source", "embed", "video"), "src"), "object": "data"}


@pytest.fixture(scope="module")
def site(shared: Path) -> Path:
    """The built site, once a run."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not here: pip install -e '.[docs]'")
    target = shared / "website" / "site"
    with once(shared / "website.built") as missing:
        if missing:
            target.parent.mkdir()
            command = [sys.executable, "-m", "tools.website", str(target)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "WARNING" not in done.stderr, "mkdocs is strict about links and anchors"
            (shared / "website.built").touch()
    return target


class Page(HTMLParser):
    """What a page leads to, what it loads, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(values.get("href", ""))
        if (name := LOADED.get(tag)) and name in values:
            self.loaded.append(values[name])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def inside(pages: dict[Path, Page]) -> Iterator[tuple[Path, str]]:
    for path, page in pages.items():
        if path.name != "404.html":  # whose links are from the root of a server
            for link in page.links:
                if not EXTERNAL.match(link) and ":" not in link.split("/")[0]:
                    yield path, link


@pytest.mark.slow
def test_every_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken, followed = [], 0
    for path, link in inside(pages):
        parts = urlsplit(link)
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        followed += 1
        if not target.is_file():
            broken.append(f"{path.name}: {link}")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            broken.append(f"{path.name}: no anchor {link}")
    assert broken == []
    assert followed > 5000


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [url for url in page.loaded if EXTERNAL.match(url)] == [], path
    for style in site.rglob("*.css"):
        urls = re.findall(r"url\(['\"]?([^)'\"]+)|@import\s+['\"]([^'\"]+)", style.read_text("utf-8"))
        assert [url for pair in urls for url in pair if EXTERNAL.match(url)] == [], style


@pytest.mark.slow
def test_all_is_there(site: Path) -> None:
    for rule in all_rules():
        assert (site / "rules" / f"{rule.code}.html").is_file()
    commands = (site / "commands" / "index.html").read_text("utf-8")
    for command in ("analyze", "diff", "sass", "log", "fleet", "bench"):
        assert f"kscope {command}" in commands and (site / "commands" / f"{command}.html").is_file()
    log = (site / "commands" / "log.html").read_text("utf-8")
    assert "kscope log calibrate" in log, "commands below a command are on its page"
    reference = (site / "reference" / "index.html").read_text("utf-8")
    assert "Analyse profiler reports" in reference and 'id="kscope.render"' in reference
    assert "speedup_bound" in (site / "contract" / "json.html").read_text("utf-8")
    for page in ("guides/start", "guides/reading", "docs/estimates", "docs/side-by-side", "guides/python"):
        assert (site / f"{page}.html").is_file()


@thorough.only
@pytest.mark.slow
def test_search_works_from_disk(site: Path, browser: Any) -> None:
    one = Visit(browser.new_page(), site / "index.html")
    one.page.goto(one.path.as_uri())
    one.page.wait_for_timeout(500)
    one.page.keyboard.press("s")
    one.page.keyboard.type("bank conflict")
    one.page.wait_for_selector(".md-search-result__item a[href*='MEM103']")
    assert one.faults == []
    assert [url for url in one.requests if not url.startswith((site.as_uri(), "data:"))] == []
    one.page.close()
