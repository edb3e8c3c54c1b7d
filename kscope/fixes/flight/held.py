"""Values that rounds load first, and the statements that do it."""

from __future__ import annotations

from msgspec import Struct


class Test(Struct, frozen=True):
    """What must hold for a statement to be run, and from which level on rounds ahead can tell."""

    text: str
    level: int


Tests = tuple[Test, ...]


class Held(Struct, frozen=True):
    """A value that rounds load first: the array of registers that it lies in and the type of its elements, its text
    where it stands, how many loads its place waits for, under which test."""

    name: str
    kind: str
    text: str
    span: tuple[int, int]
    level: int
    test: Tests


class Step(Struct, frozen=True):
    """A statement of the rounds ahead: what it gives a value to, and from which level on it can be made."""

    name: str
    text: str
    level: int
    test: Tests
