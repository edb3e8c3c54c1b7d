"""Files of kscope_trace.cuh (.ktrace) to a KernelTrace. The layout: parsers/ktrace.md and the header's own comment."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from kscope.model.errors import KscopeError, one_line
from kscope.model.trace import KINDS, UNITS, KernelTrace, Scope, TraceWarp

MAGIC = b"KSTRACE1"
_WARP = b"KSWP"
_HEADER = struct.Struct("<4s7I4Q")
_BEGIN, _END, _MARK, _SPAN = range(4)
_TWO = 1 << 29  # of a span's tag: two spans that follow each other, in one record
_RECORD = struct.Struct("<4I")


class _Item(msgspec.Struct, frozen=True):
    id: int
    name: str
    kind: str = ""
    on: str = ""
    cycles: int = 0


class _Head(msgspec.Struct, frozen=True):
    kernel: str
    device: str = ""
    cc: str = ""
    sms: int = 0
    blocks: int = 0
    warps_per_block: int = 0
    stride: int = 1
    roles: list[_Item] = []
    scopes: list[_Item] = []
    notes: dict[str, str] = {}


class _Ring(msgspec.Struct, frozen=True):
    """One warp as the file has it."""

    sm: int
    block: int
    warp: int
    role: int
    written: int
    kept: int
    ns: tuple[int, int]
    clock: tuple[int, int]
    records: list[tuple[int, int, int, int]]
    """(kind and scope, payload, low half of the clock, the same at the end of a span), oldest first; of two spans in
    one record: (kind and scopes, begin, between them, end)."""


def parse(data: bytes, name: str) -> KernelTrace:
    """The trace in these bytes; `name` is for messages. Raises KscopeError (input) where it is none or not whole."""
    if data[:8] != MAGIC:
        raise KscopeError("foreign", f"{name}: no trace of kscope_trace.cuh", "see `kscope trace --help`")
    if len(data) < 16:
        _truncated(name)
    size, warps = struct.unpack_from("<2I", data, 8)
    if len(data) < 16 + size:
        _truncated(name)
    try:
        head = msgspec.json.decode(data[16 : 16 + size], type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise KscopeError("damaged", f"{name}: header: {one_line(str(error))}", "record it again") from None
    rings = list(_rings(data, 16 + size, warps, name))
    if not rings:
        raise KscopeError(
            "empty", f"{name}: no warp reached KSCOPE_TRACE_DONE", "was it built with KSCOPE_TRACE, and launched?"
        )
    return _table(head, rings)


def _rings(data: bytes, at: int, warps: int, name: str) -> Iterator[_Ring]:
    for _ in range(warps):
        if len(data) < at + _HEADER.size:
            _truncated(name)
        magic, sm, block, warp, role, written, kept, _, ns0, clock0, ns1, clock1 = _HEADER.unpack_from(data, at)
        if magic != _WARP:
            raise KscopeError("damaged", f"{name}: no warp at byte {at}", "record it again")
        at += _HEADER.size
        if len(data) < at + _RECORD.size * kept:
            _truncated(name)
        if clock1 <= clock0 or ns1 < ns0 or kept > written:
            raise KscopeError("damaged", f"{name}: a warp of block {block} ends before it begins", "record it again")
        records = list(_RECORD.iter_unpack(data[at : at + _RECORD.size * kept]))
        at += _RECORD.size * kept
        yield _Ring(sm, block, warp, role, written, kept, (ns0, ns1), (clock0, clock1), records)


def _table(head: _Head, rings: list[_Ring]) -> KernelTrace:
    roles = {item.id: item.name for item in head.roles}
    known = {item.id: item for item in head.scopes}
    used = sorted({n for ring in rings for record in ring.records for n in _numbers(record[0])})
    index = {number: i for i, number in enumerate(used)}
    rows = _Rows(index)
    rate, zero = _clocks(rings)
    warps = []
    for i, ring in enumerate(sorted(rings, key=lambda r: (r.block, r.warp))):
        origin = zero[ring.sm]
        begin, end = (ring.clock[0] - origin) / rate, (ring.clock[1] - origin) / rate
        role = roles.get(ring.role, f"role {ring.role}")
        warps.append(TraceWarp(role, ring.sm, ring.block, ring.warp, begin, end, ring.written, ring.kept))
        rows.add(i, [(tag, n, (b - origin) / rate, (e - origin) / rate) for tag, n, b, e in _unwrapped(ring)])
    shift = min(w.begin for w in warps)
    return KernelTrace(
        source="kscope", kernel=head.kernel, device=head.device, sms=head.sms, blocks=head.blocks, stride=head.stride,
        clock_ghz=rate, notes=head.notes, scopes=tuple(_scope(known.get(n), n) for n in used),
        warps=tuple(msgspec.structs.replace(w, begin=w.begin - shift, end=w.end - shift) for w in warps),
        warp=rows.warp, scope=rows.scope, begin=[t - shift for t in rows.begin], end=[t - shift for t in rows.end],
        payload=rows.payload, unmatched=rows.unmatched,
    )  # fmt: skip


class _Rows:
    def __init__(self, scopes: dict[int, int]) -> None:
        self.scopes = scopes
        self.unmatched = 0
        self.warp: list[int] = []
        self.scope: list[int] = []
        self.begin: list[float] = []
        self.end: list[float] = []
        self.payload: list[int] = []

    def add(self, warp: int, records: list[tuple[int, int, float, float]]) -> None:
        open_: list[tuple[int, float]] = []  # (scope, begin), innermost last
        rows: list[tuple[float, float, int, int]] = []
        for tag, payload, time, end in records:
            kind, scope = tag >> 30, tag & 0xFFFF
            if kind == _BEGIN:
                open_.append((scope, time))
            elif kind in (_MARK, _SPAN):
                rows.append((time, max(time, end) if kind == _SPAN else time, scope, payload))
            elif (depth := next((d for d in reversed(range(len(open_))) if open_[d][0] == scope), None)) is not None:
                rows.append((open_[depth][1], time, scope, payload))
                self.unmatched += len(open_) - depth - 1
                del open_[depth:]
            else:
                self.unmatched += 1
        self.unmatched += len(open_)
        for begin, end, scope, payload in sorted(rows, key=lambda r: (r[0], -r[1])):
            self.warp.append(warp)
            self.scope.append(self.scopes[scope])
            self.begin.append(begin)
            self.end.append(end)
            self.payload.append(payload)


def _clocks(rings: list[_Ring]) -> tuple[float, dict[int, float]]:
    """Cycles a nanosecond, and each SM's clock at the nanosecond 0 of the global timer's first reading.

    The global timer ticks coarsely (32 ns to 1 us), so the rate comes from the longest span of all, and an SM's offset
    is the largest reading of its warps: a timer is late by up to a tick, never early.
    """
    cycles = sum(r.clock[1] - r.clock[0] for r in rings)
    ns = sum(r.ns[1] - r.ns[0] for r in rings)
    rate = cycles / ns if ns else 1.0
    first = min(r.ns[0] for r in rings)
    zero: dict[int, float] = {}
    for ring in rings:
        for ns_, clock in zip(ring.ns, ring.clock, strict=True):
            at = clock - (ns_ - first) * rate
            zero[ring.sm] = min(zero.get(ring.sm, at), at)
    return rate, zero


def _unwrapped(ring: _Ring) -> list[tuple[int, int, int, int]]:
    """Records with clock64 for the low halves: each is placed next to the record after it, the last before the warp's
    end. Spans are written late, so time does not only grow."""
    out, after = [], ring.clock[1]
    for tag, payload, low, end in reversed(ring.records):
        if tag >> 30 == _SPAN:
            after = _near(after, end)
            end = after
        after = _near(after, low)
        if tag >> 30 == _SPAN and tag & _TWO:
            first, second = _numbers(tag)
            out.append((_SPAN << 30 | second, 0, after, end))
            between, after = after, _near(after, payload)
            out.append((_SPAN << 30 | first, 0, after, between))
        else:
            out.append((tag, payload, after, end))
    return out[::-1]


def _numbers(tag: int) -> tuple[int, ...]:
    """The scopes that a record is of, in order of time."""
    if tag >> 30 == _SPAN and tag & _TWO:
        return tag & 0xFF, tag >> 8 & 0xFF
    return (tag & 0xFFFF,)


def _near(clock: int, low: int) -> int:
    """The clock with these low 32 bits that is nearest to another."""
    return clock - ((clock - low + (1 << 31) & 0xFFFFFFFF) - (1 << 31))


def _scope(item: _Item | None, number: int) -> Scope:
    if item is None:
        return Scope(f"scope {number}")
    kind, unit = item.kind if item.kind in KINDS else "", item.on if item.on in UNITS else ""
    return Scope(item.name, kind, unit, max(item.cycles, 0))


def _truncated(name: str) -> NoReturn:
    raise KscopeError("truncated", f"{name}: the file ends early", "copy it again, or dump again") from None
