"""All that napkin says about one problem on one chip."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kscope.napkin.asked import Asked
from kscope.napkin.estimate import Estimate, estimate
from kscope.napkin.measured import Measured, compare
from kscope.napkin.problem import Problem
from kscope.napkin.roofs import Roofs
from kscope.napkin.sweep import Sweep, sweep
from kscope.napkin.tiles import SHAPES, Tile, tiles


class Answer(Struct, frozen=True):
    estimate: Estimate
    tiles: tuple[Tile, ...]
    measured: Measured | None
    sweep: Sweep | None


def answer(
    asked: Asked,
    roofs: Roofs,
    *,
    shapes: tuple[tuple[int, int], ...] = SHAPES,
    measured_us: float | None = None,
    swept: tuple[str, Sequence[int]] | None = None,
) -> Answer:
    """Raises KscopeError (status 2) for sizes that the problem cannot have."""
    found = estimate(asked.build(), roofs)

    def at(name: str, value: int) -> Problem:
        return asked.having(name, float(value)).build()

    return Answer(
        found,
        tiles(found, shapes),
        compare(found, measured_us) if measured_us is not None else None,
        sweep(*swept, at, roofs) if swept is not None else None,
    )
