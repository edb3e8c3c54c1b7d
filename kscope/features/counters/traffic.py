"""Traffic by level, in bytes and requests: what the instructions asked for, what L1, L2 and device memory moved."""

from __future__ import annotations

import math

from msgspec import Struct

from kscope.features.counters.asked import asked
from kscope.features.counters.units import elapsed_cycles
from kscope.model.kernel import Kernel

SECTOR = 32  # bytes


class Traffic(Struct, frozen=True):
    """Sectors are 32 bytes; requests are warp-level. None where a counter was not collected.

    global_/local_ count LSU accesses at L1, where that was not collected what the instructions asked for; l2_* count
    what L2 served for the SMs; dram_bytes device memory; tma_bytes bulk copies, which bypass the LSU counters;
    l1_wavefronts all that passed the L1 data pipe.
    """

    global_load_requests: float
    global_load_sectors: float
    global_store_requests: float
    global_store_sectors: float
    local_requests: float
    local_sectors: float
    l1_hit: float | None
    l2_hit: float | None
    l2_sectors: float
    l2_requests: float
    dram_bytes: float | None
    tma_bytes: float
    sysmem_sectors: float
    peer_sectors: float
    atomic_requests: float
    shared_wavefronts: float
    l1_wavefronts: float | None

    @property
    def local_share(self) -> float:
        """Share of L1 sectors that are local memory (spills, local arrays), 0..1."""
        every = self.local_sectors + self.global_load_sectors + self.global_store_sectors
        return self.local_sectors / every if every else 0.0

    @property
    def others(self) -> float:
        """Sectors of L2 that are no global accesses of the code's own: bulk copies, which bypass the LSU, and local
        memory, of which as large a part passes L1 as of everything."""
        return self.tma_bytes / SECTOR + min(self.local_sectors, self.local_share * self.l2_sectors)


def traffic(kernel: Kernel) -> Traffic:
    m = kernel.metrics
    lsu = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"

    told = {what: m.get(lsu.format(what, "global", "ld")) is not None for what in ("requests", "sectors")}
    by_code = {} if all(told.values()) else asked(kernel)

    def l1(what: str, space: str, *ops: str) -> float:
        if by_code and not told[what]:
            rows = (by_code.get(f"{space}_{op}", (0.0, 0.0)) for op in ops)
            return sum(requests if what == "requests" else sectors for requests, sectors in rows)
        return m.total(*(lsu.format(what, space, op) for op in ops))

    def percent(name: str) -> float | None:
        value = m.get(name)
        return value / 100 if value is not None else None

    read, written = m.get("dram__bytes_read.sum"), m.get("dram__bytes_write.sum")
    bulk = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
    bulk_store = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_{}.sum"
    return Traffic(
        global_load_requests=l1("requests", "global", "ld"),
        global_load_sectors=l1("sectors", "global", "ld"),
        global_store_requests=l1("requests", "global", "st"),
        global_store_sectors=l1("sectors", "global", "st"),
        local_requests=l1("requests", "local", "ld", "st"),
        local_sectors=l1("sectors", "local", "ld", "st"),
        l1_hit=percent("l1tex__t_sector_hit_rate.pct"),
        l2_hit=percent("lts__t_sector_hit_rate.pct"),
        l2_sectors=_served(kernel) or m.get("lts__t_sectors.sum") or 0.0,
        l2_requests=_requests(kernel),
        dram_bytes=(read or 0.0) + (written or 0.0) if read is not None or written is not None else None,
        tma_bytes=m.total(bulk, bulk_store.format("st"), bulk_store.format("red")),
        sysmem_sectors=_sysmem(kernel),
        peer_sectors=m.total("lts__t_sectors_srcunit_tex_aperture_peer_lookup_miss.sum"),
        atomic_requests=l1("requests", "global", "atom", "red"),
        shared_wavefronts=m.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum") or 0.0,
        l1_wavefronts=_wavefronts(kernel),
    )


def _sysmem(kernel: Kernel) -> float:
    """Sectors that L2 took from system memory. Reports of few sections hold its fills as a share of their peak, that is
    a sector a cycle and slice: what that says of device memory is within 1 % of the counted misses on sm_75, 80, 86, 89
    and 90, and within 6 % where L2's own cycles lack and the SMs' stand in for them (public reports, fixtures/h200)."""
    m = kernel.metrics
    counted = m.get("lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum")
    if counted is not None:
        return counted
    of_fbps = (m.get(f"device__attribute_{what}") or 0.0 for what in ("num_l2s_per_fbp", "fbp_count"))
    slices = m.get("device__attribute_l2s_count") or math.prod(of_fbps)
    cycles, each = m.get("lts__cycles_elapsed.sum"), m.get("lts__cycles_elapsed.avg")
    share = m.get("lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed")
    if share is not None:
        return share / 100 * (cycles if cycles is not None else slices * (elapsed_cycles(m) or 0.0))
    # sm_100 has slices of their own for system memory: those of the device that its L2 counters do not count (192 on a
    # B200, of which 184 count). That their peak is a sector a cycle too is assumed.
    share = m.get("syslts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed")
    if share is None or not cycles or not each:
        return 0.0
    return share / 100 * max(0.0, slices - cycles / each) * each


def _served(kernel: Kernel) -> float:
    """Sectors that L2 served for the SMs, by what they did where the sum was not collected; 0 where neither was."""
    m = kernel.metrics
    ours = m.get("lts__t_sectors_srcunit_tex.sum")
    return m.total(*(f"lts__t_sectors_srcunit_tex_op_{op}.sum" for op in OPERATIONS)) if ours is None else ours


OPERATIONS = ("read", "write", "atom", "red")
TAGS = 1.3
"""Lookups of tags over requests, where both are counted and scaled to the SMs' share of sectors: 0.9 to 1.3 on two
thirds of fixtures/h200. The upper end stands in, so that no more is promised than the requests would allow."""


def _requests(kernel: Kernel) -> float:
    """Requests of the SMs at L2; where they were not collected, at least those that its lookups of tags mean."""
    m = kernel.metrics
    counted = m.get("lts__t_requests_srcunit_tex.sum")
    if counted is not None:
        return counted
    busy, cycles = m.get("lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed"), m.get("lts__cycles_elapsed.sum")
    ours, every = _served(kernel), m.get("lts__t_sectors.sum")
    if busy is None or not cycles or not ours or not every:
        return 0.0
    return busy / 100 * cycles * ours / every / TAGS


def _wavefronts(kernel: Kernel) -> float | None:
    """Most reports hold only how full the data pipe was; its peak is a wavefront a cycle and SM."""
    m = kernel.metrics
    counted = m.get("l1tex__data_pipe_lsu_wavefronts.sum")
    full = m.first(*(f"l1tex__data_pipe_lsu_wavefronts.{u}.pct_of_peak_sustained_elapsed" for u in ("avg", "sum")))
    cycles = elapsed_cycles(m)
    if counted is None and full is not None and cycles:
        return full / 100 * cycles * kernel.device.sms
    return counted
