"""The catalogue of cheats, and findings made from it."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Literal

from msgspec import Struct

from kscope.bench.values.result import Finding, Standing


class Cheat(Struct, frozen=True):
    """One entry of cheats.toml."""

    number: int
    name: str
    here: Literal["caught", "no effect", "seen", "out of reach"]
    how: str


@cache
def catalogue() -> dict[int, Cheat]:
    data = tomllib.loads(resources.files("kscope.bench.values").joinpath("cheats.toml").read_text(encoding="utf-8"))
    return {int(key): Cheat(int(key), **row) for key, row in data.items()}


def finding(number: int, evidence: str, standing: Standing = "caught") -> Finding:
    cheat = catalogue()[number]
    return Finding(cheat=number, name=cheat.name, standing=standing, evidence=evidence, how=cheat.how)
