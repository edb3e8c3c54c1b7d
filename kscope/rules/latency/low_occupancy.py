"""Too few warps are resident to cover the waits.

## What it does

Names the resource that limits the warps an SM holds (registers, shared memory, block size, block slots, barriers)
when warps mostly wait for latency and no unit is full.

## Why it costs time

A scheduler issues from another warp while one waits. With few warps it runs dry: by Little's law the throughput is the
warps in flight over the latency, whatever the units could do.

## Evidence

Theoretical and achieved warps an SM, the limits of each resource, the waiting share of warp time, the load of the
fullest unit.

## Fix

The smallest change that reaches the next step: fewer registers (launch bounds) or less shared memory a block, another
block size. Where shared memory is reserved but never touched, release it. Where less of an SM is set aside as shared
memory than its blocks would take, set more aside.

Before:

    k<<<grid, 128, 200 * 1024>>>(...);                             // one block of 4 warps an SM

After:

    k<<<grid, 128, 12 * 1024>>>(...);                              // 16 blocks, 64 warps

## In SASS

Nothing in the code limits it: the launch asks for 200 KB of shared memory that no instruction touches.

From (capture occupancy_smem.slow):

    LDG.E.CONSTANT R8, desc[UR6][R8.64]
    ...
    FMUL.FTZ R11, R8, R15
    FMUL.FTZ R6, R15, 0.5
    FFMA R0, -R11, R11, R8
    FFMA R11, R0, R6, R11

## When it is wrong

Warp-specialised kernels keep a unit busy with few warps by design, and so do products on tensor cores: without the code
of one the finding is less sure of itself. Kernels with much independent work a thread hide latency without occupancy.
Fewer registers can mean spills (MEM104): no more warps are promised than fit with 0.6 of the registers. Where the warps
of a block do not meet, smaller blocks may take registers that no whole block fits into, and none need be saved: the
finding says how many warps that makes. Where warps wait for arrays and spills in local memory, more warps bring more
of those (MEM105, MEM104): nothing is said. A grid that gives each SM as many blocks as fit now has none for the new
places: that it must grow with them is said. More values alive at once than registers would be left take another
algorithm: then the finding is not sure of itself. Fixes that take more registers (unrolling, register tiles)
contradict this one; only the better of the two is suggested.

## Source

Volkov, "Better Performance at Lower Occupancy", GTC 2010; CUDA C++ Best Practices Guide, Occupancy.
"""

from __future__ import annotations

from kscope.features.facts import Facts, Occupancy
from kscope.model.contract.analysis import Location, Remedy
from kscope.rules._shared.blocks.registers import held, with_fewer
from kscope.rules._shared.local_memory import waits_for_locals
from kscope.rules.base import PASSED, CounterRule, Missing, Outcome, counted, derived, measured, percent

LOW = 0.6  # of the chip's warps, above which more occupancy is never the first advice
READY = 0.1  # share of warp time ready but not selected, from which more warps add nothing
FEWEST = 0.125
PRODUCTS = 0.02  # busy share of the tensor pipe, from which a kernel is for products; others have none at all
CARVED = "set more of each SM aside as shared memory (carve-out)"
INSTEAD = "more independent work a thread instead"
MORE_BLOCKS = ", and as many more blocks in the launch: now it has one for each place"
SMALLER = (128, 256, 512)  # threads of a block, of which enough fit an SM for all of its warps on every chip
MORE = 1.2  # times the warps of now, from which another block size is worth a word
HELD_SURE = 0.35  # confidence where more values are alive at once than registers would be left


