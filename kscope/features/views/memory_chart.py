"""The memory chart of one kernel: traffic between the boxes that Nsight Compute's has, each way once, with its share of
that way's peak, and the findings at the box that their instructions go through.

Bytes that bulk copies (TMA) and cp.async bring go from L2 to shared memory, past L1: they are taken out of what L1
reads, so that no byte is drawn twice. Shares of peak are the report's own (`.pct_of_peak_sustained_elapsed` of the
metrics that Nsight Compute's memory tables show).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from kscope.features.counters.traffic import SECTOR
from kscope.features.counters.units import ELAPSED
from kscope.model.contract.detail import Link, MemoryChart, Node
from kscope.model.units import figure

if TYPE_CHECKING:
    from kscope.features.facts import Facts
    from kscope.model.contract.analysis import Finding
    from kscope.model.kernel import Metrics

WORSE = 1.05
"""Wavefronts over the fewest possible from which the chart says so: below it is arbitration. Judged."""
LIMITS = {"dram_bandwidth": "dram", "l2_bandwidth": "l2", "l1_throughput": "l1", "shared_memory": "shared"}
"""Limiter of the verdict -> the box that it names."""
MARKED = 4  # findings shown in the chart
_SPACES = {"global": "global", "local": "local", "shared": "shared", "generic": "global", "dshared": "shared"}
_COPY = frozenset({"async_copy"})
PEAK = ELAPSED.removeprefix(".avg")
SHARES = (
    "dram__bytes_read.sum.pct_of_peak_sustained_elapsed",
    "dram__bytes_write.sum.pct_of_peak_sustained_elapsed",
    "l1tex__m_l1tex2xbar_write_bytes.sum.pct_of_peak_sustained_elapsed",
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red.sum.pct_of_peak_sustained_elapsed",
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum.pct_of_peak_sustained_elapsed",
    "l1tex__m_xbar2l1tex_read_bytes.sum.pct_of_peak_sustained_elapsed",
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum.pct_of_peak_sustained_elapsed",
    "l1tex__t_requests_pipe_lsu_mem_{}_op_{}.sum.pct_of_peak_sustained_elapsed",
    "sm__sass_l1tex_m_xbar2l1tex_read_bytes_mem_global_op_ldgsts_cache_bypass.sum.pct_of_peak_sustained_elapsed",
    "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum.pct_of_peak_sustained_elapsed",
)
"""What is read beside the counts, in full: the list of metrics that are taken from reports is made from such names."""
_Add = Callable[..., None]


def memory_chart(facts: Facts, findings: Sequence[Finding] = (), limiter: str = "") -> MemoryChart | None:
    """None where neither L2 nor device memory was counted. Links without traffic are left out."""
    m = facts.kernel.metrics
    if m.get("lts__t_sectors.sum") is None and m.get("dram__bytes_read.sum") is None:
        return None
    links: list[Link] = []

    def add(source: str, target: str, value: float | None, unit: str = "B", **more: object) -> None:
        if value and value > 0:
            links.append(Link(source=source, target=target, value=value, unit=unit, **more))  # type: ignore[arg-type]

    _instructions(m, add)
    _first_level(facts, add)
    _second_level(m, add)
    _far(facts, add)
    marks = _marks(facts, findings, LIMITS.get(limiter, ""))
    links = [msgspec.structs.replace(x, marks=marks[x.target]) if x.source == "kernel" and x.target in marks else x
             for x in links]  # fmt: skip
    nodes = [
        msgspec.structs.replace(node, marks=marks.get(node.id, []), limit=LIMITS.get(limiter) == node.id)
        for node in _nodes(facts)
    ]
    return MemoryChart(nodes=nodes, links=links)


def _nodes(facts: Facts) -> list[Node]:
    m, t = facts.kernel.metrics, facts.counters.traffic
    busy = {
        name: round(100 * max(p.busy for p in unit.parts if p.demand != "l2_slice"), 2)  # of all slices
        for name, unit in facts.counters.units.items()
    }  # fmt: skip
    wavefronts = m.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")
    return [
        Node(id="global", title="Global"),
        Node(id="local", title="Local"),
        Node(id="l1", title="L1 / TEX cache", hit_pct=_percent(t.l1_hit), busy_pct=busy.get("l1")),
        Node(id="shared", title="Shared memory", note=_excess(facts, wavefronts),
             busy_pct=m.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed")),
        Node(id="l2", title="L2 cache", hit_pct=_percent(t.l2_hit), busy_pct=busy.get("l2")),
        Node(id="dram", title="Device memory", busy_pct=busy.get("dram")),
    ]  # fmt: skip


def _excess(facts: Facts, wavefronts: float | None) -> str:
    """How many rounds of shared memory conflicts cost, by the counters of the instructions."""
    if not wavefronts or facts.code is None:
        return ""
    ideal, counted = (facts.code.column(f"memory_l1_wavefronts_shared{end}") for end in ("_ideal", ""))
    if ideal is None or counted is None or not sum(ideal) or sum(counted) < WORSE * sum(ideal):
        return ""
    return f"{figure(sum(counted) / sum(ideal))}x the wavefronts of no conflict"


def _instructions(m: Metrics, add: _Add) -> None:
    """What the kernel asks of each space, in warp instructions."""
    name = "smsp__sass_inst_executed_op_{}.sum"
    for space in ("global", "local"):
        load, store = m.get(name.format(f"{space}_ld")), m.get(name.format(f"{space}_st"))
        add("kernel", space, (load or 0.0) + (store or 0.0), "inst", note=_parts(("loads", load), ("stores", store)),
            pct=_most(m, *(f"l1tex__t_requests_pipe_lsu_mem_{space}_op_{op}.sum" for op in ("ld", "st"))))  # fmt: skip
    load, store = m.get(name.format("shared_ld")), m.get(name.format("shared_st"))
    matrix, products = m.get("smsp__inst_executed_op_ldsm.sum"), m.get(name.format("shared_gmma"))
    stored = m.get("smsp__inst_executed_op_shared_stsm.sum")
    every = sum(x or 0.0 for x in (load, store, matrix, products, stored))
    add("kernel", "shared", max(every, m.get("smsp__sass_inst_executed_op_shared.sum") or 0.0), "inst",
        note=_parts(("loads", load), ("stores", store), ("matrix loads", matrix), ("matrix stores", stored),
                    ("wgmma operands", products)),
        requests=m.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
        pct=m.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"))  # fmt: skip
    add("kernel", "copy", m.get("smsp__inst_executed_op_ldgsts.sum"), "inst",
        pct=m.get("smsp__inst_executed_op_ldgsts.sum.pct_of_peak_sustained_elapsed"))  # fmt: skip
    bulk = m.total(name.format("tma_ld"), name.format("tma_st"), name.format("tma_red"))
    add("kernel", "tma", bulk or m.get("sm__inst_executed_pipe_tma.sum"), "inst",
        pct=m.get("sm__inst_executed_pipe_tma.sum.pct_of_peak_sustained_elapsed"))  # fmt: skip
    add("kernel", "texture", m.get("smsp__inst_executed_op_texture.sum"), "inst",
        pct=m.get("smsp__inst_executed_op_texture.sum.pct_of_peak_sustained_elapsed"))  # fmt: skip


def _first_level(facts: Facts, add: _Add) -> None:
    """Between the spaces and L1, as shares of the fuller of its request slots and (loads) its write-back. Loads count
    cp.async, too, which has a way of its own."""
    m = facts.kernel.metrics
    width = m.get("derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained")
    cycles = m.get("l1tex__cycles_elapsed.avg.per_second")
    most = (width or 0.0) * (cycles or 0.0) * (facts.kernel.duration_ns or 0.0) / 1e9
    lsu = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"
    copied = m.get("sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum") or 0.0
    cached = m.get("sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum") or 0.0
    for space in ("global", "local"):
        for op, (source, target) in {"ld": ("l1", space), "st": (space, "l1")}.items():
            sectors = m.get(lsu.format("sectors", space, op)) or 0.0
            if (space, op) == ("global", "ld"):
                sectors -= copied + cached
            shares = [m.get(lsu.format("requests", space, op) + PEAK)]
            if op == "ld" and most:
                shares.append(100 * sectors * SECTOR / most)
            add(source, target, sectors * SECTOR, requests=m.get(lsu.format("requests", space, op)),
                pct=max((x for x in shares if x is not None), default=None))  # fmt: skip
    add("l1", "shared", cached * SECTOR, note="cp.async through L1",
        pct=m.get("sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum" + PEAK))  # fmt: skip


def _second_level(m: Metrics, add: _Add) -> None:
    """Between L1, shared memory and L2."""
    read, written = "l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum"
    bulk = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
    copied = "sm__sass_l1tex_m_xbar2l1tex_read_bytes_mem_global_op_ldgsts_cache_bypass.sum"
    stored = [f"l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_{op}.sum" for op in ("st", "red")]
    past = (m.get(bulk) or 0.0) + (m.get(copied) or 0.0)
    into = " and ".join(what for what, name in (("TMA", bulk), ("cp.async", copied)) if m.get(name))
    add("l2", "shared", past, note=into, pct=_sum(m, bulk, copied))
    add("shared", "l2", m.total(*stored), note="TMA", pct=_sum(m, *stored))
    rest = (m.get(read) or 0.0) - past
    add("l2", "l1", rest if rest >= SECTOR else 0.0, pct=_part(m, read, past))
    rest = (m.get(written) or 0.0) - m.total(*stored)
    add("l1", "l2", rest if rest >= SECTOR else 0.0, pct=_part(m, written, m.total(*stored)))


def _far(facts: Facts, add: _Add) -> None:
    m, t = facts.kernel.metrics, facts.counters.traffic
    add("dram", "l2", m.get("dram__bytes_read.sum"), pct=m.get("dram__bytes_read.sum" + PEAK))
    add("l2", "dram", m.get("dram__bytes_write.sum"), pct=m.get("dram__bytes_write.sum" + PEAK))
    add("sysmem", "l2", t.sysmem_sectors * SECTOR)
    add("peer", "l2", t.peer_sectors * SECTOR)


def _most(m: Metrics, *names: str) -> float | None:
    """The largest share of peak of some counters."""
    return max((v for n in names if (v := m.get(n + PEAK)) is not None), default=None)


def _sum(m: Metrics, *names: str) -> float | None:
    """Shares of the same peak, added."""
    found = [v for n in names if (v := m.get(n + PEAK)) is not None]
    return sum(found) if found else None


def _part(m: Metrics, name: str, without: float) -> float | None:
    """Share of peak of what is left of a counter."""
    share, whole = m.get(name + PEAK), m.get(name)
    return share * max(0.0, whole - without) / whole if share is not None and whole else None


def _parts(*counted: tuple[str, float | None]) -> str:
    """`2.1 M loads, 2.1 M stores`; the kind alone where there is only one."""
    found = [(what, n) for what, n in counted if n]
    return found[0][0] if len(found) == 1 else ", ".join(f"{_count(n)}{what}" for what, n in found)


def _count(value: float) -> str:
    for scale, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{figure(value / scale)} {suffix} "
    return f"{value:.0f} "


def _percent(share: float | None) -> float | None:
    return round(100 * share, 2) if share is not None else None


def _marks(facts: Facts, findings: Sequence[Finding], limit: str) -> dict[str, list[str]]:
    """Codes of the first findings by the box that their memory accesses go to; one that says of a unit that it is full,
    and promises nothing, stands at the limit alone."""
    code = facts.code
    if code is None:
        return {}
    index = {ins.pc: i for i, ins in enumerate(code.program.instructions)}
    out: dict[str, list[str]] = {}
    for finding in [f for f in findings if f.severity != "info"][:MARKED]:
        pcs: Collection[int] = finding.covered or [place.pc for place in finding.locations]
        boxes = {box for pc in pcs if pc in index and (box := _box(facts, index[pc]))}
        if finding.estimate is None:
            boxes &= {limit}
        for box in sorted(boxes):
            out.setdefault(box, []).append(finding.code)
    return out


def _box(facts: Facts, i: int) -> str:
    """The box that an instruction's access goes to; empty for what touches no memory."""
    code = facts.code
    assert code is not None
    op = code.classes[i]
    if "tma" in op.kind:
        return "tma"
    if op.access in _COPY:
        return "copy"
    return _SPACES.get(op.space or "", "") if op.access else ""
