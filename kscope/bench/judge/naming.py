"""What a wrong output looks like: names for faults from the records of the matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kscope.bench.judge.hold import Array
from kscope.bench.judge.inputs import DISTRIBUTIONS, STRUCTURES
from kscope.bench.judge.matrix import LATE_S, Record
from kscope.bench.values.cheats import finding
from kscope.bench.values.numbers import DTYPES, decode
from kscope.bench.values.result import Finding
from kscope.bench.values.words import dims_of

GROSS = 30.0  # times the bound from which an error is more than rounding, and gets a name; judged
SOME_OUTPUT = 0.02
WHOLE_OUTPUT = 0.99  # share of elements from which something is said of an output as a whole; judged


def named(records: Sequence[Record], blind: str = "") -> list[Finding]:
    """From the records of plain layout on shapes that were asked for. blind: what a probe saw the output not see."""
    mine = [one for one in records if one.point.asked and one.point.layout == "plain" and not one.refused]
    if found := _by_conduct(mine):
        return [found]
    plain = [one for one in mine if one.point.kind in (*DISTRIBUTIONS, *STRUCTURES, "integers")]
    wrong = [one for one in plain if not one.check.ok]
    if launch := next((one for one in wrong if one.fault.startswith("LaunchFailed")), None):
        return [finding(30, launch.fault)]
    gross = [one for one in wrong if _gross(one)]
    return (_by_values(gross) or _by_shapes(plain) or _by_kinds(plain, blind)) if gross else []


def _gross(one: Record) -> bool:
    return bool(one.outputs) and not one.fault and one.truth is not None and one.ratio > GROSS


def _by_conduct(mine: Sequence[Record]) -> Finding | None:
    """What a call did beside computing."""
    for one in mine:
        if one.changed:
            return finding(32, f"{one.changed} ({one.check.inputs})")
    for one in mine:
        if one.late:
            return finding(2, f"wrong when the call returned, right {LATE_S * 1e3:.0f} ms later ({one.check.inputs})")
    for one in mine:
        if "not a plain array" in one.check.says and "nothing" not in one.check.says:
            return finding(3, one.check.says)
    return None


def _by_values(wrong: Sequence[Record]) -> list[Finding]:
    last = wrong[0]
    shares = [_poisoned(one.outputs) for one in wrong]
    if min(shares) > WHOLE_OUTPUT:
        return [finding(23, "outputs hold the poison that was there before the call")]
    if min(shares) > SOME_OUTPUT:
        return [finding(29, f"{100 * max(shares):.0f} % of the output is what memory held before the call")]
    varied = [one for one in wrong if one.point.dims == last.point.dims and one.point.dtype == last.point.dtype]
    if len(varied) > 2 and len({b"".join(a.raw.tobytes() for a in one.outputs) for one in varied}) == 1:
        return [finding(24, f"the same output for {len(varied)} different inputs")]
    if all(_passes(one) for one in wrong):
        return [finding(25, "the output is an input")]
    return []


def _by_shapes(plain: Sequence[Record]) -> list[Finding]:
    """Right on one of the shapes that are timed, wrong on all data of another."""
    shapes: dict[str, set[bool]] = {}
    for one in plain:
        shapes.setdefault(dims_of(one.point.dims), set()).add(one.check.ok)
    right = [name for name, found in shapes.items() if found == {True}]
    wrong = [name for name, found in shapes.items() if found == {False}]
    return [finding(9, f"right on {right[0]}, wrong on {wrong[0]} with all data")] if right and wrong else []


def _by_kinds(plain: Sequence[Record], blind: str) -> list[Finding]:
    """Which kinds of data it is right for."""
    dims, dtype = plain[0].point.dims, plain[0].point.dtype
    same = [one for one in plain if one.point.dims == dims and one.point.dtype == dtype]
    right = {one.point.kind for one in same if one.check.ok}
    wrong = {one.point.kind for one in same if not one.check.ok}
    words = f"right for {_list(right)}; wrong for {_list(wrong)}"
    if "large" in right and "small" in wrong:
        return [finding(37, words)]
    if blind:
        return [finding(26, f"{blind}; {words}")]
    if not right & set(DISTRIBUTIONS):
        if _small(same):
            return [finding(49, f"errors {max(one.rms for one in same):.0f} times what the formats explain; {words}")]
        return [finding(27, words)] if right else []
    if wrong & set(DISTRIBUTIONS):
        return [finding(38, words)]
    return [finding(27, words)] if wrong else []


def _small(records: Sequence[Record]) -> bool:
    """Errors like those of a lower precision: below a tenth of the outputs' size."""
    for one in records:
        if one.check.ok or one.truth is None or len(one.outputs) != len(one.truth.values):
            continue
        for got, value in zip(one.outputs, one.truth.values, strict=True):
            if got.raw.shape != value.shape or got.dtype not in DTYPES:
                return False
            difference = decode(got.raw, DTYPES[got.dtype]) - value
            size = float(np.sqrt(np.nanmean(value**2))) if value.size else 0.0
            if not np.isfinite(difference).all() or float(np.sqrt(np.mean(difference**2))) > 0.1 * size:
                return False
    return True


def _poisoned(outputs: Sequence[Array]) -> float:
    """Share of elements that are poison: ours, or what the allocator of the checks fills memory with."""
    shares = []
    for one in outputs:
        kind = DTYPES.get(one.dtype)
        if kind is None or not one.raw.size or kind.name == "bool":
            return 0.0
        size = one.raw.itemsize
        patterns = [np.frombuffer(byte * size, one.raw.dtype)[0] for byte in (b"\xff", b"\xfe")]
        if kind.whole:
            patterns.append(np.iinfo(one.raw.dtype).max - 85)
        same = np.isin(one.raw, patterns)
        shares.append(float(np.mean(same if kind.whole else same | np.isnan(decode(one.raw, kind)))))
    return min(shares, default=0.0)


def _passes(one: Record) -> bool:
    if one.data is None or not one.outputs:
        return False
    inputs = {raw.tobytes() for raw in one.data.arrays()}
    return one.outputs[0].raw.tobytes() in inputs


def _list(kinds: set[str]) -> str:
    return ", ".join(sorted(kinds)) or "none"
