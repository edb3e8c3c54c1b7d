"""The committed texts of gates are what kscope says today; `make golden` rewrites them."""

from __future__ import annotations

import difflib
import importlib.util
from functools import partial
from pathlib import Path

import pytest

from tests.support import thorough, warm

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 300  # a command takes at most


@pytest.mark.skipif(not thorough.SAID, reason="takes its time: make test-said")
def test_unchanged() -> None:
    spec = importlib.util.spec_from_file_location("golden_gates", ROOT / "tools" / "golden_gates.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    before, now = tool.FILE.read_text("utf-8"), tool.golden(partial(warm.run, seconds=SECONDS))
    if before != now:
        lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "committed", "now", lineterm="", n=1))
        pytest.fail("run `make golden` and review\n" + "\n".join(lines[:40]), pytrace=False)
    assert str(ROOT) not in before
