"""Which rank of a job a trace is of, without reading it: from what stands before its events, or after them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from kscope.model.errors import KscopeError
from kscope.model.timeline import Place
from kscope.parsers.files.stream import Stream
from kscope.parsers.timeline.chrome_events import Events
from kscope.parsers.timeline.distributed import place_of

_HEAD = 1 << 16


def place(path: Path) -> Place:
    """The Place of a trace; unknown where it says nothing before its events, or cannot be read (which `kineto.read`
    says better)."""
    with contextlib.suppress(KscopeError, OSError):
        events = Events(Stream(path), str(path), _HEAD)
        for _ in events:
            break
        return place_of(events.header)
    return Place()
