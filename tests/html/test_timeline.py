"""The timeline of a recording: what launched what, what is selected, what hosts ran, all of it on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kscope.engine.timelines.timeline_critical import critical
from kscope.features.timeline.facts import TimelineView
from kscope.features.views.timeline import timeline_detail
from kscope.parsers.timeline import kineto
from tests.html.conftest import page_of
from tests.html.test_views import eventually, fragment
from tests.parsers.timeline.test_nsys_counters import recording
from tests.support import traces
from tests.support.browser import Visit

ACCENTED = """c => {
  const wanted = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim();
  const [r, g, b] = [1, 3, 5].map(i => parseInt(wanted.slice(i, i + 2), 16));
  const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
  copy.drawImage(c, 0, 0);
  const data = copy.getImageData(0, 30, c.width, c.height - 30).data;
  let n = 0;
  for (let i = 0; i < data.length; i += 4) {
    n += Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 12 ? 1 : 0;
  }
  return n;
}"""


def found(page: Any, what: str) -> str:
    page.fill(".timeline-card input", what)
    page.keyboard.press("Enter")
    return str(page.inner_text(".timeline-card .hits"))


def test_an_operation_leads_to_its_launch(visit: Callable[..., Visit]) -> None:
    page = visit("train_step").go()
    canvas = page.locator(".timeline canvas")
    before = canvas.evaluate(ACCENTED)
    said = found(page, "nvjet")
    assert "launched" in said and "before by cuLaunchKernelEx" in said and "CUDA API" in said
    eventually(page, lambda: canvas.evaluate(ACCENTED) > before + 50, "an arrow in the accent's colour")
    assert "launches" in found(page, "cudaLaunchKernel")


def test_search_goes_through_all_rows_in_order(visit: Callable[..., Visit]) -> None:
    page = visit("train_step").go()
    places = []
    for _ in range(4):
        if not places:
            found(page, "aten::mm")
        else:
            page.keyboard.press("Enter")
        eventually(page, lambda: "t0" in fragment(page) and fragment(page)["t0"] not in places)
        places.append(fragment(page)["t0"])
    assert [int(p) for p in places] == sorted(int(p) for p in places)
    page.keyboard.press("Shift+Enter")
    eventually(page, lambda: fragment(page)["t0"] == places[2])
    assert found(page, "no such name") == "0 found, 0 ns together"


def test_a_selection_has_sums_of_its_own(visit: Callable[..., Visit]) -> None:
    one = visit("train_step")
    page = one.go()
    eventually(page, lambda: "In view" in page.inner_text(".sums"))
    whole = page.inner_text(".sums")
    box = page.locator(".timeline canvas").bounding_box()
    page.locator(".timeline").scroll_into_view_if_needed()
    box = page.locator(".timeline canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 400, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 60, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    eventually(page, lambda: "Selected" in page.inner_text(".sums") and "s0" in fragment(page))
    sums = page.inner_text(".sums")
    assert sums != whole
    assert "GPU 0 stream 7" in sums and "waiting for launches" in sums, "how busy each stream is, and why it idles"
    where = fragment(page)
    again = one.go(f"#s0={where['s0']}&s1={where['s1']}")
    eventually(again, lambda: "Selected" in again.inner_text(".sums"), "a link keeps the selection")
    again.keyboard.press("m")
    eventually(again, lambda: "In view" in again.inner_text(".sums") and "s0" not in fragment(again))


def test_host_operators_are_a_tree(visit: Callable[..., Visit]) -> None:
    page = visit("train_step").go()
    rows = page.locator(".operators tbody tr")
    names = [row.split("\t")[0].strip("▸▾ \n") for row in rows.all_inner_texts()]
    assert names[:2] == ["host thread 0", "step#"], "the steps are one row"
    assert "5" in rows.nth(1).inner_text()
    twist = page.get_by_role("button", name="what aten::linear calls").first
    assert twist.get_attribute("aria-expanded") == "false"
    count = rows.count()
    twist.focus()
    page.keyboard.press("Enter")
    assert twist.get_attribute("aria-expanded") == "true"
    assert rows.count() > count
    page.keyboard.press("Enter")
    assert rows.count() == count
    page.get_by_role("button", name="aten::layer_norm", exact=True).first.click()
    eventually(page, lambda: page.inner_text(".timeline-card .hits").startswith("1 of "))


def test_print_shows_all_of_it(visit: Callable[..., Visit]) -> None:
    """On paper the whole recording, however far the reader had zoomed, and every row."""
    page = visit("train_step").go("#t0=20000000&t1=20400000")
    high = page.locator(".timeline canvas").evaluate("c => c.offsetHeight")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".timeline canvas").evaluate("c => c.offsetHeight") >= high
    reds = "c.getContext('2d').getImageData(200, 0, 400, 24).data.filter((_, i) => i % 4 == 3 && _)"
    assert page.locator(".timeline canvas").evaluate(f"c => {reds}.length") > 0
    assert page.locator(".timeline").evaluate("e => e.scrollHeight <= e.clientHeight")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    eventually(page, lambda: fragment(page).get("t0") == "20000000")


def test_print_right_after_a_zoom_keeps_it(visit: Callable[..., Visit]) -> None:
    """The fragment is written a moment after a zoom: by then the picture may be the one for paper."""
    page = visit("train_step").go("#t0=20000000&t1=20400000")
    zoom = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '-', bubbles: true}))"
    page.evaluate(f"{zoom}; dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(400)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    eventually(page, lambda: 0 < int(fragment(page).get("t0", "0")) < 20000000)


COLOURED = """(c, name) => {
  const wanted = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [r, g, b] = [1, 3, 5].map(i => parseInt(wanted.slice(i, i + 2), 16));
  const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
  copy.drawImage(c, 0, 0);
  const data = copy.getImageData(110, 30, c.width - 110, c.height - 30).data;
  let n = 0;
  for (let i = 0; i < data.length; i += 4) {
    n += Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 12 ? 1 : 0;
  }
  return n;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_critical_path_lies_over_the_rows(visit: Callable[..., Visit], scheme: str) -> None:
    one = visit("item_loop", color_scheme=scheme)
    page = one.go()
    canvas = page.locator(".timeline canvas")

    def marked() -> int:
        return int(canvas.evaluate(COLOURED, "--path"))

    eventually(page, lambda: marked() > 500, "a line under what the end waited for")
    assert "critical path" in page.inner_text(".timeline-card .legend")
    assert "on the critical path" in found(page, "Memcpy DtoH"), "which the host waits for"
    box = page.get_by_role("checkbox", name="Critical path")
    assert box.is_checked()
    box.uncheck()
    eventually(page, lambda: marked() == 0 and fragment(page).get("cp") == "0")
    assert "on the critical path" not in found(page, "Memcpy DtoH")
    again = one.go("#cp=0")
    eventually(again, lambda: not again.get_by_role("checkbox", name="Critical path").is_checked() and marked() == 0)
    again.keyboard.press("c")
    eventually(again, lambda: marked() > 500 and "cp" not in fragment(again), "a key brings it back")
    figures = again.inner_text("dl.facts")
    assert "critical path" in figures and "operations" in figures


def test_the_critical_path_runs_through_what_the_analysis_names() -> None:
    """Pieces follow one another from the window's beginning to the end, on rows of streams and of the host."""
    view = TimelineView(kineto.read(traces.path("item_loop")))
    detail = timeline_detail(view, 0)
    path = detail.critical
    assert path is not None and path.left_out == 0
    start = np.cumsum(path.start)
    end = start + path.length
    assert bool((end[:-1] == start[1:]).all()), "no piece is missing, none overlaps"
    assert int(end[-1] - start[0]) == int(view.critical.end[-1] - view.critical.start[0])  # type: ignore[union-attr]
    kinds = {(kind, detail.rows[row].kind) for kind, row in zip(path.kind, path.row, strict=True)}
    assert kinds == {(0, "ops"), (1, "ops"), (2, "calls")}
    on_gpu = sum(length for length, kind in zip(path.length, path.kind, strict=True) if kind == 0)
    told = critical(view)
    assert told is not None
    assert on_gpu == pytest.approx((told.gpu_pct + told.between_pct) / 100 * told.us * 1e3, rel=0.01)


def test_memory_is_a_row_with_its_peak(visit: Callable[..., Visit]) -> None:
    one = visit("memory/growing")
    page = one.go()
    canvas = page.locator(".timeline canvas")
    legend = page.inner_text(".timeline-card .legend")
    assert "memory allocated" in legend and "reserved" in legend
    (m,) = timeline_detail(TimelineView(kineto.read(traces.path("memory/growing"))), 0).memory
    at = sum(m.start[: m.peak + 1])
    page = one.go(f"#t0={at - 2000}&t1={at + 200000}")  # the peak and what is behind it
    page.locator(".timeline").scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tip = page.locator(".timeline .tip")
    for y in range(36, 90, 4):
        page.mouse.move(box["x"] + 200, box["y"] + y)
        if tip.is_visible() and "GPU 0 memory" in tip.inner_text():
            break
    said = tip.inner_text().replace("\u00a0", " ")
    assert "362 MB allocated" in said and "422 MB reserved" in said and "GPU 0 memory" in said
    narrow = visit("memory/growing", viewport={"width": 360, "height": 700}).go()
    assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert narrow.get_by_role("checkbox", name="Critical path").is_visible()
    eventually(narrow, lambda: "vectorized_elementwise_kernel<…>" in narrow.inner_text(".sums"), "of a name cut short")
    facts = narrow.inner_text("dl.facts")
    assert "memory of GPU 0" in facts and "held by" in facts


def test_memory_is_as_tall_as_what_is_held(visit: Callable[..., Visit]) -> None:
    one = visit("memory/growing")
    (m,) = timeline_detail(TimelineView(kineto.read(traces.path("memory/growing"))), 0).memory
    start = np.cumsum(m.start)
    tall = """c => {
      const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
      copy.drawImage(c, 0, 0);
      const data = copy.getImageData(1000, 40, 1, 70).data, at = (y) => data.slice(4 * y, 4 * y + 3).join();
      const rows = [...Array(70).keys()].map(at), inside = rows[40];
      return rows.filter((one) => one === inside).length;
    }"""
    longest = np.argsort(-np.diff(start))  # parts long enough to fill the view, so that one height is seen
    low = min((int(i) for i in longest[:12]), key=lambda i: m.allocated[i])
    for part in (low, m.peak):
        page = one.go(f"#t0={start[part]}&t1={start[part] + np.diff(start)[part]}")
        expected = m.allocated[part] / max(m.reserved) * 43  # of 46 pixels, three are left above
        canvas = page.locator(".timeline canvas")
        assert canvas.evaluate(tall) == pytest.approx(expected, abs=2), part


def test_path_and_memory_are_on_paper(visit: Callable[..., Visit]) -> None:
    page = visit("memory/growing").go("#t0=20000000&t1=20400000")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    canvas = page.locator(".timeline canvas")
    assert canvas.evaluate(COLOURED, "--path") > 300
    assert canvas.evaluate("c => c.offsetHeight") > 150
    page.evaluate("dispatchEvent(new Event('afterprint'))")


def test_sampled_counters_are_rows(visit: Callable[..., Visit], tmp_path: Path) -> None:
    (tmp_path / "counters.html").write_text(page_of(recording(tmp_path))[2], encoding="utf-8")
    page = visit(tmp_path / "counters.html").go()
    page.locator(".timeline").scroll_into_view_if_needed()
    box = page.locator(".timeline canvas").bounding_box()
    tip = page.locator(".timeline .tip")
    said = set()
    for y in range(30, int(box["height"]), 8):
        page.mouse.move(box["x"] + 400, box["y"] + y)
        if tip.is_visible():
            said.add(tip.inner_text().replace("\u00a0", " "))
    assert [text for text in said if "80 % on average" in text and "GPU 0 SMs Active" in text]
    assert [text for text in said if "5 % on average" in text and "GPU 1 NVLink RX Requests User Data" in text]
    assert "SMs Active" in page.inner_text("dl.facts")


def test_ranges_on_the_gpu_and_streams_are_told(visit: Callable[..., Visit]) -> None:
    page = visit("train_step").go()
    table = page.get_by_role("region", name="ranges by time on the GPU")
    assert "step" in table.inner_text() and "on the GPU" in table.inner_text()
    facts = page.inner_text("dl.facts").replace("\u00a0", " ")
    assert "GPU 0 stream 7" in facts and "queued on average" in facts
    assert "median" in page.inner_text("table.kernels"), "launches of a kernel that differ"
