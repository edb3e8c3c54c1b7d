"""A block-wide barrier orders nothing: no memory was touched since the one before it.

## What it does

Finds `BAR.SYNC` of all threads that every path reaches from another one of the same number without a memory access, a
fence or an asynchronous operation in between.

## Why it costs time

Each barrier waits for the slowest warp and drains the pipeline: tens of cycles when the warps arrive together, more
when they do not. Two in a row pay it twice for the same order.

## Evidence

The code alone: a data-flow analysis over all paths. Nothing is measured; `barrier-stalls` (LAT304) tells what barriers
cost in a profile.

## Fix

Remove the second barrier. Often one of them hides in a helper that synchronises before it returns, and its caller
does so again.

Before:

    s[t] = v; __syncthreads(); a *= k; __syncthreads(); x = s[t ^ 1];

After:

    s[t] = v; __syncthreads(); a *= k; x = s[t ^ 1];

## In SASS

Before (tiles.cu, shift_two_barriers, sm_90a):

    STS [R5+UR4], R12
    BAR.SYNC.DEFER_BLOCKING 0x0
    BAR.SYNC.DEFER_BLOCKING 0x0
    LDS R21, [R6+UR4]

After (shift_one_barrier): the same with one `BAR.SYNC`.

## When it is wrong

A barrier may be there for its timing alone, to keep warps in step for locality; and a barrier that another kernel
version needs is cheap insurance where it is cold.

## Source

CUDA C++ Programming Guide, Synchronization Functions.
"""

from __future__ import annotations

from kscope.rules.base import CodeRule


class RedundantBarrier(CodeRule):
    code = "LAT309"
    slug = "redundant-barrier"
    title = "A barrier follows another with nothing to order"
    regime = "overhead"
