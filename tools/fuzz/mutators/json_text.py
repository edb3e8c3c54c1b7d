"""Faults of JSON traces: odd values, events that are missing, doubled or swapped, numbers that no type holds."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from tools.fuzz.mutators import raw

_NUMBER = re.compile(rb"(?<=[:,\[ ])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[,}\] \n])")
_NUMBERS = (
    b"1e9999999", b"-1e9999999", b"1e-9999999", b"1E400", b"-0", b"0.1", b"NaN", b"Infinity", b"01", b"+1", b"1.",
    b"9" * 400, b"9" * 5000 + b".5", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809",
    b"1180591620717411303424", b"1e18", b"0x10", b"nope", b"[]", b"{}", b'"7"', b"null", b"true", b"",
)  # fmt: skip
_PHASES = ("X", "B", "E", "M", "i", "s", "f", "C", "", "XX", None, 7)
_DEEP = (40, 500, 1200, 100_000)


def mutate(rng: Random, data: bytes) -> bytes:
    if rng.random() < 0.75:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            for _ in range(raw.often(rng)):
                _fault(rng, document)
            data = _text(rng, document)
    for _ in range(rng.choice((0, 0, 1, 2)) if rng.random() < 0.5 else 0):
        data = _of_text(rng, data)
    return data


def _fault(rng: Random, document: dict[str, Any]) -> None:
    events = document.get("traceEvents")
    if not isinstance(events, list) or not events or rng.random() < 0.15:
        _change(rng, document)
        return
    at = rng.randrange(len(events))
    match rng.randrange(9):
        case 0:
            del events[at]
        case 1:
            events.insert(rng.randrange(len(events)), events[at])
        case 2:
            other = rng.randrange(len(events))
            events[at], events[other] = events[other], events[at]
        case 3:
            _mix(rng, events, at)
        case 4:
            key = rng.choice(("ts", "dur", "pid", "tid", "id", "name", "cat", "ph"))
            for event in events[at : at + rng.choice((1, 10, len(events)))]:
                if isinstance(event, dict) and key in event:
                    event[key] = _value(rng, event[key])
        case 5 if isinstance(events[at], dict):
            events[at]["ph"] = rng.choice(_PHASES)
        case 6:
            del events[at : at + rng.randrange(1, len(events))]
        case _:
            if isinstance(events[at], dict | list):
                _change(rng, events[at])
            else:
                events[at] = _value(rng, events[at])


def _mix(rng: Random, events: list[Any], at: int) -> None:
    """Keys of one event in another: categories meet arguments that are not theirs."""
    one, other = events[at], rng.choice(events)
    if isinstance(one, dict) and isinstance(other, dict):
        for key in list(other):
            if rng.random() < 0.5:
                one[key] = other[key]


def _change(rng: Random, value: Any, depth: int = 0) -> None:
    """One member of a container, deep down at times, changed, dropped or renamed."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = rng.choice(keys)
    if isinstance(value[key], dict | list) and value[key] and rng.random() < 0.7 and depth < 6:
        _change(rng, value[key], depth + 1)
    elif rng.random() < 0.2:
        del value[key]
    elif rng.random() < 0.15 and isinstance(value, dict):
        value[rng.choice(("args", "name", "ts", "cat", "stream", raw.NAMES[2]))] = value.pop(key)
    else:
        value[key] = _value(rng, value[key])


def _value(rng: Random, old: Any) -> Any:
    match rng.randrange(8):
        case 0 | 1 if isinstance(old, int | float) and not isinstance(old, bool):
            return rng.choice((old + 1, -old, old * 1000, old / 7, old * 10**9, -1, 0))
        case 0 | 1 | 2:
            return rng.choice((1, -1)) * raw.integer(rng)
        case 3:
            return rng.choice((0.1, 1e300, -1e300, 1e18, 5e-324, True, None, 1 << 70, float("nan"), float("inf")))
        case 4 | 5:
            return rng.choice(raw.NAMES)
        case 6:
            return rng.choice(([], {}, [old], {"x": old}, [[[]]], [1] * 300))
        case _:
            return str(old)


def _text(rng: Random, document: Any) -> bytes:
    ascii_ = rng.random() < 0.5
    spaces = rng.choice(((",", ":"), (", ", ": ")))
    text = json.dumps(document, ensure_ascii=ascii_, separators=spaces, indent=rng.choice((None, None, None, 1)))
    return text.encode("utf-8", "surrogatepass" if rng.random() < 0.5 else "replace")


def _of_text(rng: Random, data: bytes) -> bytes:
    match rng.randrange(7):
        case 0 | 1:
            numbers = list(_NUMBER.finditer(data))
            if not numbers:
                return data
            found = rng.choice(numbers)
            return data[: found.start()] + rng.choice(_NUMBERS) + data[found.end() :]
        case 2:
            at, deep = rng.randrange(len(data) + 1), rng.choice(_DEEP)
            opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
            return data[:at] + opening * deep + rng.choice((b"1", b"")) + closing * deep + data[at:]
        case 3:
            at = data.find(rng.choice((b'":', b"{", b"}", b",", b'"')), rng.randrange(len(data) + 1))
            put = rng.choice((b"\xff", b"\x00", b"\x01", b'"', b"\\", b"{", b"[", b"}", b"\\ud800", b"\\u0000"))
            return data if at < 0 else data[:at] + put + data[at + rng.choice((0, 1)) :]
        case 4:
            at, times = rng.randrange(len(data) + 1), rng.choice((1, 2000))
            return data[:at] + rng.choice((b'{"ph":[},', b'{"ph":"X"},{"ts":nope},')) * times + data[at:]
        case 5:
            return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"[", b"\n" * 300, b"")) + data
        case _:
            return raw.mutate(rng, data)
