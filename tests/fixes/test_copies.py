"""An element that is copied byte by byte: one access where it has the launch's size, else the loop as before."""

from __future__ import annotations

import pytest

from kscope.fixes.memory.vectors import _COPY, _once
from tests.support.with_sources import changes
from tools.fixes_pairs import judged


def test_the_change_is_the_measured_version() -> None:
    """2.32x in reorder.words."""
    (fix,) = [f for f in changes("reorder.bytes", "MEM102") if f.kind == "element_access"]
    (edit,) = fix.edits
    assert edit.was.strip() == "for (int k = 0; k < size; k++) to[k] = from[k];"
    assert edit.becomes.strip() == (
        "if (size == 4) *reinterpret_cast<int*>(to) = *reinterpret_cast<const int*>(from); else " + edit.was.strip()
    )
    assert fix.proof[0].after == fix.proof[0].before / 4
    assert fix.proof[0].before == 2 * 4 * 65536  # what is stored as well as what is loaded
    assert judged("reorder.bytes", "reorder.words", "MEM102", fix, 2.32).word == "as good"
    assert [c.state for c in fix.conditions] == ["assumed", "proved", "check", "check"]
    assert fix.price is not None and fix.price.low <= 50.85 / 21.89 <= fix.price.high
    assert not changes("reorder.words", "MEM102") or all(
        f.kind != "element_access" for f in changes("reorder.words", "MEM102")
    )


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("for (unsigned int b = 0; b < n; ++b) { out[b] = in[b]; }", True),
        ("for (size_t b = 0; b < n; b++) out[b] = in[b];", True),
        ("for (int b = 0; b < n; b++) { out[b] = in[b]; s += b; }", False),  # more than a copy
        ("for (b = 0; b < n; b++) out[b] = in[b];", False),  # how far it came may be asked for
        ("for (int b = 1; b < n; b++) out[b] = in[b];", False),  # not all of it
        ("for (int b = 0; b < n; b += 2) out[b] = in[b];", False),
        ("for (int b = 0; b < n; b++) out[b] = in[b] + 1;", False),
        ("for (int b = 0; b < n; b++) out[b] = in[n - b];", False),
    ],
)
def test_lines(line: str, copied: bool) -> None:
    match = _COPY.search(line)
    assert (match is not None) == copied
    if match is not None:
        assert _once(match, 8).startswith("if (n == 8) *reinterpret_cast<int2*>(out) = ") and line in _once(match, 8)
