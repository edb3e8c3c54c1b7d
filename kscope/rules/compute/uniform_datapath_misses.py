"""Index arithmetic that is the same for the whole warp runs in every lane, because the compiler cannot know it.

## What it does

Finds integer instructions in loops that depend on the thread index and yet give all lanes of a warp the same number:
what follows from the warp number, `threadIdx.x / 32`.

## Why it costs time

The uniform datapath does such work once a warp, beside the vector pipes and without vector registers. As vector
instructions it takes issue slots, the ALU and a register for each value.

## Evidence

The code alone: the value of every lane is computed from the instructions. Blocks are taken to be one row of threads.

## Fix

Say that the value is uniform: broadcast the warp number from lane 0.

Before:

    int warp = threadIdx.x / 32;

After:

    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);                // R2UR: the rest is uniform

## When it is wrong

With blocks of several rows whose length is no multiple of 32 a warp spans rows, and the value is not uniform. Where
issue slots are free, nothing is gained.

## Source

CUTLASS, canonical_warp_idx_sync; CUDA Binary Utilities, instruction set reference (uniform datapath instructions).
"""

from __future__ import annotations

from kscope.rules.base import CodeRule


class UniformDatapathMisses(CodeRule):
    code = "CMP211"
    slug = "uniform-datapath-misses"
    title = "Warp-uniform index arithmetic runs in every lane"
    regime = "compute"
