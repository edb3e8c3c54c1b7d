"""Tiles are copied through registers: load, wait, store to shared memory, barrier, compute, again.

## What it does

Finds loops whose global loads feed shared-memory stores, with a barrier in the loop, and the wait between load and
store exposed; loops of `cp.async` whose wait covers the copies that the same round has just started; and loops that
issue bulk copies, wait for them and use them in the same warps.

## Why it costs time

Nothing computes while the tile travels: each iteration pays the full memory latency, and the tile passes the register
file on the way, which costs registers and so occupancy.

## Evidence

Long-scoreboard samples at `STS` instructions that wait for an `LDG` of the same loop, `BAR` in the loop. Of `cp.async`:
`LDGDEPBAR` closes a group, `DEPBAR.LE SB0, N` lets the newest N fly on; going back over N groups from the wait finds
the copies that it is for, and where no use of a tile lies between, nothing is ever under way ahead. A ring of four
stages with `wait_group 0` is no faster than one stage. Long-scoreboard samples at that wait say what it costs.

## Fix

`cp.async` (sm_80 and later) or TMA (sm_90) into two to four stages of shared memory; or load the next tile into
registers before computing on this one. In a ring of S stages that is refilled before the wait: `wait_group S - 1`.

Before:

    s[i] = g[k0 + i]; __syncthreads(); compute(s); __syncthreads();

After:

    cp_async(s[stage ^ 1], g + next); compute(s[stage]); cp_async_wait(); __syncthreads();

## In SASS

Through registers: the store waits for its load. `LDGSTS` writes shared memory itself, and the wait comes stages
later.

Before (capture hgemm.wmma_onestage):

    STS.128 [R140], R48
    LDG.E.128.CONSTANT R48, desc[UR6][R120.64]
    ...
    STS.128 [R138+0x4800], R36
    ...
    STS.128 [R137], R48
    STS.128 [R136+0x4800], R56

After (capture hgemm.wmma_padded):

    LDGSTS.E.BYPASS.128 [R81+0x4800], desc[UR10][R22.64]
    ...
    LDGSTS.E.BYPASS.128 [R77], desc[UR10][R74.64]
    ...
    LDGSTS.E.BYPASS.128 [R81+0x4800], desc[UR10][R22.64]
    ...
    LDGSTS.E.BYPASS.128 [R77], desc[UR10][R78.64]
    ...
    LDGSTS.E.BYPASS.128 [R81+0x4800], desc[UR10][R74.64]

## When it is wrong

A ring of bulk copies that is filled before its loop is ahead, however long its warps wait: memory is the limit then.
With enough blocks resident, another block computes while this one waits: then the samples at the stores are few.

## Source

CUDA C++ Programming Guide, Asynchronous Data Copies; CUTLASS, pipelined main loops.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.model.contract.analysis import Finding, Location
from kscope.rules._shared.tile_rings import ANY, EXPOSED, ahead, awaited_tiles, remedy, waited
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

NAMED = 0.6  # measured: experts named it in 11 of 19 public kernels where it was among the first three


class UnpipelinedCopy(ProfiledRule):
    code = "LAT307"
    slug = "unpipelined-copy"
    title = "Tiles are copied without overlap with the computation"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        if code.where(lambda ins, op: "tma" in op.kind):
            return self._bulk(facts, code) if facts.specialized.pipeline is None else PASSED
        found = [self._waited(facts, code), self._through_registers(facts, code)]
        return max((f for f in found if f is not None), key=lambda f: f.evidence[0].value or 0.0, default=PASSED)

    def _waited(self, facts: Facts, code: Code) -> Finding | None:
        """cp.async whose wait covers the copies just started, whatever the ring could hold."""
        every = sum(code.samples)
        slow = code.stall.get("long_scoreboard")
        copies = [c for c in facts.patterns.exposed_copies if c.asynchronous]
        if slow is None or not every or not copies:
            return None
        # A warp that stands at DEPBAR is sampled there or at the instruction behind it.
        share, copy = max(
            (sum(slow[i] for w in c.waits for i in (w, w + 1)) / every, c) for c in copies
        )
        if share < EXPOSED:
            return None
        around = self._around(code)
        return self._exposed(
            facts, share, around, code.locations([*copy.waits, *(w + 1 for w in copy.waits), *copy.loads], weight=slow),
            why=f"{percent(share)} of all samples stand at the wait for cp.async ({percent(around)} more at barriers): "
            f"{waited(copy)}.",
            fix=remedy(copy),
            seen=("samples at the wait for copies", "long_scoreboard at DEPBAR and behind it"),
        )  # fmt: skip

    def _through_registers(self, facts: Facts, code: Code) -> Finding | None:
        exposed = awaited_tiles(code)
        share = sum(exposed.values()) / max(1.0, sum(code.samples))
        if share < EXPOSED:
            return None
        around = self._around(code)
        return self._exposed(
            facts, share, around, code.locations(exposed),
            why=f"{percent(share)} of all samples wait between a global load and the store of its value to shared "
            f"memory, in a loop with barriers ({percent(around)} more wait there): nothing computes while the "
            "tile travels.",
            fix=ANY,
            seen=("samples between LDG and STS", "long_scoreboard at the store, blamed on the load"),
        )  # fmt: skip

    def _around(self, code: Code) -> float:
        """Share of the samples at block barriers."""
        return code.blamed_share(code.where(lambda ins, op: ins.opcode == "BAR"), "barrier")

    def _exposed(
        self, facts: Facts, share: float, around: float, locations: list[Location], *, why: str, fix: str,
        seen: tuple[str, str],
    ) -> Finding:  # fmt: skip
        return self.finding(
            why=why,
            fix=fix,
            evidence=[
                derived(seen[0], share, "", seen[1]),
                derived("samples at barriers", around, "", "stall reason barrier"),
            ],
            locations=locations,
            estimate=facts.estimate.relieve(min(1.0, share + around), 0.2, {}, latency=1 - share, hides=True),
            confidence=NAMED,
        )

    def _bulk(self, facts: Facts, code: Code) -> Outcome:
        """Bulk copies that the same warps issue, wait for and then use, one after the other in one loop."""
        waits = facts.specialized.waits
        assert waits is not None
        every = sum(code.samples)
        issued = facts.specialized.bulk_copies
        around = {n for i in issued for n in code.cfg.loops_around(i)}
        tries = [w for w in waits.sites if w.kind == "mbarrier" and around & set(code.cfg.loops_around(w.index))]
        if not tries or not every or ahead(code, waits, issued, tries):
            return PASSED
        copying = sum(facts.specialized.samples_at(w) for w in tries) / every
        flight = sum(facts.specialized.samples_at(w) for w in waits.sites if w.unit == "tensor") / every
        # Both waits in one place: while the one runs, the other cannot. Overlapped, the shorter of the two hides.
        using = max(flight, 1 - copying - facts.counters.launch.outside)
        hidden = min(copying, using)
        if copying < 0.1 or hidden < 0.05:
            return PASSED
        what = "the products" if flight > 0.02 else "the computation"
        return self.finding(
            title="Bulk copies and their use take turns in the same warps",
            why=(
                f"{percent(copying)} of all samples wait for bulk copies that the same warps issued in the same loop"
                + (f", {percent(flight)} for wgmma results" if flight > 0.02 else "")
                + f": {what} cannot run while the tile travels, and the next tile does not travel meanwhile."
            ),
            fix="a producer warp of its own that copies ahead into a ring of stages (full and empty mbarriers); or "
            "issue the next stage's copies before this stage's products",
            evidence=[
                derived("samples waiting for bulk copies", copying, "", "try-waits on mbarriers in the copying loop"),
                derived("samples waiting for products", flight, "", "WARPGROUP.DEPBAR and ARRIVE"),
            ],
            locations=code.locations([*(w.index for w in tries), *issued], weight=code.samples),
            estimate=facts.estimate.relieve(hidden, 0.3, {}, latency=1 - 0.7 * hidden, hides=True),
            confidence=NAMED,
        )
