"""Named streams of bytes, into which files are taken apart: values of a kind stand together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping


class Streams:
    """What is written, or read from where the last reading ended; by name."""

    def __init__(self, data: Mapping[str, bytes] | None = None) -> None:
        self.data: defaultdict[str, bytearray] = defaultdict(bytearray)
        self.given = dict(data or {})
        self.at: defaultdict[str, int] = defaultdict(int)

    def take(self, name: str, size: int) -> bytes:
        at = self.at[name]
        self.at[name] = at + size
        if at + size > len(self.given[name]):
            raise ValueError(f"{name}: out of range")
        return self.given[name][at : at + size]

    def put_number(self, name: str, value: int) -> None:
        self.data[name] += varint(value)

    def number(self, name: str) -> int:
        value, self.at[name] = read_varint(self.given[name], self.at[name])
        return value

    def put_bytes(self, name: str, value: bytes) -> None:
        self.put_number(_lengths(name), len(value))
        self.data[name] += value

    def bytes(self, name: str) -> bytes:
        return self.take(name, self.number(_lengths(name)))

    def put_signed(self, name: str, value: int) -> None:
        self.put_number(name, value << 1 if value >= 0 else (-value << 1) - 1)

    def signed(self, name: str) -> int:
        value = self.number(name)
        return -(value + 1 >> 1) if value & 1 else value >> 1


def _lengths(name: str) -> str:
    kind, slash, number = name.partition("/")
    return f"{kind}#{slash}{number}"


class Shared:
    """Large fields, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, dict[bytes, int]] = defaultdict(dict)
        self.values: dict[str, list[bytes]] = defaultdict(list)

    def put(self, streams: Streams, name: str, value: bytes, put: Callable[[bytes], None] | None = None) -> None:
        """put: what writes the value when it comes first, if bytes as they are will not do."""
        known = self.numbers[name]
        number = known.setdefault(value, len(known))
        streams.put_number(name + "=", number)
        if number == len(self.values[name]):
            self.values[name].append(value)
            if put is None:
                streams.put_bytes(name, value)
            else:
                put(value)

    def get(self, streams: Streams, name: str, get: Callable[[], bytes] | None = None) -> bytes:
        number, known = streams.number(name + "="), self.values[name]
        if number == len(known):
            known.append(streams.bytes(name) if get is None else get())
        return known[number]

    def column(self, name: str) -> int:
        """The number that a name of a column has: in the order in which they were met."""
        columns = self.numbers["column"]
        return columns.setdefault(name.encode(), len(columns))


def varint(value: int) -> bytes:
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


_SMALL = [bytes([value]) for value in range(128)]


def read_varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
