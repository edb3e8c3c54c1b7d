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
    mark: int = -1
    """Of a store: which of the marked statements it is."""


class Copy(Struct, frozen=True):
    """Bulk copies from an array into shared memory that arrive at any later time, and then at an mbarrier. `box`: of
    a tensor, which the host has given its size."""

    lanes: Any
    at: Any
    bytes: Any
    bar: Any
    source: str
    box: bool = False


class Multiplied(Struct, frozen=True):
    """A product by a warpgroup that reads ranges (first byte, how many) of shared memory until its group is over."""

    lanes: Any
    read: tuple[tuple[int, int], ...]


class Grouped(Struct, frozen=True):
    """The products that a warp has begun since the last time are one group."""

    lanes: Any


class Settled(Struct, frozen=True):
    """All groups but so many of the last ones are over."""

    lanes: Any
    left: int


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
    of the marked statements it is, -1 for none. Of number -1: of all blocks of the cluster."""

    lanes: Any
    number: int
    count: int
    waits: bool
    mark: int = -1


Event = Access | Copy | Multiplied | Grouped | Settled | Begun | Arrived | Waited | Met | Stopped
