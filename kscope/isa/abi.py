"""Conventions of the driver and the compiler, by target. Numbers and their sources are in `arch/abi.toml`."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from kscope.arch import table


class Abi(Struct, frozen=True):
    """`parameters`, `block_shape`: byte offsets in constant bank 0 of the first kernel parameter and of blockDim.
    `widest_access`: bytes a lane of the widest global access. `dual_fma`: whether FFMA has two pipes, IMAD one."""

    parameters: int
    block_shape: int
    widest_access: int
    dual_fma: bool


@cache
def abi(sm: int) -> Abi:
    """The conventions of a target (90 for sm_90): of the nearest entry at or below it, of the lowest below all."""
    rows = table("abi")
    known = sorted(map(int, rows))
    return Abi(**rows[str(max((k for k in known if k <= sm), default=known[0]))])
