"""How an Analysis shows itself to a notebook or a data frame is said by whoever draws it (kscope.reports, which stands
above the model): the package registers it on import, and the drawing module is loaded when it is asked for."""

from __future__ import annotations

TYPE_CHECKING = False  # imported with the package itself: see kscope/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PRESENTERS: dict[str, Callable[..., Any]] = {}


def register(name: str, present: Callable[..., Any]) -> None:
    """`present(analysis)` is what the method of that name of an Analysis returns."""
    _PRESENTERS[name] = present


def present(name: str, analysis: object, **options: Any) -> Any:
    """What the presenter of that name makes of an Analysis. Raises KeyError where none is registered."""
    return _PRESENTERS[name](analysis, **options)
