"""The pictures of reports/gallery: the HTML reports of some fixtures, photographed in Chromium.

    python tools/gallery.py [FOLDER]

Needs the dev extra and a Chromium (apt-get install chromium). Writes one WebP a view.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.engine.comparing.compare import compare  # noqa: E402
from kscope.engine.comparing.pairing import parse_rule  # noqa: E402
from kscope.engine.comparing.versions import versions  # noqa: E402
from kscope.engine.run import analyze_paths  # noqa: E402
from kscope.model.contract.detail import Detail  # noqa: E402
from kscope.reports import Options, render  # noqa: E402
from kscope.reports.html.page import render_diff  # noqa: E402
from kscope.reports.versions.page import render as render_versions  # noqa: E402
from tests.support import reports, traces  # noqa: E402
from tests.support.browser import FLAGS, chromium  # noqa: E402

FOLDER = ROOT / "reports" / "gallery"
COLOURS, CHARTS = 16, 24
"""Of a picture, and of one whose colours are a scale; without loss beyond that: half the bytes of a lossy one of
quality 60, and letters stay sharp."""
SCALES = ("charts", "memory", "operators", "program", "specialised", "timeline")
LADDER = ("naive", "coalesced", "shared", "reg1d", "reg2d", "vector")
VIEWS = (  # name, page, fragment, colour scheme, window, element (the window where empty)
    ("diagnosis", "bank_conflict.slow", "", "light", (1240, 860), ""),
    ("suggestions", "bank_conflict.slow", "", "light", (1240, 900), "section[aria-labelledby=s-what-to-try-next]"),
    ("memory", "bank_conflict.slow", "", "light", (1240, 900), "section[aria-labelledby=s-memory-chart]"),
    ("source", "bank_conflict.slow", "#k=0.0&view=code&pc=290", "light", (1400, 780), ""),
    ("sampled", "bank_conflict.slow", "", "light", (1240, 900), "section[aria-labelledby=s-timelines]"),
    ("charts", "sgemm.blocktile2d", "", "dark", (1240, 900), ".charts"),
    ("code", "sgemm.blocktile2d", "#k=0.0&view=code&pc=f90", "light", (1400, 780), ""),
    ("specialised", "ws_gemm.epilogue_exposed", "", "light", (1240, 900), ".charts"),
    ("timeline", "train_step", "#t0=20000000&t1=46000000", "light", (1240, 900), ".timeline-card"),
    ("launches", "train_step", "#t0=20000000&t1=20400000", "dark", (1240, 900), ".timeline-card"),
    ("operators", "train_step", "", "light", (1240, 900), "section[aria-labelledby=s-host-operators]"),
    ("program", "multi_kernels", "", "dark", (1240, 620), ""),
    ("diff", "diff", "", "light", (1240, 430), ""),
    ("versions", "versions", "", "light", (1000, 420), ""),
    ("narrow", "bank_conflict.slow", "", "dark", (400, 860), ""),
)


def pages(folder: Path) -> dict[str, Path]:
    """The reports of the views, written to a folder, by name."""
    out = {}
    for name in sorted({view[1] for view in VIEWS} - {"diff", "versions"}):
        source = reports.fixture(name) if name in reports.every_case() else traces.path(name)
        end = source.name.removeprefix("report") if name in reports.every_case() else source.name.removeprefix(name)
        named = folder / f"{name}{end}"
        shutil.copy(source, named)  # what the page shows as its input
        detail = Detail()
        analysis = analyze_paths([named], detail=detail)
        out[name] = folder / f"{name}.html"
        out[name].write_text(render("html", analysis, Options(detail=detail)), encoding="utf-8")
    sides = [analyze_paths([reports.fixture(f"bank_conflict.{variant}")]) for variant in ("slow", "fast")]
    out["diff"] = folder / "diff.html"
    out["diff"].write_text(render_diff(compare(*sides)), encoding="utf-8")
    ladder = [analyze_paths([reports.fixture(f"gemm_f32.{step}")]) for step in LADDER]
    out["versions"] = folder / "versions.html"
    found, _ = versions(ladder, [parse_rule("gemm=gemm")])
    out["versions"].write_text(render_versions(found), encoding="utf-8")
    return out


def shoot(browser: Any, path: Path, fragment: str, scheme: str, size: tuple[int, int], element: str) -> bytes:
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{path.as_uri()}{fragment}")
    if path.stem != "versions":  # which has no script
        page.wait_for_selector("html.ready")
    page.wait_for_timeout(400)
    if element == ".charts" and page.locator(".roles").count():  # of a long page only what the view is about
        page.evaluate("document.querySelectorAll('.charts > :nth-child(n+3)').forEach(e => e.remove())")
    picture: bytes = page.locator(element).screenshot() if element else page.screenshot()
    context.close()
    return picture


def main(arguments: list[str]) -> int:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    target = Path(arguments[0]) if arguments else FOLDER
    target.mkdir(parents=True, exist_ok=True)
    executable = chromium()
    if executable is None:
        print("no Chromium here: apt-get install chromium", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory(prefix="gallery-") as folder, sync_playwright() as play:
        written = pages(Path(folder))
        browser = play.chromium.launch(executable_path=executable, args=list(FLAGS))
        for name, what, fragment, scheme, size, element in VIEWS:
            picture = shoot(browser, written[what], fragment, scheme, size, element)
            out = target / f"{name}.webp"
            colours = CHARTS if name in SCALES else COLOURS
            few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(
                colours, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE
            )
            few.convert("RGB").save(out, "WEBP", lossless=True, quality=100, method=6)
            print(f"{out.name} {out.stat().st_size / 1024:.0f} KiB")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
