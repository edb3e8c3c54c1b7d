"""What holds of every view: no serious fault by axe in both themes, at 200 % zoom too; all of it by keyboard alone; on
paper whole, legible and the same whatever the reader had on the screen.

Prints are compared as pictures within one run (light against dark, zoomed in against not) and checked for what is cut
off. They are not compared with stored pictures: another release of Chromium or another font breaks lines elsewhere,
which moves everything below, and no tolerance tells that from a fault."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.comparing.compare import compare
from kscope.engine.comparing.versions import versions
from kscope.engine.run import analyze_paths
from kscope.reports.html.page import render_diff
from kscope.reports.versions.page import render as render_versions
from tests.conftest import once
from tests.html.test_views import eventually
from tests.support.browser import Visit
from tests.support.reports import fixture
from tests.support.thorough import ALL, some

VIEWS = {
    "kernel": ("bank_conflict.slow", ""), "charts": ("sgemm.blocktile2d", ""),
    "code": ("sgemm.blocktile2d", "#k=0.0&view=code"), "specialised": ("ws_gemm.epilogue_exposed", ""),
    "table": ("multi_kernels", ""), "timeline": ("train_step", ""), "diff": ("diff", ""), "versions": ("versions", ""),
}  # fmt: skip
PAPER = 718
"""CSS pixels between the margins of A4 as Chromium prints it."""


@pytest.fixture(scope="session")
def other(shared: Path) -> Callable[[str], Path]:
    """The pages that are made of several reports."""

    @cache
    def write(name: str) -> Path:
        path = shared / f"view-{name}.html"
        with once(path) as missing:
            if missing:
                sides = [analyze_paths([fixture(f"bank_conflict.{one}")]) for one in ("slow", "fast")]
                found, _ = versions([*sides, sides[0]])
                text = render_diff(compare(*sides)) if name == "diff" else render_versions(found)
                path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def opened(visit: Callable[..., Visit], other: Callable[[str], Path]) -> Callable[..., Any]:
    """opened(view, **context options) -> its page, drawn."""

    def start(view: str, where: str = "", **options: Any) -> Any:
        name, fragment = VIEWS[view]
        one = visit(other(name) if name in ("diff", "versions") else name, **options)
        if name != "versions":
            return one.go(where or fragment)
        one.page.goto(one.path.as_uri())  # a page without a script
        one.requests.clear()
        return one.page

    return start


COMBINATIONS = some([("light", 1), ("dark", 1), ("light", 2)], 2)


@pytest.mark.parametrize(("scheme", "zoom"), COMBINATIONS)
def test_no_serious_fault_by_axe(scheme: str, zoom: int, opened: Callable[..., Any]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install -e '.[dev]'")
    source = Path(axe.__file__).with_name("axe.min.js").read_text("utf-8")
    size = {"width": 1280 // zoom, "height": 900 // zoom}
    for view in VIEWS if ALL else list(VIEWS)[COMBINATIONS.index((scheme, zoom)) :: 3]:
        page = opened(view, color_scheme=scheme, bypass_csp=True, viewport=size, device_scale_factor=zoom)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], f"{view} at {zoom * 100} %"
        page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
        # Pages of rules are alike, and axe takes its time for each.
        page.evaluate("[...document.querySelectorAll('.prose')].slice(5).forEach(e => e.remove())")
        page.evaluate(source)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        bad = [v for v in found if v["impact"] in ("serious", "critical")]
        assert [f"{view}: {v['id']}: {v['nodes'][0]['html'][:200]}" for v in bad] == []
        page.context.close()


FOCUSABLE = """[...document.querySelectorAll('a[href], button, summary, select, input, [tabindex="0"]')].filter(e =>
  e.checkVisibility() && !e.disabled && !e.closest('[aria-hidden=true]'))"""
FOCUSED = """(() => { const e = document.activeElement, s = getComputedStyle(e);
  return {at: ALL.indexOf(e), seen: parseFloat(s.outlineWidth) > 0 && s.outlineStyle !== 'none',
          what: e.outerHTML.slice(0, 120)}; })()""".replace("ALL", FOCUSABLE)


@pytest.mark.parametrize("view", some([*VIEWS], 4))
def test_tab_reaches_everything_and_shows_where_it_is(view: str, opened: Callable[..., Any]) -> None:
    page = opened(view)
    count = page.evaluate(f"{FOCUSABLE}.length")
    reached, unseen = set(), []
    for _ in range(count + 10):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at["at"] < 0:
            continue  # the page's end
        if not at["seen"]:
            unseen.append(at["what"])
        reached.add(at["at"])
    assert unseen == []
    missing = [page.evaluate(f"{FOCUSABLE}[{i}].outerHTML.slice(0, 120)") for i in sorted(set(range(count)) - reached)]
    assert missing == []


def test_from_the_sentence_to_the_line_by_keyboard(opened: Callable[..., Any]) -> None:
    """A reader without a mouse opens the first suggestion's place, walks in the code, and comes back."""
    page = opened("kernel")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.places a')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".code-view")
    assert "LDS" in page.inner_text(".sass .row.selected")
    page.locator(".sass .virtual").focus()
    before = page.inner_text(".sass .row.selected .pc")
    page.keyboard.press("ArrowDown")
    eventually(page, lambda: page.inner_text(".sass .row.selected .pc") != before)
    page.keyboard.press("d")
    page.wait_for_selector(".verdict")


