"""A matrix product runs on the scalar pipes while the tensor cores idle.

## What it does

Finds loops of multiply-adds on two loaded factors with a carried sum (a matrix product) in FP32, FP16 or FP64, on a
chip with tensor cores for that type, with the tensor pipe at zero.

## Why it costs time

A tensor core does a whole 16 x 8 x 16 product in one instruction: on an H200 the FP16 rate of the tensor cores is 8
times that of HFMA2, TF32 8 times FFMA, FP64 twice DFMA.

## Evidence

FMA share of the loop, def-use from loads to both factors, `sm__pipe_tensor_cycles_active` near zero.

## Fix

`mma.sync` (or WMMA, CUTLASS, cuBLAS, Triton's `tl.dot`); `wgmma` on sm_90, `tcgen05` on sm_100. For FP32 data this
means TF32 or BF16 products with FP32 sums: check that the result's precision allows it.

Before:

    acc[i][j] += ra[i] * rb[j];                                    // FFMA

After:

    wmma::mma_sync(c, a, b, c);                                    // HMMA.16816.F32

## In SASS

Shifts unpack BF16 for one `FFMA` after another; one `HMMA` multiplies 16 x 8 x 16.

Before (capture gemm_bf16.ffma):

    FFMA R19, R98, R47, R19
    ...
    FFMA R66, R91, R81, R66
    ...
    FFMA R67, R98, R81, R67
    ...
    SHF.L.U32 R21, R24, 0x10, RZ
    ...
    SHF.L.U32 R35, R20, 0x10, RZ

After (capture gemm_bf16.swizzled):

    HMMA.16816.F32.BF16 R12, R84, R28, R12
    ...
    HMMA.16816.F32.BF16 R44, R16, R80, R44
    HMMA.16816.F32.BF16 R40, R16, R82, R40
    HMMA.16816.F32.BF16 R36, R16, R28, R36
    HMMA.16816.F32.BF16 R32, R16, R30, R32

## When it is wrong

FP32 products that need full precision cannot move; for them no gain is promised. Tiny inner dimensions do not fill a
tensor instruction, nor do rows of a sparse matrix, whose factors an index picks round by round.

## Source

CUDA C++ Programming Guide, Warp Matrix Functions; tensor peaks from the report itself.
"""

from __future__ import annotations

from kscope.features.facts import ChipFacts, Code, Facts, FmaLoop, between, total, up_to
from kscope.isa.families import by_opcode
from kscope.model.contract.analysis import Estimate
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

ENOUGH, HALVES = 0.15, 0.1
"""Share of all instructions that are such multiply-adds, from which they are what the kernel is for (judged). Of 2-byte
numbers each has two conversions beside it: a thread for each result has an eighth."""
FRAGMENTS = 3 / 32  # bytes a multiply-add that a warp loads for 64 x 32 outputs: (64 + 32) x 2 / (64 x 32)
BY_OPCODE: dict[str, str] = by_opcode("precision")


def inputs(chip: ChipFacts) -> str:
    """Types that the chip's tensor cores take in place of FP32."""
    types = [name for name, key in (("TF32", "mma_tf32"), ("BF16", "mma_fp16")) if chip.has(key)] or ["FP16"]
    return f" with {' or '.join(types)} inputs, if the precision allows"


