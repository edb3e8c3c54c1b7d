"""Recordings of the torch profiler as streams: what tools/pack_ranks.py writes, an event a line, sorted by kind and
time. Texts stand once, times are counted from what comes before: on the host from the begin or end before on the same
thread, on the device from the launch or from the end of the work before on the same stream, whichever is later. How
long an event takes stands with others of its name: as the number of events directly inside, and the time from the end
of the last of these, or from its own start."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.streams import Shared, Streams

MAGIC = b"{"
EVENT = re.compile(
    rb'\{"ph":"X","cat":"(\w+)","name":"((?:[^"\\]|\\.)*)","pid":(-?\d+),"tid":(-?\d+),'
    rb'"ts":(\d+)\.(\d{3}),"dur":(\d+)\.(\d{3})(.*)\}(,?)'
)
LINK = re.compile(rb'"correlation":(\d+)')
LINKED = b'"correlation":#'
DEVICE = (b"kernel", b"gpu_memcpy", b"gpu_memset")
HEAD, TAIL = b'"traceEvents":[\n', b"\n]}"


class Event(NamedTuple):
    kind: bytes
    name: bytes
    where: bytes  # process and thread, or device and stream
    start: int  # ns
    length: int  # ns
    rest: bytes  # its arguments, with LINKED in the place of a correlation
    link: int  # the correlation plus one, 0 where it has none


class Writer:
    """Takes one recording apart."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams, self.shared = streams, shared

    def file(self, data: bytes) -> None:
        found = _events(data)
        self.streams.put_bytes("recording", data if found is None else found[0])
        self.streams.put_number("recording?", 0 if found is None else 1)
        if found is None:
            return
        events = sorted(found[1], key=lambda e: e.start)
        host = [event for event in events if event.kind not in DEVICE]
        device = [event for event in events if event.kind in DEVICE]
        wheres = _Table()
        clock = _Clock()
        for part in (host, device):
            self.streams.put_number("events", len(part))
            inside = _Inside()
            ends = [(0, 0) if part is device else inside.put(event) for event in reversed(part)]
            for event, (count, _) in zip(part, reversed(ends), strict=True):
                self._event(event, count, wheres, clock, on_device=part is device)
            for event, (count, rest) in zip(reversed(part), ends, strict=True):
                if count:
                    self.streams.put_signed(f"behind/{_column(self.shared, event)}", rest)

    def _event(self, event: Event, inside: int, wheres: _Table, clock: _Clock, *, on_device: bool) -> None:
        streams, what = self.streams, b"\0".join((event.kind, event.name, event.rest))
        self.shared.put(streams, "event", what)
        number, new = wheres.number(event.where)
        streams.put_number("where", number)
        if new:
            streams.put_bytes("where?", event.where)
        side = "device" if on_device else "host"
        if event.link:
            streams.put_signed(f"link.{side}", clock.linked(event.link, on_device=on_device))
        streams.put_signed(f"start.{side}", event.start - clock.expected(event, on_device=on_device))
        column = _column(self.shared, event)
        if not on_device:
            streams.put_number(f"inside/{column}", inside)
        if not inside:
            streams.put_number(f"length/{column}", event.length)
        clock.after(event, 0 if inside else event.length, on_device=on_device)


