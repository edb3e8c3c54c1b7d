"""What GRD401 says of the rounds a thread walks: those written out behind each other are told with their elements."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.loop_parallelism import pieces
from kscope.rules._shared.shared_rounds import dealing_out, rounds_in_words


@pytest.mark.parametrize(("each", "words"), [(1, "{} rounds,"), (10**6, "{} rounds of 1000000 elements,")])
def test_rounds_and_their_elements(each: int, words: str, facts: Callable[[str], Facts]) -> None:
    known = facts("small_grid.slow")
    assert known.code is not None and known.estimate.latency_floor is not None
    found = pieces(known.code, known.estimate.latency_floor.walk)
    assert found.each == 1 and found.loops
    divided = msgspec.structs.replace(found, each=each)
    trips = " x ".join(f"{known.patterns.trips(n):,.0f}" for n in found.loops)
    assert words.format(trips) in rounds_in_words(known, divided, ())
    assert f"share the {words.format(trips).rstrip(',')} of each one" in dealing_out(known, divided)
