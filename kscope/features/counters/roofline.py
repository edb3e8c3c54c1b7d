"""The roofline point: work and traffic over the kernel's time, against peaks taken from the report itself.

Operations count as NVIDIA's own roofline section counts them (fadd + fmul + 2 ffma; packed half doubles that;
tensor paths in multiply-add pairs already counted as two). Source: Nsight Compute's SpeedOfLight_*RooflineChart
section files; Williams, Waterman, Patterson, CACM 52(4), 2009.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.model.kernel import Kernel, Metrics

EXECUTED = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
PEAK = "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained"
DERIVED = "derived__smsp__sass_thread_inst_executed_op_{}_pred_on_x{}"
DERIVED_PEAK = "derived__sm__sass_thread_inst_executed_op_{}_pred_on_x{}"
SHARE = ".avg.pct_of_peak_sustained_elapsed"
HIGHEST = "device__attribute_max_mem_frequency_khz"
BITS, EDGES = 8, 2
TENSOR = 0.02  # busy share of the tensor pipe, from which a kernel is for products: others have none at all
VOLTA = 70  # before, the clock of device memory was counted in transfers: 9.07 GHz on a GTX 1080 of 10 Gbit/s a pin
SCALAR = {  # precision -> (add, mul, fma, operations an instruction of one lane)
    "fp32": ("fadd", "fmul", "ffma", 1),
    "fp64": ("dadd", "dmul", "dfma", 1),
    "fp16": ("hadd", "hmul", "hfma", 2),
}


class Ceiling(Struct, frozen=True):
    """One precision: what was executed and what the chip sustains, both in FLOP/s (or integer op/s)."""

    precision: str
    flops: float
    peak: float


class RooflinePoint(Struct, frozen=True):
    """bytes and bandwidth in byte/s of device memory; `ceilings` are the precisions that did work, most of their own
    peak first. counted: whether operations were; where they were not, no ceiling says nothing about the work. moved:
    whether the bytes are known; they are 0 where they are not."""

    bytes_per_s: float
    bandwidth: float | None
    ceilings: tuple[Ceiling, ...]
    counted: bool = True
    moved: bool = True

    @property
    def main(self) -> Ceiling | None:
        return self.ceilings[0] if self.ceilings else None

    @property
    def intensity(self) -> float | None:
        """Operations of the main precision a byte of device memory."""
        return self.main.flops / self.bytes_per_s if self.main and self.bytes_per_s else None

    @property
    def ridge(self) -> float | None:
        return self.main.peak / self.bandwidth if self.main and self.bandwidth else None

    @property
    def share_of_roof(self) -> float:
        """Of the roof above the point, 0..1: the larger of bandwidth and compute share."""
        shares = [c.flops / c.peak for c in self.ceilings if c.peak]
        if self.bandwidth:
            shares.append(self.bytes_per_s / self.bandwidth)
        return min(1.0, max(shares, default=0.0))


def roofline(kernel: Kernel, constants: float = 0.0) -> RooflinePoint | None:
    """None where neither operations nor the bytes of device memory, or their share of its peak, were collected.
    constants: share of the multiply-adds of halves that only move a constant (HFMA2 with two zeros), no work."""
    m = kernel.metrics
    clock = m.first("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")
    ceilings = _scalar(m, clock, constants) + _tensor(m, clock)
    if _uncounted(m):
        ceilings = []  # what was counted is the smaller part of the work
    bandwidth = peak_bandwidth(kernel)
    moved = _bytes_per_s(kernel, bandwidth)
    if moved is None and not ceilings:
        return None
    done = sorted((c for c in ceilings if c.flops > 0 and c.peak > 0), key=lambda c: -c.flops / c.peak)
    return RooflinePoint(moved or 0.0, bandwidth, tuple(done), bool(ceilings), moved is not None)


def peak_bandwidth(kernel: Kernel) -> float | None:
    """Byte/s that device memory could move at the clock of the capture, else at its highest, which nothing but heat
    keeps it from. Without the counter of its width: the bus, both
    edges of the clock (64 bytes a cycle on 256 bits, what the reports of sm_75 to sm_100 that hold both say)."""
    m = kernel.metrics
    clock = m.get("dram__cycles_elapsed.avg.per_second") or 1e3 * (m.get(HIGHEST) or 0.0)
    width = m.get("dram__bytes.sum.peak_sustained")
    if width is None:
        bits = m.first("device__attribute_global_memory_bus_width", "device__attribute_fb_bus_width")
        width = bits / BITS * (EDGES if kernel.device.sm >= VOLTA else 1) if bits else None
    return width * clock if width and clock else None


def _bytes_per_s(kernel: Kernel, bandwidth: float | None) -> float | None:
    """Counted bytes over time; else the share of the peak that was collected times that peak."""
    m = kernel.metrics
    read, written = m.get("dram__bytes_read.sum"), m.get("dram__bytes_write.sum")
    seconds = (kernel.duration_ns or 0.0) / 1e9
    if (read is not None or written is not None) and seconds:
        return ((read or 0.0) + (written or 0.0)) / seconds
    if (both := m.get("dram__bytes.sum")) is not None and seconds:
        return both / seconds
    if (rate := m.get("dram__bytes.sum.per_second")) is not None:
        return rate
    share = m.first(*(name + SHARE for name in ("dram__cycles_active", "dram__throughput", "gpu__dram_throughput")))
    return share / 100 * bandwidth if share is not None and bandwidth else None


def _scalar(m: Metrics, clock: float | None, constants: float) -> list[Ceiling]:
    out = []
    for precision, (add, mul, fma, lanes) in SCALAR.items():
        rate = [_rate(m, op, n) for op, n in ((add, lanes), (mul, lanes), (fma, 2 * lanes))]
        doubled = m.get(DERIVED_PEAK.format(fma, 2 * lanes))
        peak = m.get(PEAK.format(fma)) or (doubled / (2 * lanes) if doubled else None)
        if clock and peak and rate[2] is not None:
            fused = rate[2] * (1 - constants if precision == "fp16" else 1.0)
            work = (rate[0] or 0.0) + (rate[1] or 0.0) + 2 * fused
            out.append(Ceiling(precision, work * lanes * clock, 2 * peak * lanes * clock))
    return out


def _uncounted(m: Metrics) -> bool:
    """Whether tensor cores work and no section counted their operations."""
    busy = m.first(*(f"sm__pipe_{pipe}_cycles_active{SHARE}" for pipe in ("tensor", "tc")))
    return (busy or 0.0) > 100 * TENSOR and not any(n.startswith("sm__ops_path_tensor_op_") for n in m)


def _rate(m: Metrics, op: str, each: int) -> float | None:
    """Instructions of lanes a cycle. The roofline sections hold some only as operations, `each` an instruction."""
    counted = m.get(EXECUTED.format(op))
    if counted is not None:
        return counted
    operations = m.get(DERIVED.format(op, each))
    return operations / each if operations is not None else None


def _tensor(m: Metrics, clock: float | None) -> list[Ceiling]:
    """Tensor work by input type. wgmma counts under hgmma names, older paths under hmma: the same type adds up, and
    the higher peak is the chip's."""
    work: dict[str, float] = {}
    peaks: dict[str, float] = {}
    prefix, suffix = "sm__ops_path_tensor_op_", ".sum.per_cycle_elapsed"
    for name, value in m.items():
        if name.startswith(prefix) and name.endswith(suffix) and "_src_" in name:
            stem = name.removesuffix(suffix)
            kind = "tensor " + stem.split("_src_")[1].split("_")[0]
            work[kind] = work.get(kind, 0.0) + value
            if not stem.endswith("sparsity_on"):
                peaks[kind] = max(peaks.get(kind, 0.0), m.get(stem + ".sum.peak_sustained") or 0.0)
    return [Ceiling(k, w * clock, peaks.get(k, 0.0) * clock) for k, w in work.items() if w and clock]
