"""Dumps of kscope_trace.cuh and of Triton Proton: what was recorded is what is read, and nothing else is."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.model.errors import EXIT_INPUT, KscopeError
from kscope.parsers.warp_trace import files, ktrace, proton
from tests.support.dials import PROTON, plain_dump, trace
from tests.support.reports import plain

SMALL = plain_dump("ws_gemm.k128")


def made(records: list[tuple[int, int, int, int]], written: int | None = None, head: str = '{"kernel":"k"}') -> bytes:
    """A file of one warp whose clock runs from 5 below 2^32 to 10,000 above it, in 20,010 ns: half a cycle a ns."""
    low = (1 << 32) - 5
    header = struct.pack(
        "<4s7I4Q", b"KSWP", 3, 7, 1, 0, written or len(records), len(records), 0, 100, low, 20_110, low + 10_005
    )
    text = head.encode()
    body = b"".join(struct.pack("<4I", *r) for r in records)
    return b"KSTRACE1" + struct.pack("<2I", len(text), 1) + text + header + body


def at(cycle: int) -> int:
    """The low half of the clock, so many cycles after the warp's begin."""
    return ((1 << 32) - 5 + cycle) & 0xFFFFFFFF


def test_a_gemm_of_one_tile_step_is_all_there() -> None:
    t = trace("ws_gemm.k128")
    assert (t.kernel, t.device, t.sms, t.blocks, t.source) == ("ws_gemm", "NVIDIA H200", 132, 132, "kscope")
    assert {w.role for w in t.warps} == {"producer", "consumer"}
    assert len({w.block for w in t.warps}) == 8 and len(t.warps) == 72  # every 17th block, all nine warps with a role
    assert t.lost == t.unmatched == 0
    producer = next(i for i, w in enumerate(t.warps) if w.role == "producer")
    copies = [k for k in range(len(t)) if t.warp[k] == producer and t.scopes[t.scope[k]].name == "copy"]
    assert len(copies) in (6, 8)  # K = 128 is two steps; 512 tiles on 132 blocks are three or four each
    waits = [k for k in range(len(t)) if t.warp[k] == producer and t.scopes[t.scope[k]].name == "slot wait"]
    assert [t.end[k] for k in waits] == [t.begin[k] for k in copies]  # two spans a record, which follow each other


def test_spans_lie_in_their_warps_and_the_clock_is_the_sms() -> None:
    t = trace("ws_gemm.k1024")
    assert t.clock_ghz is not None and 1.2 < t.clock_ghz < 1.99
    for warp, begin, end in zip(t.warp, t.begin, t.end, strict=True):
        assert t.warps[warp].begin <= begin <= end <= t.warps[warp].end + 1e-6


def test_clock_that_wraps_nesting_marks_and_spans_written_late() -> None:
    begin, end, mark, span = 0, 1 << 30, 2 << 30, 3 << 30
    (t,) = [
        ktrace.parse(
            made([
                (begin | 1, 0, at(0), 0), (begin | 2, 0, at(10), 0), (end | 2, 8, at(30), 0), (mark | 3, 9, at(40), 0),
                (end | 1, 0, at(50), 0), (span | 5, 6, at(70), at(80)), (span | 4, 5, at(60), at(90)),
            ]),
            "x",
        )
    ]  # fmt: skip
    rows = [(t.scopes[s].name, b, e, p) for s, b, e, p in zip(t.scope, t.begin, t.end, t.payload, strict=True)]
    assert [(n, round(b), round(e), p) for n, b, e, p in rows] == [
        ("scope 1", 0, 100, 0), ("scope 2", 20, 60, 8), ("scope 3", 80, 80, 9), ("scope 4", 120, 180, 5),
        ("scope 5", 140, 160, 6),
    ]  # fmt: skip


