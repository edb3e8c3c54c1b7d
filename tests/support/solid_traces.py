"""Dumps of kscope_trace.cuh as streams: headers of warps, and for each kind of record what its clocks moved on by. A
warp writes the same records turn after turn, and warps of one role in a block write nearly the same at nearly the same
time: then what counts is how far one lags behind the other (parsers/ktrace.md has the layout)."""

from __future__ import annotations

import struct
from collections import defaultdict

from tests.support.streams import Shared, Streams

MAGIC = b"KSTRACE1"
_WARP = struct.Struct("<4s7I4Q")
_RECORD = struct.Struct("<4I")
_BLOCK, _ROLE, _KEPT, _CLOCK = 2, 4, 6, 9  # of a warp's header: records, clock at its begin
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
        beside = _Beside()
        for _ in range(warps):
            head = _WARP.unpack_from(data, at)
            beside.begin(head)
            self.streams.data["warp"] += data[at : at + _WARP.size]
            at += _WARP.size
            end = at + _RECORD.size * head[_KEPT]
            self._records(data[at:end], head[_CLOCK] & _LOW, beside)
            at = end
        self.streams.put_bytes("trace", data[at:])

    def _records(self, data: bytes, clock: int, beside: _Beside) -> None:
        put, payload = self.streams.put_signed, defaultdict[int, int](int)
        for tag, one, two, three in _RECORD.iter_unpack(data):
            self.streams.data["tag"] += tag.to_bytes(4, "little")
            name = f"record.{tag:x}"
            if tag & _SPAN == _SPAN and tag & _TWO:  # begin, between them, end
                mark, (first, middle, last) = beside.expected(tag, clock)
                put(f"{name}.1{mark}", one - first)
                put(f"{name}.2{mark}", two - one - middle)
                put(f"{name}.3{mark}", three - two - last)
                beside.met(tag, clock, one, two, three)
                clock = three
                continue
            beside.met(tag, clock, one, two, three)
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
        beside = _Beside()
        for _ in range(struct.unpack_from("<2I", out[0], len(MAGIC))[1]):
            warp = self.streams.take("warp", _WARP.size)
            head = _WARP.unpack(warp)
            beside.begin(head)
            out += [warp, self._records(head[_KEPT], head[_CLOCK] & _LOW, beside)]
        return b"".join([*out, self.streams.bytes("trace")])

    def _records(self, count: int, clock: int, beside: _Beside) -> bytes:
        get, payload, out = self.streams.signed, defaultdict[int, int](int), bytearray()
        for _ in range(count):
            tag = int.from_bytes(self.streams.take("tag", 4), "little")
            name, span = f"record.{tag:x}", tag & _SPAN == _SPAN
            if span and tag & _TWO:
                mark, (first, middle, last) = beside.expected(tag, clock)
                one = get(f"{name}.1{mark}") + first
                two = get(f"{name}.2{mark}") + one + middle
                three = get(f"{name}.3{mark}") + two + last
                beside.met(tag, clock, one, two, three)
                clock = three
            else:
                before = clock
                one = payload[tag] = get(f"{name}.1") + payload[tag]
                two = get(f"{name}.2") + clock
                three = get(f"{name}.3") + (two if span else 0)
                clock = three if span else two
                beside.met(tag, before, one, two, three)
            out += _RECORD.pack(tag, one, two, three)
        return bytes(out)


class _Beside:
    """The warp before, where it is of the same block and role: what the same record of it says of one."""

    def __init__(self) -> None:
        self.of: tuple[int, int] = (-1, -1)
        self.now: list[tuple[int, int, int, int, int]] = []
        self.before: list[tuple[int, int, int, int, int]] = []

    def begin(self, head: tuple[int, ...]) -> None:
        of = (head[_BLOCK], head[_ROLE])
        self.before = self.now if of == self.of else []
        self.of, self.now = of, []

    def expected(self, tag: int, clock: int) -> tuple[str, tuple[int, int, int]]:
        """Which streams, and what is expected: the begin, how long each of two spans takes."""
        at = len(self.now)
        if at >= len(self.before) or self.before[at][0] != tag:
            return "", (clock, 0, 0)
        _, before, one, two, three = self.before[at]
        return "=", (clock + one - before, two - one, three - two)

    def met(self, tag: int, clock: int, one: int, two: int, three: int) -> None:
        self.now.append((tag, clock, one, two, three))
