"""Hardware counters that Nsight Systems sampled beside a program: of GPUs (`--gpu-metrics-devices`, NVLink and PCIe
among them) and of network cards (`--nic-metrics`).

There can be ten thousand samples a second of each of forty counters, so SQLite adds them up in parts of the recording,
and nothing else is read. Tables and columns: NVIDIA's schema of the export (Nsight Systems User Guide, "SQLite Schema
Reference", 2024 and 2025): GPU_METRICS(timestamp, typeId, metricId, value) with TARGET_INFO_GPU_METRICS(typeId,
metricId, metricName), NET_NIC_METRIC(start, end, globalId, portId, metricsListId, metricsIdx, value) with
TARGET_INFO_NETWORK_METRICS(.., name, unit), NIC_ID_MAP and TARGET_INFO_NIC_INFO(nicId, name). The lowest byte of a
typeId is the device's number, a name ends in its unit; a clock is written in Hz though its name says MHz (both as
public programs that read such exports have it). No recording with samples was at hand: tests make one by this schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from kscope.model.errors import one_line
from kscope.model.timeline import LATEST, Counter
from kscope.parsers.timeline.nsys_tables import Tables

PARTS = 1000  # of the recording, whose samples are added up: a page is about so many pixels wide
MOST = 400  # counters that are read; 8 GPUs have some 40 each
_UNIT = re.compile(r"^(.*\S)\s*\[([^\[\]]{1,24})\]$")
_SOUND = "typeof(value) IN ('integer', 'real') AND abs(value) < 1e18"
_HZ = 1e5  # a clock of so many MHz is one in Hz


def counters(tables: Tables) -> tuple[Counter, ...]:
    """Of GPUs, then of network cards. Raises sqlite3.Error where the tables cannot be read."""
    return (*_of_gpus(tables), *_of_cards(tables))[:MOST]


def _of_gpus(tables: Tables) -> list[Counter]:
    if not {"timestamp", "typeId", "metricId", "value"} <= tables.has("GPU_METRICS"):
        return []
    if not {"typeId", "metricId", "metricName"} <= tables.has("TARGET_INFO_GPU_METRICS"):
        return []
    query = f"SELECT typeId, metricId, metricName FROM TARGET_INFO_GPU_METRICS LIMIT {4 * MOST}"
    names = {(kind, metric): one_line(str(name))[:200] for kind, metric, name in tables.db.execute(query)}
    out = []
    for (kind, metric), rows in _parts(tables, "GPU_METRICS", "timestamp", ("typeId", "metricId")):
        if isinstance(kind, int) and (name := names.get((kind, metric))):
            split = _UNIT.match(name)
            title, unit = (split[1], split[2].removeprefix("Throughput ")) if split else (name, "")
            out.append(_counter(title, unit, kind & 0xFF, f"GPU {kind & 0xFF}", rows))
    return out


def _of_cards(tables: Tables) -> list[Counter]:
    wanted = ("globalId", "portId", "metricsListId", "metricsIdx")
    if not {"start", "value", *wanted} <= tables.has("NET_NIC_METRIC"):
        return []
    if not {"metricsListId", "metricsIdx", "name", "unit"} <= tables.has("TARGET_INFO_NETWORK_METRICS"):
        return []
    query = f"SELECT metricsListId, metricsIdx, name, unit FROM TARGET_INFO_NETWORK_METRICS LIMIT {4 * MOST}"
    names = {(a, b): (one_line(str(name))[:200], one_line(str(unit or ""))[:24])
             for a, b, name, unit in tables.db.execute(query)}  # fmt: skip
    cards = _cards(tables)
    out = []
    for (card, port, listed, metric), rows in _parts(tables, "NET_NIC_METRIC", "start", wanted):
        if found := names.get((listed, metric)):
            out.append(_counter(*found, -1, f"{cards.get(card, 'NIC')} port {int(port)}", rows))
    return out


def _cards(tables: Tables) -> dict[Any, str]:
    """Names of network cards by the globalId of their samples."""
    mapped = {"nicId", "globalId"} <= tables.has("NIC_ID_MAP")
    if not mapped or not {"nicId", "name"} <= tables.has("TARGET_INFO_NIC_INFO"):
        return {}
    query = (
        "SELECT m.globalId, i.name FROM NIC_ID_MAP AS m JOIN TARGET_INFO_NIC_INFO AS i ON m.nicId = i.nicId "
        f"LIMIT {4 * MOST}"
    )
    return {key: one_line(str(name))[:60] for key, name in tables.db.execute(query)}


def _parts(tables: Tables, table: str, at: str, keys: tuple[str, ...]) -> Iterable[tuple[tuple[Any, ...], list[Any]]]:
    """Of each counter its key and rows (begin of a part, samples, their sum, the highest), in order of time."""
    sound = f"{_SOUND} AND typeof({at}) = 'integer' AND {at} BETWEEN {-LATEST} AND {LATEST}"
    low, high = tables.db.execute(f"SELECT min({at}), max({at}) FROM {table} WHERE {sound}").fetchone()
    if low is None:
        return []
    width = max((high - low) // PARTS + 1, 1)
    columns = ", ".join(keys)
    query = (
        f"SELECT {columns}, ({at} - {low}) / {width} AS part, count(*), total(value), max(value) FROM {table} "
        f"WHERE {sound} GROUP BY {columns}, part ORDER BY {columns}, part LIMIT {MOST * (PARTS + 1)}"
    )
    out: dict[tuple[Any, ...], list[Any]] = {}
    for row in tables.db.execute(query):
        key, (part, *rest) = row[: len(keys)], row[len(keys) :]
        out.setdefault(key, []).append((low + part * width, width, *rest))
    return out.items()


def _counter(name: str, unit: str, device: int, source: str, rows: list[Any]) -> Counter:
    at, width, count, total, most = (np.array(values) for values in zip(*rows, strict=True))
    scale = 1e-6 if unit == "MHz" and float(most.max()) > _HZ else 1.0
    return Counter(
        name=name, unit=unit, device=device, source=source, at=at.astype(np.int64), width=int(width[0]),
        samples=count.astype(np.int64), total=total.astype(float) * scale, most=most.astype(float) * scale,
    )  # fmt: skip
