"""Names that stand directly behind a comparison or a shift (`m>i`, `a>>k`) are names like others."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_pattern_takes_what_is_compared_for_a_member() -> None:
    patterns = r"(?<![\w.>])"
    found = [p.name for p in (ROOT / "kscope" / "fixes").rglob("*.py") if patterns in p.read_text(encoding="utf-8")]
    assert found == [], r"(?<![\w.])(?<!->) leaves out members alone"
