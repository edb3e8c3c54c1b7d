"""Reports of Nsight Compute as streams. A report is a tree of protobuf messages, and there is a stream for each place
in that tree: all values of one field of all reports, and of a metric's fields a column for each metric. Large fields
that several reports hold (the program, the layouts of sections, names) stand once. Lists of a metric by instruction or
by time are two columns, of which the first, the instructions, mostly equals that of the metric before."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import partial

from tests.support import solid_images
from tests.support.solid_columns import Columns, sized
from tests.support.streams import Shared, Streams, read_varint, varint

MAGIC = b"NVR\0"
NUMBER, LONG, BYTES = range(3)  # wire types; 5 is four bytes
_END = 0  # no field has this number: the end of a message

Path = tuple[int, ...]
HEADER, BODY, SOURCES = 0, 1, 2  # first step of a path: a block's header, results, sources
INSIDE: frozenset[Path] = frozenset({
    (HEADER,), (HEADER, 3), (HEADER, 3, 6), (SOURCES,), (SOURCES, 8), (SOURCES, 8, 1),
    (BODY,), (BODY, 13), (BODY, 13, 2), (BODY, 19), (BODY, 19, 3), (BODY, 19, 3, 1),
})  # fmt: skip
"""Fields that are messages themselves. What is one and does not stand here is bytes."""
NAMES, IMAGE = (HEADER, 4), (SOURCES, 4)
SHARED: frozenset[Path] = frozenset({IMAGE, NAMES, (BODY, 17)})
METRIC, VALUE, METRIC_NAME, INSTANCES = (BODY, 13), (BODY, 13, 2), 1, 3
_IDENT, _VALUE = 0x0A, 0x12  # keys of fields 1 and 2 of an instance, both bytes
_WHOLE, _DOUBLE = 0x28, 0x19  # keys of fields 5 (a number) and 3 (a double), of what these bytes hold
_OTHERS, _NUMBERS, _DOUBLES, _REST = range(4)  # what a second column is


class Writer:
    """Takes one report apart."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams, self.shared = streams, shared
        self.idents: dict[tuple[bytes, ...], int] = {}
        self.names = Columns(shared)

    def file(self, data: bytes) -> None:
        """NVR, the file's header, then blocks: a header that says how long the messages after it are."""
        if data[:4] != MAGIC:
            raise ValueError("not a report")
        at = 8 + _u32(data, 4)
        self.streams.put_bytes("head", data[4:at])
        while at < len(data):
            start = at + 4
            at = start + _u32(data, at)
            self.streams.put_number("block", 1)
            results, payload = self._message(data, start, at, (HEADER,))
            kind, end = (BODY if results else SOURCES), at + payload
            while at < end:
                start = at + 4
                at = start + _u32(data, at)
                self.streams.put_number("block", 1)
                self._message(data, start, at, (kind,))
            self.streams.put_number("block", 0)
        self.streams.put_number("block", 0)

    def _message(self, data: bytes, at: int, end: int, path: Path) -> tuple[int, int]:
        """Returns the numbers of its fields 2 and 5, which say of a block's header what it holds."""
        name = _name(path)
        found = {}
        columns = self._columns(data, at, end) if path == METRIC else None
        while at < end:
            key, at = read_varint(data, at)
            field, kind = key >> 3, key & 7
            below = (*path, field)
            stream = self.names.stream(_name(below), in_value=path == VALUE)
            if columns is not None and field == INSTANCES:
                at = columns[1]
                self.streams.put_number(name, key)
                self._instances(columns[0])
                continue
            self.streams.put_number(name, key)
            if path == METRIC and field == INSTANCES:
                self.streams.put_number("instances", 0)
            if kind == NUMBER:
                value, at = read_varint(data, at)
                found[field] = value
                self.streams.put_number(stream, value)
                if path == METRIC and field == METRIC_NAME:
                    self.names.now(value)
            elif kind == BYTES:
                size, at = read_varint(data, at)
                if below in INSIDE:
                    self._message(data, at, at + size, below)
                elif below in SHARED:
                    self._shared(below, data[at : at + size])
                else:
                    self.streams.put_bytes(stream, data[at : at + size])
                at += size
            else:
                size = 8 if kind == LONG else 4
                self.streams.data[sized(stream, size)] += data[at : at + size]
                at += size
        self.streams.put_number(name, _END)
        return found.get(2, 0), found.get(5, 0)

    def _shared(self, path: Path, value: bytes) -> None:
        put = partial(solid_images.put, self.streams) if path == IMAGE else None
        self.shared.put(self.streams, _name(path), value, put)
        if path == NAMES:
            self.names.add(value)

    def _columns(self, data: bytes, at: int, end: int) -> tuple[list[tuple[bytes, bytes]], int] | None:
        """The instances of a metric, which follow each other: (whose, value) of each, and where they end. None where
        one is made otherwise."""
        out: list[tuple[bytes, bytes]] = []
        while at < end:
            key, start = read_varint(data, at)
            if key == INSTANCES << 3 | BYTES:
                size, start = read_varint(data, start)
                if not (one := _pair(data, start, start + size)):
                    return None
                out.append(one)
                at = start + size
            elif out:
                break
            elif key & 7 == BYTES:
                size, start = read_varint(data, start)
                at = start + size
            else:
                at = read_varint(data, start)[1] if key & 7 == NUMBER else start + (8 if key & 7 == LONG else 4)
        return (out, at) if out else None

    def _instances(self, columns: list[tuple[bytes, bytes]]) -> None:
        streams, idents = self.streams, tuple(ident for ident, _ in columns)
        streams.put_number("instances", len(columns))
        streams.put_number("idents=", self.idents.get(idents, len(self.idents)))
        if idents not in self.idents:
            self.idents[idents] = len(self.idents)
            self._first(idents)
        self._values(idents, [value for _, value in columns])

    def _first(self, idents: tuple[bytes, ...]) -> None:
        numbers = _numbers(idents)
        self.streams.put_number("idents?", numbers is not None)
        if numbers is None:
            for ident in idents:
                self.streams.put_bytes("ident", ident)
            return
        last = 0
        for number in numbers:
            self.streams.put_signed("idents", number - last)
            last = number

    def _values(self, idents: tuple[bytes, ...], values: list[bytes]) -> None:
        numbers, column = _numbers(values), self.names.column
        if numbers is not None:
            left = self.names.left(self.idents[idents])
            self.streams.put_number("values?", _REST if left == numbers else _NUMBERS)
            if left != numbers:
                self.streams.data[f"values/{column}"] += b"".join(value[1:] for value in values)
            self.names.sampled(self.idents[idents], numbers)
            return
        doubles = all(len(value) == 9 and value[0] == _DOUBLE for value in values)
        self.streams.put_number("values?", _DOUBLES if doubles else _OTHERS)
        for value in values:
            if doubles:
                self.streams.data[f"doubles/{column}"] += value[1:]
            else:
                self.streams.put_bytes("value", value)