def test_the_timeline_by_keyboard(opened: Callable[..., Any]) -> None:
    page = opened("timeline")
    page.keyboard.press("/")
    page.keyboard.type("aten::mm")
    page.keyboard.press("Enter")
    eventually(page, lambda: page.inner_text(".timeline-card .hits").startswith("1 of "))
    page.locator(".timeline canvas").focus()
    page.keyboard.press("m")
    eventually(page, lambda: "Selected" in page.inner_text(".sums"))
    page.keyboard.press("Escape")
    eventually(page, lambda: "In view" in page.inner_text(".sums"))


CUT = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility()
  && !e.closest('.sr, .skip, svg, .static')
  && ['hidden', 'auto', 'scroll', 'clip'].includes(getComputedStyle(e).overflowX)
  && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 2) && e.innerText.trim())
  .map(e => `${e.className || e.tagName} ${e.scrollWidth}>${e.clientWidth} ${e.scrollHeight}>${e.clientHeight}: `
    + e.innerText.trim().slice(0, 60))"""
OUTSIDE = """[...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && e.getBoundingClientRect().width
  && e.getBoundingClientRect().right > innerWidth + 1).map(e => `${e.className.baseVal ?? e.className} ${e.tagName}`)"""


HEADS = "main h2, main thead th"


def printed(page: Any) -> bytes:
    """What is printed, in one picture."""
    page.set_viewport_size({"width": PAPER, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.wait_for_timeout(250)
    return bytes(page.screenshot(full_page=True, animations="disabled"))


@pytest.mark.parametrize("view", some([*VIEWS], 2))
def test_print_is_whole(view: str, opened: Callable[..., Any]) -> None:
    """Every section of the screen is on paper, nothing is cut off and nothing lies beside the paper."""
    page = opened(view)
    titles = page.locator(HEADS).all_inner_texts()
    printed(page)
    assert [t for t in titles if t.strip() and t not in page.locator(HEADS).all_inner_texts()] == []
    assert page.evaluate(CUT) == []
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER


@pytest.mark.parametrize("view", some([*VIEWS], 1))
def test_print_is_the_same_whatever_the_theme(view: str, opened: Callable[..., Any]) -> None:
    """As pictures: who reads in the dark does not print white on black."""
    Image, chops = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageChops")
    pages = [Image.open(io.BytesIO(printed(opened(view, color_scheme=one)))).convert("L") for one in ("light", "dark")]
    assert pages[0].size == pages[1].size
    differs = chops.difference(*pages).point(lambda v: 255 if v > 40 else 0).histogram()[255]
    assert differs < 0.002 * pages[0].width * pages[0].height
    pixels = pages[0].histogram()
    assert sum(pixels[230:]) > 0.5 * sum(pixels), "on white"


def test_print_of_a_timeline_does_not_depend_on_its_zoom(opened: Callable[..., Any]) -> None:
    Image, chops = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageChops")
    pictures = []
    for where in ("#t0=0", "#t0=20000000&t1=20400000"):
        page = opened("timeline", where)
        printed(page)
        pictures.append(Image.open(io.BytesIO(page.locator(".timeline").screenshot())).convert("L"))
    assert pictures[0].size == pictures[1].size
    assert chops.difference(*pictures).getbbox() is None
