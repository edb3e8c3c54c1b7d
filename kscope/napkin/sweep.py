"""One size swept over values: the floor at each, and where the regime changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.napkin.asked import number
from kscope.napkin.estimate import Estimate, estimate
from kscope.napkin.problem import Problem
from kscope.napkin.roofs import Roofs

MOST = 200  # values of a sweep


class Crossover(Struct, frozen=True):
    """The first whole value, between two of the sweep, at which another limit is longer."""

    value: int
    before: str
    after: str


class Sweep(Struct, frozen=True):
    name: str
    values: tuple[int, ...]
    estimates: tuple[Estimate, ...]
    crossovers: tuple[Crossover, ...]


def parse(text: str) -> tuple[str, tuple[int, ...]]:
    """`m=1,16,256` or `m=1..8192` (powers of two from the first on). Raises KscopeError (status 2)."""
    name, equals, listed = text.replace(" ", "").partition("=")
    if not equals or not name or not listed:
        raise _wrong(f"{text!r} is no sweep")
    first, dots, last = listed.partition("..")
    values: list[int] = []
    if dots:
        value, end = int(number(first, text)), int(number(last, text))
        while 0 < value <= end:
            values.append(value)
            value *= 2
        if values and values[-1] != end:
            values.append(end)
    else:
        values = sorted({int(number(part, text)) for part in listed.split(",") if part})
    if not values or values[0] < 1 or len(values) > MOST:
        raise _wrong(f"{text!r} has {'no' if not values else 'too many'} values" if values[:1] != [0] else
                     f"{text!r} has a value below 1")  # fmt: skip
    return name.lower(), tuple(values)


def sweep(name: str, values: Sequence[int], make: Callable[[str, int], Problem], roofs: Roofs) -> Sweep:
    """make: the problem with that size set to a value. Raises KscopeError for an unknown size."""

    def at(value: int) -> Estimate:
        return estimate(make(name, value), roofs)

    found = tuple(at(value) for value in values)
    crossovers = []
    for (low, before), (high, after) in zip(
        zip(values, found, strict=True), list(zip(values, found, strict=True))[1:], strict=False
    ):
        if before.limiter == after.limiter:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if at(middle).limiter == before.limiter:
                low = middle
            else:
                high = middle
        crossovers.append(Crossover(high, before.limiter, at(high).limiter))
    return Sweep(name, tuple(values), found, tuple(crossovers))


def _wrong(message: str) -> KscopeError:
    return KscopeError("usage", message, "write --sweep m=1,16,256 or --sweep m=1..8192", EXIT_USAGE)
