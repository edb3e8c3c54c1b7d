"""The events of a Chrome trace, one chunk at a time, however large the file: decoded by msgspec where a chunk is sound,
event by event where it is not (control characters, unescaped quotes), up to the last whole one of a truncated file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from kscope.model.errors import KscopeError

CHUNK = 16 << 20
LARGEST = 64 << 20
"""Bytes that one event, or all that stands before the first or after the last one, may take."""
EXACT_US = 1 << 43
"""Up to here a double holds microseconds to half a nanosecond."""

_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|id|s|bp)"\s*:)')
_TEXT_BORDER = re.compile(_BORDER.pattern.decode())
_LATE = re.compile(rb'"ts"\s*:\s*\d{13,}\.')
"""A time with decimals, of so many digits that a double may not hold them all."""
_EPOCH = re.compile(rb'"ts"(\s*:\s*)(\d{5})\d{11}\.\d')
_EPOCH_US = 10**11
"""Absolute microseconds have 16 digits from 2001 to 2286. Their first five are the same for 27 hours: the digit 1 in
their place leaves a number that a double holds."""
_GAP = re.compile(r"[\s,]*")
_BEFORE = re.compile(rb"[, \t\r\n]*")
_TRIES = 8
_DIGITS = 20  # of an integer of 64 bits, with its sign


class _Text(str):
    """Text whose lines nobody counts: json's exception does for every fault, from the start of the text. A text of
    faults would take time that grows with its square."""

    __slots__ = ()

    def count(self, *_: Any) -> int:
        return 0

    def rfind(self, *_: Any) -> int:
        return -1


def _decimal(text: str) -> Decimal:
    """A number as written, without what making a Python integer of it would take; NaN for an exponent beyond all."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _DIGITS else _decimal(text)


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that say what ran on the GPU; as they come, of any type."""

    device: Any = None
    stream: Any = None
    correlation: Any = None
    bytes: Any = None
    grid: Any = None
    block: Any = None
    graph: Any = msgspec.field(name="graph node id", default=None)
    graph_id: Any = msgspec.field(name="graph id", default=None)
    kernel_file: Any = None
    collective: Any = msgspec.field(name="Collective name", default=None)
    sent: Any = msgspec.field(name="In msg nelems", default=None)
    received: Any = msgspec.field(name="Out msg nelems", default=None)
    dtype: Any = None
    group_size: Any = msgspec.field(name="Group size", default=None)
    group: Any = msgspec.field(name="Process Group Name", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    source: Any = msgspec.field(name="Src Rank", default=None)
    target: Any = msgspec.field(name="Dst Rank", default=None)
    waits_on: Any = msgspec.field(name="wait_on_stream", default=None)
    record: Any = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=None)
    memory_bytes: Any = msgspec.field(name="Bytes", default=None)
    address: Any = msgspec.field(name="Addr", default=None)
    allocated: Any = msgspec.field(name="Total Allocated", default=None)
    reserved: Any = msgspec.field(name="Total Reserved", default=None)
    device_type: Any = msgspec.field(name="Device Type", default=None)
    device_id: Any = msgspec.field(name="Device Id", default=None)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default_factory=msgspec.Raw)
    types: msgspec.Raw = msgspec.field(name="Input type", default_factory=msgspec.Raw)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default_factory=msgspec.Raw)
    values: msgspec.Raw = msgspec.field(name="Concrete Inputs", default_factory=msgspec.Raw)


_UNDECODED = frozenset({"Input Dims", "Input type", "Input Strides", "Concrete Inputs"})


def _undecoded(raw: Any) -> Any:
    """An event that json decoded, with what stays text in Args as text again."""
    args: Any = raw.get("args") if isinstance(raw, dict) else None
    if isinstance(args, dict):
        for name in args.keys() & _UNDECODED:
            args[name] = msgspec.Raw(json.dumps(args[name], default=str).encode("utf-8", "replace"))
    return raw


class Event(msgspec.Struct, gc=False):
    """One event. ts, dur: microseconds, with up to three decimals."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: int | float | None = None
    dur: int | float | None = None
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """An Event whose times keep all their digits, for absolute times with decimals."""

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: Args | None = None


_fast = msgspec.json.Decoder(list[Event])
_exact = msgspec.json.Decoder(list[ExactEvent])


def _decoded(text: bytes) -> tuple[list[Any], int]:
    """(events, what is to be added to their times in us). Absolute times with decimals are made small as text, where
    all times of the chunk begin alike, and else kept with all their digits, which takes longer."""
    late = _LATE.search(text)
    if late is None:
        return _fast.decode(text), 0
    found = _EPOCH.search(text, late.start())
    if found is not None and found[2] > b"10000":
        key = b'"ts"' + found[1]
        events: list[Any] = _fast.decode(text.replace(key + found[2], key + b"1"))
        times = [e.ts for e in events if e.ts is not None]
        if len(times) == text.count(key + found[2]) and _EPOCH_US <= min(times) <= max(times) < 2 * _EPOCH_US:
            return events, (int(found[2]) - 1) * _EPOCH_US
    events = _fast.decode(text) if found is None else _exact.decode(text)
    if found is None and any(type(e.ts) is float and e.ts >= EXACT_US for e in events):
        events = _exact.decode(text)
    return events, 0


