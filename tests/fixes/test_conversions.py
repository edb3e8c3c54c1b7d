"""Small integers to halves by their bits: when two of a word are taken at once."""

from __future__ import annotations

import random

import pytest

from kscope.fixes.compute.conversions import APART, _masked_at_once, _small, _together
from kscope.fixes.given.rewrite import Call
from tests.support.with_sources import changes


def together(first: str, second: str) -> str | None:
    small = [_small(Call(0, 0, (text,))) for text in (first, second)]
    assert small[0] is not None and small[1] is not None
    return _together(small[0], small[1])


def test_a_capture_takes_two_nibbles_with_one_mask() -> None:
    (fix,) = [f for f in changes("gemv_w4.cast", "CMP207") if f.kind == "math_function"]
    assert "d = halves_in((word >> (4 * b)) & 0x000f000fu, 8);" in fix.edits[0].becomes
    assert "halves_in" in fix.code and "halves_of" not in fix.code
    assert [c.state for c in fix.conditions if "one mask" in c.holds] == ["proved"]


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ("(int)((word >> (4 * b)) & 15) - 8", "(int)((word >> (4 * b + 16)) & 15) - 8", "(word >> (4 * b))"),
        ("(q & 0xf)", "((q >> 16) & 0xf)", "q"),
        ("(packed[i] >> 8 & 255)", "(packed[i] >> 24 & 255)", "(packed[i] >> 8)"),
        ("((v.y >> s + 2) & 7)", "((v.y >> 18 + s) & 7)", "(v.y >> s + 2)"),
    ],
)
def test_integers_as_far_apart_as_halves_share_a_mask(first: str, second: str, word: str) -> None:
    assert together(first, second) == word


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(w >> 4 & 15)", "(w >> 12 & 15)"),  # eight bits apart
        ("(w >> 20 & 15)", "(w >> 4 & 15)"),  # the other way round
        ("(w >> 4 & 15)", "(v >> 20 & 15)"),  # of two words
        ("(w >> 4 & 15)", "(w >> 20 & 7)"),  # other masks
        ("(w >> 2 * b & 15)", "(w >> 4 * b + 16 & 15)"),  # so far apart for b = 0 alone
        ("(next() >> 4 & 15)", "(next() >> 20 & 15)"),  # called twice, it may give another word
        ("(*p++ >> 4 & 15)", "(*p++ >> 20 & 15)"),
        ("(w & 240 >> 4 & 15)", "(w & 240 >> 20 & 15)"),  # what is shifted is the mask
    ],
)
def test_any_others_are_left_as_two(first: str, second: str) -> None:
    assert together(first, second) is None


def test_the_mask_is_run_for_every_shift() -> None:
    made = random.Random(0)
    assert _masked_at_once(15) and _masked_at_once(1023)
    assert not _masked_at_once(0x1FFFF)  # an integer that reaches into the other's bits
    for _ in range(100):
        word, by = made.getrandbits(32), made.randrange(APART)
        both = (word >> by) & 0x000F000F
        assert (both & 0xFFFF, both >> 16) == (word >> by & 15, word >> by + 16 & 15)


@pytest.mark.parametrize("value", ["(a | b & 15)", "(a) + (b & 15)", "(a ? b : c & 3)", "(a ^ b & 15)"])
def test_a_mask_of_a_part_bounds_nothing(value: str) -> None:
    assert _small(Call(0, 0, (value,))) is None
