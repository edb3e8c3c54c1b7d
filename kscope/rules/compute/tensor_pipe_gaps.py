"""The tensor pipe of a specialised kernel idles between groups of products.

## What it does

Of warp-specialised kernels: takes the tensor pipe's timeline and looks where its warps stand in the gaps. It fires
where gaps lie in the loop over K, because the warps that issue products wait for one group, signal, and only then start
the next.

## Why it costs time

Between the end of one group and the start of the next nobody feeds the pipe: address arithmetic, a barrier on which all
lanes arrive one by one, a wait for results that are needed only later.

## Evidence

What the pipe loses in the loop, by its timeline and the place of its warps; the lanes an arrival; the share of samples
in which the role neither waits nor stores.

## Fix

A second consumer warpgroup fills the gaps of the first; a wider tile has fewer of them; one thread a warpgroup arrives
at the barriers instead of all 128; `wgmma.wait_group 1` waits for all but the newest group.

Before:

    wgmma(...); commit(); wait<0>(); arrive(empty);                // one warpgroup, a gap after each group

After:

    wgmma(...); commit(); wait<1>(); if (!lane) arrive(empty);     // two warpgroups in turn

## In SASS

The wait and the arrival behind each group of `HGMMA`.

From (capture ws_gemm.one_group_stages2):

    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24.gsb0
    WARPGROUP.DEPBAR.LE gsb0, 0x1
    @!P0  SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R0+URZ], RZ
    ...
    WARPGROUP.DEPBAR.LE gsb0, 0x0

## When it is wrong

Few samples in a short kernel place the gaps badly; then the range is wide. Gaps between tiles are ASY503.

## Source

CUTLASS, warp-specialised persistent kernels (ping-pong). fixtures/dials: what the warps recorded themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts, Scale, total
from kscope.isa.operand_shapes import mma_shape
from kscope.model.operand import ends_with
from kscope.rules._shared.pipelines import REMOVED
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

IDLE = 0.05  # share of the time that the pipe idles between groups of products (judged)
CROWD = 2.0  # lanes an arrival, above which the barrier is crowded (judged: one lane arrives, or all)
WIDEST = 256  # columns of a wgmma


class TensorPipeGaps(ProfiledRule):
    code = "CMP213"
    slug = "tensor-pipe-gaps"
    title = "The tensor pipe idles between groups of products"
    regime = "compute"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        sp = facts.specialized.pipeline
        if sp is None or sp.loss is None or not sp.resolved or not sp.products or sp.loss.loop < IDLE:
            return PASSED
        loss, main = sp.loss, sp.time_of(sp.main)
        if main is None:
            return PASSED
        loop = code.ran(sp.loops)
        arrivals = [i for i in loop if code[i].opcode == "SYNCS" and "ARRIVE" in code[i].mods]
        lanes = total(code.threads, arrivals) / max(1.0, total(code.executed, arrivals))
        drained = any(code[i].opcode == "WARPGROUP" and ends_with(code[i].operands, 0) for i in loop)
        widest = self._widest(facts, code, loop)
        groups = round((main.role.warps or 4) / 4)
        return self.finding(
            why=(
                f"In the loop over K the tensor pipe loses {percent(loss.loop)} of the time while its {groups} "
                f"warpgroup{'s' * (groups > 1)} issue, signal and wait their turn; every group of products is "
                f"{_crowded(lanes, drained)}."
            ),
            fix="; ".join(_fixes(groups, widest, lanes, drained)),
            evidence=[
                derived("lost between products", loss.loop, "", "tensor timeline, by where its warps are"),
                derived("MMA role neither waiting nor storing", main.issued.point, "", "share of its samples"),
                derived("lanes an arrival", lanes, "", "SYNCS.ARRIVE in the loop"),
                measured(facts, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations([*arrivals, *(i for i in loop if code[i].opcode == "WARPGROUP")]),
            estimate=facts.estimate.regain(
                loss.loop, sure=REMOVED, high=loss.steady, scale=self._larger(facts, groups, widest)
            ),
            confidence=0.75 if lanes > CROWD or groups < 2 else 0.6,
        )

    def _widest(self, facts: Facts, code: Code, loop: Sequence[int]) -> int:
        """Columns of the widest product of the loop; 0 where none tells."""
        shapes = [mma_shape(code[i].opcode, code[i].mods) for i in facts.specialized.products(loop)]
        return max((shape[1] for shape in shapes if shape is not None), default=0)

    def _larger(self, facts: Facts, groups: int, widest: int) -> Scale:
        """Another warpgroup or a wider product is a larger tile, which asks L2 for less."""
        now = facts.counters.product_tile
        if now is None or (groups > 1 and not 0 < widest < WIDEST):
            return {}
        return dict.fromkeys(("l2_sectors", "l2_requests", "dram_bytes"), now.kept)


def _crowded(lanes: float, drained: bool) -> str:
    crowd = f", and {lanes:.0f} lanes of each warp arrive at the barriers one by one" if lanes > CROWD else ""
    return f"{'waited for before the next starts' if drained else 'followed by such a gap'}{crowd}"


def _fixes(groups: int, widest: int, lanes: float, drained: bool) -> list[str]:
    """What fills the gaps first, then what shortens them."""
    fixes = [
        "a second consumer warpgroup fills the gaps of the first" if groups < 2 else "",
        f"a wider tile (N = {widest} now, {WIDEST} is the most)" if 0 < widest < WIDEST else "",
        f"one thread a warpgroup arrives at the barriers ({lanes:.0f} lanes a warp now)" if lanes > CROWD else "",
        "wait for all but the newest group (wgmma.wait_group 1)" if drained else "",
        "unrolling over K, less address arithmetic between products",
    ]
    return [fix for fix in fixes if fix]
