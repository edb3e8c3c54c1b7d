"""A chip with wgmma or tcgen05 runs the older tensor instructions.

## What it does

Finds `HMMA`/`IMMA`/`QMMA` (mma.sync) work on sm_90 and later, and compares it with the peak of the newer path.

## Why it costs time

On sm_90 mma.sync reaches about two thirds of the tensor peak: operands pass the register file, and each warp issues
its own small products. `wgmma` reads shared memory directly and runs asynchronously.

## Evidence

Executed tensor opcodes, `sm__ops_path_tensor_op_hmma_*` against the peak of `sm__ops_path_tensor_op_hgmma_*`.

## Fix

`wgmma` (CUTLASS sm90 kernels, Triton on Hopper), `tcgen05` on sm_100; TMA for the operands.

Before:

    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ...        // HMMA.16816

After:

    wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 ...      // HGMMA.64x256x16

## In SASS

Fragments travel through registers (`LDSM`, `HMMA`); `HGMMA` takes both tiles from shared memory by descriptor.

Before (capture gemm_bf16.swizzled):

    LDSM.16.M88.4 R88, [R114]
    ...
    HMMA.16816.F32.BF16 R52, R84, R20, R52
    LDSM.16.M88.4 R16, [R16+0x4000]
    HMMA.16816.F32.BF16 R48, R84, R22, R48
    LDSM.16.M88.4 R84, [R114+0x800]

After (capture gemm_bf16.wgmma):

    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20], R24
    ...
    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20], R24
    ...
    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20], R24
    ...
    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20], R24.gsb0
    ...
    WARPGROUP.DEPBAR.LE gsb0, 0x1

## When it is wrong

Small or irregular products may not fill a 64-row instruction. Below half of the older path's rate, feeding it comes
first. Where another unit is fuller than the tensor pipe, the rewrite takes operands off the way through registers and
leaves every other wait: confidence is lower, and causes that were seen in the samples go first.

## Source

Peaks from the report itself; CUDA C++ Programming Guide, asynchronous warpgroup-level matrix instructions.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

OLD = "sm__ops_path_tensor_op_hmma_src_{}_sparsity_off.sum.peak_sustained"
NEW = "sm__ops_path_tensor_op_hgmma_src_{}_sparsity_off.sum.peak_sustained"
USED = 0.3  # tensor load below which feeding the pipe is the problem, not its rate
LIMITS = 0.8  # tensor load from which its rate limits the kernel, whatever else is full; below, it is a rewrite's hope


class LegacyTensorPath(ProfiledRule):
    code = "CMP202"
    slug = "legacy-tensor-path"
    title = "mma.sync runs where wgmma or tcgen05 would"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        tensor = facts.counters.units.get("tensor")
        old = code.ran(
            code.where(lambda ins, op: "packed_mma_sync" in op.kind)
        )
        if not old or facts.kernel.device.sm not in (90, 100, 103) or tensor is None or tensor.busy < USED:
            return PASSED
        kept = self._ratio(facts)
        # wgmma reads its operands from shared memory itself: the loads of fragments into registers go as well.
        fragments = code.ran(
            code.where(lambda ins, op: op.access == "matrix_load" or (op.access == "load" and op.space == "shared"))
        )
        scale = facts.profile.demands_after([*old, *fragments], kept) | {"tensor": kept}
        for demand in ("l1_wavefronts", "l1_banks", "l1_writeback"):
            scale[demand] = facts.profile.demands_after(fragments, 0.0).get(demand, 1.0)
        products, feeding = code.blamed_share(old), code.blamed_share(fragments)
        share = min(1.0, max(tensor.load, products) + feeding)
        first = max(facts.counters.units.values(), key=lambda u: u.load)
        held = first is tensor or tensor.load > LIMITS
        remaining = kept * (share - feeding) / share
        return self.finding(
            why=(
                f"{sum(code.executed[i] for i in old):,.0f} {code[old[0]].name} keep the tensor pipe "
                f"{percent(tensor.busy)} busy; the asynchronous path does the same work in {percent(kept)} of the "
                "time."
                + ("" if held else f" {first.title} is fuller: what is saved is the way of operands through registers.")
            ),
            fix="wgmma (sm_90) or tcgen05 (sm_100) with operands in shared memory, fed by TMA",
            evidence=[
                measured(facts, tensor.parts[0].metric),
                derived("time on the newer path", kept, "", "ratio of the two paths' peaks"),
            ],
            locations=code.locations(old),
            estimate=facts.estimate.relieve(share, remaining, scale),
            confidence=0.75 if held else 0.5,
        )

    def _ratio(self, facts: Facts) -> float:
        """Peak of mma.sync over peak of the asynchronous path, from the report; 2/3 where it does not say."""
        m = facts.kernel.metrics
        for kind in ("bf16_dst_fp32", "fp16_dst_fp32", "fp16_dst_fp16", "tf32_dst_fp32"):
            old, new = m.get(OLD.format(kind)), m.get(NEW.format(kind))
            if old and new:
                return min(1.0, old / new)
        return 2 / 3