class Reader:
    """Puts one report together."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams, self.shared = streams, shared
        self.idents: list[list[bytes]] = []
        self.names = Columns(shared)

    def file(self) -> bytes:
        out = [MAGIC, self.streams.bytes("head")]
        while self.streams.number("block"):
            header, results = self._message((HEADER,))
            out += [struct.pack("<I", len(header)), header]
            while self.streams.number("block"):
                message, _ = self._message((BODY if results else SOURCES,))
                out += [struct.pack("<I", len(message)), message]
        return b"".join(out)

    def _message(self, path: Path) -> tuple[bytes, int]:
        """The message, and the number of its field 2."""
        streams, name, out, results = self.streams, _name(path), [], 0
        while key := streams.number(name):
            field, kind = key >> 3, key & 7
            below = (*path, field)
            stream = self.names.stream(_name(below), in_value=path == VALUE)
            if path == METRIC and field == INSTANCES and (count := streams.number("instances")):
                out += self._instances(count)
                continue
            out.append(varint(key))
            if kind == NUMBER:
                value = streams.number(stream)
                results = value if field == 2 else results
                if path == METRIC and field == METRIC_NAME:
                    self.names.now(value)
                out.append(varint(value))
            elif kind == BYTES:
                if below in INSIDE:
                    part = self._message(below)[0]
                elif below in SHARED:
                    part = self._shared(below)
                else:
                    part = streams.bytes(stream)
                out += [varint(len(part)), part]
            else:
                size = 8 if kind == LONG else 4
                out.append(streams.take(sized(stream, size), size))
        return b"".join(out), results

    def _shared(self, path: Path) -> bytes:
        get = partial(solid_images.get, self.streams) if path == IMAGE else None
        value = self.shared.get(self.streams, _name(path), get)
        if path == NAMES:
            self.names.add(value)
        return value

    def _instances(self, count: int) -> Iterator[bytes]:
        streams = self.streams
        number = streams.number("idents=")
        if number == len(self.idents):
            self.idents.append(self._first(count))
        key = varint(INSTANCES << 3 | BYTES)
        for ident, value in zip(self.idents[number], self._values(number, count), strict=True):
            yield key + varint(len(ident) + len(value) + 1) + ident + b"\x12" + value

    def _first(self, count: int) -> list[bytes]:
        """The first columns: key, length and bytes of each."""
        out, last = [], 0
        if not self.streams.number("idents?"):
            return [_framed(_IDENT, self.streams.bytes("ident")) for _ in range(count)]
        for _ in range(count):
            last += self.streams.signed("idents")
            out.append(_framed(_IDENT, bytes([_WHOLE]) + varint(last)))
        return out

    def _values(self, idents: int, count: int) -> Iterable[bytes]:
        """The second columns: length and bytes of each."""
        streams, kind, column = self.streams, self.streams.number("values?"), self.names.column
        if kind == _DOUBLES:
            name = f"doubles/{column}"
            return [b"\x09\x19" + streams.take(name, 8) for _ in range(count)]
        if kind == _OTHERS:
            return [_framed(None, streams.bytes("value")) for _ in range(count)]
        if kind == _REST:
            numbers = self.names.left(idents) or []
        else:
            name = f"values/{column}"
            numbers = [streams.number(name) for _ in range(count)]
        self.names.sampled(idents, numbers)
        return [_framed(None, bytes([_WHOLE]) + varint(number)) for number in numbers]


def _framed(key: int | None, value: bytes) -> bytes:
    return (b"" if key is None else bytes([key])) + varint(len(value)) + value


def _pair(data: bytes, at: int, end: int) -> tuple[bytes, bytes] | None:
    """Fields 1 and 2 of an instance, where it has just these."""
    if at >= end or data[at] != _IDENT:
        return None
    size, at = read_varint(data, at + 1)
    ident, at = data[at : at + size], at + size
    if at >= end or data[at] != _VALUE:
        return None
    size, at = read_varint(data, at + 1)
    short = len(ident) + size < 120  # lengths of one byte
    return (ident, data[at : at + size]) if at + size == end and short else None


def _numbers(values: Iterable[bytes]) -> list[int] | None:
    """The numbers that these are, where each is a field 5 and nothing else."""
    out = []
    for value in values:
        if len(value) < 2 or value[0] != _WHOLE:
            return None
        number, end = read_varint(value, 1)
        if end != len(value):
            return None
        out.append(number)
    return out


def _name(path: Path) -> str:
    return ".".join(map(str, path))


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])
