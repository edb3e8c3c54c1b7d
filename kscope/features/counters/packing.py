"""What another block size makes of a launch with the same threads: how many fit an SM, how full their warps are, how
often blocks start.

Fuller warps save issue slots only where their lanes go the same way. How far they do shows in the lanes that are
active now: a warp that holds w lanes and runs with a of them on average executes w / a passes. Lanes that always agree
have a = w, lanes that never do a = 1; between them a = w^g. The same g for a warp of k times the lanes leaves k^-g of
the instructions and makes each warp's path k^(1 - g) times as long.
"""

from __future__ import annotations

import math

from msgspec import Struct

from kscope.features.counters.launch import Geometry
from kscope.features.counters.occupancy_limits import LANES, pressure
from kscope.model.kernel import Kernel

UNKNOWN = 0.5  # of g where a block has one thread: nothing shows whether neighbours would go the same way


class Packing(Struct, frozen=True):
    """A block of `threads`. `instructions` that are left and `path` of one warp, over now; `in_flight`: threads that an
    SM then holds over those that fit now; `blocks` over now."""

    threads: int
    instructions: float
    path: float
    in_flight: float
    blocks: float

    @property
    def factor(self) -> float:
        """Times as many threads' work in flight, weighed by how much longer each takes."""
        return self.in_flight / self.path


def packing(kernel: Kernel, launch: Geometry, threads: int, lanes: float | None) -> Packing | None:
    """lanes: active on average an executed instruction (0..32). Shared memory is taken to grow with the threads, for
    most kernels keep something of each thread there. None where the chip is not in arch/sm.toml or nothing fits."""
    now = kernel.launch.threads
    shared = kernel.launch.shared_static + kernel.launch.shared_dynamic
    then = pressure(kernel.device.sm, kernel.launch.registers, threads, "launch", shared * threads // max(1, now))
    if then is None or not launch.sms:
        return None
    width, full = now / launch.warps_per_block, threads / -(-threads // LANES)
    agree = UNKNOWN
    if width > 1 and lanes is not None:
        agree = min(1.0, max(0.0, math.log(max(1.0, min(lanes, width))) / math.log(width)))
    fuller = full / width
    given = launch.blocks * now / launch.sms  # threads for each SM, if the grid is small
    held = min(float(launch.blocks_per_sm * now), given)
    return Packing(
        threads, fuller**-agree, fuller ** (1 - agree), min(float(then.blocks * threads), given) / max(held, 1.0),
        now / threads,
    )  # fmt: skip
