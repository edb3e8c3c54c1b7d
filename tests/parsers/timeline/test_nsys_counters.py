"""Counters sampled of GPUs, NVLink and network cards. No recording with samples was at hand: the tables here are made
by NVIDIA's schema of the export, beside the tables of a real recording."""

from __future__ import annotations

import contextlib
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.facts import TimelineView
from kscope.features.views.timeline import timeline_detail
from kscope.model.contract.analysis import TimelineAnalysis
from kscope.parsers.timeline import nsys
from kscope.reports import Options, render
from tests.support import traces

GPU = {
    1: "GPC Clock Frequency [MHz]", 2: "SMs Active [Throughput %]", 3: "Tensor Active [Throughput %]",
    4: "NVLink RX Requests User Data [Throughput %]", 5: "NVLink TX Responses User Data [Throughput %]",
    6: "Unallocated Warps in Active SMs [Throughput %]",
}  # fmt: skip
SCHEMA = """
CREATE TABLE GPU_METRICS (rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL,
    value INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL,
    metricId INTEGER NOT NULL, metricName TEXT NOT NULL);
CREATE TABLE NET_NIC_METRIC (start INTEGER NOT NULL, end INTEGER NOT NULL, globalId INTEGER NOT NULL,
    portId INTEGER NOT NULL, metricsListId INTEGER NOT NULL, metricsIdx INTEGER NOT NULL, value INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_NETWORK_METRICS (metricsListId INTEGER NOT NULL, metricsIdx INTEGER NOT NULL,
    name TEXT NOT NULL, description TEXT NOT NULL, unit TEXT NOT NULL);
CREATE TABLE NIC_ID_MAP (nicId INTEGER NOT NULL, globalId INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_NIC_INFO (globalId INTEGER, stateName TEXT NOT NULL, nicId INTEGER NOT NULL,
    name TEXT NOT NULL, deviceId INTEGER NOT NULL, vendorId INTEGER NOT NULL, linkLayer INTEGER NOT NULL);
"""
TYPE = 0x7A0000 << 8  # device 0 in the lowest byte


def recording(folder: Path, samples: int = 4000) -> Path:
    """`busy` with samples of two GPUs and a network card over the time of its kernels. SMs are active in the first
    half, at 80 and 40 % on the two GPUs."""
    target = folder / "t.sqlite"
    target.write_bytes(traces.plain("busy"))
    with contextlib.closing(sqlite3.connect(target)) as db:
        low, high = db.execute("SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        db.executescript(SCHEMA)
        for device in (0, 1):
            db.executemany(
                "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, ?, 'GPU', ?, ?)",
                [(TYPE + device, device, number, name) for number, name in GPU.items()],
            )
        step = (high - low) // samples
        rows = []
        for i in range(samples):
            active, at = i < samples // 2, low + i * step
            for device in (0, 1):
                values = {1: 1_980_000_000, 2: (80 - 40 * device) * active, 3: 10, 4: 5 * device, 5: i % 3, 6: 7}
                rows += [(0, at, TYPE + device, number, value) for number, value in values.items()]
        db.executemany("INSERT INTO GPU_METRICS VALUES (?, ?, ?, ?, ?)", rows)
        db.execute("INSERT INTO TARGET_INFO_NETWORK_METRICS VALUES (3, 0, 'IB: Bytes sent', 'x', 'bytes/ms')")
        db.execute("INSERT INTO NIC_ID_MAP VALUES (9, 77)")
        db.execute("INSERT INTO TARGET_INFO_NIC_INFO VALUES (1, 's', 9, 'mlx5_0', 0, 0, 0)")
        db.executemany(
            "INSERT INTO NET_NIC_METRIC VALUES (?, ?, 77, 1, 3, 0, ?)",
            [(low + i * step, low + i * step + step, 1000) for i in range(0, samples, 10)],
        )
        db.commit()
    return target


def analyzed(path: Path) -> TimelineAnalysis:
    return analyze_paths([path]).timelines[0]


def test_means_of_the_window(tmp_path: Path) -> None:
    found = {(c.source, c.name): c for c in analyzed(recording(tmp_path)).counters}
    assert len(found) == 13
    active = found["GPU 0", "SMs Active"]
    assert (active.device, active.unit, active.max) == (0, "%", 80) and active.mean == pytest.approx(40, rel=0.02)
    assert found["GPU 1", "SMs Active"].mean == pytest.approx(20, rel=0.02)
    assert found["GPU 0", "GPC Clock Frequency"].mean == pytest.approx(1980), "a clock in MHz, which was written in Hz"
    assert found["GPU 1", "NVLink RX Requests User Data"].mean == 5
    assert found["GPU 0", "NVLink TX Responses User Data"].mean == pytest.approx(1, rel=0.01)
    card = found["mlx5_0 port 1", "IB: Bytes sent"]
    assert (card.device, card.unit, card.mean, card.samples) == (None, "bytes/ms", 1000, 400)


def test_text_and_page_show_what_links_did(tmp_path: Path) -> None:
    path = recording(tmp_path)
    text = " ".join(render("text", analyze_paths([path]), Options(width=240)).split())
    assert 'sampled of "GPU 0": "SMs Active" 40 % (to 80 %), "Tensor Active" 10 % (to 10 %)' in text
    assert '"NVLink RX Requests User Data" 5 %' in text and 'sampled of "mlx5_0 port 1": "IB: Bytes sent" 1,000' in text
    detail = timeline_detail(TimelineView(nsys.read(path)), 0)
    rows = {one.title: one for one in detail.counters}
    assert "GPU 1 NVLink RX Requests User Data" in rows and "GPU 0 NVLink RX Requests User Data" not in rows, "all zero"
    assert not [title for title in rows if "Clock" in title or "Unallocated" in title]
    active = rows["GPU 0 SMs Active"]
    assert len(active.value) <= 1001 and active.value[0] == 80 and active.value[-1] == 0


def test_the_rest_is_as_without_samples(tmp_path: Path) -> None:
    one, plain = analyzed(recording(tmp_path)), analyzed(traces.path("busy"))
    assert (one.verdict, one.idle, one.findings) == (plain.verdict, plain.idle, plain.findings)
    assert plain.counters == []


def test_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    def peak(samples: int) -> int:
        folder = tmp_path / str(samples)
        folder.mkdir()
        path = recording(folder, samples)
        tracemalloc.start()
        try:
            nsys.read(path)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(20_000) < 1.2 * peak(4_000)


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE TARGET_INFO_GPU_METRICS", "UPDATE GPU_METRICS SET value = 'x'",
        "UPDATE GPU_METRICS SET value = 1e400",
        "UPDATE GPU_METRICS SET timestamp = 'late'", "UPDATE GPU_METRICS SET timestamp = 9223372036854775807",
        "DELETE FROM GPU_METRICS", "DROP TABLE NIC_ID_MAP", "UPDATE TARGET_INFO_NETWORK_METRICS SET name = x'00ff'",
        "UPDATE TARGET_INFO_GPU_METRICS SET metricName = '</script><b>' || char(27)",
        "ALTER TABLE NET_NIC_METRIC RENAME COLUMN value TO other",
    ],
)  # fmt: skip
def test_damaged_samples_hurt_nothing_else(tmp_path: Path, damage: str) -> None:
    path = recording(tmp_path, 200)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(damage)
        db.commit()
    analysis = analyze_paths([path])
    assert analysis.timelines[0].verdict == analyzed(traces.path("busy")).verdict
    assert "\x1b" not in render("text", analysis, Options())
