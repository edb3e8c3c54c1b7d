"""Three operands of one instruction lie in one bank of the register file.

## What it does

Finds instructions that could issue every cycle, in loops, whose source registers all lie in the same bank (register
number modulo 2), the operand reuse cache taken into account.

## Why it costs time

A bank delivers two registers of a warp a cycle. A third one makes the instruction wait a cycle, half its rate; a reuse
flag on the instruction before would have saved the read.

## Evidence

Register numbers and `.reuse` flags of the SASS. Two operands of one bank cost nothing: on an H200 a loop of
`FFMA R6, R4, R6, 0.5` issues in 99.6 % of the cycles.

## Fix

The compiler assigns registers; the source can only make it assign others: another order of the operands or of the
unrolled statements, another tile shape, fewer values alive, another compiler version.

Before:

    FFMA R0, R2, R4, R6

After:

    FFMA R0, R2.reuse, R5, R6

## In SASS

Before (banks.cu, network_registers, sm_90a):

    FFMA R14, R21, R39, R23

After (network_constant): one factor comes from constant memory, two registers are left.

## When it is wrong

Banks of chips after sm_90 are taken to be the same. A loop that waits for memory does not notice a lost cycle.

## Source

Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv 1804.06826, section 3.1.2; our
capture fma_peak.base on an H200.
"""

from __future__ import annotations

from kscope.rules.base import CodeRule


class RegisterBankConflicts(CodeRule):
    code = "CMP210"
    slug = "register-bank-conflicts"
    title = "Operands meet in one register bank"
    regime = "compute"
