"""What the dataset keeps of a kernel beside its analysis: the hash of its code, and the clocks it ran at."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from kscope.features.facts import Facts
from kscope.features.sass.code_identity import code_identity
from kscope.features.views.footprint import Footprints
from kscope.model.contract.findings import Finding

SM_CLOCK, DRAM_CLOCK = "sm__cycles_elapsed.avg.per_second", "dram__cycles_elapsed.avg.per_second"


class Code(Struct, frozen=True):
    """identity: "" where the report has no machine code."""

    identity: str
    instructions: int
    sm_clock_hz: float | None
    dram_clock_hz: float | None


class Seen(Footprints):
    """Filled while a report is analysed, by kernel."""

    codes: dict[str, Code] = field(default_factory=dict)

    def add(self, ident: str, facts: Facts, findings: Sequence[Finding]) -> None:
        program, metrics = facts.kernel.program, facts.kernel.metrics
        self.codes[ident] = Code(
            code_identity(program) if program is not None else "", len(program) if program is not None else 0,
            metrics.get(SM_CLOCK), metrics.get(DRAM_CLOCK),
        )  # fmt: skip
