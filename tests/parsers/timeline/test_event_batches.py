"""Events read many at once give what they give one by one, also where some are odd; plain ones are read at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kscope.model.timeline import Timeline
from kscope.parsers.timeline import kineto
from kscope.parsers.timeline.event_batches import integers, times
from tests.support import traces

TABLES = ("ops", "calls", "syncs", "ranges", "operators", "overhead", "full", "awaited")
JSON = [n for n in traces.LABELS if traces.path(n).name.endswith(".json.xz")]


def content(timeline: Timeline) -> dict[str, Any]:
    """All columns, names as text."""
    out: dict[str, Any] = {"coverage": timeline.coverage, "sources": len(timeline.sources), "inputs": timeline.inputs}
    for table in TABLES:
        part = getattr(timeline, table)
        for name in part.__slots__ if hasattr(part, "__slots__") else vars(part):
            values = getattr(part, name)
            for axis, one in enumerate(values if isinstance(values, tuple) else (values,)):
                if isinstance(one, np.ndarray) and name not in ("thread",):
                    rows = [timeline.names[i] for i in one.tolist()] if name == "name" else one.tolist()
                    out[f"{table}.{name}.{axis}"] = rows
    return out


def alone(monkeypatch: pytest.MonkeyPatch, path: Path) -> Timeline:
    with monkeypatch.context() as patch:
        patch.setattr(kineto._Builder, "_batch", lambda *_: False)
        return kineto.read(path)


@pytest.mark.parametrize("name", JSON)
def test_the_same_as_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = traces.path(name)
    seen = []
    real = kineto._Builder._event
    monkeypatch.setattr(kineto._Builder, "_event", lambda self, what, e: (seen.append(what), real(self, what, e))[1])
    many = kineto.read(path)
    plain = [what for what in seen if what not in (kineto._OVERHEAD, kineto._SYNC)]
    assert len(plain) <= 1, "plain events are read at once, but for the last one of a file"
    one = content(alone(monkeypatch, path))
    assert len(one) > 40 and len(one["ops.start.0"]) and content(many) == one


ODD: list[dict[str, Any]] = [
    {"dur": None}, {"ts": None}, {"dur": -1.0}, {"ts": 1e300}, {"ts": 10**400}, {"ts": 1e17}, {"dur": 2.0005},
    {"pid": [1]}, {"name": None}, {"args": None}, {"args": {"correlation": "7"}}, {"args": {"correlation": 1 << 64}},
    {"args": {"correlation": 1.5}}, {"args": {"grid": [1, 2], "block": [1, 2, 3]}}, {"args": {"grid": "123"}},
    {"args": {"device": "gpu 3", "stream": "stream 7"}}, {"args": {"bytes": "12"}}, {"args": {"grid": [1, None, 3]}},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_an_odd_one_among_plain_ones(odd: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read or left out as it is alone, and costs nothing of the others."""
    plain = [e for k in range(3) for e in traces.launch(k + 1, 10 * k, 10 * k + 4, 4)]
    events = [*plain, *({**e, **odd} for e in plain[:2]), *plain[2:]]
    path = traces.trace(tmp_path, events)
    read = kineto.read(path)
    assert content(read) == content(alone(monkeypatch, path))
    assert len(read.ops) >= 5 and len(read.calls) >= 5


def test_times_round_as_one_does() -> None:
    class Some:
        def __init__(self, ts: Any, dur: Any) -> None:
            self.ts, self.dur = ts, dur

    given = [Some(1795256191403656, 0), Some(0.0005, 0.0015), Some(-3.25, 7), Some(123456.789, 2.5), Some(7, 0.001)]
    start, end = times(given, 5)
    assert start.tolist() == [kineto._ns(e.ts) + 5 for e in given]
    assert end.tolist() == [kineto._ns(e.ts) + kineto._ns(e.dur) + 5 for e in given]
    for bad in (None, float("nan"), 5e15, -1e18):
        with pytest.raises(ValueError, match="out of"):
            times([*given, Some(bad, 1)], 0)


@pytest.mark.parametrize("bad", [[1, None], [1, "2"], [1, 2.0], [1 << 63]])
def test_integers_alone(bad: list[Any]) -> None:
    with pytest.raises((TypeError, OverflowError)):
        integers(bad)
