"""What a kernel did beside what its problem needs: bytes, operations, and the floor of the problem rather than of the
code."""

from __future__ import annotations

from kscope.arch.chips import TENSOR, Chip, derived, of_device
from kscope.arch.user import measured
from kscope.features.counters.traffic import SECTOR
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Headroom, ProblemFit
from kscope.model.units import at_most, times
from kscope.napkin.estimate import Estimate, estimate
from kscope.napkin.problem import Operand, Problem
from kscope.napkin.roofs import roofs

SAME = 1.1  # done over needed, up to which they count as the same
WHOLE = 0.9  # of the FLOP of a product, below which it is not the whole problem (or another algorithm)
L2_READ = "lts__t_sectors_srcunit_tex_op_read.sum"


def fit(facts: Facts, problem: Problem, room: Headroom | None) -> ProblemFit:
    """Rates are those of the chip table for the device that the report names (of the device's attributes, where it has
    none), attained ones those that the user measured on such a chip, if any."""
    metrics, roof = facts.kernel.metrics, facts.counters.roofline
    seconds = (facts.kernel.duration_ns or 0.0) / 1e9
    chip = _chip(facts)
    mine = measured(chip.key) if chip.key else None
    estimated = estimate(problem, roofs(chip, mine.rates, "measured") if mine is not None else roofs(chip))
    by = {c.precision: c.flops * seconds for c in roof.ceilings} if roof is not None else {}
    done = sum(by.values()) if roof is not None else None
    read, written = metrics.get("dram__bytes_read.sum"), metrics.get("dram__bytes_write.sum")
    sectors = metrics.get(L2_READ)
    l2 = sectors * SECTOR if sectors is not None else None
    says = _operations(problem, by, done) + _traffic(problem, read, written, l2)
    part = problem.product is not None and done is not None and done < WHOLE * problem.flop
    whole = not part and bool(seconds) and bool(chip.dram_bytes_per_s)
    above = 1e6 * seconds / estimated.attained_us if whole and estimated.attained_us else None
    says += _margin(estimated, above, room)
    name = f"{chip.name} as measured here" if mine is not None else chip.name
    return ProblemFit(
        text=problem.text, chip=name, flop_needed=problem.flop, flop_done=done,
        read_bytes_needed=problem.read_bytes, read_bytes_done=read,
        written_bytes_needed=problem.written_bytes, written_bytes_done=written, l2_read_bytes=l2,
        floor_us=round(estimated.floor_us, 3), attained_us=round(estimated.attained_us, 3), limiter=estimated.limiter,
        headroom=round(above, 3) if above is not None else None,
        headroom_code=room.speedup_bound if room is not None else None, says=says,
    )  # fmt: skip


def _chip(facts: Facts) -> Chip:
    device, roof = facts.kernel.device, facts.counters.roofline
    if (known := of_device(device.name)) is not None:
        return known
    has = device.attributes
    bandwidth = roof.bandwidth if roof is not None else None
    clock = 1e3 * has["clock_rate"] if has.get("clock_rate") else None
    return derived(device.name, device.sm, device.sms, clock, bandwidth or 0.0, has.get("l2_cache_size"))


def _operations(problem: Problem, by: dict[str, float], done: float | None) -> list[str]:
    if problem.product is None or done is None or not problem.flop:
        return []  # element-wise FLOP are a matter of how the formula is written
    says = []
    ratio = done / problem.flop
    if ratio < WHOLE:
        says.append(f"executes {ratio:.2g} of the FLOP: only a part of this problem, or another algorithm")
    elif ratio > SAME:
        says.append(f"executes {ratio:.2f} times the FLOP needed: padding, or work done again")
    on_tensor = sum(v for k, v in by.items() if k.startswith("tensor"))
    if done and on_tensor < 0.5 * done and any(p in TENSOR for p in problem.work):
        says.append(f"multiplies on the CUDA cores what {problem.dtype} tensor cores could")
    return says


def _traffic(problem: Problem, read: float | None, written: float | None, l2: float | None) -> list[str]:
    says = []
    if read is not None and problem.read_bytes:
        ratio = read / problem.read_bytes
        if ratio > SAME:
            says.append(f"reads {ratio:.2f} times the {_mb(problem.read_bytes)} that the problem has from device memory"
                        f"{_again(problem, read)}")  # fmt: skip
        elif ratio < 1 / SAME:
            says.append(f"reads {ratio:.2f} of the problem's bytes from device memory: the rest was in L2")
        else:
            says.append("reads from device memory what it must, once")
    if written is not None and problem.written_bytes and written > SAME * problem.written_bytes:
        ratio = written / problem.written_bytes
        says.append(f"writes {ratio:.2f} times the {_mb(problem.written_bytes)} of the result")
    product = problem.product
    if l2 is not None and product is not None and l2 > SAME * problem.read_bytes:
        tile = product.batch * product.m * product.n * product.k * (product.a + product.b) / l2
        side = f": as square tiles of {tile:.0f} would" if tile >= 2 else ": hardly any value is used again"
        says.append(f"L2 hands out {l2 / problem.read_bytes:.1f} times the operands{side}")
    return says


def _again(problem: Problem, read: float) -> str:
    """The surplus as readings of one operand, the largest first: what a person would look for."""
    operands = sorted((o for o in problem.operands if not o.written), key=lambda o: -o.bytes)

    def often(operand: Operand) -> float:
        return 1 + (read - problem.read_bytes) / operand.bytes

    told = [f"{o.name} {often(o):.1f} times" for o in operands[:2] if o.bytes > 0.05 * problem.read_bytes]
    return f": as if it read {' or '.join(told)}" if told else ""


def _margin(estimated: Estimate, above: float | None, room: Headroom | None) -> list[str]:
    if above is None:
        return []
    code = f"{at_most(room.speedup_bound)} of the code as it is ({room.bounded_by})" if room is not None else ""
    of = f"headroom {times(max(above, 1.0))} of the problem ({estimated.limiter})"
    return [f"{of}, {code}" if code else of]


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"