class Events:
    """Iterates over lists of events. Afterwards `header` has the other keys of the file, `damaged` counts the events
    that could not be read, `truncated` says that the list of events has no end."""

    def __init__(self, pieces: Iterable[bytes], path: str, chunk: int = CHUNK) -> None:
        self._pieces = iter(pieces)
        self._path = path
        self._chunk = chunk
        self.header: dict[str, Any] = {}
        self.damaged = 0
        self.truncated = False
        self.shift_us = 0
        """To be added to the times of the events that were yielded last."""

    def __iter__(self) -> Iterator[list[Any]]:
        """Raises KscopeError (input) where there is no list of events."""
        buffer = self._start()
        ended = False
        while not ended:
            more = self._more(buffer)
            found = self._sound(buffer)
            if found is not None:
                events, used = found
            else:
                events, used, ended = self._one_by_one(buffer)
            if events:
                yield events
            del buffer[:used]
            if found is None and not more and not ended:
                self.truncated = True
                return
            if not used and len(buffer) > LARGEST:
                raise KscopeError("corrupt", f"{self._path}: no end of an event in {LARGEST >> 20} MB", "record again")
        self._rest(buffer)

    def _more(self, buffer: bytearray) -> bool:
        """Fill the buffer to a chunk, or by one when it is full; False at the end of the file."""
        target = max(self._chunk, len(buffer) + (self._chunk >> 3))
        for piece in self._pieces:
            buffer += piece
            if len(buffer) >= target:
                return True
        return False

    def _start(self) -> bytearray:
        """The buffer from the first event on; what stands before goes into the header."""
        buffer = bytearray()
        for piece in self._pieces:
            buffer += piece
            if buffer.lstrip()[:1] == b"[":
                del buffer[: buffer.index(b"[") + 1]
                return buffer
            if begin := _BEGIN.search(buffer):
                self._keys(bytes(buffer[: begin.start()]).rstrip().rstrip(b",") + b"}")
                del buffer[: begin.end()]
                return buffer
            if len(buffer) > LARGEST:
                break
        message = f"{self._path}: JSON without traceEvents, so not a trace of the torch profiler"
        raise KscopeError("unknown-kind", message, "export one with profiler.export_chrome_trace(...)")

    def _rest(self, buffer: bytearray) -> None:
        for piece in self._pieces:
            buffer += piece
            if len(buffer) > LARGEST:
                return
        text = bytes(buffer).strip().removeprefix(b",").strip()
        if text.startswith(b'"'):
            self._keys(b"{" + text)

    def _keys(self, text: bytes) -> None:
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # only names of devices and versions are lost
        if isinstance(found, dict):
            self.header.update(found)

    def _sound(self, buffer: bytearray) -> tuple[list[Any], int] | None:
        """All events but the last of a buffer that decodes as it stands, and the bytes that they took."""
        window = max(len(buffer) - (256 << 10), 0)
        borders = list(_BORDER.finditer(buffer, window)) or list(_BORDER.finditer(buffer))
        begin = _BEFORE.match(buffer).end()  # type: ignore[union-attr]
        for border in reversed(borders[-_TRIES:]):
            with memoryview(buffer) as all_:
                text = b"".join((b"[", all_[begin : border.start() + 1], b"]"))
            try:
                events, self.shift_us = _decoded(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a name that is no UTF-8; deep nesting
                continue
            return events, border.end()
        return None

    def _one_by_one(self, buffer: bytearray) -> tuple[list[Any], int, bool]:
        """Whole events of the buffer, the bytes used, and whether the list of events ended there."""
        self.shift_us = 0
        text = _Text(buffer.decode("utf-8", "surrogateescape"))
        decoder = json.JSONDecoder(strict=False, parse_float=_decimal, parse_int=_integer)
        events: list[Any] = []
        at, ended = 0, False
        while True:
            at = _GAP.match(text, at).end()  # type: ignore[union-attr]
            if at >= len(text):
                break
            if text[at] == "]":
                at, ended = at + 1, True
                break
            try:
                raw, at = decoder.raw_decode(text, at)
                events.append(msgspec.convert(_undecoded(raw), ExactEvent))
            except msgspec.ValidationError:
                self.damaged += 1
            except (ValueError, RecursionError):
                border = _TEXT_BORDER.search(text, at)
                if border is None:
                    break  # the rest of it is still to come, or was never written
                self.damaged += 1
                at = border.end()
        return events, len(text[:at].encode("utf-8", "surrogateescape")), ended
