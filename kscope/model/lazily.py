"""Modules that take long to import, imported where they are first asked for something."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


class Later:
    """A module by name; its attributes are the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # so that it is looked up once
        return found


np: Any = Later("numpy")
"""Texts are read without it; only where they are played it is wanted."""


def of_numpy(name: str) -> Callable[..., Any]:
    """One of its functions."""
    return lambda *given: getattr(np, name)(*given)
