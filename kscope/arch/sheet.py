"""A chip as rows: what it has, in which unit, by which source; two chips side by side; what is new since the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kscope.arch import table
from kscope.arch.chips import PRECISIONS, TENSOR, Chip, chips, instructions, issue, lender
from kscope.model.units import counted

OPCODES = "opcodes.toml"
LATENCIES = (
    ("FP32 multiply-add", "ffma"), ("FP64 multiply-add", "fp64_fma"), ("FP16 multiply-add (a pair)", "fp16_fma"),
    ("integer add", "int_lite"), ("integer multiply-add", "imad"), ("special function", "mufu"),
    ("shared-memory load", "shared_load"), ("matrix product (mma.sync)", "mma"),
)  # fmt: skip
"""What people ask the latency of, and the group of opcodes.toml that knows."""
LIMITS = (
    ("warps", "warps", ""), ("blocks", "blocks", ""), ("registers", "registers", ""), ("shared memory", "shared", "B"),
    ("reserved of each block", "reserved", "B"), ("threads a block", "threads_block", ""),
    ("registers a thread", "registers_thread", ""), ("named barriers a block", "barriers_block", ""),
    ("blocks a cluster", "cluster", ""), ("blocks a cluster, not portable", "cluster_nonportable", ""),
    ("tensor memory", "tmem", "B"),
)  # fmt: skip


class Row(Struct, frozen=True):
    """value: a number in SI units (FLOP/s, byte/s, Hz, B, cycles) or words. borrowed: another chip's, or a default."""

    section: str
    name: str
    value: float | str
    unit: str
    source: str
    borrowed: bool = False


def sheet(chip: Chip, measured: Mapping[str, float] | None = None, where: str = "") -> list[Row]:
    """measured: rates of `kscope arch --measure`; where: how to name them."""
    return [*_chip(chip), *_peaks(chip), *_bandwidths(chip), *_ridges(chip), *_attained(chip, measured or {}, where),
            *_limits(chip), *_pipes(chip), *_latencies(chip), *_instructions(chip)]  # fmt: skip


def _chip(chip: Chip) -> list[Row]:
    rows: list[tuple[str, float | str | None, str, str]] = [
            ("architecture", f"{chip.family} sm_{chip.cc}", "", "cc"), ("SMs", chip.sms, "", "sms"),
            ("highest clock", chip.clock_hz, "Hz", "clock_hz"), ("memory", chip.memory, "", "memory_bytes"),
            ("memory size", chip.memory_bytes, "B", "memory_bytes"), ("bus", chip.bus_bits, "bit", "bus_bits"),
            ("L2", chip.l2_bytes, "B", "l2_bytes"), ("board power", chip.power_w, "W", "power_w")]  # fmt: skip
    return [_row(chip, "chip", name, value, unit, key) for name, value, unit, key in rows if value is not None]


def _row(chip: Chip, section: str, name: str, value: float | str, unit: str, key: str) -> Row:
    return Row(section, name, value, unit, chip.source.get(key, "name of the chip"), key in chip.borrowed)


def _peaks(chip: Chip) -> list[Row]:
    rows = []
    for precision in PRECISIONS:
        if (peak := chip.peak.get(precision)) is None:
            continue
        name = precision.replace("_tensor", " tensor") if precision in TENSOR else f"{precision} CUDA cores"
        unit = "op/s" if precision == "int8" else "FLOP/s"
        rows.append(_row(chip, "peaks, dense", name, peak, unit, f"peak.{precision}"))
    for precision in PRECISIONS:
        if precision in chip.peak and (factor := chip.sparse_factor(precision)) > 1:
            unit = "op/s" if precision == "int8" else "FLOP/s"
            source = f"dense peak times {factor:.3g} (2:4 sparsity)"
            rows.append(Row("peaks, 2:4 sparse", precision, chip.peak[precision] * factor, unit, source))
    for precision in PRECISIONS:
        at, published = chip.at_clock(precision), chip.peak.get(precision)
        if at is not None and (published is None or at > 1.02 * published):
            source = f"{OPCODES} x SMs x highest clock, which load rarely leaves it"
            unit = "op/s" if precision == "int8" else "FLOP/s"
            rows.append(Row("peaks at the highest clock", precision, at, unit, source, "clock_hz" in chip.borrowed))
    return rows


def _bandwidths(chip: Chip) -> list[Row]:
    rows = [_row(chip, "bandwidths", "device memory", chip.dram_bytes_per_s, "B/s", "dram_bytes_per_s")]
    if chip.host_bytes_per_s is not None:
        rows.append(_row(chip, "bandwidths", "host, one way", chip.host_bytes_per_s, "B/s", "host_bytes_per_s"))
    if chip.shared_bytes_per_s:
        source = "32 banks x 4 B a clock and SM (CUDA C++ Programming Guide)"
        rows.append(Row("bandwidths", "shared memory and L1", chip.shared_bytes_per_s, "B/s", source,
                        "clock_hz" in chip.borrowed))  # fmt: skip
    return rows


def _ridges(chip: Chip) -> list[Row]:
    """FLOP a byte at which a roof of compute meets one of memory."""
    l2 = chip.attained.get("l2_bytes_per_s")
    levels = [("device memory", chip.dram_bytes_per_s), ("L2 as attained", l2),
              ("shared memory", chip.shared_bytes_per_s)]  # fmt: skip
    wanted = [p for p in ("fp32", "tf32", "bf16" if "bf16" in chip.peak else "fp16", "fp8", "fp4") if p in chip.peak]
    return [
        Row("ridge points", f"{precision} over {level}", chip.peak[precision] / rate, "FLOP/B", "peak over bandwidth")
        for precision in wanted for level, rate in levels if rate
    ]  # fmt: skip


