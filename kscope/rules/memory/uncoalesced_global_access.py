"""Lanes of a warp touch more 32-byte sectors than their bytes need.

## What it does

Compares, for each global load and store, the sectors that the executed addresses touch with the fewest that could
hold the same bytes, and adds up the excess by instruction and source line.

## Why it costs time

32 lanes in 32 sectors for 4 bytes each move 8 times the bytes through L1, L2 and device memory, and a round of the
load/store unit each. Random reductions queue for device memory though its bus looks idle.

## Evidence

`memory_l2_theoretical_sectors_global` against `memory_l2_theoretical_sectors_global_ideal` an instruction (exact,
counted by instrumentation), and the samples blamed on those instructions.

## Fix

Let neighbouring lanes read neighbouring addresses.

Before:

    for (int c = 0; c < cols; c++) s += a[row * cols + c];          // lane = row: stride of a whole row

After:

    for (int c = lane; c < cols; c += 32) s += a[row * cols + c];   // a warp walks one row together

Where the algorithm wants the other order, load tiles coalesced into shared memory and read them back transposed; turn
arrays of structs into structs of arrays.

## In SASS

The loads look alike; a thread alone walks 4 bytes a step (its neighbours are a row away), a warp together 128.

Before (capture uncoalesced.slow):

    LDG.E.CONSTANT R21, desc[UR6][R2.64+-0x8]
    LDG.E.CONSTANT R22, desc[UR6][R2.64+-0x4]

After (capture uncoalesced.fast):

    LDG.E.CONSTANT R21, desc[UR4][R4.64+-0x100]
    LDG.E.CONSTANT R22, desc[UR4][R4.64+-0x80]

## When it is wrong

Rows of a few elements leave most lanes of a warp idle (6 of them, a warp a row: 0.43x in a public kernel), and what is
done once a row is then done by each of its warps (0.62x): such ways are said not to apply, nor where the loop loads
columns side by side too (0.96x). Gathers with a random index have no better order (sorted in the kernel: 0.94x). Where
an idle L1 brings all of the excess, or little is promised, little is gained; an empty device wants more threads first.

## Source

CUDA C++ Best Practices Guide, Coalesced Access to Global Memory; Kernel Profiling Guide, Source Counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kscope.features.facts import (
    IDEAL_SECTORS,
    LINE,
    SECTOR,
    SECTORS,
    Code,
    Column,
    Demand,
    Excess,
    Facts,
    partly,
    up_to,
)  # fmt: skip
from kscope.model.contract.analysis import Estimate, Finding
from kscope.rules._shared.blocks.joined_rows import joined
from kscope.rules._shared.blocks.started import in_tiles
from kscope.rules._shared.excess import SCATTERED, ExcessRule, compared, up_to_misses
from kscope.rules._shared.layouts import (
    FIX,
    ROW,
    caught,
    in_pieces,
    kind_of,
    layout_of,
    leading,
    spread_out,
    sure,
    way_of,
)  # fmt: skip
from kscope.rules._shared.wide_accesses import pieces
from kscope.rules._shared.wide_waits import left_in_line
from kscope.rules.base import FAINT, PASSED, Missing, Outcome, Passed, derived, percent

ALWAYS = 1e9
EVERY, BEST = "all global accesses", "the same bytes, coalesced"
LITTLE = 0.1  # share of all sectors below which the excess does not matter
SORTED = 0.2  # of the excess of a gather that better ordered indices save: no pair measured, and the sort costs too
FOUND = 0.5  # of the sectors in L1, from which a walk over them is what brought them there (half of a sector is left)
WIDEST = 16  # sectors of a request of 16 bytes a lane: more is scattered whatever the width


class UncoalescedGlobalAccess(ExcessRule):
    code = "MEM101"
    slug = "uncoalesced-global-access"
    title = "Global accesses touch more sectors than they need"

    def check(self, facts: Facts, code: Code) -> Outcome:
        found = self.columns(code, SECTORS, IDEAL_SECTORS, lambda: facts.profile.only_bulk)
        if isinstance(found, (Passed, Missing)):
            return found
        touched, ideal = found
        whole = pieces(facts, code)  # lanes side by side need wider accesses (MEM102), no other mapping
        ideal = [touched[i] if i in whole else least for i, least in enumerate(ideal)] if whole else ideal
        bad = facts.profile.excess(touched, ideal, SCATTERED, ALWAYS, LITTLE)
        if bad is None:
            return PASSED
        scattered = [i for i in bad.members if facts.addresses.gathers(i) and not facts.addresses.steps_from_loaded(i)]
        gathered = code.blamed_share(scattered) > 0.5 * bad.share
        # Lanes that walk rows side by side are the cause even where the rows' contents are then gathered.
        layout = layout_of(facts, code, [i for i in bad.members if i not in scattered], touched)
        way = way_of(facts, code, bad.members, bad.share, layout)
        tiles, tiled = in_tiles(facts, possible=not gathered)
        alone = self._scale(facts, code, touched, ideal, bad) | tiles
        tiles |= joined(facts, code, bad.members, way.lanes)
        scale = alone | tiles
        returns = bool(layout) or self._returns(facts, code, bad.members)
        relieved = partial(self._relieved, facts, code, returns=returns)
        best = up_to_misses(facts, scale, partial(relieved, bad))
        # Rows too short to share are no better off than gathers: another order of their elements is a copy of the data.
        loose = bad.members if way.short else scattered
        estimate = self._gathering(facts, code, touched, ideal, loose, best, tiles, returns=returns)
        indirect = not way.layout and gathered
        estimate, remedies, first = spread_out(facts, way, estimate, scale, FIX["" if way.more > 1 else ROW])
        walking = [i for i in bad.members if way.walks and i not in scattered]
        own = in_pieces(facts, bad, alone, walking, touched, relieved, returns=returns)
        kind = kind_of(facts, touched, scale, way.layout, scattered if indirect else None, bad.members)
        lead = leading(way, FIX[kind], estimate, own)
        return self.finding(
            title=lead.title,
            why=(
                f"{bad.actual:,.0f} sectors where {bad.ideal:,.0f} hold the same bytes; {code[bad.worst].name} touches "
                f"{bad.worst_actual:.1f} a request, {bad.worst_ideal:.1f} would do. {percent(bad.share)} of all "
                f"samples wait for these accesses.{way.why}{tiled}"
            ),
            fix=lead.fix,
            evidence=compared((SECTORS, bad.every, EVERY), (IDEAL_SECTORS, bad.needed, BEST), "sector", bad.share),
            locations=code.locations(bad.members), estimate=lead.estimate, first=first,
            remedies=[*remedies, *lead.remedies], pulls=["+threads"] if way.more > 1 else [],
            confidence=sure(facts, scale, bad.worst, gain=lead.estimate.speedup, indirect=indirect),
        )

    def _relieved(
        self, facts: Facts, code: Code, bad: Excess, scale: Mapping[Demand, float], *, returns: bool
    ) -> Estimate:
        """Waits for a full L1 shrink with its wavefronts, others with the sectors: where lanes come back for the rest
        of them, all; else what of them is a queue, for the sectors of one request travel together."""
        full = facts.counters.busiest is not None and facts.counters.busiest.parts[0].demand == "l1_wavefronts"
        kept = min(bad.ratio, scale["l1_wavefronts"]) if full else bad.ratio
        returns = returns and not caught(facts, scale)
        left = kept if returns else left_in_line(facts, code, bad.members, kept, scale)
        return facts.estimate.relieve(bad.share, left, scale, posted=bad.stores)

    def _returns(self, facts: Facts, code: Code, members: Sequence[int]) -> bool:
        """Whether later rounds find in L1 what lanes leave of their sectors: each walks on, in a way of its own."""
        loops = [i for i in members if code.cfg.loop_of[i] is not None]
        inside = code.blamed_share(loops) > 0.5 * code.blamed_share(members)
        return inside and (facts.counters.traffic.l1_hit or 0.0) >= FOUND

    def by_counters(self, facts: Facts) -> Finding | None:
        traffic = facts.counters.traffic
        if (each := traffic.global_load_sectors / max(1.0, traffic.global_load_requests)) <= WIDEST:
            return None
        kept, walks = WIDEST / 2 / each, (traffic.l1_hit or 0.0) >= FOUND  # else gathers, for all that is known
        waits = facts.counters.stalls.of("long_scoreboard", "lg_throttle") if facts.counters.stalls.share else 0.5
        return self.finding(
            title=f"Global loads touch {each:.0f} sectors a request",
            why=(
                f"a request of 32 lanes needs 4 sectors for 4 bytes each and {WIDEST} for 16, so lanes are scattered. "
                "Which load, and how far apart its lanes are, needs --section SourceCounters."
            ),
            fix=FIX[""],
            evidence=[derived("sectors a load request", each, "sector", "l1tex__t_sectors over requests of loads")],
            estimate=up_to(*(
                facts.estimate.relieve(waits, left, {"l1_wavefronts": left, "l2_requests": left})
                for left in (kept if walks else 1 - SORTED * (1 - kept), kept)
            )), confidence=FAINT,
        )

    def _scale(self, facts: Facts, code: Code, touched: Column, ideal: Column, bad: Excess) -> dict[Demand, float]:
        """What remains of each demand: L1 replays go with the excess; L2 and device memory give back only what L1
        did not already catch."""
        others = (traffic := facts.counters.traffic).others  # they pass L2 too and are none of these accesses
        needed, kept = bad.needed + others, (others + bad.kept * bad.every) / (others + bad.every)
        l2 = min(1.0, needed / traffic.l2_sectors) if traffic.l2_sectors else 1.0
        # Device memory moves what L2 asks for: as many sectors at L2 are as many bytes there, however many it moves.
        dram = max(l2, min(1.0, needed * SECTOR / traffic.dram_bytes)) if traffic.dram_bytes else 1.0
        asked = traffic.l2_requests
        l2_requests = min(1.0, min(needed, traffic.l2_sectors) / LINE / asked) if asked else 1.0
        # A scattered request takes a wavefront a line that it touches, a coalesced one takes one.
        every, chosen = traffic.l1_wavefronts or 0.0, set(bad.members)
        rest = [i for i in code.where(lambda ins, op: op.space == "global") if i not in chosen]
        least = facts.profile.least_wavefronts(bad.members, ideal)
        now = max(least, every - traffic.shared_wavefronts - facts.profile.least_wavefronts(rest, touched))
        return {
            "l1_wavefronts": 1 - (now - least) / every if every else bad.kept,
            "l2_sectors": max(l2, kept),
            "dram_bytes": max(dram, kept),
            "l2_requests": max(l2_requests, kept),
            "l2_writes": max(l2_requests, kept),
        }

    def _gathering(
        self, facts: Facts, code: Code, touched: Column, ideal: Column, scattered: list[int], best: Estimate,
        tiles: dict[Demand, float], *, returns: bool,
    ) -> Estimate:  # fmt: skip
        """Sorting or binning the indices of gathers saves a part of their excess; the best case is the upper end."""
        reached = partly(touched, ideal, scattered, SORTED)
        if (part := facts.profile.excess(touched, reached, 0.0, ALWAYS, 0.0)) is None:
            return best
        scale = self._scale(facts, code, touched, reached, part) | tiles
        point = self._relieved(facts, code, part, scale, returns=returns)
        return up_to(point, best)
