"""Ordinary accesses of shared memory meet asynchronous ones without the fence between the two proxies.

## What it does

Follows every path of the code from stores to shared memory (`STS`, `STSM`, shared atomics, `LDGSTS`) to instructions
that read it through the asynchronous proxy (TMA and bulk stores, `wgmma`, `tcgen05`), and from loads (`LDS`, `LDSM`)
to TMA and bulk loads that overwrite it, through barriers and mbarriers to the warps on the other side. A path without
`fence.proxy.async` is a race.

## Why it costs time

It costs correctness, not time. A barrier orders threads; it does not order the generic proxy of ordinary accesses with
the asynchronous proxy of the copy engine and the tensor core. Without the fence the copy may send what was in shared
memory before the store: rarely, and depending on load and chip.

## Evidence

The path, instruction by instruction, in the SASS: the accesses, the barriers between, no `FENCE.VIEW.ASYNC`. Addresses
are computed from the code; accesses of other buffers are left out. What a TMA or bulk store
picks up is reported there, once, not again at the products of the next tile.

## Fix

Every writing thread fences, then the barrier, then one thread starts the asynchronous access.

Before:

    tile[i] = v; __syncthreads(); if (leader) tma_store(map, tile);

After:

    tile[i] = v; asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads(); if (leader) tma_store(map, tile);

## In SASS

Before (tma.cu, put_unfenced, sm_90a):

    STS [R11+0xc00], R4
    BAR.SYNC.DEFER_BLOCKING 0x0
    UTMASTG.2D [UR4], [UR8]

After (put_fenced):

    STS [R11+0xc00], R4
    MEMBAR.ALL.CTA
    FENCE.VIEW.ASYNC.S
    BAR.SYNC.DEFER_BLOCKING 0x0
    UTMASTG.2D [UR4], [UR8]

## When it is wrong

Loads before a TMA load, with a barrier between, are a race by the memory model only: the values have been returned
when the thread reaches the barrier, and widely used kernels rely on it. So do copies by `cp.async` before a product:
those are left out. A claim is made where the bytes are the same by address; where a TMA store may send what was stored,
but the addresses do not follow from the code, it is a remark; a store that may be any product's operand is none.

## Source

PTX ISA, Memory Consistency Model, Proxies, and membar/fence.proxy; CUDA C++ Programming Guide, Asynchronous data
copies using the Tensor Memory Accelerator.
"""

from __future__ import annotations

from msgspec import structs

from kscope.features.facts import Code, Facts, Hazard, Listing
from kscope.model.contract.analysis import Severity
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived

FIX = "fence.proxy.async.shared::cta by every thread that accessed the buffer, then the barrier, then the async access"


class MissingProxyFence(ProfiledRule):
    code = "ASY505"
    slug = "missing-proxy-fence"
    title = "Shared memory crosses proxies without a fence"
    regime = "overhead"

    def check(self, facts: Facts, code: Code) -> Outcome:
        return self.led_by_the_gravest(code, facts.lanes.proxy_hazards)

    def led_by_the_gravest(self, code: Listing, found: list[Hazard]) -> Outcome:
        """One finding on all hazards, led by the gravest."""
        if not found:
            return PASSED
        worst = min(found, key=lambda h: (h.reads, h.ordered if h.reads else False, not h.overlap, h.index))
        writes = sum(not h.reads for h in found)
        site, target = code[worst.sites[0]], code[worst.index]
        way = ", ".join(f"{code[i].opcode} at {code[i].pc:#x}" for i in worst.path)
        effect = (
            "the asynchronous access may read what was there before the store"
            if not worst.reads
            else "the asynchronous access may overwrite what is still to be read"
        )
        formal = worst.reads and worst.ordered
        where = "" if worst.overlap else " if both mean the same bytes, which does not follow from the code"
        finding = self.finding(
            title=f"{site.opcode} reaches {target.opcode} without a proxy fence",
            why=f"On the path {way} there is no fence.proxy.async: {effect}{where}."
            + (" By the memory model; in practice the barrier has seen the loads return." if formal else ""),
            fix=FIX,
            evidence=[
                derived("asynchronous accesses after uncovered stores", writes, "inst", "by paths"),
                derived("asynchronous writes after uncovered loads", len(found) - writes, "inst", "by paths"),
            ],
            locations=[code.location(i) for i in dict.fromkeys([*worst.path, *worst.sites])][:8],
            confidence=0.4 if formal else 0.9 if worst.overlap else 0.3,
        )
        return structs.replace(finding, severity=_severity(worst))


def _severity(hazard: Hazard) -> Severity:
    """A claim where the bytes are the same by address; where that is not known, or the order is a matter of the memory
    model alone, a remark."""
    if not hazard.overlap or (hazard.reads and hazard.ordered):
        return "info"
    return "major" if hazard.reads else "critical"
