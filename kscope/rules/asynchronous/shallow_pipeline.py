"""A pipeline has too few stages in flight to cover the latency of memory.

## What it does

Finds warp-specialised kernels whose consumers wait for data in the steady phase although the producer asks for it as
soon as a slot is free, and memory is not full: too few bytes are in flight.

## Why it costs time

A copy takes the latency of memory (0.5 to 1 us with traffic) whatever its size. A ring of S stages brings S stages in
that time; if the tensor pipe or the readers use them faster, they wait for the rest of it, in every round.

## Evidence

Exposed waits of the consumers for data; the producer waiting for slots most of its time; stages of the ring (barriers
that are initialised) and bytes of each; memory units that are not full.

## Fix

More stages, until stages times the time of one passes the latency; smaller stages where shared memory is the limit;
blocks of a cluster that share a stage by multicast; fewer bytes kept back for the epilogue.

Before:

    __shared__ tile ring[2];

After:

    extern __shared__ tile ring[]; constexpr int STAGES = 4;   // as many as fit: up to 227 KB a block on sm_90

## In SASS

The number of stages shows in the shared memory and in the barriers' addresses, not in the instructions: the producer
waits (`TRYWAIT`) for the stage that is still being read.

From (capture ws_gemm.stages2):

    SYNCS.EXCH.64 URZ, [UR8+0x18018], UR6
    ...
    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x18000], R2
    ...
    @!P0  SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ
    ...
    @!P0  SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ
    ...
    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR13+0x18010], R0

## When it is wrong

Where device memory or L2 is full, a longer queue only waits longer. Stages also delay the first product by nothing but
their copies.

## Source

Little's law; CUTLASS, StageCountAuto.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.rules._shared.pipelines import DataRule, role_evidence, sampled, unit_title
from kscope.rules.base import PASSED, Missing, Outcome, Passed, counted, derived, percent


class ShallowPipeline(DataRule):
    code = "ASY504"
    slug = "shallow-pipeline"
    title = "Too few stages are in flight to cover memory latency"
    regime = "memory"

    def check(self, facts: Facts, code: Code) -> Outcome:
        known = self.late(facts)
        if isinstance(known, (Passed, Missing)):
            return known
        sp, loss, slots = known
        if sp.asks_late:
            return PASSED
        stages, size = sp.waits.stages, sp.waits.stage_bytes
        ring = f" The ring has {counted(stages, 'stage')}" if stages else ""
        ring += f" of {size / 1024:.0f} KB." if stages and size else "." if stages else ""
        room = self._room(facts)
        fits = f" {room} would fit into shared memory." if room and stages and room > stages else ""
        return self.finding(
            title=_title(stages) if stages else None,
            why=(
                f"The {unit_title(sp)} loses {percent(loss.data)} of the time while its role waits for data. "
                f"The producer asks in time: it waits for free slots in {percent(slots)} of its time.{ring}"
                f"{fits} Memory could bring more: its fullest unit is at {percent(facts.counters.beyond_l1_load)}."
            ),
            fix=f"more stages: shared memory has room for {room} of this size"
            if fits
            else "more, smaller stages (half of K each), multicast in a cluster, less shared memory for the epilogue",
            evidence=[
                *self.lost(sp, loss, slots),
                *([derived("stages", stages, "", "mbarriers initialised for the ring")] if stages else []),
                *([derived("bytes a stage", size, "B", "expected at its mbarrier")] if size else []),
                *([derived("stages that fit", room, "", "shared memory of a block over a stage")] if room else []),
                *role_evidence(sp),
            ],
            locations=sampled(code, [i for w in sp.data_waits for i in w.members]),
            estimate=facts.estimate.regain(loss.data, sure=1.0, high=loss.steady),
            confidence=0.8 if stages and stages <= 3 else 0.6,
        )

    def _room(self, facts: Facts) -> int | None:
        """Stages that a block's shared memory could hold; None where the size of one is not known."""
        sp, launch = facts.specialized.pipeline, facts.kernel.launch
        limit = facts.kernel.device.attributes.get("max_shared_memory_per_block_optin")
        if sp is None or not sp.waits.stages or not sp.waits.stage_bytes or not limit:
            return None
        others = launch.shared_dynamic + launch.shared_static - sp.waits.stages * sp.waits.stage_bytes
        blocks = max(1, facts.counters.launch.blocks_per_sm) if facts.counters.launch.waves > 1 else 1
        return int((limit / blocks - max(0, others)) // sp.waits.stage_bytes)


def _title(stages: int) -> str:
    return "One stage in flight does not cover memory latency" if stages == 1 else (
        f"A ring of {stages} stages does not cover memory latency"
    )
