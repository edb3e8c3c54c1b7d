"""Warps wait for the texture unit to take their fetches.

## What it does

Finds texture fetches whose queue is full, or whose unit is the busiest of the SM.

## Why it costs time

The texture unit takes four lanes a cycle: a fetch by a warp occupies it for eight cycles and more, where a load of 32
neighbouring floats takes L1 one. Its filtering and its addresses with border rules are what it is for; plain reads pay
eight times for them.

## Evidence

Samples that wait at texture fetches (`tex_throttle`) and for them, utilisation of the texture parts of L1.

## Fix

`__ldg` or plain loads where the texture is read at whole texels without filtering, with the border clamped by hand;
`tex2Dgather` for four neighbours at once; texels of two or four channels; a tile in shared memory for stencils.

Before:

    s += tex2D<float>(t, u + a + 0.5f, v + b + 0.5f);

After:

    s += x[min(max(v + b, 0), h - 1) * w + min(max(u + a, 0), w - 1)];

## In SASS

A fetch for every neighbour; or a load.

Before (capture texels.fetched):

    TEX.LL RZ, R13, R12, R0, UR4, 0x0.2D, 0x1
    TEX.LL RZ, R19, R6, R0, UR4, 0x0.2D, 0x1

After (capture texels.loaded):

    LDG.E.CONSTANT R7, desc[UR4][R4.64]
    ...
    LDG.E.CONSTANT R9, desc[UR4][R8.64]

## When it is wrong

The code does not show whether a texture filters: linear interpolation costs four loads and some arithmetic by hand, and
then little or nothing is gained. Arrays in a block-linear layout serve two-dimensional neighbourhoods better than rows.

## Source

Kernel Profiling Guide, stall reason tex_throttle; CUDA C++ Programming Guide, texture functions.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, Scale, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

WAITED = 0.15  # of all samples
LOADED = 0.25  # of the time of a fetch that loads of the same texels take: 8 cycles a warp against 1 to 3


class TextureThroughput(ProfiledRule):
    code = "MEM113"
    slug = "texture-throughput"
    title = "Texture fetches wait for the texture unit"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        fetches = code.ran(code.where(lambda ins, op: op.pipe == "tex"))
        waiting = facts.counters.stalls.of("tex_throttle")
        share = code.blamed_share(fetches)
        if not fetches or waiting < WAITED or share < WAITED:
            return PASSED
        scale: Scale = {"tex": LOADED}
        l1 = facts.counters.units.get("l1")
        return self.finding(
            why=(
                f"{percent(share)} of all samples wait at or for {len(fetches)} texture "
                f"fetch{'es' if len(fetches) > 1 else ''}, {percent(waiting)} for a place in the texture unit's queue; "
                f"L1 and the texture unit are {percent(l1.busy if l1 else 0.0)} busy."
            ),
            fix="plain loads (__ldg) where nothing is filtered, the border clamped by hand; tex2Dgather; "
            "texels of four channels; a tile in shared memory",
            evidence=[
                derived("texture fetches", total(code.executed, fetches), "inst", "TEX, TLD and their kind"),
                derived("waiting for the texture unit's queue", waiting, "", "stall reason tex_throttle"),
            ],
            locations=code.locations(fetches),
            estimate=facts.estimate.relieve(share, LOADED, scale),
            confidence=0.6,
        )
