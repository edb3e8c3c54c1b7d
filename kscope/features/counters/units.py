"""How busy each unit of the chip is, part by part: the roofs that a kernel can hit.

A part is one hardware counter as a share of its peak over the whole kernel (0..1); a unit is as busy as its busiest
part. Keeping the parts apart is what makes caps honest: a fix that halves the requests leaves the sectors alone, and
the estimate of what stops the kernel next must know the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

from msgspec import Struct

from kscope.arch import table
from kscope.model.contract.analysis import Limiter, Regime
from kscope.model.kernel import Metrics

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
SUMMED = ".sum.pct_of_peak_sustained_elapsed"
"""Share of the peak of all units together: the memory tables of ncu hold this roll-up alone."""
SAME = 0.005  # relative difference up to which two counters of one report are the same count
ACTIVE = ".avg.pct_of_peak_sustained_active"
SECTOR = 32  # bytes
SLICES = "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed"
SLICE = "lts__t_tag_requests.max.pct_of_peak_sustained_elapsed"
AWAY = "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum"
ONE_SLICE = "fullest L2 slice"
FULL = 0.85  # of the peak of a slice's requests, from which they are what the kernel waits for (judged)
APART = 1.4  # times the mean slice's requests, from which one slice is the hot one (a gap in 95 public kernels)
HELD = 0.35  # of the bytes written, up to which what L2 took beyond them is what it holds at the end

Demand = Literal[
    "alu", "atomics", "blocks", "branches", "bus_bytes", "constants", "dram_bytes", "dshared", "fma", "fmaheavy",
    "fp64", "instructions", "l1_banks", "l1_wavefronts", "l1_writeback", "l2_requests", "l2_sectors", "l2_slice",
    "l2_writes", "lsu_instructions", "mio_instructions", "tensor", "tex", "xu",
]  # fmt: skip
"""What the parts of units count (kscope/arch/units.toml), and blocks, which start at a limited rate: what a fix can ask
less of. `l2_internal` is not among them: it moves with the mean of sectors and requests."""
Scale = Mapping[Demand, float]
"""Factors that a fix has on demands; what is not named stays as it is."""


class Part(Struct, frozen=True):
    """One counter: share of its peak (0..1), what it counts (`demand`), its metric name."""

    demand: str
    busy: float
    metric: str


class Unit(Struct, frozen=True):
    """One unit with the parts that were collected, busiest first."""

    name: str
    title: str
    regime: Regime
    limiter: Limiter
    attainable: float
    parts: tuple[Part, ...]

    @property
    def busy(self) -> float:
        return self.parts[0].busy

    @property
    def load(self) -> float:
        """Share of what real kernels attain, 0..1: the unit is full at 1."""
        return min(1.0, self.busy / self.attainable)

    @property
    def named(self) -> float:
        """Load of the fullest part with a name: the overall counter of L2 (`l2_internal`) leaves open what is busy."""
        return max((p.busy for p in self.parts if p.demand != "l2_internal"), default=0.0) / self.attainable

    def load_after(self, scale: Scale) -> float:
        """Load if each part's demand were multiplied by scale[demand] (1 where absent), same kernel time."""
        return max(p.busy * _factor(scale, p.demand) for p in self.parts) / self.attainable


def _factor(scale: Scale, demand: str) -> float:
    if demand == "l2_internal":  # see kscope/arch/units.toml
        return (scale.get("l2_sectors", 1.0) + scale.get("l2_requests", 1.0)) / 2
    if demand == "l2_slice":  # fewer requests anywhere are fewer there, but who makes them go says so himself
        return scale.get("l2_slice", scale.get("l2_requests", 1.0))
    return scale.get(cast(Demand, demand), 1.0)


def units(metrics: Metrics) -> dict[str, Unit]:
    """The units whose counters were collected, by name."""
    active = _active_fraction(metrics)
    out: dict[str, Unit] = {}
    for name, spec in table("units").items():
        parts = [part for counter, demand in spec["parts"].items() if (part := _part(metrics, counter, demand, active))]
        parts = parts or [part for demand, names in spec.get("instead", {}).items()
                          if (part := _together(metrics, demand, names))]  # fmt: skip
        if all(p.demand in spec.get("beside", ()) for p in parts):
            continue  # a side path alone says nothing of the unit
        if parts:
            parts = [_named(p, parts) for p in parts]
            parts += [most for p in parts if p.metric == SLICES and (most := _slice(metrics, p)) is not None]
            parts.sort(key=lambda p: -p.busy)
            attainable = spec["attainable"]
            if "mixed" in spec:
                attainable = _writing(metrics, attainable, spec["mixed"])
            title = ONE_SLICE if parts[0].metric == SLICE else spec["title"]
            out[name] = Unit(name, title, spec["regime"], spec["limiter"], attainable, tuple(parts))
    return out


