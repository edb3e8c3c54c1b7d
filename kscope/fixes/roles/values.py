"""What names of a warp stand for that are no numbers: places, answers of tries, variables of who calls."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from kscope.fixes.roles.texts import UNKNOWN, Unknown


class Tried:
    """The answer of a try that is made again until a wait is over: the wait stands in its place."""


class Failed:
    """The opposite: what the loop around the try asks for."""


TRIED, FAILED = Tried(), Failed()
NEVER = Unknown()
"""What a variable has that no lane has given a value yet: lanes that have none do not use it."""


MAPS = ("CUtensorMap", "CUtensorMap_st")
"""Types of parameters that stand for a tensor in memory."""


class Place(Struct, frozen=True):
    """Bytes from `at` on of a parameter's array, of shared memory (""), or of an array of the lanes (its number)."""

    space: str | int
    at: Any
    size: int
    dims: tuple[int, ...] = ()

    def moved(self, by: Any) -> Place:
        if by is UNKNOWN or self.at is UNKNOWN:
            return structs.replace(self, at=UNKNOWN, dims=self.dims[1:] and (1, *self.dims[1:]))
        rows = 1
        for side in self.dims[1:]:
            rows *= side
        return structs.replace(self, at=self.at + by * rows * self.size, dims=self.dims[1:] and (1, *self.dims[1:]))


class Named(Struct, frozen=True):
    """A variable of the one who calls."""

    names: dict[str, Any]
    name: str
