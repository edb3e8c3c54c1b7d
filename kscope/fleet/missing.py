"""Libraries of the extras, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from kscope.model.errors import EXIT_TOOL, KscopeError

_EXTRA = {"distributed": "dask", "ray": "ray"}


def needed(name: str) -> Any:
    """A module of an extra. Raises KscopeError (status 4) that says how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != name.partition(".")[0]:
            raise
        extra = _EXTRA.get(name, "fleet")
        hint = f"pip install 'kscope-gpu[{extra}]'"
        raise KscopeError("missing-library", f"{name.partition('.')[0]} is not installed", hint, EXIT_TOOL) from None
