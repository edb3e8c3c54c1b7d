"""What came of first suggestions that were built as told on other people's kernels: arch/record.toml, typed."""

from __future__ import annotations

import math
from functools import cache

from msgspec import Struct

from kscope.arch import table


class Band(Struct, frozen=True):
    """First suggestions that promised from `least` up to `below` times the speed: how many were built, how many of them
    made their kernel faster by a tenth or more (`gained`), how many made it slower by 3 % or more (`slower`)."""

    least: float
    below: float
    built: int
    gained: int
    slower: int


@cache
def bands() -> tuple[Band, ...]:
    """From the smallest promises to the largest, without gaps."""
    return tuple(Band(**{"below": math.inf, **row}) for row in table("record")["band"])


def band(promise: float) -> Band:
    """The one that a promise falls into; smaller ones than any that was built are of the first.

    promise: expected speed-up, times."""
    return next(b for b in bands() if promise < b.below)


class Fared(Struct, frozen=True):
    """The same of all first suggestions of one rule, whatever they promised."""

    built: int
    gained: int
    slower: int


def fared(slug: str) -> Fared | None:
    """slug: of a rule; None where none of its suggestions was built."""
    row = table("record")["rules"].get(slug)
    return Fared(*row) if row else None