def test_two_spans_in_one_record_across_the_wrap_of_the_clock() -> None:
    two = 3 << 30 | 1 << 29
    t = ktrace.parse(made([(two | 9 << 8 | 7, at(2), at(40), at(90)), (3 << 30 | 7, 5, at(100), at(110))]), "x")
    rows = [(t.scopes[s].name, b, e, p) for s, b, e, p in zip(t.scope, t.begin, t.end, t.payload, strict=True)]
    assert [(n, round(b), round(e), p) for n, b, e, p in rows] == [
        ("scope 7", 4, 80, 0), ("scope 9", 80, 180, 0), ("scope 7", 200, 220, 5),
    ]  # fmt: skip
    assert (t.lost, t.unmatched) == (0, 0)


def test_overwritten_and_unmatched_records_are_counted() -> None:
    t = ktrace.parse(made([(1 << 30 | 2, 0, at(30), 0), (1, 0, at(50), 0)], written=12), "x")
    assert (t.lost, t.unmatched, len(t)) == (10, 2, 0)


@pytest.mark.parametrize("size", [0, 3, 8, 15, 40, 400, len(SMALL) // 2, len(SMALL) - 1])
def test_cut_anywhere_is_one_error(size: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.ktrace"
    path.write_bytes(SMALL[:size])
    with pytest.raises(KscopeError) as error:
        files.read(path)
    assert error.value.status == EXIT_INPUT
    assert error.value.code == ("truncated" if size else "empty")
    assert str(path) in error.value.message


@given(at=st.integers(0, len(SMALL) - 1), value=st.integers(0, 255))
def test_damage_is_an_error_or_a_trace_never_a_traceback(at: int, value: int) -> None:
    data = bytearray(SMALL)
    data[at] = value
    try:
        t = ktrace.parse(bytes(data), "x")
    except KscopeError as error:
        assert error.status == EXIT_INPUT
    else:
        assert len(t.warp) == len(t.scope) == len(t.begin) == len(t.end) == len(t.payload)


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"hello\n", "foreign", "neither"),
        (plain("spill.fast")[:4096], "foreign", "kscope analyze"),
        (b'{"traceEvents": [{"name": "k", "ph": "X", "pid": 0, "tid": 7, "ts": 1, "dur": 2}]}', "foreign", "Proton"),
        (b'{"traceEvents": [{"na', "damaged", "again"),
        (made([], head='{"kernel":'), "damaged", "header"),
        (b"KSTRACE1" + struct.pack("<2I", 14, 0) + b'{"kernel":"k"}', "empty", "KSCOPE_TRACE_DONE"),
    ],
)
def test_foreign_files_are_named(data: bytes, code: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "some.ktrace"
    path.write_bytes(data)
    with pytest.raises(KscopeError, match=says) as error:
        files.read(path)
    assert (error.value.code, error.value.status) == (code, EXIT_INPUT)


def test_proton() -> None:
    (t,) = files.read(PROTON)
    assert (t.source, t.kernel, t.clock_ghz) == ("proton", "rows", None)
    assert len(t.warps) == 132 * 4
    assert t.roles == ("row, load, reduce, store",)
    row = next(k for k in range(len(t)) if t.scopes[t.scope[k]].name == "row")
    inner = range(row + 1, row + 4)
    assert [t.scopes[t.scope[k]].name for k in inner] == ["load", "reduce", "store"]
    assert all(t.begin[row] <= t.begin[k] and t.end[k] <= t.end[row] for k in inner)


def test_proton_of_several_kernels_and_flows() -> None:
    event = {"ph": "X", "cat": "a", "tid": "warp 1 (line 0)", "ts": 1.0, "dur": 2.0}
    events = [
        {**event, "name": "load", "pid": "first one Core2 CTA3"}, {**event, "name": "mma", "pid": "second Core2 CTA3"},
        {**event, "name": "signal", "cat": "flow", "pid": "second Core2 CTA3"},
    ]  # fmt: skip
    first, second = proton.parse(json.dumps({"traceEvents": events}).encode(), "x")
    assert (first.kernel, second.kernel) == ("first one", "second")
    assert (first.warps[0].sm, first.warps[0].block, first.warps[0].warp) == (2, 3, 1)
    assert [s.name for s in second.scopes] == ["mma"]