class TensorCoresIdle(ProfiledRule):
    code = "CMP201"
    slug = "tensor-cores-idle"
    title = "A matrix product runs beside idle tensor cores"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        tensor = facts.counters.units.get("tensor")
        if (tensor is not None and tensor.busy > 0.05) or not facts.chip.has("tensor"):
            return PASSED
        if len(code.where(lambda ins, op: op.pipe == "tensor" and ins.opcode != "HFMA2")):
            return PASSED
        # Every product in the hot code, and enough of it: a few multiply-adds in a loop are no matrix product.
        loops = [lp for lp in facts.patterns.fma_loops if lp.opcode in BY_OPCODE and lp.both]
        fmas = sum(lp.fmas for lp in loops)
        every = total(code.executed)
        if not loops:
            return PASSED
        main = loops[0]
        # FFMA on values that were loaded as 2 bytes: half-precision data, which tensor cores multiply exactly.
        half = main.opcode == "FFMA" and facts.patterns.multiplies_halves(main)
        if fmas < (HALVES if half else ENOUGH) * every or self._sparse(facts, main):
            return PASSED
        precision = "fp16" if half else BY_OPCODE[main.opcode]
        # FP32 products change precision there: a direction, not a promise.
        return self.finding(
            title=f"{main.opcode} does a matrix product while the tensor cores idle",
            why=(
                f"{fmas:,.0f} {main.opcode} ({percent(fmas / every)} of all instructions) multiply two loaded factors "
                f"into a carried sum; the tensor pipe is at {percent(tensor.busy if tensor else 0.0)}."
            ),
            fix="mma.sync / wgmma / tcgen05 / tl.dot" + (inputs(facts.chip) if precision == "fp32" else ""),
            evidence=[
                derived("multiply-adds on two loaded factors", fmas, "inst", "by def-use in innermost loops"),
                measured(facts, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(main.fma_indices),
            estimate=self._estimate(facts, code, main) if precision != "fp32" else None,
            confidence=0.6 if precision == "fp32" else 0.75,
            severity="minor",
        )

    def _sparse(self, facts: Facts, main: FmaLoop) -> bool:
        """Whether an index that each round loads says where a factor is: rows of a sparse matrix fill no fragment."""
        at = facts.addresses
        return any(at.gathers(i) and not at.steps_from_loaded(i) for i in main.loads)

    def _estimate(self, facts: Facts, code: Code, main: FmaLoop) -> Estimate:
        """Gain if a tensor instruction does the work of 32 multiply-adds and takes its operands packed, and the loads
        shrink to what fragments of a 64 x 32 tile a warp need: a rewrite makes new tiles. At least what comes with the
        loads as they are."""
        work = [*main.fma_indices, *facts.patterns.unpacking(main)]
        share = max(code.issue_share(work), code.blamed_share(work))
        scale = facts.profile.demands_after(work, 1 / 32)
        point = facts.estimate.relieve(share, 1 / 32, scale, latency=1 - share)
        each = main.words_per_fma * 4 / (2 if main.opcode == "HFMA2" else 1)
        fewer = min(1.0, FRAGMENTS / max(each, FRAGMENTS))
        every = sorted({*work, *main.loads})
        kept = {d: scale[d] for d in ("fma", "fmaheavy", "alu", "instructions") if d in scale}
        best = facts.profile.demands_after(facts.patterns.addresses_of(every), fewer)
        best |= {d: min(k, best.get(d, k)) for d, k in kept.items()}
        waits = min(1.0, share + code.blamed_share(main.loads))
        copies = self._copies(facts, code, main)
        if copies:
            # Tiles of floats shrink to tiles of halves, sixteen bytes an access.
            packed = sum(float(code.executed[i]) * self._packed(code, i) for i in copies)
            gone = facts.profile.demands_after(copies, packed / total(code.executed, copies))
            best = {d: max(0.0, best.get(d, 1.0) + gone.get(d, 1.0) - 1) for d in best.keys() | gone.keys()}
            waits = min(1.0, waits + code.blamed_share(copies))
        tiled = facts.estimate.relieve(waits, 1 / 32, best, latency=1 - share)
        if tiled.speedup <= point.speedup:
            return up_to(point, tiled)
        return between(tiled, low=point)

    def _copies(self, facts: Facts, code: Code, main: FmaLoop) -> list[int]:
        """The accesses that bring 2-byte values into shared memory as floats: loads, and stores of four bytes each."""
        if main.opcode != "FFMA" or not facts.patterns.multiplies_halves(main):
            return []
        if code.classes[main.loads[0]].space != "shared":
            return []
        moved = code.where(
            lambda ins, op: (op.space, op.access) in (("global", "load"), ("shared", "store")) and op.pipe == "lsu"
        )
        return list(code.ran(moved))

    def _packed(self, code: Code, index: int) -> float:
        """Accesses of 16 bytes that do the work of this one, where what it stores as float is stored as half."""
        op = code.classes[index]
        return max(op.bytes, 1) / (32 if op.space == "shared" else 16)
