"""Makers of GPUs (vendors.toml): whose device a recording names, and their tools that take the counters of a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from kscope.arch import table

DEFAULT = "nvidia"


class Vendor(Struct, frozen=True):
    """`counters`: the tool as a sentence names it; `command`: with {kernel}, {file} and {skip} to be filled in."""

    name: str
    counters: str
    command: str


def vendor(devices: Iterable[str]) -> Vendor:
    """The maker of the first device that names one (`AMD Instinct MI300X`, `Intel(R) Data Center GPU Max 1550`);
    NVIDIA where none does."""
    makers = table("vendors")
    said = next(
        (key for device in devices for key, row in makers.items() if set(row["names"]) & set(_words(device))), DEFAULT
    )
    row = makers[said]
    return Vendor(name=row["name"], counters=row["counters"], command=row["command"])


class Named(Protocol):
    @property
    def name(self) -> str: ...


def vendor_of(devices: Iterable[Named]) -> Vendor:
    """The same of what has a name."""
    return vendor(device.name for device in devices)


def _words(device: str) -> list[str]:
    return re.findall(r"[a-z]+", device.lower())
