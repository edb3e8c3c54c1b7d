"""How far a right answer may lie from the reference's in float64.

    bound = C * (u_out * |y| + u_acc * sqrt(K) * S)

u_out: unit roundoff of the output's format: the one rounding that nobody avoids. u_acc: of the accumulator (float32
unless the task declares another). K: terms of a reduction; rounding errors of a sum behave like a random walk (Higham,
Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5), 2019: sqrt(K) instead of K).
S: the size of what is summed, found by running the reference on changed inputs: with small random changes of all (the
root of the sum of squares of the terms), and with the beginning of one input larger along one axis (the sums up to
there, which in data of one sign, or sorted, are far larger). So cancellation widens the bound where it is inherent and
nowhere else. An error that the reference itself makes in the candidate's format is granted twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kscope.bench.values.numbers import TF32_UNIT, Dtype, Floats, Raw, decode, dtype

C = 4.0
"""Judged. Beside it: one rounding is at most 1, the worst of 10^8 normally distributed errors lies at 5.7 of their
standard deviation, which for a rounding is 1/sqrt(3): 3.3."""
RELATIVE = 2.0**-20  # of the changes; small against the data, large against float64's 2^-53
PROBES = 4
RMS = 1.0
"""Root of the mean squared error over the root of the mean squared bound / C. A correctly rounded answer has
1/sqrt(3); a lower precision than declared exceeds it on every element at once, where single bounds have slack. A mean
of few says less: see `most_rms`."""


class Bound(Struct, frozen=True):
    """values: an output's bounds by element; plain: before C and the reference's own error. own: root of the mean
    squared error of the reference itself, over that of plain."""

    values: Floats
    plain: Floats
    own: float = 0.0


class Compared(Struct, frozen=True):
    """error, bound: at the element that exceeds its bound most, or comes nearest. ratio: of the two. rms: of all errors
    over all plain bounds."""

    ok: bool
    error: float
    bound: float
    ratio: float
    rms: float
    index: tuple[int, ...]
    says: str = ""


def rounding(out: Dtype, accumulate: str, compute: str) -> float:
    """Unit roundoff of the accumulator, or of the products' operands where the task declares less for them."""
    unit = out.unit if out.name == "float64" and accumulate == "float32" else dtype(accumulate).unit
    if compute:
        unit = max(unit, TF32_UNIT if compute == "tf32" else dtype(compute).unit)
    return unit


def bound(
    truth: Floats, moved: Sequence[Floats], sums: Sequence[Floats], out: Dtype, walk: float, own: Floats | None
) -> Bound:
    """moved: answers to randomly changed inputs; sums: to inputs changed up to a place; walk: u_acc * sqrt(K); own: the
    reference's error in the candidate's format. Whole outputs have no room."""
    if out.whole:
        nothing = np.zeros_like(truth)
        return Bound(nothing, nothing)
    total = np.zeros_like(truth)
    for one in moved:
        total += np.square(found := _difference(one, truth), out=found)
    size = np.sqrt(total, out=total)  # in place from here on: arrays are large, and memory is what takes the time
    size *= np.sqrt(3) / RELATIVE / np.sqrt(max(len(moved), 1))  # uniform changes: standard deviation
    for one in sums:
        found = np.abs(found := _difference(one, truth), out=found)
        found /= RELATIVE
        np.maximum(size, found, out=size)
    smooth = np.maximum(size, alike(size), out=size)
    # subnormals that are flushed to zero are no fault: GPUs do so under --use_fast_math
    flushed = {"float16": 2.0**-25, "bfloat16": 2.0**-126, "float32": 2.0**-126}.get(out.name, 0.0)
    plain = np.abs(truth)
    plain *= out.unit
    plain += np.multiply(smooth, walk, out=smooth)
    plain += flushed / C
    values = C * plain
    if own is not None:
        values = np.maximum(values, 2 * np.maximum(alike(own), own))
        below = _rms_of_numbers(plain)
        return Bound(values, plain, _rms_of_numbers(own) / below if below > 0 else 0.0)
    return Bound(values, plain)


def _rms_of_numbers(values: Floats) -> float:
    """Root of the mean square of what is not NaN; 0 where there is nothing, as for a right answer that is all NaN."""
    numbers = values[~np.isnan(values)]
    return float(np.sqrt(np.mean(numbers**2))) if numbers.size else 0.0


