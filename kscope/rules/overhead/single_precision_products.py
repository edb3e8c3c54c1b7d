"""The GPU multiplies FP32 matrices on its CUDA cores, where TF32 would run on the tensor cores.

## What it does

Adds up the kernels that are FP32 matrix products or convolutions of a library by their names (`sgemm`, `scudnn`,
`f32f32_f32f32` without tensor instructions), and reckons what they would take as TF32 products: by FLOP and bytes of
each, where the sizes of its arguments were recorded, else by the ratio of the chip's peaks alone.

## Why it costs time

CUDA cores multiply at a seventh (H100) or an eighth (A100) of the tensor cores' TF32 rate. PyTorch leaves matrix
products in full FP32 unless it is told that TF32 is allowed; that one line is the cheapest speed-up there is, where the
result bears it.

## Evidence

Share of the window in FP32 products; the ratio of the peaks; for how much of it the sizes are known, and the time at
TF32's peak or the memory's, whichever is longer.

## Fix

Allow TF32, and compare the result (loss, accuracy, residual) with the one before. BF16 under autocast is up to twice as
fast again and keeps seven bits.

Before:

    y = model(x)                                          # FP32 Linear layers: ..._sgemm_..., ..._f32f32_f32f32_...

After:

    torch.set_float32_matmul_precision("high")            # cuBLAS: CUBLAS_COMPUTE_32F_FAST_TF32
    torch.backends.cudnn.allow_tf32 = True                # convolutions; the default of PyTorch
    y = model(x)

## When it is wrong

TF32 rounds the inputs to ten bits of mantissa, a relative error of 5e-4 each: solvers, statistics and losses may need
the bits that FP32 has. That is asked, not known. Products that stay FP32 in a program whose products of the same kind
mostly run in TF32 or less were left so by the library or by the author, and are not counted. Without sizes a product
may be bound by memory, and then gains nothing.

## Source

NVIDIA A100 whitepaper (TF32), PyTorch "CUDA semantics" (TF32 on Ampere); what TF32 products reach was measured on
public recordings of A100s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.rules.base import PASSED, Missing, Outcome, percent
from kscope.rules.timeline_base import TimelineRule, derived, gain, quoted

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

FIRES = 0.03  # of the window, as for the other rules on timelines
SURE, GUESS = 0.75, 0.45
"""Confidence with and without sizes: names tell FP32 for certain, not what bounds a product."""


class SinglePrecisionProducts(TimelineRule):
    code = "OVH614"
    slug = "single-precision-products"
    title = "FP32 products run without the tensor cores"
    regime = "compute"
    needs_calls = False

    def check(self, view: TimelineView) -> Outcome:
        found = view.single
        if found is None:
            return Missing("the device has no TF32, or is not in the table of chips")
        whole = view.causes.whole
        share, likely, best, worst = (ns / whole for ns in (found.time, found.likely, found.best, found.worst))
        if share - likely < FIRES:
            return PASSED
        sized = found.sized >= 0.5
        asked = " (record_shapes=True does)" if view.timeline.kind == "kineto" else ""
        left = percent(likely / share)
        how = (f"By the sizes of {percent(found.sized)} of them they would take {left} of that in TF32" if sized else
               f"Their sizes were not recorded{asked}: those that memory bounds would gain nothing")
        bf16 = found.chip.peak.get("bf16", 0.0) / found.chip.peak["tf32"]
        return self.finding(
            title=f"FP32 {found.what[0]}s outside the tensor cores take {percent(share)} of the time",
            why=(
                f"{view.a_step(share * view.span_us)} the GPU multiplies FP32 operands on its CUDA cores, most in "
                f"{quoted(found.kernels[0])}; {quoted(found.chip.name)} multiplies TF32 at {found.ratio:.1f} times "
                f"that rate. {how}."
            ),
            fix=(
                "TF32 rounds inputs to 10 bits of mantissa: is that allowed here? Then "
                'torch.set_float32_matmul_precision("high") (convolutions: torch.backends.cudnn.allow_tf32; '
                "cuBLAS: CUBLAS_COMPUTE_32F_FAST_TF32), and the result compared with the one before"
            ),
            evidence=[
                derived("FP32 products", share, "", f"{found.count} kernels by their names / window"),
                derived("TF32 over FP32", found.ratio, "", f"ratio of the peaks of {found.chip.name}"),
                derived("BF16 over TF32", bf16, "", "ratio of the peaks: what BF16 could bring beyond"),
                derived("sizes known", found.sized, "", "of the products' time, by the arguments of their operators"),
                derived("the same in TF32", best, "", "of the window: at TF32's peak, or the memory's" if sized else
                        "of the window: at the ratio of the peaks"),
                derived("before late launches", found.hidden, "", "of the products' time: faster saves nothing there"),
            ],
            estimate=gain(share - likely, share - worst, share - best, "TF32's peak, and memory"),
            confidence=GUESS + (SURE - GUESS) * found.sized,
        )  # fmt: skip
