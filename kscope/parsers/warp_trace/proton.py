"""Triton Proton's intra-kernel traces (`data="trace", backend="instrumentation"`; Chrome JSON, Triton 3.4 to 3.6) to
KernelTraces, one a kernel. What the format holds, and its traps: parsers/ktrace.md."""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec

from kscope.model.errors import KscopeError, one_line
from kscope.model.faults import in_words
from kscope.model.trace import KernelTrace, Scope, TraceWarp

_PLACE = re.compile(r"(.*) Core(\d+) CTA(\d+)", re.DOTALL)
_WARP = re.compile(r"warp (\d+)\b")


class _Event(msgspec.Struct, frozen=True):
    name: str
    ph: str = ""
    cat: str = ""
    pid: str | int = ""
    tid: str | int = ""
    ts: float = 0.0
    dur: float = 0.0


class _File(msgspec.Struct, frozen=True):
    traceEvents: list[_Event]


def parse(data: bytes, name: str) -> tuple[KernelTrace, ...]:
    """The traces in these bytes; `name` is for messages. Times are SM cycles, written as if the clock were 1 GHz.

    Raises KscopeError (input) where it is no trace of Proton's, or not whole.
    """
    try:
        events = msgspec.json.decode(data, type=_File).traceEvents
    except msgspec.ValidationError:
        events = []
    except RecursionError as error:
        raise KscopeError("damaged", f"{name}: {in_words(error)}", "record it again") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KscopeError("damaged", f"{name}: {one_line(str(error))}", "copy it again, or record it again") from None
    kernels: dict[str, dict[tuple[int, int, int], list[_Event]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        place, warp = _PLACE.fullmatch(str(event.pid)), _WARP.match(str(event.tid))
        if event.ph == "X" and event.cat != "flow" and place and warp and event.dur >= 0:
            kernels[place[1]][int(place[3]), int(place[2]), int(warp[1])].append(event)
    if not kernels:
        raise KscopeError(
            "foreign", f"{name}: JSON, but not an intra-kernel trace of Triton Proton's",
            "torch profiler traces: kscope analyze; for the rest see `kscope trace --help`",
        )  # fmt: skip
    return tuple(_trace(kernel, warps) for kernel, warps in kernels.items())


def _trace(kernel: str, warps: dict[tuple[int, int, int], list[_Event]]) -> KernelTrace:
    names: dict[str, int] = {}
    out = KernelTrace(
        source="proton", kernel=kernel, device="", sms=0, blocks=0, stride=1, clock_ghz=None,
        notes={"time": "SM cycles, counted as ns"}, scopes=(), warps=(),
        warp=[], scope=[], begin=[], end=[], payload=[],
    )  # fmt: skip
    table = []
    origin = min(e.ts for events in warps.values() for e in events)
    for i, ((block, sm, warp), events) in enumerate(sorted(warps.items())):
        events.sort(key=lambda e: (e.ts, -e.dur))
        for e in events:
            out.warp.append(i)
            out.scope.append(names.setdefault(e.name, len(names)))
            out.begin.append((e.ts - origin) * 1e3)
            out.end.append((e.ts + e.dur - origin) * 1e3)
            out.payload.append(0)
        role = ", ".join(dict.fromkeys(e.name for e in events))  # Proton has no roles: warps that mark the same scopes
        begin, end = events[0].ts, max(e.ts + e.dur for e in events)
        begin, end, count = (begin - origin) * 1e3, (end - origin) * 1e3, len(events)
        table.append(TraceWarp(role, sm, block, warp, begin, end, count, count))
    return msgspec.structs.replace(out, scopes=tuple(Scope(n) for n in names), warps=tuple(table))
