"""Charts say what the sentence says: one figure for how full a unit is, the culprit where one looks, causes that lead
to the instruction, badges on all that a finding covers, scales and colours that mean one thing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.detail import Detail
from kscope.reports import words
from kscope.reports.html.page import said
from tests.html.test_views import eventually
from tests.support.browser import Visit
from tests.support.reports import fixture


def percents(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"([0-9.]+)\s%", text.replace(",", ""))]


@pytest.mark.parametrize("case", ["bank_conflict.slow", "sgemm.blocktile2d", "tma_scale.stages2"])
def test_one_figure_a_unit_on_the_page(case: str, visit: Callable[..., Visit]) -> None:
    page = visit(case).go()
    bars = {
        one.locator(".name").inner_text().replace("\n", " "): one.locator(".num").inner_text()
        for one in page.locator(".verdict .units li").all()
    }
    levels = page.locator(".levels li").all()
    assert len(levels) == 3
    for level in levels:
        name, busy = level.locator(".name").inner_text(), level.locator(".share").inner_text()
        if name in bars:
            assert busy == f"{bars[name]} busy", f"{name} differs between the bars and the roofline"
    for box, unit in (("l1", "L1 and shared memory"), ("l2", "L2"), ("dram", "device memory")):
        drawn = page.locator(f"[data-box={box}]")
        if unit in bars and drawn.count():
            assert f"busy {bars[unit]}" in " ".join(drawn.locator("text").all_text_contents())
    sampled = {
        row.locator(".name").inner_text().split("\n")[0]: row.locator(".num").inner_text()
        for row in page.locator(".pm-row:not(.axis-row):not(.tall)").all()
    }
    if "L2" in sampled and "L2" in bars:
        counted = percents(bars["L2"])[0]
        assert sampled["L2"] == "shape" or percents(sampled["L2"])[0] == pytest.approx(counted, rel=0.25)


def test_dots_stand_below_their_roofs_by_the_busy_share() -> None:
    detail = Detail()
    kernel = analyze_paths([fixture("sgemm.blocktile2d")], detail=detail).kernels[0]
    levels = {level.name: level for level in detail.kernels[0].roofs.levels}  # type: ignore[union-attr]
    busy = {u.unit: u.pct / 100 for u in kernel.utilization}
    for level in levels.values():
        assert level.busy == pytest.approx(busy[level.unit], abs=1e-3)
        assert level.roof is not None
        assert level.bytes_per_s / level.roof >= 0.85 * level.busy
    assert levels["L1"].roof < 0.5 * levels["L1"].peak  # type: ignore[operator]
    assert levels["DRAM"].roof == levels["DRAM"].peak


@pytest.mark.parametrize(
    ("case", "box", "codes"),
    [("bank_conflict.slow", "shared", ["MEM103"]), ("gemm_bf16.mma", "shared", ["MEM103"]),
     ("tma_scale.stages2", "shared", [])],
)  # fmt: skip
def test_memory_chart_shows_the_culprit(case: str, box: str, codes: list[str], visit: Callable[..., Visit]) -> None:
    page = visit(case).go()
    drawn = page.locator(f"[data-box={box}]")
    assert drawn.count() == 1, "matrix loads, cp.async and bulk copies go to shared memory, too"
    for code in codes:
        assert code in drawn.locator(".mark-chip text").all_text_contents()
    widths: dict[str, float] = {
        flow.get_attribute("data-flow"): float(flow.get_attribute("stroke-width"))
        for flow in page.locator(".memory .flow[data-flow]").all()
    }
    if codes:
        assert max(widths, key=lambda way: widths[way]) == "kernel-shared", "the fullest way is the thickest"
        assert "p4" in page.locator("[data-flow=kernel-shared]").get_attribute("class")
        page.locator(".mark-chip").first.focus()
        page.keyboard.press("Enter")
        eventually(page, lambda: page.evaluate("document.activeElement.tagName") == "SUMMARY")
    labels = " ".join(page.locator(".memory .flow-label").all_text_contents())
    assert re.search(r"\d\s[GT]B/s", labels), "rates"
    assert "of peak" in labels
    assert "hit rate" in " ".join(page.locator(".memory .box-note").all_text_contents())
    assert "80 to 100 % of peak" in page.inner_text(".memory-legend").replace("\xa0", " ")


def test_bytes_of_bulk_copies_are_drawn_once() -> None:
    detail = Detail()
    analyze_paths([fixture("tma_scale.stages2")], detail=detail)
    chart = detail.kernels[0].memory
    assert chart is not None
    ways = {(link.source, link.target): link for link in chart.links}
    assert ("l2", "l1") not in ways
    assert ways["l2", "shared"].value == ways["shared", "l2"].value == 268435456
    assert ways["l2", "shared"].note == "TMA"


def test_causes_lead_to_the_instruction(visit: Callable[..., Visit]) -> None:
    page = visit("bank_conflict.slow").go()
    first = page.locator(".hottest li").first
    assert "queues behind the LDS at 0290" in first.inner_text()
    first.locator(".cause a", has_text="0290").click()
    page.wait_for_selector(".code-view")
    eventually(page, lambda: "LDS" in page.inner_text(".sass .row.selected"))
    eventually(page, lambda: "waits for the block's other warps" in page.inner_text(".inspector .cause"))
    page.locator(".inspector .cause button").click()
    eventually(page, lambda: "BAR.SYNC" in page.inner_text(".sass .row.selected"))


def test_bars_of_warp_states_have_the_scale_of_all_others(visit: Callable[..., Visit]) -> None:
    page = visit("bank_conflict.slow").go()
    for row in page.locator(".stalls li").all()[:3]:
        track = row.locator(".track").first.bounding_box()["width"]
        fill = row.locator(".fill").first.bounding_box()["width"]
        assert 100 * fill / track == pytest.approx(percents(row.locator(".num").inner_text())[0], abs=1)
    legend = page.inner_text(".gain-legend")
    assert all(word in legend for word in ("expected", "at most", "at least"))


@pytest.mark.parametrize("case", ["sgemm.blocktile2d", "spill.slow"])
def test_arrows_of_the_roofline_go_up_where_bytes_stay(case: str, visit: Callable[..., Visit]) -> None:
    """An arrow a suggestion, from one point, as high as it promises; sideways only where the roof forbids the gain."""
    detail = Detail()
    kernel = analyze_paths([fixture(case)], detail=detail).kernels[0]
    gains = [(f.code, f.estimate.speedup) for f in kernel.findings
             if f.severity != "info" and f.estimate is not None and f.estimate.speedup > 1.02][:4]  # fmt: skip
    (dram,) = (level for level in detail.kernels[0].roofs.levels if level.name == "DRAM")  # type: ignore[union-attr]
    page = visit(case).go()
    arrows = page.evaluate("[...document.querySelectorAll('.move')].map(e => [e.textContent, e.getAttribute('d')])")
    assert arrows and [title.split(":")[0] for title, _ in arrows] == [code for code, _ in gains]
    begins, scales = set(), []
    for (_, d), (code, gain) in zip(arrows, gains, strict=True):
        numbers = [float(x) for x in re.findall(r"-?[0-9.]+", d)]
        (x, y), (end, top) = numbers[:2], numbers[-2:]
        begins.add((x, y))
        scales.append((y - top) / math.log10(gain))
        bends = dram.roof is not None and dram.bytes_per_s * gain > dram.roof
        assert ("Q" in d) == bends and (end > x + 1 if bends else end == x), f"{code} goes astray"
    assert len(begins) == 1 and min(scales) > 0
    assert max(scales) == pytest.approx(min(scales), rel=0.01), "as high as they promise"


@pytest.mark.parametrize("case", ["bank_conflict.slow", "sgemm.blocktile2d", "ws_gemm.stages2"])
def test_the_page_uses_the_words_of_the_other_formats(case: str, visit: Callable[..., Visit]) -> None:
    page = visit(case).go()
    kernel = analyze_paths([fixture(case)]).kernels[0]
    told = said(kernel)
    shown = page.inner_text("main").replace("\xa0", " ").replace("\u00d7", "x").replace("\u2013", "-")
    assert told["headroom"] in shown
    for finding in kernel.findings:
        if finding.estimate is not None and finding.severity != "info":
            figures = re.search(r"expect (\S+) \((\S+ - \S+?),? ", told["expect"][finding.code])
            assert figures is not None
            assert figures[1] in shown
            assert figures[2] in shown, "bounds are rounded alike"
    if told.get("sampling"):
        assert told["sampling"] in shown
    if told.get("ring"):
        assert told["ring"] in shown
    assert "tier" not in shown


def test_badges_on_all_that_a_finding_covers(visit: Callable[..., Visit]) -> None:
    kernel = analyze_paths([fixture("sgemm.blocktile2d")]).kernels[0]
    wide = next(f for f in kernel.findings if len(f.covered) > len(f.locations) and f.severity != "info")
    page: Any = visit("sgemm.blocktile2d").go()
    assert words.further(wide, len(wide.locations)) in page.text_content(".opportunities")
    hidden = next(pc for pc in wide.covered if pc not in {place.pc for place in wide.locations})
    page.goto(f"{page.url.partition('#')[0]}#k=0.0&view=code&pc={hidden:x}")
    page.wait_for_selector(".code-view")
    eventually(page, lambda: wide.code in page.inner_text(".inspector"))
    eventually(page, lambda: wide.code in page.inner_text(".sass .row.selected"))


def test_columns_of_the_listing_are_chosen_and_sort(visit: Callable[..., Visit]) -> None:
    page = visit("sgemm.blocktile2d").go("#k=0.0&view=code")
    assert "wavefr." not in page.inner_text(".sass-head")
    page.locator(".columns > summary").click()
    page.locator(".column-menu label", has_text="wavefr.").click()
    eventually(page, lambda: "wavefr." in page.inner_text(".sass-head"))
    page.keyboard.press("Escape")
    page.locator(".sass-head .sort", has_text="wavefr.").click()
    eventually(page, lambda: "by=wavefronts" in page.url)


    def shown() -> list[float]:
        rows = sorted(page.locator(".sass .row:visible").all(), key=lambda row: int(row.get_attribute("data-index")))
        return [float(row.locator(".col").first.inner_text().rstrip("\u00d7") or 0) for row in rows]

    eventually(page, lambda: len(shown()) > 3 and shown() == sorted(shown(), reverse=True) and shown()[-1] >= 1)
    page.locator(".sass-head .sort", has_text="pc").click()
    eventually(page, lambda: "by=" not in page.url)


def test_dependencies_are_drawn_beside_the_instruction(visit: Callable[..., Visit]) -> None:
    page = visit("bank_conflict.slow").go("#k=0.0&view=code&pc=240")
    eventually(page, lambda: page.locator(".links path.before").count() >= 1)
    facts = page.inner_text(".inspector")
    assert re.search(r"reads from\s*[0-9a-f]{4}", facts)
    assert "wavefronts" in facts


def test_panes_are_resized_by_keyboard_and_pointer(visit: Callable[..., Visit]) -> None:
    page = visit("bank_conflict.slow").go("#k=0.0&view=code")
    width = lambda: page.locator(".pane.source").bounding_box()["width"]  # noqa: E731
    before = width()
    page.locator(".divider").focus()
    page.keyboard.press("ArrowRight")
    eventually(page, lambda: width() > before)
    box = page.locator(".divider").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] - 200, box["y"] + 50)
    page.mouse.up()
    eventually(page, lambda: width() < before)


@pytest.mark.parametrize("size", [(640, 450), (640, 1100)])
def test_the_listing_is_whole_at_two_hundred_percent(size: tuple[int, int], visit: Callable[..., Visit]) -> None:
    """A window of 1280 pixels at 200 % has 640 of its own: panes keep room for lines, and nothing is cut off."""
    page = visit("bank_conflict.slow", viewport={"width": size[0], "height": size[1]}).go("#k=0.0&view=code")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    for pane in page.locator(".pane .virtual").all():
        assert pane.bounding_box()["height"] >= 200


def test_paper_has_every_instruction(visit: Callable[..., Visit]) -> None:
    page = visit("sgemm.blocktile2d").go("#k=0.0&view=code")
    drawn = lambda: page.locator(".sass .row:not([hidden]) .pc").count()  # noqa: E731
    few = drawn()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    every = int(page.evaluate("document.querySelector('.sass .space').offsetHeight")) // 20
    assert drawn() == every > 2 * few
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    eventually(page, lambda: drawn() < every)


def test_the_table_of_kernels_sorts_searches_and_adds_up(visit: Callable[..., Visit]) -> None:
    page = visit("multi_kernels").go()
    names = lambda: page.locator("table.kernels tbody th").all_inner_texts()  # noqa: E731
    assert names()[0] == "linear"
    page.locator("th .sort", has_text="kernel").click()
    eventually(page, lambda: names() == sorted(names(), key=str.lower))
    page.locator("th .sort", has_text="kernel").click()
    eventually(page, lambda: names() == sorted(names(), key=str.lower, reverse=True))
    assert "all 5 kernels, 14 launches" in page.inner_text("tfoot")
    page = visit("multi_kernels").go("#kq=MEM101")
    assert names() == ["softmax_rows"] or len(names()) < 5
    assert "of 5 kernels" in page.inner_text("tfoot")


NAMED = ".sums [aria-label='operations by name'] tbody"


def test_the_timeline_is_searched_and_summed(visit: Callable[..., Visit]) -> None:
    page = visit("train_step").go()
    eventually(page, lambda: page.locator(f"{NAMED} tr").count() >= 3)
    whole = page.inner_text(".sums > .note")
    name = page.locator(f"{NAMED} th").first.get_attribute("title")
    search = page.locator(".timeline-card input[type=search]")
    search.fill(name[:12])
    eventually(page, lambda: re.search(r"^[\d,]+ found, .* together$", page.inner_text(".timeline-card .hits")))
    search.press("Enter")
    eventually(page, lambda: page.inner_text(".timeline-card .hits").startswith("1 of "))
    eventually(page, lambda: page.inner_text(".sums > .note") != whole)
    rows = [percents(text)[0] for text in page.locator(f"{NAMED} td:first-child").all_inner_texts()]
    assert rows == sorted(rows, reverse=True)
    assert sum(rows) <= 101
