"""Marks: what machine code and counters show of the ideas that a kernel uses, as numbers that two versions share. By
these the checklist recognises what was tried (opportunities.toml names them), and a worklog shows the lines that
changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import field

from kscope.features.views.footprint import Footprints
from kscope.isa.families import listed
from kscope.isa.opcodes import classify
from kscope.model.contract.analysis import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kscope.features.facts import Facts

FAMILIES = {
    "wgmma": ("HGMMA", "IGMMA", "QGMMA", "BGMMA"), "mma_sync": ("mma_sync",), "fma": ("fma",),
    "shared_reads": ("shared_read",), "shared_writes": ("shared_write", "bulk_load", "LDGSTS"),
    "cp_async": ("LDGSTS",), "tma": ("bulk_load",), "ldmatrix": ("LDSM",), "double": ("double",),
    "conversions": ("format_change",), "special": ("MUFU",), "local": ("LDL", "STL"), "barriers": ("BAR",),
    "setmaxnreg": ("USETMAXREG",), "shuffles": ("SHFL", "REDUX"), "fences": ("MEMBAR",),
    "global_atomics": ("ATOM", "ATOMG", "RED", "REDG"), "shared_atomics": ("ATOMS", "REDAS"),
    "tma_stores": ("UTMASTG", "UTMAREDG"), "mbarriers": ("SYNCS",), "tcgen05": ("tcgen05_mma",),
}  # fmt: skip
"""Mark -> opcodes, or what opcodes.toml lists under a name: warp instructions executed."""
EXCESS = {
    "sector_excess": ("memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal"),
    "conflict_excess": ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"),
}
"""Mark -> counters whose ratio it is: 1 is a perfect pattern."""
LINES = 400  # of code kept from a report: a kernel of more is read in the editor
NEAR = 6  # lines between two that have code, which belong to the same piece of it


class Witness(Footprints):
    """Filled while a report is analysed, with what a comparison needs and what a worklog adds. By kernel id: marks;
    lines of the source that became code, as the report embeds them; counters asked for (`wanted`)."""

    marks: dict[str, dict[str, float]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)

    def add(self, ident: str, facts: Facts, findings: Sequence[Finding]) -> None:
        super().add(ident, facts, findings)
        self.marks[ident] = marks(facts)
        self.code[ident] = source_lines(facts)


def marks(facts: Facts) -> dict[str, float]:
    """Numbers by mark; without machine code only those of the launch."""
    launch = facts.kernel.launch
    found = {
        "threads": float(launch.threads), "blocks": float(launch.blocks), "registers": float(launch.registers),
        "shared_bytes": float(launch.shared_static + launch.shared_dynamic),
        "cluster": float(launch.cluster[0] * launch.cluster[1] * launch.cluster[2] or 1),
    }  # fmt: skip
    occupancy = facts.kernel.metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    if occupancy is not None:
        found["occupancy"] = occupancy
    return found | _of_code(facts)


def _of_code(facts: Facts) -> dict[str, float]:
    code = facts.code
    if code is None:
        return {}
    executed: defaultdict[str, float] = defaultdict(float)
    widths: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for ins, ran in zip(code.program.instructions, code.executed, strict=True):
        executed[ins.opcode] += ran
        one = classify(ins, code.program.sm)
        if one.space in ("global", "shared") and one.access in ("load", "store") and one.bytes:
            row = widths[one.space, one.access]
            row[0] += ran
            row[1] += ran * one.bytes
    whole = sum(executed.values())
    if not whole:
        return {}
    found = {mark: _executed(executed, names) for mark, names in FAMILIES.items()}
    found["instructions"] = whole
    found |= {f"{space}_{access}_bytes": total / n for (space, access), (n, total) in widths.items() if n}
    loads = widths["global", "load"][0]
    if found["fma"]:
        found |= {"fma_a_shared_read": found["fma"] / found["shared_reads"]} if found["shared_reads"] else {}
        found |= {"fma_a_global_load": found["fma"] / loads} if loads else {}
    counters = facts.kernel.counters.by_name if facts.kernel.counters is not None else {}
    for mark, (counted, ideal) in EXCESS.items():
        if counted in counters and (best := sum(counters.get(ideal, ()))):
            found[mark] = sum(counters[counted]) / best
    return found


def _executed(executed: Mapping[str, float], names: Collection[str]) -> float:
    wanted = {opcode for name in names for opcode in ([name] if name.isupper() else listed(name))}
    return sum(n for opcode, n in executed.items() if opcode in wanted)


def source_lines(facts: Facts) -> str:
    """The lines that became machine code, with what lies between them, in the order of the file that has most; "" where
    the report embeds no source."""
    code, sources = facts.code, facts.kernel.sources
    if code is None or not sources:
        return ""
    by_file: defaultdict[str, set[int]] = defaultdict(set)
    for ins in code.program.instructions:
        if ins.file is not None and ins.file in sources and ins.line:
            by_file[ins.file].add(ins.line)
    if not by_file:
        return ""
    file, lines = max(by_file.items(), key=lambda item: len(item[1]))
    text = sources[file].splitlines()
    wanted = sorted(line for line in lines if line <= len(text))
    kept: list[str] = []
    for before, line in zip([None, *wanted], wanted, strict=False):
        if before is not None and line - before > NEAR + 1:
            kept.append("")
        first = before + 1 if before is not None and line - before <= NEAR + 1 else line
        kept += text[first - 1 : line]
    return "\n".join(kept[:LINES]) + "\n" if kept else ""