def _difference(one: Floats, truth: Floats) -> Floats:
    found = np.asarray(one - truth)
    found[~np.isfinite(found)] = 0.0
    return found


def compare(raw: Raw, kind: Dtype, truth: Floats, limit: Bound) -> Compared:
    """A NaN or infinity is right where the reference has the same, and nowhere else."""
    if raw.shape != truth.shape:
        return _wrong(f"shape {_shape(raw.shape)} where {_shape(truth.shape)} is right")
    if not raw.size:
        return Compared(True, 0.0, 0.0, 0.0, 0.0, ())
    got = decode(raw, kind)
    odd = np.isnan(truth) | np.isinf(truth)
    overflown = ~odd & (np.abs(truth) > kind.largest) if not kind.whole else np.zeros_like(odd)
    with np.errstate(all="ignore"):
        wrong_class = np.where(np.isnan(truth), ~np.isnan(got), (got != truth) & odd) | (~odd & ~np.isfinite(got))
        wrong_class &= ~overflown
        if wrong_class.any():
            index = tuple(int(i) for i in np.argwhere(wrong_class)[0])
            count = int(wrong_class.sum())
            what = f"{got[index]:g} where {truth[index]:g} is right, {count:,} such"
            return Compared(False, float("inf"), float(limit.values[index]), float("inf"), float("inf"), index, what)
        error = np.where(odd | overflown, 0.0, np.abs(got - truth))
        ratio = np.where(error == 0, 0.0, error / np.where(limit.values > 0, limit.values, 1e-300))
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    fine = ~(odd | overflown)
    below = float(np.sqrt(np.mean(limit.plain[fine] ** 2))) if fine.any() else 0.0
    slack = float(np.mean(limit.values[fine] / np.maximum(limit.plain[fine], 1e-300))) / C if fine.any() else 1.0
    rms = float(np.sqrt(np.mean(error[fine] ** 2))) / (below * max(slack, 1.0)) if below > 0 else 0.0
    worst = float(ratio[index])
    says = ""
    if worst <= 1.0 and rms > max(most_rms(int(fine.sum())), 2 * limit.own) and not kind.whole:
        says = f"errors all over: {rms:.1f} times the rounding that the formats explain"
    return Compared(worst <= 1.0 and not says, float(error[index]), float(limit.values[index]), worst, rms, index, says)


def most_rms(count: int) -> float:
    """RMS where there are many elements, C (each one's own bound) where there is one: between them the deviation of a
    mean of independent errors, which falls with the root of their number."""
    return RMS + (C - RMS) / math.sqrt(max(count, 1))


def exact(raw: Raw, kind: Dtype, truth: Floats) -> Compared:
    """Whole numbers that the format holds exactly are expected exactly."""
    if raw.shape != truth.shape:
        return _wrong(f"shape {_shape(raw.shape)} where {_shape(truth.shape)} is right")
    error = np.abs(decode(raw, kind) - truth)
    error = np.where(np.isnan(error), np.inf, error)
    if not error.size or not error.max() > 0:
        return Compared(True, 0.0, 0.0, 0.0, 0.0, ())
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    return Compared(False, float(error[index]), 0.0, float("inf"), float("inf"), index, "whole numbers are exact here")


def whole(truth: Floats, kind: Dtype) -> bool:
    """Whether an output of whole inputs is whole everywhere, well inside what the format and its sums hold exactly."""
    limit = min(kind.exact, 2.0**24) / 2
    return bool(truth.size and np.isfinite(truth).all() and (truth == np.rint(truth)).all()
                and np.abs(truth).max() <= limit)  # fmt: skip


def alike(values: Floats) -> Floats:
    """Root of the mean square of a row; of everything where there are no rows."""
    if values.ndim >= 2 and values.shape[-1] > 1:
        return np.asarray(np.broadcast_to(np.sqrt(np.mean(values**2, axis=-1, keepdims=True)), values.shape))
    return np.full_like(values, np.sqrt(np.mean(values**2)) if values.size else 0.0)


def _wrong(says: str) -> Compared:
    return Compared(False, float("inf"), 0.0, float("inf"), float("inf"), (), says)


def _shape(sides: Sequence[int]) -> str:
    return "(" + ", ".join(str(one) for one in sides) + ")"
