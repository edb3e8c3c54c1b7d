"""What the new version of a kernel pays that the old one did not: why a change that should help made it slower."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from kscope.engine.comparing.parts import words
from kscope.features.views.footprint import LANES, TRAFFIC, Footprint
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.units import figure

MORE = 1.1  # times as much, from which it is worth a word: two captures of one kernel differ by some percent
LONGER = 1.5  # times fewer threads, from which each does the work of several
AWAY = 0.15  # of warp time, by which a wait must have grown
ROUNDED = 1e-6  # of a wave: what reports round
SHOWN = 4


class Cost(NamedTuple):
    times: float
    """How many times more is paid, by which they are ordered."""
    words: str


def against(before: KernelAnalysis, after: KernelAnalysis, old: Footprint | None, new: Footprint | None) -> list[str]:
    """In words, the largest factor first; empty where nothing is dearer."""
    found = [*_rounds(before, after), *_waits(before, after)]
    if old is not None and new is not None:
        found += [*_executed(old, new), *_traffic(old, new)]
    return [cost.words for cost in sorted(found, key=lambda c: -c.times)[:SHOWN]]


def _rounds(before: KernelAnalysis, after: KernelAnalysis) -> Iterator[Cost]:
    """Rounds of the device that the grid takes, and how long the threads of each are."""
    (waves, then), threads = (before.launch.waves, after.launch.waves), _threads(before) / _threads(after)
    if not waves or not then or not (before.launch.known and after.launch.known):
        return
    rounds = _whole(then) / _whole(waves)
    held, holds = (_held(k) for k in (before, after))
    if threads >= LONGER and rounds * threads >= MORE:
        yield Cost(rounds * threads, (
            f"threads of {figure(threads)} times the work, in {_counted(then)} of the device instead of "
            f"{_whole(waves)}: {figure(rounds * threads)} times as long, but for what they overlap"
        ))  # fmt: skip
    elif rounds >= MORE and 1 / MORE < threads < MORE and holds < held:
        yield Cost(rounds, (
            f"{_counted(then)} of blocks instead of {_whole(waves)}: an SM holds {figure(holds)} of them, not "
            f"{figure(held)}{_why(before, after)}"
        ))  # fmt: skip


def _whole(waves: float) -> int:
    return max(1, math.ceil(waves - ROUNDED))


def _counted(waves: float) -> str:
    return "1 round" if _whole(waves) == 1 else f"{_whole(waves)} rounds"


def _why(before: KernelAnalysis, after: KernelAnalysis) -> str:
    a, b = before.launch, after.launch
    if b.registers > a.registers:
        return f" ({b.registers} registers a thread, {a.registers} before)"
    shared = [k.shared_static + k.shared_dynamic for k in (a, b)]
    return f" ({shared[1]:,} bytes of shared memory a block, {shared[0]:,} before)" if shared[1] > shared[0] else ""


def _held(kernel: KernelAnalysis) -> float:
    """Blocks that an SM holds at once."""
    return math.prod(kernel.launch.grid) / ((kernel.launch.waves or 1.0) * max(1, kernel.device.sms))


def _threads(kernel: KernelAnalysis) -> int:
    return math.prod((*kernel.launch.grid, *kernel.launch.block))


def _executed(old: Footprint, new: Footprint) -> Iterator[Cost]:
    a, b = (sum(side.executed.values()) for side in (old, new))
    if a and b / a >= MORE:
        yield Cost(b / a, f"{figure(b / a)} times the instructions ({figure(b)}, {figure(a)} before)")
    lanes = [side.metrics.get(LANES) for side in (old, new)]
    if lanes[0] and lanes[1] and lanes[0] / lanes[1] >= MORE:
        yield Cost(lanes[0] / lanes[1], f"{lanes[1]:.1f} of 32 lanes active, {lanes[0]:.1f} before")


def _traffic(old: Footprint, new: Footprint) -> Iterator[Cost]:
    whole = sum(new.executed.values())
    for metric, what in TRAFFIC.items():
        a, b = (side.metrics.get(metric) for side in (old, new))
        # Next to nothing beside its instructions; without code nobody knows how many there are.
        if a is None or b is None or b <= MORE * a or b - a < whole / 100:
            continue
        times = b / a if a else math.inf
        said = f"{figure(times)} times the {what}" if a else f"{figure(b)} {what}, of which there were none"
        yield Cost(min(times, 1 + (b - a) / whole) if whole else times, said)


def _waits(before: KernelAnalysis, after: KernelAnalysis) -> Iterator[Cost]:
    shares = {s.reason: s.share_adjusted for s in before.stalls}
    for stall in after.stalls:
        was, now = shares.get(stall.reason, 0.0), stall.share_adjusted
        if now - was >= AWAY and stall.reason != "not_selected":
            yield Cost((1 - was) / max(0.01, 1 - now), (
                f"warps wait on {words(stall.reason)} {now * 100:.0f} % of their time, {was * 100:.0f} % before"
            ))  # fmt: skip
