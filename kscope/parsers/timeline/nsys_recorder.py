"""What an export of Nsight Systems says of the recording itself: kinds of events asked for, warnings, calls of the
system. Read only where nothing of a GPU is in it: then this is what tells why.

Of META_DATA_CAPTURE nothing else is taken: it holds the command line and the environment of whoever recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.model.errors import one_line
from kscope.model.timeline import Recorder
from kscope.parsers.timeline.nsys_tables import Tables

_ROWS = 1000
_SAID = 4
_WARNING, _ERROR = 2, 3  # ENUM_DIAGNOSTIC_SEVERITY_LEVEL
_OF_GPUS = re.compile(r"cuda|cupti|gpu|driver|injection", re.IGNORECASE)
_OF_OTHERS = re.compile(r"nvtx|opengl|vulkan|paranoid|\bcpu\b", re.IGNORECASE)
_COUNTS = re.compile(r"Number of (CUDA|CUPTI) events", re.IGNORECASE)


def recorder(tables: Tables, strings: Mapping[int, str]) -> Recorder:
    """Raises sqlite3.Error where the tables cannot be read."""
    return Recorder(asked=_asked(tables), trigger=_trigger(tables), said=_said(tables), system=_system(tables, strings))


def _asked(tables: Tables) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_captured(tables, "CAPTURE_EVENT_TYPE")))


def _trigger(tables: Tables) -> str:
    """What was to start the recording, where it was not the program's start."""
    found = next(iter(_captured(tables, "START_TRIGGER")), "")
    return "" if found == "Immediate" else found


def _captured(tables: Tables, name: str) -> list[str]:
    if not {"name", "value"} <= tables.has("META_DATA_CAPTURE"):
        return []
    query = "SELECT value FROM META_DATA_CAPTURE WHERE name = ? AND value IS NOT NULL LIMIT ?"
    return [one_line(str(value))[:100] for (value,) in tables.db.execute(query, (name, _ROWS))]


def _said(tables: Tables) -> tuple[str, ...]:
    """Errors, warnings about the GPU, and how many CUDA events the recorder counted; gravest first."""
    if not {"severity", "text"} <= tables.has("DIAGNOSTIC_EVENT"):
        return ()
    rows = tables.db.execute(f"SELECT severity, text FROM DIAGNOSTIC_EVENT LIMIT {_ROWS}").fetchall()
    kept = [
        (severity, " ".join(one_line(str(text)).split())) for severity, text in rows
        if severity == _ERROR or _COUNTS.search(str(text))
        or (severity == _WARNING and _OF_GPUS.search(str(text)) and not _OF_OTHERS.search(str(text)))
    ]  # fmt: skip
    kept.sort(key=lambda row: -row[0] if isinstance(row[0], int) else 0)
    return tuple(dict.fromkeys(text for _, text in kept))[:_SAID]


def _system(tables: Tables, strings: Mapping[int, str]) -> tuple[tuple[str, int, int], ...]:
    if not {"nameId", "start", "end"} <= tables.has("OSRT_API"):
        return ()
    query = 'SELECT nameId, count(*), total("end" - start) FROM OSRT_API GROUP BY nameId ORDER BY 3 DESC LIMIT 3'
    rows = tables.db.execute(query).fetchall()
    return tuple((one_line(strings.get(i, "(unnamed)")), int(n), int(ns)) for i, n, ns in rows if abs(ns) < 1e18)
