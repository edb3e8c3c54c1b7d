"""The page of `kscope sass A B --diff`, and what paper shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscope.engine.code.sassdiff import sass_diff
from kscope.model.contract.sass_diff import SassComparison
from kscope.parsers.cubin.programs import read_programs
from kscope.reports.html.page import render_sass_diff
from tests.cli.running import kscope
from tests.html.test_views import HOSTILE, eventually
from tests.support.browser import Visit
from tests.support.sass import FOLDER

OLD, NEW = FOLDER / "memory.sm_90a.cubin.xz", FOLDER / "memory.sm_100a.cubin.xz"


@pytest.fixture(scope="module")
def comparison() -> SassComparison:
    sides = (read_programs(str(path), None, "^scale") for path in (OLD, NEW))
    return sass_diff(str(OLD), str(NEW), *sides)


def test_page(visit: Callable[..., Visit], comparison: SassComparison, tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    path.write_text(render_sass_diff(comparison), "utf-8")
    page = visit(path).go()
    different = [f for f in comparison.functions if not f.identical]
    assert page.locator(".sass-diff").count() == len(different) > 1
    assert page.inner_text(".crumbs") == f"{OLD.name} \u2192 {NEW.name}"
    first = page.locator(".sass-diff").first
    assert first.locator(".line.removed").count() and first.locator(".line.added").count()
    shown = first.locator(".line.added code").first.inner_text()
    assert shown in {line.after for hunk in different[0].hunks for line in hunk}
    new = next(f for f in comparison.functions if f.new)  # two loads of 16 bytes where sm_100 has one of 32
    assert new.new[0].code == "MEM102" and "MEM102" in page.inner_text(".new-finding")
    last = page.locator(".sass-diff").last
    assert last.locator(".line").count() == 0, "lines are made when they are looked at"
    last.locator("summary", has_text="Lines").click()
    eventually(page, lambda: last.locator(".line").count() > 0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_narrow(
    scheme: str, visit: Callable[..., Visit], comparison: SassComparison, tmp_path: Path
) -> None:
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install -e '.[dev]'")
    path = tmp_path / "diff.html"
    path.write_text(render_sass_diff(comparison), "utf-8")
    size = {"width": 390, "height": 844}
    page = visit(path, color_scheme=scheme, bypass_csp=True, viewport=size).go()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    eventually(page, lambda: page.locator(".sass-diff").last.locator(".line").count() > 0)
    page.evaluate(Path(axe_module.__file__).with_name("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert [v["nodes"][0]["failureSummary"] for v in serious] == []


def test_hostile_names_are_inert(visit: Callable[..., Visit], comparison: SassComparison, tmp_path: Path) -> None:
    one = msgspec.structs.replace(comparison.functions[0], demangled=HOSTILE, before=HOSTILE)
    path = tmp_path / "diff.html"
    path.write_text(render_sass_diff(msgspec.structs.replace(comparison, functions=[one], notes=[HOSTILE])), "utf-8")
    page = visit(path).go()
    assert HOSTILE in page.inner_text("main") and page.locator("main img").count() == 0
    assert page.title() != "owned"


def test_commands(tmp_path: Path) -> None:
    one = kscope("sass", OLD, NEW, "--diff", "--function", "^scale4_scalar$", "-o", tmp_path / "a.html")
    two = kscope("diff", OLD, NEW, "--kernel", "^scale4_scalar$", "--format", "html")
    assert (one.returncode, two.returncode) == (0, 0), (one.stderr, two.stderr)
    assert (tmp_path / "a.html").read_text("utf-8") == two.stdout


def test_findings_of_a_binary(visit: Callable[..., Visit], tmp_path: Path) -> None:
    """Opens on the function with the gravest finding; a place leads to its instruction."""
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install -e '.[dev]'")
    out = tmp_path / "sass.html"
    assert kscope("sass", OLD, "--function", "^(scale4|palette)", "-o", out).returncode == 0
    page = visit(out, bypass_csp=True).go()
    assert page.inner_text("h1") == "palette_local" and page.locator(".code-findings summary").count() >= 1
    box = page.locator(".code-findings details").first
    assert "MEM105" in box.inner_text()
    box.locator("> summary").click()
    place = box.locator("button.link").first
    eventually(page, place.is_visible)
    place.click()
    at = int(place.inner_text(), 16)
    eventually(page, lambda: page.url.endswith(f"pc={at:x}"))
    eventually(page, lambda: page.inner_text(".inspector").startswith(f"{at:04x}"))
    page.evaluate(Path(axe_module.__file__).with_name("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert [v["nodes"][0]["failureSummary"] for v in serious] == []
    none = visit(out).go("#fn=2")
    assert "No finding" in none.inner_text(".code-head")


def test_paper_shows_every_suggestion(visit: Callable[..., Visit]) -> None:
    page = visit("bank_conflict.slow").go()
    items = page.locator(".opportunities > .opportunity")
    assert items.count() > 1 and items.nth(1).get_attribute("open") is None
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(items.nth(i).get_attribute("open") is not None for i in range(items.count()))
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert items.first.get_attribute("open") is not None and items.nth(1).get_attribute("open") is None
