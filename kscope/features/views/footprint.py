"""What a comparison needs of a kernel and an Analysis does not carry: its code without names, and what its findings
counted, so that the other version can be asked for the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from kscope.features.sass.align import Shape, shape
from kscope.features.sass.columns import total
from kscope.model.contract.analysis import Finding

if TYPE_CHECKING:
    from kscope.features.facts import Facts

ALWAYS = ("sm__cycles_active.max", "sm__cycles_active.avg", "sm__warps_active.avg.pct_of_peak_sustained_active")
"""Kept whether or not a finding quotes them: findings about the launch are credited by these."""
LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
TRAFFIC = {
    "lts__t_sectors.sum": "sectors through L2",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "sectors of global loads in L1",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "sectors of global stores in L1",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": "sectors of local memory",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "rounds of shared memory",
}
"""What a version can pay more of (`comparing/against.py`): counters of traffic, and what they count."""
IDEAL = "_ideal"
"""Suffix of the counter that says what a perfect pattern would have needed."""


class Footprint(Struct, frozen=True):
    """One kernel. shape: of its code (`sassalign.shape`), empty where the report has none. executed: warp instructions
    by opcode. samples: shares of the warp samples charged to each opcode, 0..1. metrics: those asked for, of the whole
    kernel, or sums over the instructions."""

    shape: Shape
    executed: Mapping[str, float]
    samples: Mapping[str, float]
    metrics: Mapping[str, float]


class Footprints(Struct):
    """Filled while reports are analysed. wanted: metrics to keep, beside those that a kernel's own findings quote."""

    wanted: Collection[str] = ()
    by_kernel: dict[str, Footprint] = field(default_factory=dict)
    """By `KernelAnalysis.id`."""

    def add(self, ident: str, facts: Facts, findings: Sequence[Finding]) -> None:
        self.by_kernel[ident] = footprint(facts, {*self.wanted, *quoted(findings)})

    def fresh(self) -> Footprints:
        """One of the same kind that asks for the same, and holds nothing."""
        return type(self)(wanted=self.wanted)

    def take(self, other: Footprints) -> None:
        """All that another one of the same kind holds, by kernel."""
        for name in self.__struct_fields__:
            mine = getattr(self, name)
            if isinstance(mine, dict):
                mine.update(getattr(other, name))


def quoted(findings: Sequence[Finding]) -> set[str]:
    """Names of all figures that the findings quote as evidence."""
    return {e.metric for f in findings for e in f.evidence}


def footprint(facts: Facts, wanted: Collection[str]) -> Footprint:
    """The footprint of a kernel with the metrics that are wanted, their ideals included."""
    names = {*ALWAYS, LANES, *TRAFFIC, *wanted, *(name + IDEAL for name in wanted)}
    metrics = {name: value for name in names if (value := facts.kernel.metrics.get(name)) is not None}
    code = facts.code
    if code is None:
        return Footprint(shape=shape(()), executed={}, samples={}, metrics=metrics)
    counters = facts.kernel.counters.by_name if facts.kernel.counters is not None else {}
    metrics |= {name: float(sum(counters[name])) for name in names & counters.keys()}
    executed: defaultdict[str, float] = defaultdict(float)
    samples: defaultdict[str, float] = defaultdict(float)
    whole = total(code.samples) or 1.0
    for ins, ran, blamed in zip(code.program.instructions, code.executed, code.blamed, strict=True):
        executed[ins.opcode] += ran
        samples[ins.opcode] += blamed / whole
    return Footprint(shape=shape(code.program.instructions), executed=executed, samples=samples, metrics=metrics)
