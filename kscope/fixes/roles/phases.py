"""What an order of threads keeps of mbarriers and of warpgroups."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Phase(Struct):
    """`waits`: (thread, its time) of those who waited for it; `promised`: of those who announced bytes."""

    clock: Any
    arrived: int = 0
    bytes: int = 0
    copied: int = 0
    waits: list[tuple[int, int]] = []
    promised: list[tuple[int, int]] = []


class Bar(Struct):
    number: int
    count: int
    begun: tuple[int, int]
    """Thread and its time."""
    phases: list[Phase] = []
    over: int = 0
    early: list[tuple[int, int]] = []
    """Who waited for the phase in front of the first."""


class Team(Struct):
    """A warpgroup. `groups`: for each of its warps how far the threads had come at each group of its products; `ran`:
    at the last product."""

    groups: list[list[Any]]
    ran: list[Any]
