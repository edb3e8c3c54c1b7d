"""Lanes of a warp hit different words of one shared-memory bank, and the access is replayed.

## What it does

Compares the wavefronts of each shared-memory instruction with the fewest that its width needs. A 16-byte access
needs four wavefronts without any conflict, so width is not mistaken for one.

## Why it costs time

Shared memory has 32 banks of 4 bytes. Two lanes that want different words of one bank are served one after the
other: an n-way conflict takes n wavefronts of the L1 data pipe, and every other memory instruction queues behind
(`mio_throttle`, `short_scoreboard`).

## Evidence

`memory_l1_wavefronts_shared` against `memory_l1_wavefronts_shared_ideal` an instruction. The hardware counters
`l1tex__data_bank_conflicts_*` are not used: they include arbitration with LDGSTS, TMA and tensor reads.

## Fix

Pad the row by one access width, or swizzle the column with the row.

Before:

    __shared__ float t[32][32];   ... t[threadIdx.x][threadIdx.y]     // stride 32 words: one bank

After:

    __shared__ float t[32][33];   // or t[y][x ^ y]

The SASS keeps its `LDS`; only the address stride changes.

## In SASS

The conflict is in no opcode: the address register holds another stride. Each `LDS` of the first takes 32 wavefronts,
of the second one.

Before (capture bank_conflict.slow):

    LDS R11, [R14]
    LDS R13, [R14+0x20]
    LDS R17, [R14+0x40]
    LDS R19, [R14+0x60]
    ...
    STG.E desc[UR6][R4.64], R11

After (capture bank_conflict.fast):

    LDS R19, [R14+0x60]
    ...
    STG.E desc[UR4][R2.64], R11
    STG.E desc[UR4][R4.64], R13
    STG.E desc[UR4][R6.64], R17
    STG.E desc[UR4][R8.64], R19

## When it is wrong

Where loaded data alone name the place (a table of values, a walk), no padding helps: the finding says so and promises
nothing. A conflict in a cold prologue costs nothing; the estimate follows the samples. Padding can break 16-byte
alignment: pad by 4 words for float4, or swizzle.

## Source

CUDA C++ Best Practices Guide, Shared Memory and Memory Banks.
"""

from __future__ import annotations

from kscope.features.facts import IDEAL_WAVEFRONTS, WAVEFRONTS, Code, Column, Demand, Facts
from kscope.rules._shared.excess import ExcessRule, compared
from kscope.rules.base import PASSED, Missing, Outcome, Passed, percent, with_article

REPLAYED = 0.1  # wavefronts over ideal above which an access conflicts
LITTLE = 0.05  # of all shared wavefronts below which conflicts do not matter
ALWAYS = 1e9
INHERENT = 0.3  # confidence that random lookups are worth rebuilding: nothing in the report says how
PIECES = 4  # accesses of one lane side by side, up to which they are its share of a row rather than rows


class SharedBankConflicts(ExcessRule):
    code = "MEM103"
    slug = "shared-bank-conflicts"
    title = "Shared-memory accesses conflict on banks"

    def check(self, facts: Facts, code: Code) -> Outcome:
        found = self.columns(code, WAVEFRONTS, IDEAL_WAVEFRONTS, lambda: _unshared(code))
        if isinstance(found, (Passed, Missing)):
            return found
        actual, ideal = found
        bad = facts.profile.excess(actual, _reachable(facts, *found), REPLAYED, ALWAYS, LITTLE)
        if bad is None:
            return self._by_data(facts, code, actual, ideal)
        every = max(facts.counters.traffic.l1_wavefronts or 0.0, bad.every)
        scale: dict[Demand, float] = {"l1_wavefronts": max(0.0, 1 - (bad.actual - bad.ideal) / every)}
        ways = actual[bad.worst] / max(ideal[bad.worst], 1)
        return self.finding(
            title=f"{code[bad.worst].name} replays {ways:.0f} times on bank conflicts",
            why=(
                f"{bad.actual:,.0f} wavefronts where {bad.ideal:,.0f} would do: {with_article(ways, '-way')} conflict, "
                f"by access pattern, not arbitration. {percent(bad.share)} of all samples are at or behind them."
            ),
            fix=self._fix(facts, code, bad.worst),
            evidence=compared(
                (WAVEFRONTS, bad.every, "all shared accesses"),
                (IDEAL_WAVEFRONTS, bad.needed, "the same accesses without conflict"),
                "wavefront",
                bad.share,
            ),
            locations=code.locations(bad.members),
            estimate=facts.estimate.relieve(bad.share, bad.ratio, scale),
            confidence=0.9,
        )

    def _by_data(self, facts: Facts, code: Code, actual: Column, ideal: Column) -> Outcome:
        """What conflicts where a layout could help nowhere: a word on lookups at places that loaded data name."""
        bad = facts.profile.excess(actual, ideal, REPLAYED, ALWAYS, LITTLE)
        if bad is None:
            return PASSED
        ways = actual[bad.worst] / max(ideal[bad.worst], 1)
        return self.finding(
            title=f"Loaded data say which banks {code[bad.worst].name} meets",
            why=(
                f"{bad.actual:,.0f} wavefronts where {bad.ideal:,.0f} would do: {with_article(ways, '-way')} conflict. "
                f"The places are themselves loaded, so that no layout keeps lanes apart. {percent(bad.share)} of all "
                "samples are at or behind them."
            ),
            fix=(
                "fewer lookups: a small table in registers by shuffles, or arithmetic in its place; or a copy of the "
                "table for each lane or few lanes, where it fits"
            ),
            evidence=compared(
                (WAVEFRONTS, bad.every, "all shared accesses"),
                (IDEAL_WAVEFRONTS, bad.needed, "the same accesses without conflict"), "wavefront", bad.share,
            ),
            locations=code.locations(bad.members), confidence=INHERENT,
        )  # fmt: skip

    def _fix(self, facts: Facts, code: Code, worst: int) -> str:
        """By the distance between lanes: pieces of a row that belong to one lane each, or rows."""
        if facts.lanes.astride(worst):
            return "swizzle the tile (chunk ^ row) instead of padding its rows by 16 bytes (MEM108)"
        width, apart = code.classes[worst].bytes, facts.lanes.stride(worst)
        if apart is not None and width < apart <= PIECES * width and code[worst].opcode in ("LDS", "STS"):
            return (
                f"neighbouring lanes on neighbouring {width} bytes: they are {apart} apart now; give each lane its "
                f"{apart // width} pieces a warp's width apart (warp tiles), or swizzle"
            )
        rows = "pad the row by one access width (t[32][33]) or swizzle the column with the row"
        return rows if apart is not None else f"{rows}; or neighbouring lanes on neighbouring words"


def _reachable(facts: Facts, actual: Column, ideal: Column) -> Column:
    """The fewest wavefronts that a layout can reach: where loaded data alone say which bank a lane meets, those of now.
    A lane's own column, or row, at a place that is loaded is a layout (private histograms)."""

    def given(index: int) -> bool:
        origins = facts.addresses.origins(index)
        return facts.addresses.chases(index) or (origins is not None and "load" in origins and "tid" not in origins)

    return [
        was if was > least and given(i) else least for i, (was, least) in enumerate(zip(actual, ideal, strict=True))
    ]


def _unshared(code: Code) -> bool:
    return not code.where(lambda ins, op: op.space == "shared")
