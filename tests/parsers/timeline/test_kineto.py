"""Traces of the torch profiler: equal to what json reads, in any chunking, damaged or cut."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kscope.model.errors import KscopeError
from kscope.model.timeline import Copy, Op, Timeline
from kscope.parsers.files.inputs import kind_of
from kscope.parsers.timeline import kineto
from tests.support import traces

JSON = [n for n in traces.LABELS if traces.path(n).name.endswith(".json.xz")]
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


def rows(timeline: Timeline) -> list[tuple[Any, ...]]:
    ops = timeline.ops
    names = [timeline.names[i] for i in ops.name]
    return sorted(zip(ops.start.tolist(), ops.end.tolist(), names, ops.correlation.tolist(), strict=True))


def expected(name: str) -> list[tuple[Any, ...]]:
    """The same by the json module, in exact decimals."""
    events = json.loads(traces.plain(name), parse_float=Decimal)["traceEvents"]
    found = []
    for e in events:
        if e.get("ph") == "X" and e.get("cat") in GPU:
            start = int(Decimal(e["ts"]) * 1000)
            end = start + int(Decimal(e["dur"]) * 1000)
            found.append((start, end, e["name"], e["args"]["correlation"]))
    return sorted(found)


@pytest.mark.parametrize("name", JSON)
def test_equals_json(name: str) -> None:
    timeline = kineto.read(traces.path(name))
    assert rows(timeline) == expected(name) and len(timeline.ops)
    assert timeline.devices[0] in ("NVIDIA H200", "NVIDIA H100 80GB HBM3") and timeline.coverage.truncated == ""
    assert kind_of(traces.path(name)) == "kineto"


@pytest.mark.parametrize("chunk", [300, 5_000, 1 << 20])
def test_chunks_change_nothing(chunk: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(traces.plain("memcpy_bound"))
    whole, parts = kineto.read(path), kineto.read(path, chunk)
    assert rows(whole) == rows(parts) and len(whole.operators) == len(parts.operators)
    assert len(whole.calls) == len(parts.calls) and parts.coverage == whole.coverage and parts.devices == whole.devices


def test_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps(json.loads(traces.plain("graph"))).encode()))
    assert rows(kineto.read(path, 1000)) == expected("graph")


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_cut(share: float, tmp_path: Path) -> None:
    text = traces.plain("memcpy_bound")
    path = tmp_path / "t.json"
    path.write_bytes(text[: int(len(text) * share)])
    timeline = kineto.read(path)
    whole = set(rows(kineto.read(traces.path("memcpy_bound"))))
    assert set(rows(timeline)) <= whole and len(timeline.ops) + len(timeline.operators) > 0
    assert timeline.coverage.truncated


def test_cut_compressed(tmp_path: Path) -> None:
    path = tmp_path / "t.json.xz"
    packed = lzma.compress(traces.plain("sync_bound"), preset=0)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    timeline = kineto.read(path)
    assert "xz" in timeline.coverage.truncated and len(timeline.operators) > 1000


def test_damaged_event_costs_itself(tmp_path: Path) -> None:
    events = [e for i in range(20) for e in traces.launch(i + 1, 10 * i, 10 * i + 5, 3)]
    text = traces.trace(tmp_path, events).read_text()
    parts = text.split('"name": "k"')
    bad = '"name": "k"'.join(parts[:5]) + '"name": "a "quoted" name"' + '"name": "k"'.join(parts[5:])
    path = tmp_path / "bad.json"
    path.write_text(bad.replace('"name": "k"', '"name": "k\x01\tx"', 1))
    timeline = kineto.read(path)
    assert len(timeline.ops) == 19 and timeline.coverage.damaged == 1 and timeline.coverage.truncated == ""


def test_names_of_2021(tmp_path: Path) -> None:
    kernel = {**traces.event("Kernel", "k", 10, 2, correlation=5), "tid": "stream 7"}
    copy = {**traces.event("Memcpy", "Memcpy HtoD (Pageable -> Device)", 13, 1, bytes=64), "tid": "stream 7"}
    more = [
        traces.event("Runtime", "cudaLaunchKernel", 5, 2, correlation=5),
        traces.event("Operator", "aten::mm", 1, 9), traces.event("Operator", "ProfilerStep#3", 0, 20),
    ]  # fmt: skip
    timeline = kineto.read(traces.trace(tmp_path, [kernel, copy, *more]))
    ops = timeline.ops
    assert ops.stream.tolist() == [7, 7] and ops.kind.tolist() == [Op.KERNEL, Op.MEMCPY]
    assert ops.copy.tolist() == [0, Copy.HTOD] and ops.pageable.tolist() == [0, 1] and ops.bytes[1] == 64
    assert len(timeline.ranges) == 1 and len(timeline.operators) == 1 and len(timeline.calls) == 1


def test_absolute_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, '
        '"ts": 1712345678901234.567, "dur": 1.003, "args": {"device": 0}}, '
        '{"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 1712345678901236, "dur": 2}]}'
    )
    ops = kineto.read(path).ops
    assert ops.start.tolist() == [1712345678901234567, 1712345678901236000]
    assert ops.end.tolist() == [1712345678901235570, 1712345678901238000]


@pytest.mark.parametrize("text", ["{}", '{"kernels": [1]}', "[]", '{"traceEvents": 3}'])
def test_no_trace(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(KscopeError) as e:
        kineto.read(path)
    assert e.value.status == 3 and "t.json" in e.value.message


def test_odd_values_are_counted(tmp_path: Path) -> None:
    odd = [
        {**traces.event("kernel", "k", 1, 1), "dur": None}, {**traces.event("kernel", "k", 1, 1), "dur": -5},
        {**traces.event("kernel", "k", 1, 1), "ts": 1e300}, {**traces.event("kernel", "k", 1, 1), "ts": "soon"},
    ]  # fmt: skip
    timeline = kineto.read(traces.trace(tmp_path, [*odd, *traces.launch(1, 0, 3, 4)]))
    assert len(timeline.ops) == 1 and timeline.coverage.damaged == 4


@pytest.mark.parametrize("early", [True, False])
def test_a_name_that_is_no_utf8(early: bool, tmp_path: Path) -> None:
    """Wherever in the file it is, and everything else as without it."""
    text = traces.plain("app")
    name = next(n for n in (rows(kineto.read(traces.path("app")))[0][2],)).encode()
    if not early:
        padding = b'{"ph": "i", "name": "x", "ts": 1, "pid": 1, "tid": 1, "args": {"y": "' + b"y" * 200_000 + b'"}},'
        begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
        text = text[:begin] + padding + text[begin:]
    path = tmp_path / "t.json"
    path.write_bytes(text.replace(b'"' + name + b'"', b'"\xff\xfe' + name + b'"'))
    assert kind_of(path) == "kineto"
    odd = ("\udcff\udcfe" + name.decode()).encode("utf-8", "surrogateescape")
    found = [(a, b, n.encode("utf-8", "surrogateescape").removeprefix(b"\xff\xfe").decode(), c)
             for a, b, n, c in rows(kineto.read(path))]  # fmt: skip
    assert found == rows(kineto.read(traces.path("app")))
    assert any(n.encode("utf-8", "surrogateescape") == odd for n in kineto.read(path).names)


def test_damaged_anywhere(tmp_path: Path) -> None:
    """Random bytes changed: a trace with less in it, or one line."""
    text, rng = traces.plain("app"), random.Random(7)
    path = tmp_path / "t.json"
    for _ in range(60):
        data = bytearray(text)
        for _ in range(rng.choice([1, 5, 50])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            kind = kind_of(path)
            assert kind == "kineto" and isinstance(kineto.read(path), Timeline)
        except KscopeError as fault:
            assert fault.status == 3 and "\n" not in str(fault)


@pytest.mark.parametrize("odd", [None, 5.25, 17952.5, 1795256191403656, 1e11 + 5.5, 1895256191403656.5])
def test_absolute_times_beside_others(tmp_path: Path, odd: float | None) -> None:
    """Times since 1970 with decimals, which doubles cannot hold; whatever other times stand beside them."""
    begin = 1795256191403656
    rows = [f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{begin + 10 * i}.{i % 1000:03d},"dur":2.001}}'
            for i in range(2000)]  # fmt: skip
    want = [(begin + 10 * i) * 1000 + i % 1000 for i in range(2000)]
    if odd is not None:
        rows.insert(3, f'{{"ph":"X","cat":"kernel","name":"odd","pid":0,"tid":7,"ts":{odd},"dur":1}}')
        want = sorted([*want, int(odd) * 1000 + round((odd - int(odd)) * 1000)])
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [\n' + ",\n".join(rows) + "]}")
    for chunk in (1 << 24, 1 << 14):
        read = kineto.read(path, chunk)
        assert read.ops.start.tolist() == want and read.coverage.damaged == 0
        assert {int(d) for d in read.ops.end - read.ops.start} <= {2001, 1000}