def _slice(metrics: Metrics, mean: Part) -> Part | None:
    """Requests of the L2 slice that is asked most, where a few addresses keep it so: it is full where they lie. Of 95
    public kernels the fullest slice has up to 1.23 times the mean's requests in 88, and 1.8 to 33 times in seven, of
    which three are full."""
    most = min(1.0, (metrics.get(SLICE) or 0.0) / 100)
    return Part("l2_slice", most, SLICE) if most >= max(FULL, APART * mean.busy) else None


def by_rate(share: float, metric: str) -> Unit:
    """Device memory, from bytes over time and its bandwidth: where counters of bytes are all that was collected."""
    spec = table("units")["dram"]
    part = Part("dram_bytes", min(share, 1.0), metric)
    return Unit("dram", spec["title"], spec["regime"], spec["limiter"], spec["attainable"], (part,))


def bus(bytes_per_s: float, peak: float) -> Unit:
    """The bus to the host, from what L2 took of system memory over the time and the link's rate."""
    spec = table("units")["bus"]
    part = Part("bus_bytes", min(1.0, bytes_per_s / peak), AWAY)
    return Unit("bus", spec["title"], spec["regime"], spec["limiter"], spec["attainable"], (part,))


def _part(metrics: Metrics, counter: str, demand: str, active: float) -> Part | None:
    """The counter's share of its peak over the whole kernel; what is counted while SMs have work is scaled to it."""
    for suffix, scale in ((ELAPSED, 1.0), (ACTIVE, active)):
        value = metrics.get(counter + suffix)
        if value is not None:
            return Part(demand, min(scale * value / 100, 1.0), counter + suffix)
    return None


def _together(metrics: Metrics, demand: str, names: list[str]) -> Part | None:
    """Counters that share one peak, added up: what tables hold of a unit whose own counters were not collected."""
    found = [(name, value) for name in names if (value := metrics.get(name + SUMMED)) is not None]
    return Part(demand, min(sum(v for _, v in found) / 100, 1.0), found[0][0] + SUMMED) if found else None


def _writing(metrics: Metrics, reading: float, mixed: float) -> float:
    """Share of the peak that device memory attains with the kernel's reads and writes, averaged over its time: turning
    the bus around costs time, and what L2 still holds when the kernel ends was asked for and is written later.

    What L2 was given beyond what device memory took counts as held where it is the smaller part: elsewhere lines were
    written more than once."""
    read, written = (metrics.get(f"dram__bytes_{what}.sum") or 0.0 for what in ("read", "write"))
    if not written:
        return reading
    held = max(0.0, (metrics.get("lts__t_sectors_srcunit_tex_op_write.sum") or 0.0) * SECTOR - written)
    kept = (read + written) / (read + written + held) if held < HELD * written else 1.0
    return (reading - (reading - mixed) * min(1.0, 2 * written / (read + written))) * kept


def _named(part: Part, parts: list[Part]) -> Part:
    """lts__throughput is the largest of several counters, most of which the breakdown names too: where it equals a
    named one it counts that one's demand, and only elsewhere the counter without a name (l2_internal)."""
    if part.demand != "l2_internal":
        return part
    same = next((p for p in parts if p is not part and abs(p.busy - part.busy) <= SAME * part.busy), part)
    return Part(same.demand, part.busy, part.metric)


def _active_fraction(metrics: Metrics) -> float:
    """Share of the kernel's cycles in which an SM had work, averaged over SMs."""
    active, elapsed = metrics.get("sm__cycles_active.avg"), elapsed_cycles(metrics)
    return min(1.0, active / elapsed) if active and elapsed else 1.0


def elapsed_cycles(metrics: Metrics) -> float | None:
    """SM clock cycles from start to end of the kernel."""
    return metrics.first("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "sm__cycles_elapsed.avg")


def busiest(all_units: Mapping[str, Unit]) -> Unit | None:
    """The unit nearest to what it can attain."""
    return max(all_units.values(), key=lambda u: u.load, default=None)
