"""What another block size makes of a launch with the same threads: how many fit an SM, how full their warps are, how
often blocks start.

Fuller warps save issue slots only where their lanes go the same way. How far they do shows in the lanes that are
active now: a warp that holds w lanes and runs with a of them on average makes w / a passes. If every lane went its own
way as far as now, a = w^g, a warp of k times the lanes would make k^(1 - g) times the passes; if there are only so many
ways to go, no more than now. The exponent taken is half of the first: kernels of two ways made 2.1 passes of 4 lanes,
2.5 of 16 and of 32 (H100, measured), searches make more.
"""

from __future__ import annotations

import math

from msgspec import Struct, structs

from kscope.features.counters.launch import Geometry
from kscope.features.counters.occupancy_limits import LANES, pressure
from kscope.model.kernel import Kernel

UNKNOWN = 0.5  # of g where a block has one thread: nothing shows whether neighbours would go the same way


def longer_rows(block: tuple[int, int, int], times: int) -> tuple[int, int, int]:
    """As many threads in rows so many times as long: fewer along z, then along y."""
    deep = max(1, block[2] // times)
    left = max(1, times // (block[2] // deep))
    return block[0] * times, max(1, block[1] // left), deep


class Packing(Struct, frozen=True):
    """A block of `threads`, whose warps hold `fuller` times the lanes of now and make fuller^spread times the passes.
    `in_flight`: threads that an SM then holds over those that fit now; `blocks` over now."""

    threads: int
    fuller: float
    spread: float
    in_flight: float
    blocks: float

    @property
    def instructions(self) -> float:
        """Those that are left, over now."""
        return float(self.fuller ** (self.spread - 1))

    @property
    def path(self) -> float:
        """What a warp executes, over now."""
        return float(self.fuller**self.spread)

    @property
    def factor(self) -> float:
        """Times as many threads' work in flight, weighed by how much longer each takes."""
        return self.in_flight / self.path

    @property
    def apart(self) -> Packing:
        """The same, if each lane goes its own way."""
        return structs.replace(self, spread=min(1.0, 2 * self.spread))


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
    in_flight = min(float(then.blocks * threads), given) / max(held, 1.0)
    return Packing(threads, fuller, (1 - agree) / 2, in_flight, now / threads)
