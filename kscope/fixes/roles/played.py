"""A block played with numbers for the kernel's parameters: what its warps do, and whether everything has an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import structs

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.given.source import SIZES
from kscope.fixes.roles.events import Event, Stopped
from kscope.fixes.roles.functions import meant
from kscope.fixes.roles.lanes import Shared
from kscope.fixes.roles.order import Order
from kscope.fixes.roles.tensors import sized
from kscope.fixes.roles.texts import UNKNOWN, Kernel
from kscope.fixes.roles.values import MAPS, Place
from kscope.fixes.roles.warp import Warp
from kscope.model.kernel import Launch
from kscope.model.lazily import np

EVENTS = 40_000  # of all warps: some seconds (judged)
ROUNDS = (1, 3, 7, 12, 20, 32)
FEW = (64, 128, 192, 256, 320, 384, 512, 640, 768, 1024)  # numbers for one cluster that does all the work
TIMES = 3  # that a warp comes to a barrier that may go: one tile's is not the next one's (judged)
PHASES = 2  # that each mbarrier goes through in the longest play: both parities, and slots that are used again
Warps = Sequence[Sequence[Event]]


def plays(kernel: Kernel, launch: Launch, *, together: bool = False) -> list[Warps]:
    """What the warps of the first cluster do, for several numbers of rounds, until each mbarrier has been through some
    phases. Numbers of the kernel are all the same: as many blocks of work as give so many rounds. Raises Unplayable
    where no numbers lead there, or where something has no order as the kernel is. What blocks of the launch come to
    once is played for a grid that is a cluster alone."""
    for unit in dict.fromkeys((launch.grid[0], 1, 16, 32, 64, 128, 256)):
        found: list[Warps] = []
        last = -1
        for rounds in ROUNDS:
            warps = events(kernel, launch, unit * rounds)
            order = Order(warps, together=together)
            order.run()
            if order.phases() <= last and rounds > ROUNDS[1]:
                break  # the numbers say nothing about rounds
            last = order.phases()
            found.append(warps)
            if last >= PHASES and not _again(warps):
                return _alone(kernel, launch, together)
            if last >= PHASES:
                return [*_more(kernel, launch, unit * ROUNDS[1], together), *found]
    return _alone(kernel, launch, together)


def _again(warps: Warps) -> bool:
    """Whether warps come often enough to each of the barriers that may go, if they come there at all."""
    counts = [Counter(e.mark for e in w if isinstance(e, Stopped) and e.mark >= 0) for w in warps]
    return all(n >= TIMES for one in counts for n in one.values())


def few(launch: Launch) -> Launch:
    """With as many blocks as a cluster has."""
    if max(launch.grid[1:]) > 1:
        raise Unplayable("a grid of several dimensions")
    return structs.replace(launch, grid=(max(1, launch.cluster[0]), 1, 1))


def _alone(kernel: Kernel, launch: Launch, together: bool) -> list[Warps]:
    """As many blocks as a cluster has do all of the work: what comes once a tile comes several times."""
    one = few(launch)
    if launch.grid == one.grid:
        raise Unplayable("rounds")
    found: list[Warps] = []
    for value in FEW:
        warps = events(kernel, one, value)
        order = Order(warps, together=together)
        found += [warps] if order.run() else []  # where there is no work nothing is compared
        passed = any(isinstance(e, Stopped) and e.mark >= 0 for w in warps for e in w)
        if order.phases() >= PHASES and passed and _again(warps):
            return [*_more(kernel, one, value, together), *found]
    raise Unplayable("rounds")


def _more(kernel: Kernel, launch: Launch, value: int, together: bool) -> list[Warps]:
    """The last block, and the first one for numbers that nothing divides, where the kernel as it is may have them."""
    tried = [events(kernel, launch, value, last=True)]
    for other in (value + 1,):
        try:
            warps = events(kernel, launch, other)
            Order(warps, together=together).run()
        except Unplayable:
            continue
        tried.append(warps)
    return tried


def ordered(warps: Warps, without: Collection[int], *, together: bool = False) -> int:
    """Accesses that were compared, if all have an order without these barriers; 0 otherwise."""
    try:
        return Order(warps, without, together=together).run()
    except Unplayable:
        return 0


def events(kernel: Kernel, launch: Launch, value: int, *, last: bool = False) -> Warps:
    """What each warp of the first block does, or of the last one, and of the others of its cluster, its numbers all of
    one value."""
    out, count, blocks = list[Sequence[Event]](), 0, max(1, launch.cluster[0])
    sides = zip("xyz", launch.grid, strict=True)
    block = {f"blockIdx.{side}": count - 1 if last else 0 for side, count in sides}
    if launch.threads % WARP or max(launch.cluster[1:]) > 1 or launch.grid[0] % blocks:
        raise Unplayable("a part of a warp, or a cluster along more than x")
    for rank in range(blocks):
        shared = Shared(rank=rank)
        block["blockIdx.x"] = (launch.grid[0] - blocks if last else 0) + rank
        for number in range(launch.threads // WARP):
            thread = number * WARP + np.arange(WARP)
            names = lane_names(kernel, launch, thread, value) | block
            one = Warp(kernel, names, shared, launch.threads, blocks)
            try:
                one.run(kernel.body)
            except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError,
                    RecursionError) as error:  # fmt: skip
                raise Unplayable(repr(error)) from error
            out.append(one.events)
            count += len(one.events)
            if count > EVENTS:
                raise Unplayable("long")
    return sized(out)


def lane_names(kernel: Kernel, launch: Launch, thread: Any, value: int) -> dict[str, Any]:
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
        pointer = p.way == "*" or p.kind in MAPS
        names[p.name] = Place(p.name, 0, SIZES.get(p.kind, 0) or 4) if pointer else value
        for name, kind, star in kernel.members.get(p.kind, ()):
            names[p.name] = UNKNOWN
            whole = f"{p.name}.{name}"
            names[whole] = Place(whole, 0, SIZES.get(kind, 0) or 4) if star else meant(kind, value)
    return names
