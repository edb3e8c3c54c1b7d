"""A measured time beside the floor: how far it is, and which known ways of falling short take about as long."""

from __future__ import annotations

from msgspec import Struct

from kscope.napkin.estimate import LAUNCH_US, Estimate
from kscope.napkin.problem import BYTES
from kscope.napkin.tiles import tiles

NEAR = 1.35  # a story explains a time up to so many times as long, or 1 / NEAR times
AT_ROOF = 1.1  # measured over attained, up to which a kernel is at its roof
SECTOR = 32  # bytes, the least that a lane of its own moves
LANES = 32


class Story(Struct, frozen=True):
    """A way to be slower than the floor. ratio: measured over its time."""

    what: str
    us: float
    ratio: float


class Measured(Struct, frozen=True):
    """of_floor, of_attained: measured time over them. stories: those that explain it, nearest first."""

    us: float
    of_floor: float
    of_attained: float
    flop_per_s: float
    bytes_per_s: float
    verdict: str
    stories: tuple[Story, ...]
    notes: tuple[str, ...]


def compare(estimate: Estimate, us: float) -> Measured:
    """us: a measured time of the problem in microseconds, above 0."""
    problem = estimate.problem
    of_floor, of_attained = us / estimate.floor_us, us / estimate.attained_us
    stories: tuple[Story, ...] = ()
    notes: list[str] = []
    if of_floor < 1:
        verdict = f"faster than the floor ({of_floor:.2f} of it): not this problem, not this chip, or data from L2"
        if estimate.warm_us is not None:
            verdict = f"faster than device memory allows ({of_floor:.2f} of the floor): the operands came from L2"
    elif of_attained <= AT_ROOF:
        verdict = f"at its roof: {of_attained:.2f} times what {estimate.limiter} attains"
    else:
        verdict = f"{of_attained:.3g} times what is attainable, {of_floor:.3g} times the floor"
        known = sorted(_stories(estimate, us), key=lambda story: abs(_log(story.ratio)))
        stories = tuple(story for story in known if 1 / NEAR <= story.ratio <= NEAR)[:5]
        notes = _notes(estimate, us)
    return Measured(us, of_floor, of_attained, 1e6 * problem.flop / us, 1e6 * problem.bytes / us, verdict, stories,
                    tuple(notes))  # fmt: skip


def parse_time(text: str) -> float:
    """Microseconds of `5.1ms`, `180us`, `0.2s`, `42` (us). Raises ValueError."""
    low = text.strip().lower().replace("µ", "u").replace("μ", "u")
    for unit, factor in (("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)):
        if low.endswith(unit):
            low, scale = low.removesuffix(unit), factor
            break
    else:
        scale = 1.0
    us = float(low) * scale
    if not 0 < us < 1e15:
        raise ValueError(text)
    return us


def _log(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _stories(estimate: Estimate, us: float) -> list[Story]:
    problem, roofs = estimate.problem, estimate.roofs
    found: list[tuple[str, float]] = []
    if problem.product is not None:
        found += _product_stories(estimate)
    else:
        size = BYTES[problem.dtype]
        memory = 1e6 * problem.bytes / roofs.dram.attained
        found += [(f"{n} passes over the data instead of one", n * memory) for n in (2, 3, 4)]
        if size < SECTOR:
            wide = memory * SECTOR / size
            found.append((f"uncoalesced: a sector of {SECTOR} B for each element of {size:g} B", wide))
            half = (1e6 / roofs.dram.attained) * (problem.written_bytes + problem.read_bytes * SECTOR / size)
            found.append(("uncoalesced reads, coalesced writes", half))
    found += [(f"{level.name}, the other limit", level.attained_us) for level in estimate.levels
              if level.name != estimate.limiter]  # fmt: skip
    if len(estimate.levels) > 1:
        text = " + ".join(level.name for level in estimate.levels)
        found.append((f"{text}, one after the other", sum(level.attained_us for level in estimate.levels)))
    found.append(("launch and start of a kernel on top of the floor", estimate.attained_us + 2 * LAUNCH_US))
    return [Story(what, time, us / time) for what, time in found if time > AT_ROOF * estimate.attained_us]


def _product_stories(estimate: Estimate) -> list[tuple[str, float]]:
    problem, roofs = estimate.problem, estimate.roofs
    product = problem.product
    assert product is not None
    found = [(f"tiles of {t.m}x{t.n}: {t.limiter}, {t.waves:.2f} waves", t.us) for t in tiles(estimate)]
    if "fp32" in roofs.compute and "fp32" not in problem.work and "fp64_tensor" not in problem.work:
        found.append(("CUDA cores instead of tensor cores", 1e6 * problem.flop / roofs.compute["fp32"].attained))
    if roofs.shared is not None and roofs.chip.clock_hz:
        # A warp's multiply-add takes a wavefront for each factor that it loads, one of 32 words a clock and SM.
        wavefront = 1e6 * (problem.flop / 2 / LANES) / (roofs.chip.sms * roofs.chip.clock_hz)
        found += [
            ("no reuse: every multiply-add loads both factors through L1", 2 * wavefront),
            ("no reuse, and one factor uncoalesced (a row to each lane)", (1 + LANES) * wavefront),
            *((f"each value loaded from shared memory used {r} times", 2 * wavefront / r) for r in (2, 4, 8)),
        ]
    return found


def _notes(estimate: Estimate, us: float) -> list[str]:
    """Little's law: what the speed says about how much is in flight."""
    chip, problem = estimate.roofs.chip, estimate.problem
    if estimate.regime != "memory" or not chip.clock_hz:
        return []
    latency = float(chip.latency["dram"]) / chip.clock_hz
    has, needs = (rate * latency / chip.sms / 1024 for rate in (1e6 * problem.bytes / us, estimate.roofs.dram.attained))
    return [f"at {chip.latency['dram']} cycles of latency this speed means {has:.1f} KiB in flight an SM; the roof "
            f"needs {needs:.1f}"]  # fmt: skip
