"""The `[memory]` events of torch profiler traces (`profile_memory`): what the allocator of a device gave and took."""

from __future__ import annotations

from array import array
from typing import Any

from kscope.model.columns import by_start, column
from kscope.model.timeline import Allocations

NAME = "[memory]"
_CPU = 0  # c10::DeviceType
_COLUMNS = ("start", "device", "bytes", "address", "allocated", "reserved", "thread")


class AllocationRows:
    """Filled event by event; those of the host are left out."""

    def __init__(self) -> None:
        self.columns = {name: array("q") for name in _COLUMNS}

    def add(self, start: int, thread: int, args: Any) -> None:
        """Raises TypeError, ValueError or OverflowError for a row that cannot be used; nothing of it is kept then."""
        if args is None or args.device_type is None or int(args.device_type) == _CPU:
            return
        values = (args.device_id, args.memory_bytes, args.address, args.allocated, args.reserved)
        row = (start, *(int(one) for one in values), thread)
        if min(row[4], row[5]) < 0 or max(map(abs, row)) >= 1 << 63:
            raise ValueError("an allocation out of range")
        for values_of, value in zip(self.columns.values(), row, strict=True):
            values_of.append(value)

    def sorted(self) -> Allocations | None:
        """In the order of time; None where there was nothing."""
        if not self.columns["start"]:
            return None
        raw = {name: column(values) for name, values in self.columns.items()}
        found = by_start({**raw, "end": raw["start"]})
        return Allocations(at=found["start"], **{name: found[name] for name in _COLUMNS[1:]})
