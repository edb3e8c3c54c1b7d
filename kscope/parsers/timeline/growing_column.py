"""Columns that grow block by block."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.signedinteger[Any]]
Values: TypeAlias = Numbers | int
"""A column of some rows, or the one value that they all have."""


def _type(values: Values) -> np.dtype[Any]:
    if isinstance(values, int):
        return np.dtype(np.int32 if -(1 << 31) <= values < 1 << 31 else np.int64)
    return values.dtype


class GrowingColumn:
    """A column that grows, without memory as long as all its values are the same."""

    def __init__(self) -> None:
        self.size = 0
        self.same: int | None = 0
        self.room: Numbers = np.empty(0, dtype=np.int32)

    def add(self, values: Values, count: int, likely: int) -> None:
        """`count` values; `likely` there will be so many in all."""
        if not count:
            return
        if not isinstance(values, int) and values[0] == values[-1] and (values == values[0]).all():
            values = int(values[0])
        if isinstance(values, int) and (self.same == values or not self.size):
            self.same = values
            self.size += count
            return
        end = self.size + count
        type_ = np.promote_types(self.room.dtype, _type(values))
        if self.same is not None:
            type_ = np.promote_types(type_, _type(self.same))
        if end > len(self.room) or type_ != self.room.dtype:
            room = np.empty(max(likely, end, len(self.room) * 3 // 2), dtype=type_)
            room[: self.size] = self.room[: self.size] if self.same is None else self.same
            self.room = room
        self.room[self.size : end] = values
        self.same, self.size = None, end

    def values(self) -> Numbers:
        if self.same is not None:
            return np.broadcast_to(np.int64(self.same), (self.size,))
        return self.room[: self.size]
