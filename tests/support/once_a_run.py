"""What a test works out and others want too: once a run of the tests, whichever worker comes first."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
SHARED = "KSCOPE_TEST_SHARED"
"""Variable that names the folder of a run of the tests: what one worker has worked out others read there."""


def once_a_run(name: str, made: Callable[[], T]) -> T:
    """What `made` returns, or what it returned in another worker under this name. Outside a run it is made."""
    folder = os.environ.get(SHARED)
    if folder is None:
        return made()
    kept = Path(folder, name)
    if kept.is_file():
        known: T = pickle.loads(kept.read_bytes())
        return known
    value = made()
    whole = kept.with_name(f"{name}.{os.getpid()}")
    whole.write_bytes(pickle.dumps(value))
    whole.replace(kept)
    return value