class LowOccupancy(CounterRule):
    code = "LAT301"
    slug = "low-occupancy"
    title = "Too few warps are resident to cover the waits"
    regime = "memory"
    collect = "--section Occupancy --section WarpStateStats"

    def check(self, facts: Facts) -> Outcome:
        occ, stalls, launch = facts.counters.occupancy, facts.counters.stalls, facts.counters.launch
        if occ is None or not stalls.share:
            return Missing(f"occupancy limits or warp states were not collected; profile with {self.collect}")
        if facts.specialized.asynchronous:
            return PASSED  # asynchronous units work without resident warps: occupancy says little
        # Blocks too small to fill the slots are GRD404's.
        if occ.theoretical > LOW * occ.maximum or launch.waves < 1 or "blocks" in occ.limiters:
            return PASSED
        unused = "shared memory" in occ.limiters and self._shared_untouched(facts)
        carved = self._with_carveout(facts, occ)
        target, grows = self._within(facts, self._target(facts, occ, unused=unused, carved=carved))
        factor = target / max(1, occ.theoretical)
        waiting = facts.specialized.exposed("long_scoreboard", "short_scoreboard", "wait", "barrier", "drain", "membar")
        ready = stalls.of("not_selected")
        if ready > READY or waits_for_locals(facts):  # for the issue slot, that is: there are enough of them
            return PASSED
        estimate = facts.estimate.overlap(max(1.0, factor))
        if factor <= 1 or waiting < 0.3 or estimate.speedup < 1.05:
            return PASSED
        names = " and ".join(occ.limiters)
        verb = ("limits", "allows") if names == "shared memory" else ("limit", "allow")
        reserve = self._of_shared(facts, unused=unused, carved=carved)
        fullest = facts.counters.busiest
        units = f"no unit is busier than {percent(fullest.busy)}" if fullest else "how busy units are was not collected"
        return self.finding(
            title=f"{names.capitalize()} {verb[0]} an SM to {occ.theoretical} of {occ.maximum} warps",
            why=(
                f"{names} {verb[1]} {counted(launch.blocks_per_sm, 'block')} of "
                f"{counted(launch.warps_per_block, 'warp')} an SM.{reserve} {percent(waiting)} of warp time is "
                f"waiting, and {units}. {target} warps would fit without that limit."
            ),
            fix=f"{self._step(names, carved)} so that {target} warps fit{grows}",
            evidence=[
                derived("theoretical warps an SM", occ.theoretical, "warp", f"of {occ.maximum}, limited by {names}"),
                measured(facts, "sm__warps_active.avg.pct_of_peak_sustained_active", "achieved"),
                derived("warp time spent waiting", waiting, "", "long and short scoreboard, wait, barrier, drain"),
            ],
            locations=self._hottest(facts),
            estimate=estimate,
            remedies=[
                *self._smaller_blocks(facts, occ),
                Remedy(step=INSTEAD, applies=True, why="the same waits hidden by few warps; it takes registers"),
            ],
            pulls=[f"-{name}" for name in occ.limiters if name in ("registers", "shared memory")],
            confidence=HELD_SURE if held(facts, occ, target) else self._sure(facts, occ, unused=unused),
            regime="memory" if stalls.of("long_scoreboard") > waiting / 2 else "compute",
        )

    def _within(self, facts: Facts, target: int) -> tuple[int, str]:
        """Warps that the grid has for an SM; a launch that counted the places for its blocks can count anew."""
        launch = facts.counters.launch
        if launch.waves == 1 or not launch.known:
            return target, MORE_BLOCKS if launch.known else ""
        return min(target, -(-launch.blocks // launch.sms) * launch.warps_per_block), ""

    def _smaller_blocks(self, facts: Facts, occ: Occupancy) -> list[Remedy]:
        """Registers that no whole block fits into any more, taken by smaller ones: no register need be saved. Only
        where the warps of a block have nothing in common."""
        launch, code = facts.kernel.launch, facts.code
        if code is None or set(occ.limiters) != {"registers"} or launch.shared_static or launch.shared_dynamic:
            return []
        if any("barrier" in op.kind for op in code.classes):
            return []
        found = [(facts.profile.occupancy_with(launch.registers, n), n) for n in SMALLER if n < launch.threads]
        best, threads = max(((p.warps, n) for p, n in found if p is not None), default=(0, 0))
        if best < MORE * occ.theoretical:
            return []
        why = f"{best} warps fit with the registers of now; the warps of a block do not meet at barriers"
        estimate = facts.estimate.overlap(best / occ.theoretical)
        return [Remedy(step=f"blocks of {threads} threads", applies=True, why=why, estimate=estimate)]

    def _step(self, names: str, carved: int) -> str:
        return CARVED if carved else f"reduce {names} a block"

    def _of_shared(self, facts: Facts, *, unused: bool, carved: int) -> str:
        """What is wasted of shared memory, or not set aside."""
        reserve = " It is reserved but no instruction touches it." if unused else ""
        if not carved:
            return reserve
        return (
            f"{reserve} Only {(facts.kernel.launch.carved or 0) // 1024} KiB of an SM are set aside as shared memory."
        )

    def _with_carveout(self, facts: Facts, occ: Occupancy) -> int:
        """Warps that an SM would hold if all of its memory that can be shared were, where less is set aside and that is
        what limits them; 0 elsewhere."""
        launch = facts.kernel.launch
        if facts.code is None or launch.carved is None or "shared memory" not in occ.limiters:
            return 0
        shared = launch.shared_static + launch.shared_dynamic
        then = facts.profile.occupancy_with(launch.registers, launch.threads, shared)
        return then.warps if then is not None and then.warps > occ.theoretical else 0

    def _hottest(self, facts: Facts) -> list[Location]:
        code = facts.code
        return code.locations(code.hottest(range(len(code)))[:2]) if code is not None else []

    def _sure(self, facts: Facts, occ: Occupancy, *, unused: bool) -> float:
        return 0.9 if unused or self._very_few(facts, occ) else 0.65

    def _very_few(self, facts: Facts, occ: Occupancy) -> bool:
        """So few warps that they can hide little. But products on tensor cores hold their tiles in registers and shared
        memory: few warps are the price of reuse, and without the code nobody can tell whether they hide enough."""
        tensor = facts.counters.units.get("tensor")
        blind = facts.code is None and tensor is not None and tensor.busy > PRODUCTS
        return occ.theoretical <= 0.15 * occ.maximum and not blind

    def _shared_untouched(self, facts: Facts) -> bool:
        """Shared memory is reserved, yet no executed instruction reads or writes it."""
        # sass__inst_executed_shared_loads knows neither ldmatrix nor stores: L1 says whether anything passed
        passed = facts.kernel.metrics.first(
            "smsp__sass_inst_executed_op_shared.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
        )
        return facts.kernel.launch.shared_dynamic > 0 and passed == 0

    def _target(self, facts: Facts, occ: Occupancy, *, unused: bool, carved: int) -> int:
        """Warps an SM that a change within reach allows."""
        if carved:
            return carved
        step = self._next_step(facts)
        target = occ.relaxed if unused or set(occ.limiters) & {"block size", "barriers"} else step
        target = max(target, step)
        if occ.theoretical <= FEWEST * occ.maximum:
            # A handful of warps: the next step is not the goal. Between it and what the other limits allow.
            target = max(target, int((step * occ.relaxed) ** 0.5))
        return min(target, with_fewer(facts, step)) if "registers" in occ.limiters else target

    def _next_step(self, facts: Facts) -> int:
        """Warps an SM with one more block resident; for a single block, two."""
        occ, launch = facts.counters.occupancy, facts.counters.launch
        assert occ is not None
        return min(occ.maximum, occ.relaxed, (launch.blocks_per_sm + 1) * launch.warps_per_block)
