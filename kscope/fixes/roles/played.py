"""A block played with numbers for the kernel's parameters: what its warps do, and whether everything has an order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.given.source import SIZES
from kscope.fixes.roles.events import Event
from kscope.fixes.roles.lanes import Shared
from kscope.fixes.roles.order import Order
from kscope.fixes.roles.texts import Kernel
from kscope.fixes.roles.values import Place
from kscope.fixes.roles.warp import Warp
from kscope.model.kernel import Launch
from kscope.model.lazily import np

EVENTS = 20_000  # of all warps: some seconds (judged)
ROUNDS = (1, 3, 7, 12, 20, 32)
PHASES = 2  # that each mbarrier goes through in the longest play: both parities, and slots that are used again
Warps = Sequence[Sequence[Event]]


def plays(kernel: Kernel, launch: Launch) -> list[Warps]:
    """What the warps of the first block do, for several numbers of rounds, until each mbarrier has been through some
    phases. Numbers of the kernel are all the same: as many blocks of work as give so many rounds. Raises Unplayable
    where no numbers lead there, or where something has no order as the kernel is."""
    for unit in dict.fromkeys((launch.grid[0], 1, 16, 32, 64, 128, 256)):
        found: list[Warps] = []
        last = -1
        for rounds in ROUNDS:
            warps = events(kernel, launch, unit * rounds)
            order = Order(warps)
            order.run()
            if order.phases() <= last and rounds > ROUNDS[1]:
                break  # the numbers say nothing about rounds
            last = order.phases()
            found.append(warps)
            if last >= PHASES:
                return [*_more(kernel, launch, unit * ROUNDS[1]), *found]
    raise Unplayable("rounds")


def _more(kernel: Kernel, launch: Launch, value: int) -> list[Warps]:
    """The last block, and the first one for numbers that nothing divides, where the kernel as it is may have them."""
    tried = [events(kernel, launch, value, last=True)]
    for other in (value + 1,):
        try:
            warps = events(kernel, launch, other)
            Order(warps).run()
        except Unplayable:
            continue
        tried.append(warps)
    return tried


def ordered(warps: Warps, without: Collection[int]) -> int:
    """Accesses that were compared, if all have an order without these barriers; 0 otherwise."""
    try:
        return Order(warps, without).run()
    except Unplayable:
        return 0


def events(kernel: Kernel, launch: Launch, value: int, *, last: bool = False) -> Warps:
    """What each warp of the first block does, or of the last one, its numbers all of one value."""
    shared, out, count = Shared(), list[Sequence[Event]](), 0
    sides = zip("xyz", launch.grid, strict=True)
    block = {f"blockIdx.{side}": count - 1 if last else 0 for side, count in sides}
    if launch.threads % WARP:
        raise Unplayable("a part of a warp")
    for number in range(launch.threads // WARP):
        thread = number * WARP + np.arange(WARP)
        one = Warp(kernel, _names(kernel, launch, thread, value) | block, shared)
        try:
            one.run(kernel.body)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise Unplayable(repr(error)) from error
        out.append(one.events)
        count += len(one.events)
        if count > EVENTS:
            raise Unplayable("long")
    return out


def _names(kernel: Kernel, launch: Launch, thread: Any, value: int) -> dict[str, Any]:
    x, y, z = launch.block
    gx, gy, gz = launch.grid
    names: dict[str, Any] = {
        **kernel.numbers, "threadIdx.x": thread % x, "threadIdx.y": thread // x % y if y > 1 else 0,
        "threadIdx.z": thread // (x * y) if z > 1 else 0, "blockDim.x": x, "blockDim.y": y, "blockDim.z": z,
        "gridDim.x": gx, "gridDim.y": gy, "gridDim.z": gz,
        "warpSize": WARP,
    }  # fmt: skip
    for p in kernel.parameters:
        names[f"{p.name}#"] = p.kind
        names[p.name] = Place(p.name, 0, SIZES.get(p.kind, 0) or 4) if p.way == "*" else value
    return names
