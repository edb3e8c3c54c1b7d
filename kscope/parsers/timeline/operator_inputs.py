"""The arguments of operators in a trace of the torch profiler (record_shapes=True), each distinct set decoded once."""

from __future__ import annotations

from typing import Any

from msgspec import DecodeError
from msgspec.json import decode

from kscope.model.errors import one_line
from kscope.model.timeline import Inputs

_LONGEST = 4096  # bytes of the sizes of one operator's arguments: longer ones are lists of hundreds of tensors
_MOST = 50_000  # distinct sets that are kept
_VALUE = 200
_LARGEST = 1 << 40


class OperatorInputs:
    """Sets of arguments, numbered from 1 as they come."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes, bytes, bytes], int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, args: Any) -> int:
        """The number of an operator's arguments (chrome_events.Args), 0 where they are not recorded."""
        dims = bytes(args.dims)
        if not dims or len(dims) > _LONGEST:
            return 0
        key = dims, bytes(args.types), bytes(args.strides), bytes(args.values)[: 4 * _LONGEST]
        number = self._known.get(key)
        if number is None:
            if len(self._known) >= _MOST:
                return 0
            number = self._known[key] = len(self._known) + 1
        return number

    def decoded(self) -> tuple[Inputs, ...]:
        return tuple(
            Inputs(_sizes(dims), _texts(types), _sizes(strides), _texts(values))
            for dims, types, strides, values in self._known
        )


def _list(text: bytes) -> list[Any]:
    try:
        found = decode(text) if text else []
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _sizes(text: bytes) -> tuple[tuple[int, ...], ...]:
    """Sizes of tensors; lists of tensors have none."""
    return tuple(
        tuple(each) if isinstance(each, list) and all(type(n) is int and 0 <= n < _LARGEST for n in each) else ()
        for each in _list(text)
    )


def _texts(text: bytes) -> tuple[str, ...]:
    return tuple(one_line(each)[:_VALUE] if isinstance(each, str) else "" for each in _list(text))
