"""How much the tests look at: everything with KSCOPE_TEST_ALL=1 (`make test-all`, before a release), else some of every
kind, in half the time (`make test`). What is left out is the next one of a kind, never a kind. With KSCOPE_TEST_SAID=1
(CI) what is said of every capture is looked at too: goldens, gates, figures, next steps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
ALL = os.environ.get("KSCOPE_TEST_ALL") == "1"
SAID = ALL or os.environ.get("KSCOPE_TEST_SAID") == "1"


def some(every: Sequence[T], count: int) -> list[T]:
    """`count` of them, spread over their order, or all."""
    if ALL or len(every) <= count:
        return list(every)
    return [every[(2 * i + 1) * len(every) // (2 * count)] for i in range(count)]


def often(every: int, few: int) -> int:
    """How many times something is tried."""
    return every if ALL else few


only = pytest.mark.skipif(not ALL, reason="takes its time: make test-all")
"""For what has a smaller sibling, or tests what no change of kscope touches."""
