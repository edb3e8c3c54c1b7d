"""The browser that tests and the gallery look at pages with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def chromium() -> str | None:
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


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
