"""Values of ncu_report's metrics without the detour through the Python half of its wrapper."""

from __future__ import annotations

from array import array
from functools import cache
from itertools import repeat

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Unreadable(ValueError):
    """A part that the library gives and that says nothing; the message is for people, and ours."""


class Direct:
    """Functions of IMetric without the Python half of the SWIG wrapper, a seventh of the time: a report of a large
    kernel has 100,000 values. `handle(metric)` is what they take."""

    def __init__(self) -> None:
        import ncu_report

        kind = ncu_report.IMetric
        self.string = kind.ValueKind_STRING
        self.none = (kind.ValueKind_ANY, kind.ValueKind_UNKNOWN)
        native = getattr(ncu_report, "_ncu_report", None)
        self._bare = hasattr(native, "IMetric_as_double")
        for name in ("as_double", "as_uint64", "kind"):
            setattr(self, name, getattr(native, f"IMetric_{name}") if self._bare else getattr(kind, name))

    as_double: Callable[..., float]
    as_uint64: Callable[..., int]
    kind: Callable[..., int]

    def handle(self, metric: Any) -> Any:
        return metric.this if self._bare else metric

    def doubles(self, metric: Any, n: int, step: int = 1) -> array[float]:
        """The first n instances, or every `step`-th of them."""
        return array("d", map(self.as_double, repeat(self.handle(metric)), range(0, n, step)))

    def integers(self, metric: Any, n: int, step: int = 1) -> list[int]:
        return list(map(self.as_uint64, repeat(self.handle(metric)), range(0, n, step)))


@cache
def direct_calls() -> Direct:
    return Direct()
