"""How much of a wait is covered by a busy unit, when only both totals are known.

A role waits for a share w of the time and a unit is busy for a share a of it. However the two lie in time, their
overlap c is at least w + a - 1 and at most the smaller of both (Frechet 1935): bounds that assume nothing. Where the
code tells more, the point is better than the product: a wait for wgmma results has products in flight by definition,
so the unit's remaining busy time falls on the rest of the role's time.
"""

from __future__ import annotations

from msgspec import Struct


class Share(Struct, frozen=True):
    """A share of time with the bounds between which it must lie, 0..1."""

    point: float
    low: float
    high: float

    def plus(self, other: Share) -> Share:
        return Share(self.point + other.point, self.low + other.low, self.high + other.high)

    def scaled(self, factor: float) -> Share:
        return Share(self.point * factor, self.low * factor, self.high * factor)

    def widened(self, error: float) -> Share:
        """The same with a measuring error on both sides, kept within 0..1."""
        return Share(self.point, max(0.0, self.low - error), min(1.0, self.high + error))

    def rest_of(self, whole: float) -> Share:
        """What is left of an exactly known whole."""
        return Share(max(0.0, whole - self.point), max(0.0, whole - self.high), max(0.0, whole - self.low))


NOTHING = Share(0.0, 0.0, 0.0)


def exactly(value: float) -> Share:
    return Share(value, value, value)


def covered(wait: float, busy: float, point: float | None = None, *, within: float = 1.0) -> Share:
    """Overlap of a wait share and a busy share, both of which lie in a stretch of length `within`. `point`: a better
    estimate than the product of both, kept within the bounds."""
    wait, busy = min(within, max(0.0, wait)), min(within, max(0.0, busy))
    high = min(wait, busy)
    low = min(high, max(0.0, wait + busy - within))
    even = wait * busy / within if within > 0 else 0.0
    return Share(min(high, max(low, even if point is None else point)), low, high)
