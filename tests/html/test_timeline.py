"""The timeline of a recording: what launched what, what is selected, what hosts ran, all of it on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.html.test_views import eventually, fragment
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
