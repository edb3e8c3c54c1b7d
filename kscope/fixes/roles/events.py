"""What a warp does that others see, in its order: as played, without waiting for anybody."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Access(Struct, frozen=True):
    """Bytes of memory. `at`: where each lane's begin, None where that is not known; `wide`: how many they are; `all`:
    whether what one lane names all lanes get. Space "" is shared memory."""

    lanes: Any
    space: str
    at: Any
    wide: int
    write: bool
    all: bool = False


class Copy(Struct, frozen=True):
    """Bulk copies from an array into shared memory that arrive at any later time, and then at an mbarrier."""

    lanes: Any
    at: Any
    bytes: Any
    bar: Any
    source: str


class Begun(Struct, frozen=True):
    """An mbarrier is made."""

    lanes: Any
    bar: Any
    count: Any


class Arrived(Struct, frozen=True):
    """`count` arrivals, 0 where only bytes are announced."""

    lanes: Any
    bar: Any
    count: Any
    bytes: Any


class Waited(Struct, frozen=True):
    lanes: Any
    bar: Any
    parity: Any


class Met(Struct, frozen=True):
    """A warp's lanes wait for each other."""

    lanes: Any


class Stopped(Struct, frozen=True):
    """A barrier of the block, of so many threads: 0 for all. `waits`: whether it waits, or arrives only; `mark`: which
    of the marked statements it is, -1 for none."""

    lanes: Any
    number: int
    count: int
    waits: bool
    mark: int = -1


Event = Access | Copy | Begun | Arrived | Waited | Met | Stopped
