"""What an export of Nsight Systems says of synchronising calls: their stream or event, and who recorded that."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from kscope.model.columns import Column, column, is_constant
from kscope.model.timeline import Awaited, Calls, Sync
from kscope.parsers.timeline.nsys_tables import Tables

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_KINDS = {
    Sync.EVENT: re.compile(r"^cu(da)?EventSynchronize"), Sync.STREAM_WAIT: re.compile(r"^cu(da)?StreamWaitEvent"),
    Sync.STREAM: re.compile(r"^cu(da)?StreamSynchronize"), Sync.CONTEXT: re.compile(r"^cu(da)?(Ctx|Device)Synchronize"),
}  # fmt: skip


def awaited(tables: Tables, calls: Calls, names: Sequence[str]) -> Awaited:
    """names: those that `calls` has indices of. Raises sqlite3.Error where the tables cannot be read."""
    wanted = ("deviceId", "streamId", "correlationId", "globalPid", "syncType", "eventId")
    raw = tables.columns(_CUPTI + "SYNCHRONIZATION", wanted)
    process = raw["globalPid"].astype(np.int64) >> 24 & 0xFFFFFF
    raw["syncType"] = _kinds(calls, names, process, raw["correlationId"], raw["syncType"])
    record, of = _records(tables, calls, process, raw)
    return Awaited(
        process=process, correlation=raw["correlationId"], kind=raw["syncType"], device=raw["deviceId"],
        stream=raw["streamId"], of=of, record=record,
    )  # fmt: skip


def _kinds(calls: Calls, names: Sequence[str], process: Column, correlation: Column, said: Column) -> Column:
    """The kind of each: by the name of its call, since versions number the kinds differently (a stream is awaited as 2
    in 2025.3 and as 3 in 2020 and 2026.2); without a call what the export says."""
    out: Column = said.astype(np.int64)
    call = called(calls, process, correlation) if len(calls) else np.full(len(said), -1)
    of_name = np.full(len(names) + 1, -1, dtype=np.int64)
    for kind, pattern in _KINDS.items():
        of_name[[i for i, name in enumerate(names) if pattern.search(name)]] = kind
    known = np.where(call >= 0, of_name[calls.name[call] if len(calls) else call], -1)
    return np.where(known >= 0, known, out)


def _records(tables: Tables, calls: Calls, process: Column, waits: dict[str, Column]) -> tuple[Column, Column]:
    """(correlation of the call that recorded each wait's event, its stream): the last record of the event before the
    wait; 0 and -1 where the export has none."""
    none = np.zeros(len(process), dtype=np.int64), np.full(len(process), -1, dtype=np.int64)
    events = tables.columns(_CUPTI + "CUDA_EVENT", ("streamId", "correlationId", "globalPid", "eventId"))
    if not len(events["eventId"]) or not len(calls):
        return none
    owner = events["globalPid"].astype(np.int64) >> 24 & 0xFFFFFF
    recorded = started(calls, owner, events["correlationId"])
    asked = started(calls, process, waits["correlationId"])
    known = {Sync.EVENT, Sync.STREAM_WAIT}
    by_event: dict[tuple[int, int], list[tuple[int, int]]] = {}
    rows = zip(owner.tolist(), events["eventId"].tolist(), recorded.tolist(), range(len(owner)), strict=True)
    for pid, event, at, row in sorted(rows, key=lambda r: r[2]):
        if at >= 0:
            by_event.setdefault((pid, event), []).append((at, row))
    record, of = none
    times = {key: np.array([at for at, _ in found]) for key, found in by_event.items()}
    wanted = zip(process.tolist(), waits["eventId"].tolist(), waits["syncType"].tolist(), asked.tolist(), strict=True)
    for i, (pid, event, kind, at) in enumerate(wanted):
        if kind not in known or (pid, event) not in times:
            continue
        place = int(np.searchsorted(times[pid, event], at, side="right")) - 1
        if place >= 0:
            row = by_event[pid, event][place][1]
            record[i], of[i] = events["correlationId"][row], events["streamId"][row]
    return record, of


def started(calls: Calls, process: Column, correlation: Column) -> Column:
    """Start of the call of each process and correlation, -1 where there is none."""
    call = called(calls, process, correlation)
    return np.where(call >= 0, calls.start[call], -1)


def called(calls: Calls, process: Column, correlation: Column) -> Column:
    """Index of the call of each process and correlation, -1 where there is none."""
    if not len(correlation):
        return column([])
    if is_constant(calls.process) and bool((calls.correlation[1:] > calls.correlation[:-1]).all()):  # as most are
        at = np.minimum(np.searchsorted(calls.correlation, correlation), len(calls) - 1)
        return np.where((calls.correlation[at] == correlation) & (calls.process[at] == process), at, -1)
    width = int(max(calls.correlation.max(initial=0), correlation.max(initial=0))) + 1
    key = calls.process.astype(np.int64) * width + calls.correlation
    order = np.argsort(key, kind="stable")
    wanted = process * width + correlation
    at = np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)
    return np.where(key[order][at] == wanted, order[at], -1)
