"""The fleet's page in a browser, with ten thousand kernels: searched, sorted, nothing asked of a network."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscope.fleet import page
from kscope.fleet.summary import report
from tests.fleet.test_report import dataset, kernel

pytestmark = pytest.mark.slow
EVIL = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, list[str], float]]:
    """The page, what it asked a network for or complained about, and the seconds that it took to be ready."""
    chance, folder = random.Random(5), tmp_path_factory.mktemp("page")
    rows = [
        kernel(i, 0, chance.uniform(1, 1e4), demangled=f"void ns{i % 97}::kernel_{i}(float*)", cause=f"MEM10{i % 10}",
               gain=1 + i % 7 / 5, sentence=f"Memory-bound {chance.getrandbits(80):x}", next_words="go on")
        for i in range(9_990)
    ]  # fmt: skip
    rows += [kernel(20_000, day, 100.0 if day < 5 else 200.0, demangled=EVIL, cause="LAT301", gain=5.0)
             for day in range(10)]  # fmt: skip
    html = page.render(report(dataset(folder / "d", {"kernels": rows})))
    assert len(html) < 5_000_000
    out = folder / "fleet.html"
    out.write_text(html, encoding="utf-8")
    said: list[str] = []
    view = browser.new_page()
    view.on("request", lambda request: said.append(request.url))
    view.on("console", lambda message: said.append(message.text))
    view.on("pageerror", lambda error: said.append(str(error)))
    begin = time.monotonic()
    view.goto(out.as_uri())
    view.wait_for_selector("html[data-ready=yes]", timeout=30_000)
    took = time.monotonic() - begin
    said.remove(out.as_uri())
    yield view, said, took
    view.close()


def cells(view: Any, column: int) -> list[str]:
    found: list[str] = view.eval_on_selector_all(
        f"#kernels tbody tr td:nth-child({column})", "nodes => nodes.slice(0, 20).map(n => n.textContent)"
    )
    return found


def test_it_opens_and_asks_for_nothing(opened: tuple[Any, list[str], float]) -> None:
    view, said, took = opened
    assert said == [] and took < 10
    assert view.inner_text("#kernels [role=status]") == "9,991 of 9,991"
    assert len(view.query_selector_all("#kernels tbody tr")) == 200
    assert EVIL in view.inner_text("#moved") and view.title() != "owned" and not view.query_selector("img")


def test_search_and_sort(opened: tuple[Any, list[str], float]) -> None:
    view, said, _ = opened
    view.fill("#kernels input", "ns5::kernel_ mem107")
    found = cells(view, 5)
    assert found and all("ns5::" in name for name in found) and set(cells(view, 4)) == {"MEM107"}
    view.fill("#kernels input", "ns5::")
    view.click("#kernels th:nth-child(5) button")
    names = cells(view, 5)
    assert names == sorted(names)
    view.click("#kernels th:nth-child(5) button")
    assert cells(view, 5) == sorted(cells(view, 5), reverse=True)
    assert view.get_attribute("#kernels th:nth-child(5)", "aria-sort") == "descending"
    view.fill("#kernels input", "nobody")
    assert cells(view, 1) == [] and view.inner_text("#kernels [role=status]") == "0 of 9,991"
    view.fill("#kernels input", "")
    view.click("#kernels th:nth-child(3) button")
    gains = [float(text.rstrip("x")) for text in cells(view, 3)]
    assert gains == sorted(gains, reverse=True) and gains[0] == 5.0
    view.click("#kernels button.more")
    assert len(view.query_selector_all("#kernels tbody tr")) == 1200
    assert said == []


def test_it_is_accessible(opened: tuple[Any, list[str], float]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    opened[0].fill("#kernels input", "ns5::kernel_ mem107")  # rows are alike, and axe takes its time for each
    options = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
    found = axe.Axe().run(opened[0], options=options).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:120]) for v in found] == []


def test_without_a_script(tmp_path: Path) -> None:
    html = page.render(report(dataset(tmp_path / "d", {"kernels": [kernel(1, 0, 9.0)]})))
    assert "k1(float*)" in html.split('id="fleet-data"')[0]
