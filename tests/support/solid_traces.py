"""Dumps of kscope_trace.cuh as streams: headers of warps, and for each kind of record what its clocks moved on by. A
warp writes the same records turn after turn (parsers/ktrace.md has the layout)."""

from __future__ import annotations

import struct
from collections import defaultdict

from tests.support.streams import Shared, Streams

MAGIC = b"KSTRACE1"
_WARP = struct.Struct("<4s7I4Q")
_RECORD = struct.Struct("<4I")
_KEPT, _CLOCK = 6, 9  # of a warp's header: records, clock at its begin
_SPAN, _TWO = 3 << 30, 1 << 29  # of a record's tag: a span, two that follow each other
_LOW = 0xFFFFFFFF


class Writer:
    """Takes one dump apart."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams = streams

    def file(self, data: bytes) -> None:
        size, warps = struct.unpack_from("<2I", data, len(MAGIC))
        at = len(MAGIC) + 8 + size
        self.streams.put_bytes("trace", data[:at])
        for _ in range(warps):
            head = _WARP.unpack_from(data, at)
            self.streams.data["warp"] += data[at : at + _WARP.size]
            at += _WARP.size
            end = at + _RECORD.size * head[_KEPT]
            self._records(data[at:end], head[_CLOCK] & _LOW)
            at = end
        self.streams.put_bytes("trace", data[at:])

    def _records(self, data: bytes, clock: int) -> None:
        put, payload = self.streams.put_signed, defaultdict[int, int](int)
        for tag, one, two, three in _RECORD.iter_unpack(data):
            self.streams.data["tag"] += tag.to_bytes(4, "little")
            name = f"record.{tag:x}"
            if tag & _SPAN == _SPAN and tag & _TWO:  # begin, between them, end
                put(f"{name}.1", one - clock)
                put(f"{name}.2", two - one)
                put(f"{name}.3", three - two)
                clock = three
                continue
            put(f"{name}.1", one - payload[tag])
            put(f"{name}.2", two - clock)
            payload[tag] = one
            span = tag & _SPAN == _SPAN
            put(f"{name}.3", three - two if span else three)
            clock = three if span else two


class Reader:
    """Puts one dump together."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams = streams

    def file(self) -> bytes:
        out = [self.streams.bytes("trace")]
        for _ in range(struct.unpack_from("<2I", out[0], len(MAGIC))[1]):
            warp = self.streams.take("warp", _WARP.size)
            head = _WARP.unpack(warp)
            out += [warp, self._records(head[_KEPT], head[_CLOCK] & _LOW)]
        return b"".join([*out, self.streams.bytes("trace")])

    def _records(self, count: int, clock: int) -> bytes:
        get, payload, out = self.streams.signed, defaultdict[int, int](int), bytearray()
        for _ in range(count):
            tag = int.from_bytes(self.streams.take("tag", 4), "little")
            name, span = f"record.{tag:x}", tag & _SPAN == _SPAN
            if span and tag & _TWO:
                one = get(f"{name}.1") + clock
                two = get(f"{name}.2") + one
                clock = three = get(f"{name}.3") + two
            else:
                one = payload[tag] = get(f"{name}.1") + payload[tag]
                two = get(f"{name}.2") + clock
                three = get(f"{name}.3") + (two if span else 0)
                clock = three if span else two
            out += _RECORD.pack(tag, one, two, three)
        return bytes(out)
