"""A play is made once for each text, launch and contents of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import play
from kscope.fixes.given.remembered import EACH, remembered

TEXT = "{ y[threadIdx.x] = 2 * x[threadIdx.x] + n; }"


def memory(first: int = 1) -> dict[str, Any]:
    return {"x": np.arange(first, first + 32), "y": np.zeros(32, dtype=np.int64)}


def counted(most: int = 1 << 20) -> tuple[Any, list[str]]:
    made: list[str] = []

    def one(text: str, grid: Any, block: Any, cells: dict[str, Any], numbers: Any, *rules: Any) -> Any:
        made.append(text)
        return play(text, grid, block, cells, numbers, *rules)

    return remembered(one, most), made


def test_a_second_launch_of_the_same_text_is_not_played_again() -> None:
    again, made = counted()
    results = []
    for _ in range(3):
        cells = memory()
        took = again(TEXT, (1, 1), (32, 1), cells, {"n": 5})
        results.append((took.loads, cells["y"].tolist()))
    assert len(made) == 1 and results == [(32, [2 * x + 5 for x in range(1, 33)])] * 3


def test_anything_else_is() -> None:
    again, made = counted()
    again(TEXT, (1, 1), (32, 1), memory(), {"n": 5})
    again(TEXT, (1, 1), (32, 1), memory(), {"n": 6})
    again(TEXT, (1, 1), (32, 1), memory(2), {"n": 5})
    again(TEXT, (1, 1), (16, 1), memory(), {"n": 5})
    again(TEXT.replace("2", "3"), (1, 1), (32, 1), memory(), {"n": 5})
    assert len(made) == 5


def test_a_refusal_is_remembered_with_what_was_written_before() -> None:
    again, made = counted()
    for _ in range(2):
        cells = memory()
        with pytest.raises(Unplayable, match="out of bounds"):
            again("{ y[0] = 7; y[threadIdx.x + 1] = x[threadIdx.x]; }", (1, 1), (32, 1), cells, {})
        assert cells["y"][0] == 7
    assert len(made) == 1


def test_what_is_kept_has_a_bound() -> None:
    again, made = counted(most=3 * (EACH + 32 * 8 + 2 * 32))
    for n in (0, 1, 2, 3, 0, 3):
        again(TEXT, (1, 1), (32, 1), memory(), {"n": n})
    assert len(made) == 5, "the oldest went"


def test_refusals_have_one_too() -> None:
    again, made = counted(most=2 * EACH)
    for n in (0, 1, 2, 0):
        with pytest.raises(Unplayable):
            again("{ y[threadIdx.x] = what(n); }", (1, 1), (32, 1), memory(), {"n": n})
    assert len(made) == 4
