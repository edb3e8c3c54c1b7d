"""Shared by the two rules on local memory: which accesses are spills, which are arrays, and what either costs."""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.model.contract.analysis import Estimate

LOCALS = 0.5  # of the waits for memory, from which local memory is what warps wait for (judged)
AHEAD = 4.0  # loads in flight once nothing orders them: what one unrolling usually brings


def local_instructions(facts: Facts, code: Code) -> tuple[list[int], list[int]]:
    """(spills, array accesses) among the executed local loads and stores.

    The compiler addresses a spill slot by the stack pointer and a constant; an array that is indexed at run time by
    a computed register. Where the report counts compiler-marked spills and there is none, constant slots are an
    array too (indexed by constants after partial unrolling).
    """
    local = facts.patterns.local_accesses
    marked = facts.kernel.metrics.get("sass__inst_executed_register_spilling")
    if marked == 0:
        return [], local
    if marked is not None and marked >= 0.98 * total(code.executed, local):
        return local, []
    slots = {i for i in local if facts.patterns.fixed_slot(i)}
    return sorted(slots), [i for i in local if i not in slots]


def waits_for_locals(facts: Facts) -> bool:
    """Whether warps wait for their own local memory most: more warps bring more of it, and caches hold no more (a
    public kernel with arrays of 9 KB a thread took 1.9 times as long with 12 warps an SM in place of 8)."""
    waits = facts.counters.stalls.of("long_scoreboard")
    return facts.code is not None and facts.code.blamed_share(facts.patterns.local_accesses) > LOCALS * waits > 0


def fewer_warps(facts: Facts, code: Code, spills: list[int]) -> float:
    """Warps an SM holds when each spill slot gets a register of its own, over those that it holds now (at most 1): a
    grid that does not fill the SMs loses nothing."""
    slots: set[int] = set()
    for i in spills:
        first = facts.patterns.slot_offset(i)
        if first is not None:
            slots.update(range(first, first + max(4, code.classes[i].bytes), 4))
    return beside(facts, len(slots))


def beside(facts: Facts, registers: int = 0, shared: int = 0) -> float:
    """Warps an SM holds with so many registers more a thread and bytes of shared memory more a block, over those that
    it holds now (at most 1): a grid that does not fill the SMs loses nothing."""
    launch, mine = facts.counters.launch, facts.kernel.launch
    if not mine.registers or not launch.limits or not launch.sms or not launch.blocks_per_sm:
        return 1.0
    taken = mine.shared_static + mine.shared_dynamic + shared if shared else 0
    after = facts.profile.occupancy_with(mine.registers + registers, mine.threads, taken)
    if after is None or not registers + shared:
        return 1.0
    given = launch.blocks / launch.sms
    return min(1.0, min(after.blocks, given) / min(launch.blocks_per_sm, given))


def local_estimate(
    facts: Facts, code: Code, members: list[int], beside: list[int], fewer: float = 1.0, left: float = 0.0,
    each: int = 0,
) -> Estimate:  # fmt: skip
    """Gain if these local accesses were gone: their waits, their issue slots and their part of every level; and with
    them what their loops do only to count (`beside`), where constant indices mean that the loops are unrolled. fewer:
    warps that an SM still holds then, as a share of now; left: share of their traffic that stays, somewhere else; each:
    instructions that take the place of an access."""
    traffic = facts.counters.traffic
    m = facts.kernel.metrics
    local = code.where(lambda ins, op: op.space == "local")
    every = total(code.executed, local)
    mine = (1 - left) * total(code.executed, members) / every if every else 0.0
    of_sectors = traffic.local_share * mine
    wavefronts = m.total(
        "l1tex__t_output_wavefronts_pipe_lsu_mem_local_op_ld.sum",
        "l1tex__t_output_wavefronts_pipe_lsu_mem_local_op_st.sum",
    )
    l1 = facts.counters.traffic.l1_wavefronts or 1.0
    gone = sorted({*members, *beside, *(facts.patterns.addresses_of(members) if each else ())})
    lsu = code.where(lambda ins, op: op.pipe == "lsu")
    of_lsu = (1 - left) * total(code.executed, members) / max(1.0, total(code.executed, lsu))
    kept = 1 - of_sectors
    scale = facts.profile.demands_after(gone, left) | {
        "l1_wavefronts": max(0.0, 1 - min(1.0, wavefronts * mine / l1)), "l1_writeback": 1 - of_lsu, "l1_banks": kept,
        "lsu_instructions": 1 - of_lsu,
        "l2_sectors": kept, "l2_requests": kept, "l2_writes": kept, "dram_bytes": kept,
    }  # fmt: skip
    added = each * total(code.executed, members)
    scale["instructions"] = scale.get("instructions", 1.0) + added / max(1.0, total(code.executed))
    alu = total(code.executed, code.where(lambda ins, op: op.pipe == "alu"))
    scale["alu"] = scale.get("alu", 1.0) + added / max(1.0, alu)
    share = code.blamed_share(gone)
    # Stores to local memory are written through: L2 takes each of them, and no warp waits for one.
    through = m.total("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum") * mine
    posted = min(1.0, through / traffic.l2_sectors) if traffic.l2_sectors else 0.0
    # Registers or shared memory answer at once: what is left of the waits is the issue slots of the moves.
    held = _held_up(code, members, share)
    least = max(0.01, left)
    remaining = (share * least + held / AHEAD) / (share + held) if held else least
    others = max(0.0, facts.counters.stalls.of("long_scoreboard") - code.blamed_share(gone, "long_scoreboard") - held)
    return facts.estimate.relieve(
        min(1.0, share + held),
        remaining,
        scale,
        latency=facts.estimate.floor_without(gone, left) / fewer,
        posted=posted,
        uncovered=others * (1 / fewer - 1),
    )


def _held_up(code: Code, members: list[int], share: float) -> float:
    """Share of samples in which a store into the array waits for a load from global memory. The store must come before
    the next read of the array, which may be of the same element, so no later load is issued meanwhile. In registers
    there is no such order: the loads of several trips are in flight together."""
    stores = [i for i in members if code.classes[i].access == "store"]
    waits = code.stall.get("long_scoreboard")
    if waits is None:
        return 0.0
    at = [i for i in stores if any(_global(code, p) for ps in code.defuse.sources(i).values() for p in ps)]
    return max(0.0, min(total(waits, at) / max(1.0, total(code.samples)), 1 - share))


def _global(code: Code, index: int) -> bool:
    op = code.classes[index]
    return op.access == "load" and op.space in ("global", "generic")