def _attained(chip: Chip, measured: Mapping[str, float], where: str) -> list[Row]:
    rows = []
    for name, value in {**chip.attained, **measured}.items():
        words = name.removesuffix("_bytes_per_s").replace("dram", "device memory").replace("l2", "L2").replace("_", " ")
        unit = "B/s" if name.endswith("bytes_per_s") else "op/s" if name == "int8" else "FLOP/s"
        if name in measured:
            rows.append(Row("attained", words, value, unit, where))
        else:
            rows.append(_row(chip, "attained", words, value, unit, f"attained.{name}"))
    return rows


def _limits(chip: Chip) -> list[Row]:
    sm = chip.sm
    same = str(chip.cc) in table("sm")
    rows = [Row("an SM holds", name, sm[key], unit, "sm.toml", not same) for name, key, unit in LIMITS if key in sm]
    rows.append(Row("an SM holds", "shared memory can be", " ".join(map(str, sm["carveouts_kib"])), "KiB", "sm.toml"))
    rows.append(Row("an SM holds", "sub-partitions", sm["partitions"], "", "sm.toml"))
    size = table("icache")["sm"].get(str(chip.cc))
    if size is not None:
        rows.append(Row("an SM holds", "instruction cache", size, "B", "icache.toml"))
    return rows


def _pipes(chip: Chip) -> list[Row]:
    rows = []
    groups = {one["name"]: one for one in table("opcodes")["group"]}
    for name, group in LATENCIES:
        if group in ("mma", "shared_load"):
            continue
        rows.append(Row("issue intervals, cycles a warp instruction and sub-partition", name, issue(group, chip.cc),
                        "cycles", *_lent(groups[group].get("issue_sm"), chip)))  # fmt: skip
    rate = chip.per_clock("fp16")
    if rate is not None:
        lent = _lent(table("opcodes")["tensor"]["fp16"], chip)
        rows.append(Row("rates", "fp16 on tensor cores, FP32 accumulation", rate, "FLOP/cycle/SM", *lent))
    for precision, group in (("fp32", "ffma"), ("fp64", "fp64_fma")):
        per_clock = chip.per_clock(precision) or 0.0
        lent = _lent(groups[group].get("issue_sm"), chip)
        rows.append(Row("rates", f"{precision} on CUDA cores", per_clock, "FLOP/cycle/SM", *lent))
    return rows


def _lent(by_target: Mapping[str, Any] | None, chip: Chip) -> tuple[str, bool]:
    """(source, whether borrowed) of a number of opcodes.toml."""
    other = lender(by_target, chip.cc)
    return (OPCODES, False) if other is None else (f"{OPCODES}, as sm_{other}", True)


def _latencies(chip: Chip) -> list[Row]:
    from_table = chip.latency
    own = f"sm_{chip.cc}" in table("latency")
    rows = []
    for name, key in (("load from L1", "l1"), ("load from L2", "l2"), ("load from device memory", "dram")):
        borrowed = not own or key in from_table.get("borrowed", ())
        rows.append(Row("latencies", name, float(from_table[key]), "cycles", "latency.toml", borrowed))
    groups = {one["name"]: one for one in table("opcodes")["group"]}
    for name, group in LATENCIES:
        entry = groups[group]
        by_target: Mapping[str, Any] = entry.get("latency_sm", {})
        known = [int(k) for k in by_target if int(k) <= chip.cc]
        value = by_target[str(max(known))] if known else entry["latency"]
        rows.append(Row("latencies", name, float(value), "cycles", OPCODES, str(chip.cc) not in by_target))
    return rows


def _instructions(chip: Chip) -> list[Row]:
    before = instructions(chips()[chip.previous].cc) if chip.previous else {}
    rows = []
    for name, entry in instructions(chip.cc).items():
        shape = entry.get("shape")
        value = "x".join(map(str, shape)) if shape else "yes"
        value += f" (sm_{chip.cc}a only)" if entry.get("specific") else ""
        if shape and (cycles := _cycles(chip, shape, entry["rate"])) is not None:
            value += f", {counted(cycles, 'cycle', '.3g')} of an SM at full rate"
        section = "instructions" if name in before or not chip.previous else f"new since {chips()[chip.previous].name}"
        rows.append(Row(section, entry["title"], value, "", "instructions.toml"))
    gone = [e["title"] for n, e in before.items() if n not in instructions(chip.cc)]
    if gone and chip.previous:
        source = "instructions.toml"
        rows += [Row(f"gone since {chips()[chip.previous].name}", title, "no", "", source) for title in gone]
    return sorted(rows, key=lambda row: row.section != "instructions")


def _cycles(chip: Chip, shape: list[int], precision: str) -> float | None:
    """Cycles that a product of the shape takes of an SM's tensor cores at their full rate. Older instructions do not
    reach it on newer chips (mma.sync 0.6 of wgmma on sm_90, fixtures/h200/tensor_loop)."""
    rate = chip.per_clock("fp16") if precision != "fp64_tensor" else chip.per_clock("fp64_tensor")
    like = "fp16" if precision != "fp64_tensor" else precision
    if rate is None or precision not in chip.peak or like not in chip.peak:
        return None
    m, n, k = shape
    return 2.0 * m * n * k / (rate * chip.peak[precision] / chip.peak[like])


