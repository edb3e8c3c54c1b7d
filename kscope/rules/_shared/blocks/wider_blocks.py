"""More threads a block: what GRD401 offers beside more blocks. For the rounds that a block deals out to its threads, or
because blocks of so few threads fill neither their warps nor, as many as an SM takes, its places for threads."""

from __future__ import annotations

from kscope.features.facts import Demand, Facts, Pieces, up_to
from kscope.model.contract.analysis import Estimate, Finding
from kscope.rules._shared.blocks.idle_warps import meanwhile, standing_empty
from kscope.rules._shared.shared_rounds import SHARED, dealing_out, rounds_in_words
from kscope.rules.base import Rule, counted, derived, measured

MOST, REGISTERS = 1024, 65536  # threads that a block can have, registers of an SM: the same on every chip from sm_50 on
USUAL = 128  # threads a block from which slots for blocks limit no chip
LANES = 32
LACKS = 2.0  # times as many threads as now in larger blocks, from which the present ones are too small (judged)


def wider_blocks(facts: Facts, factor: float) -> tuple[Estimate | None, int]:
    """Gain where a block has more threads for the rounds that it deals out to them (i += blockDim.x), and how many
    times more: as registers, the empty warp slots (`factor`) and the rounds allow. None where there are no such."""
    path, launch = facts.estimate.latency_floor, facts.kernel.launch
    if facts.code is None or path is None or launch.threads > MOST // 2:
        return None, 1
    room = REGISTERS // (max(1, launch.registers) * launch.threads)
    times = min(MOST // launch.threads, room, int(factor))
    if times < 2:
        return None, 1
    left = facts.profile.wider_blocks(path.walk, launch.block, times)
    chain = max(min(1.0, path.share), facts.estimate.waiting) * left
    return facts.estimate.overlap(1 / left, chain=chain), times


def widened(rule: Rule, facts: Facts, capacity: int, estimate: Estimate, times: int) -> Finding:
    """More threads a block bring more than more blocks do."""
    launch, threads = facts.counters.launch, facts.kernel.launch.threads
    return rule.finding(
        title=f"{counted(launch.blocks, 'block')} of {threads} threads where the device holds {capacity:,}",
        why=(
            f"{standing_empty(facts, launch.idle_sms)}{meanwhile(facts)}. A block deals the rounds "
            f"of its loops out to its threads: with {times} times as many it needs fewer of them, which more "
            "blocks would not change."
        ),
        fix=f"up to {times * threads} threads a block: no more than it has items, so that each does fewer",
        evidence=[
            measured(facts, "launch__grid_size"),
            derived("threads a block could have", times * threads, "thread", "by registers and the largest block"),
        ],
        estimate=estimate,
        pulls=["+threads"],
        confidence=0.7,
    )


def places(facts: Facts) -> int:
    """Threads that the device holds in blocks large enough to fill it, where its slots for blocks, or lanes that no
    block of so few threads has, hold the present ones to half of that or less; else 0."""
    launch, mine = facts.counters.launch, facts.kernel.launch
    slots = "blocks" in launch.limits and launch.limits["blocks"] <= min(launch.limits.values())
    if not slots and LACKS * mine.threads > LANES * launch.warps_per_block:
        return 0
    if mine.shared_static + mine.shared_dynamic:  # what a larger block would take of it is not known
        return 0
    then = facts.profile.occupancy_with(mine.registers, USUAL) if facts.code is not None else None
    held = LANES * then.warps * launch.sms if then is not None else 0
    return held if held >= LACKS * launch.sms * launch.blocks_per_sm * mine.threads else 0


def fuller(rule: Rule, facts: Facts, held: int, divided: Pieces) -> Finding | None:
    """Where threads can share the rounds of each one, as many as the device has places for in larger blocks; their
    warps are full then, so the same work takes fewer instructions."""
    launch, mine, path = facts.counters.launch, facts.kernel.launch, facts.estimate.latency_floor
    factor = held / (launch.blocks * mine.threads)
    if factor < LACKS or divided.most < SHARED or path is None:
        return None
    lanes = mine.threads / (LANES * launch.warps_per_block)
    demands: tuple[Demand, ...] = (
        "instructions", "alu", "fma", "fmaheavy", "lsu_instructions", "mio_instructions", "l1_wavefronts",
        "l1_writeback",
    )  # fmt: skip
    # Whole warps along a row fill their sectors, too, where the few lanes of now do not.
    reached: tuple[Demand, ...] = ("l2_sectors", "l2_requests", "l2_writes", "dram_bytes")
    chain = max(min(1.0, path.share), facts.estimate.waiting) * divided.left(factor)
    return rule.finding(
        title=f"{counted(launch.blocks, 'block')} of {counted(mine.threads, 'thread')} where the device has places for "
        f"{held:,} threads",
        why=(
            f"An SM takes {launch.blocks_per_sm} blocks, here {launch.blocks_per_sm * mine.threads} threads"
            f"{meanwhile(facts)}.{rounds_in_words(facts, divided, ())}"
        ),
        fix=f"blocks of {USUAL} threads or more; {dealing_out(facts, divided)}",
        evidence=[
            measured(facts, "launch__grid_size"),
            derived("threads that fit at once", held, "thread", f"in blocks of {USUAL}, by registers"),
        ],
        estimate=up_to(
            facts.estimate.overlap(factor, dict.fromkeys(demands, lanes), chain=chain, stay=False),
            facts.estimate.overlap(factor, dict.fromkeys((*demands, *reached), lanes), chain=chain, stay=False),
        ),
        pulls=["+threads"],
        confidence=0.7,
    )
