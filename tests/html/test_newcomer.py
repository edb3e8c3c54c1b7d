"""Three questions of somebody who opens a report for the first time, answered from the page alone: where each answer
stands, and that it is the measured one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.html.test_views import eventually
from tests.support.browser import Visit


@pytest.mark.parametrize(("case", "line", "words"), [
    ("bank_conflict.slow", "dev_kernels.cu:75", "queues behind the LDS"),
    ("barrier.slow", "dev_kernels.cu:", "barrier"),
    ("sgemm.blocktile2d", "dev_kernels.cu:", "LDS"),
])  # fmt: skip
def test_which_line_makes_it_wait(case: str, line: str, words: str, visit: Callable[..., Visit]) -> None:
    """In the first suggestion: its places, each with the share that waits for it. In *Hottest instructions*: whoever
    stands in a queue names who fills it, and leads there."""
    page = visit(case).go()
    place = page.locator(".opportunity[open] .places li").first
    assert line in place.inner_text() and re.search(r"waited for by \d", place.inner_text())
    hottest = page.locator("section[aria-labelledby=s-hottest-instructions]")
    assert words in hottest.inner_text()
    place.locator("a").click()
    page.wait_for_selector(".code-view")
    shown = page.inner_text(".inspector")
    assert line in shown and "waited for" in shown
    eventually(page, lambda: page.locator(".source .row.linked").count() == 1)


def test_what_would_padding_bring(visit: Callable[..., Visit]) -> None:
    """In the first suggestion: the gain with its bounds beside the title, what is padded and what it costs below, and
    what is the limit then."""
    page = visit("bank_conflict.slow").go()
    first = page.locator(".opportunity").first.inner_text()
    gain = re.search(r"(\d\.\d)×\s+(\d\.\d) – (\d\.\d)", first)
    assert gain is not None
    point, low, high = map(float, gain.groups())
    assert low <= 2.21 <= high, "the padded version was measured: 2.21 times as fast"
    assert abs(point - 2.21) < 0.2
    assert "pad the row" in first and "capped by L2" in first
    assert "69,206,016 to 4,194,304" in first and "128 bytes of shared memory more" in first
    assert "__shared__ float t[32][32 + PAD + 1];" in first


def test_which_stream_idles_and_why(visit: Callable[..., Visit]) -> None:
    """Under the timeline: how busy each stream is and what it idled for; beside it, in a device that idles, the causes
    of that. The sentence has the cause of all of it."""
    page = visit("ranks/straggler_gpu.rank0").go()
    streams = page.locator(".sums [aria-label='how busy each stream is'] tbody tr")
    eventually(page, lambda: streams.count() == 2)
    computing = streams.nth(0).inner_text()
    assert "GPU 0 stream 7" in computing and "while GPU 0 stream 17" in computing and "runs ncclDevKernel" in computing
    busy = float(re.match(r"([\d.]+)", computing)[1])  # type: ignore[index]
    idle = float(re.search(r"idle ([\d.]+)", computing)[1])  # type: ignore[index]
    assert busy + idle == pytest.approx(100, abs=1.1)
    assert "communication" in page.inner_text(".sentence")
    page = visit("train_step").go()
    eventually(page, lambda: "waiting for launches" in page.inner_text(".sums [aria-label='why devices idle']"))
    assert "with the whole GPU idle" in page.inner_text(".sums [aria-label='how busy each stream is']")