class Reader:
    """Puts one recording together."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams, self.shared = streams, shared

    def file(self) -> bytes:
        head = self.streams.bytes("recording")
        if not self.streams.number("recording?"):
            return head
        wheres: list[bytes] = []
        clock, events = _Clock(), list[Event]()
        for on_device in (False, True):
            part = [self._event(wheres, clock, on_device=on_device) for _ in range(self.streams.number("events"))]
            inside, done = _Inside(), list[Event]()
            for event, count in reversed(part):
                rest = self.streams.signed(f"behind/{_column(self.shared, event)}") if count else event.length
                done.append(event if on_device else inside.get(event, count, rest))
            events += reversed(done)
        return head + HEAD + b",\n".join(map(_line, sorted(events, key=lambda e: (e.kind, e.start)))) + TAIL

    def _event(self, wheres: list[bytes], clock: _Clock, *, on_device: bool) -> tuple[Event, int]:
        """An event and how many are directly inside; its length, where none is."""
        streams = self.streams
        kind, name, rest = self.shared.get(streams, "event").split(b"\0")
        number = streams.number("where")
        if number == len(wheres):
            wheres.append(streams.bytes("where?"))
        side = "device" if on_device else "host"
        link = clock.link(streams.signed(f"link.{side}"), on_device=on_device) if LINKED in rest else 0
        event = Event(kind, name, wheres[number], 0, 0, rest, link)
        start = streams.signed(f"start.{side}") + clock.expected(event, on_device=on_device)
        column = _column(self.shared, event)
        inside = 0 if on_device else streams.number(f"inside/{column}")
        event = event._replace(start=start, length=0 if inside else streams.number(f"length/{column}"))
        clock.after(event, event.length, on_device=on_device)
        return event, inside


def _column(shared: Shared, event: Event) -> int:
    return shared.column((event.kind + b"\0" + event.name).decode())


class _Inside:
    """Events of the host from the last to the first: by thread, those inside none met yet, the first on top."""

    def __init__(self) -> None:
        self.open: defaultdict[bytes, list[Event]] = defaultdict(list)

    def put(self, event: Event) -> tuple[int, int]:
        """How many events are directly inside, and how long it goes on behind the last of them."""
        stack, count, end = self.open[event.where], 0, event.start
        while stack and stack[-1].start < event.start + event.length:
            last = stack.pop()
            end, count = last.start + last.length, count + 1
        stack.append(event)
        return count, event.start + event.length - end

    def get(self, event: Event, count: int, rest: int) -> Event:
        """The event with its length."""
        stack, end = self.open[event.where], event.start
        for _ in range(count):
            last = stack.pop()
            end = last.start + last.length
        event = event._replace(length=end + rest - event.start)
        stack.append(event)
        return event


class _Table:
    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def number(self, value: bytes) -> tuple[int, bool]:
        new = value not in self.numbers
        return self.numbers.setdefault(value, len(self.numbers)), new


class _Clock:
    """What is known of the events so far: by thread or stream where the next one is expected, by correlation when its
    call began."""

    def __init__(self) -> None:
        self.next: defaultdict[bytes, int] = defaultdict(int)
        self.calls: dict[int, int] = {}
        self.links: list[int] = []
        self.at: dict[int, int] = {}
        self.last = [0, 0]

    def linked(self, link: int, *, on_device: bool) -> int:
        """On the host how far a correlation is from the one before, on the device by how many calls."""
        value = self.at.get(link, -1) if on_device else link
        if value < 0:  # of no call: as it is, below all others
            return -(1 << 40) - link
        return value - self.last[on_device]

    def link(self, value: int, *, on_device: bool) -> int:
        if value < -(1 << 39):
            return -(1 << 40) - value
        value += self.last[on_device]
        return self.links[value] if on_device else value

    def expected(self, event: Event, *, on_device: bool) -> int:
        return max(self.next[event.where], self.calls.get(event.link, 0) if on_device else 0)

    def after(self, event: Event, length: int, *, on_device: bool) -> None:
        """length: of the event as far as it is known, 0 while events inside it follow."""
        self.next[event.where] = event.start + length
        if on_device:
            self.last[1] = self.at.get(event.link, self.last[1])
            return
        if event.link:
            self.last[0] = event.link
            self.calls[event.link] = event.start
            if event.link not in self.at:
                self.at[event.link] = len(self.links)
                self.links.append(event.link)


def _events(data: bytes) -> tuple[bytes, list[Event]] | None:
    """What stands before the events, and these; None where the text is made otherwise."""
    head, found, rest = data.partition(HEAD)
    if not found or not rest.endswith(TAIL):
        return None
    events = list(_parsed(rest.removesuffix(TAIL)))
    again = sorted(sorted(events, key=lambda e: e.start), key=lambda e: (e.kind, e.start))
    return (head, events) if head + HEAD + b",\n".join(map(_line, again)) + TAIL == data else None


def _parsed(text: bytes) -> Iterator[Event]:
    for line in text.split(b"\n"):
        found = EVENT.fullmatch(line)
        if found is None:
            return
        kind, name, pid, tid, us, ns, length, length_ns, rest, _ = found.groups()
        link = LINK.search(rest)
        yield Event(
            kind, name, pid + b" " + tid, int(us + ns), int(length + length_ns),
            LINK.sub(LINKED, rest, count=1), int(link[1]) + 1 if link else 0,
        )  # fmt: skip


def _line(event: Event) -> bytes:
    pid, _, tid = event.where.partition(b" ")
    rest = event.rest.replace(LINKED, b'"correlation":%d' % (event.link - 1), 1)
    times = b'"ts":%d.%03d,"dur":%d.%03d' % (*divmod(event.start, 1000), *divmod(event.length, 1000))
    return b'{"ph":"X","cat":"%s","name":"%s","pid":%s,"tid":%s,%s%s}' % (event.kind, event.name, pid, tid, times, rest)
