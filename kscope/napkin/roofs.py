"""What a chip gives at most, and what was attained on it: of the table, or measured on the user's own GPU."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kscope.arch import table
from kscope.arch.chips import TENSOR, Chip, issue

UNIT = {"fp32": "fma", "fp64": "fp64"}
"""CUDA cores -> their unit in units.toml, which knows the share of the peak that real kernels attain; else tensor."""
SAME_RATE = {"fp16": "bf16", "bf16": "fp16"}
"""Precisions whose attained rate stands for the other's."""
L2_SHARE = 0.5
"""Of a chip without a measured L2: bytes a clock and SM, as a share of the 64 that an SM's port takes. Judged:
gpu-benches measured 0.55 (H100, H200, A100) to 0.23 (L40); only used for tiles, never for a floor."""
PORT_BYTES_PER_CLOCK = 64


class Roof(Struct, frozen=True):
    """peak: what nothing beats; attained: what the best kernels reach, with where that is from. FLOP/s or byte/s."""

    peak: float
    attained: float
    source: str


class Roofs(Struct, frozen=True):
    """compute: by precision. mixed: device memory where half of the bytes are written or more. special: exponentials a
    second. warm_bytes: what L2 holds, so that a second run need not go to device memory. measured: how to name the
    user's own rates, "" without."""

    chip: Chip
    compute: Mapping[str, Roof]
    dram: Roof
    mixed: Roof
    l2: Roof | None
    shared: Roof | None
    special: Roof | None
    warm_bytes: float
    measured: str = ""


def roofs(chip: Chip, measured: Mapping[str, float] | None = None, where: str = "") -> Roofs:
    """measured: attained rates of `kscope arch --measure` by the names of Chip.attained; where: how to name them."""
    mine = dict(measured or {})
    compute = {p: _compute(chip, p, mine, where) for p in chip.peak}
    for precision in ("fp32", "fp64"):  # not every data sheet has them
        if precision not in compute and chip.at_clock(precision):
            compute[precision] = _compute(chip, precision, mine, where)
    share = table("units")["dram"]["attainable"]
    dram = _attained(chip, "dram_bytes_per_s", chip.dram_bytes_per_s, share, mine, where)
    both = table("units")["dram"]["mixed"] / share * dram.attained
    mixed = Roof(dram.peak, mine.get("dram_copy_bytes_per_s", both), dram.source)
    l2 = shared = special = None
    if chip.clock_hz:
        port = PORT_BYTES_PER_CLOCK * chip.sms * chip.clock_hz
        l2 = _attained(chip, "l2_bytes_per_s", port, L2_SHARE, mine, where)
        if chip.shared_bytes_per_s:
            shared = _attained(chip, "shared_bytes_per_s", chip.shared_bytes_per_s,
                               table("units")["l1"]["attainable"], mine, where)  # fmt: skip
        rate = 4 * 32 / issue("mufu", chip.cc) * chip.sms * chip.clock_hz
        special = Roof(rate, rate * table("units")["xu"]["attainable"], "opcodes.toml, units.toml")
    return Roofs(chip, compute, dram, mixed, l2, shared, special, float(chip.l2_bytes or 0), where if mine else "")


def _compute(chip: Chip, precision: str, mine: Mapping[str, float], where: str) -> Roof:
    share = table("units")[UNIT.get(precision, "tensor")]["attainable"]
    published = chip.peak.get(precision)
    top = chip.at_clock(precision) or published or 0.0
    twin = SAME_RATE.get(precision, precision)
    for names, source in ((mine, where), (chip.attained, "")):
        for name in (precision, twin):
            if name in names:
                return Roof(max(top, names[name]), names[name], source or chip.source[f"attained.{name}"])
    base = published if published is not None and precision in TENSOR else top  # tensor clocks sink under load
    words = f"{share:.0%} of the {'data sheet' if base == published else 'rate at the highest clock'} (units.toml)"
    return Roof(top, base * share, words)


def _attained(
    chip: Chip, name: str, peak: float, share: float, mine: Mapping[str, float], where: str
) -> Roof:
    if name in mine:
        return Roof(max(peak, mine[name]), mine[name], where)
    if name in chip.attained:
        return Roof(peak, chip.attained[name], chip.source[f"attained.{name}"])
    return Roof(peak, peak * share, f"{share:.0%} of the peak")
