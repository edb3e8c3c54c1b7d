"""The kernel's machine code with what the profiler saw at each instruction, aligned by instruction index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import structs

from kscope.features.counters.stalls import SAMPLED
from kscope.features.profile.blame import Blame, blame
from kscope.features.sass.columns import Column, total
from kscope.features.sass.library_code import own_place
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.model.contract.analysis import Location
from kscope.model.kernel import Kernel, source_lines
from kscope.model.operand import UNIFORM_BASE, Operand
from kscope.model.program import Instruction, Program


class Code(Listing):
    """Program, flow graph, def-use and per-instruction columns (one value an instruction).

    `executed` counts warp instructions, `threads` the active lanes of them, `samples` all warp samples;
    `stall[reason]` the samples of one reason. All zero where the report has none.
    """

    def __init__(self, kernel: Kernel, program: Program, structure: Structure | None = None) -> None:
        super().__init__(program, kernel.name, structure)
        self.kernel = kernel
        self._columns: dict[str, Column] = {}

    def column(self, name: str) -> Column | None:
        """A per-instruction counter on instruction indices, not to be changed; None if the report has none of that
        name."""
        known = self._columns.get(name)
        if known is None:
            counters = self.kernel.counters
            if counters is None or name not in counters.by_name:
                return None
            values = [*counters.by_name[name], 0.0]
            known = self._columns[name] = list(map(values.__getitem__, self._places))
        return known

    @cached_property
    def asynchronous(self) -> bool:
        """Whether the code uses mbarriers, asynchronous copies or products at all."""
        return bool(self.where(lambda ins, op: "asynchronous" in op.kind))

    @cached_property
    def _places(self) -> list[int]:
        """For each instruction the place of its counters; behind the last one where it has none."""
        offsets = self.kernel.counters.offsets if self.kernel.counters is not None else ()
        place = {pc: i for i, pc in enumerate(offsets)}
        return [place.get(ins.pc, len(offsets)) for ins in self.program.instructions]

    def _column(self, name: str) -> Column:
        column = self.column(name)
        return column if column is not None else [0.0] * len(self)

    @cached_property
    def executed(self) -> Column:
        return self._column("inst_executed")

    @cached_property
    def counted(self) -> bool:  # type: ignore[override]
        """Whether the report says how often instructions ran."""
        return any(self.executed)

    @cached_property
    def threads(self) -> Column:
        return self._column("thread_inst_executed")

    @cached_property
    def stall(self) -> Mapping[str, Column]:
        columns = self.kernel.counters.by_name if self.kernel.counters is not None else {}
        return {n.removeprefix(SAMPLED): self._column(n) for n in columns if n.startswith(SAMPLED)}

    @cached_property
    def samples(self) -> Column:
        return self._sums(self.stall)

    @cached_property
    def _all_samples(self) -> float:
        return total(self.samples)

    def _sums(self, columns: Mapping[str, Column]) -> Column:
        return [sum(values) for values in zip(*columns.values(), strict=True)] if columns else [0.0] * len(self)

    @cached_property
    def blame(self) -> Blame:
        return blame(
            self.program, self.cfg, self.defuse, self.stall, self.executed, self.costs, self.classes,
            _causes(self.structure),
        )  # fmt: skip

    @cached_property
    def indexed_constants(self) -> list[int]:
        """Executed constant loads whose index is a vector register: lanes may want different words."""
        loads = self.where(lambda ins, op: op.space == "constant" and op.pipe != "uniform")
        return self.ran(i for i in loads if _indexed(self[i].operands))

    @cached_property
    def costs(self) -> Column:
        """Rounds that each instruction's executions take in its memory queue: wavefronts where counted, else one an
        execution."""
        counted = [self.column(n) for n in ("memory_l1_wavefronts_shared", "memory_l1_tag_requests_global")]
        columns = [self.executed, *(c for c in counted if c is not None)]
        sectors = self.column("memory_l2_theoretical_sectors_global")
        if sectors is not None:
            columns.append([s / 4 for s in sectors])  # four sectors a line, one line a wavefront at best
        costs = [max(values) for values in zip(*columns, strict=True)]
        for i in self.indexed_constants:
            costs[i] *= self.constant_rounds or 1.0
        return costs

    @cached_property
    def constant_rounds(self) -> float | None:
        """Rounds of the constant cache that an indexed load takes: 1 where all lanes want one word. Every LDC asks it,
        those of a fixed address once; uniform loads (ULDC) have another cache. None where it was not counted."""
        executed = total(self.executed, self.indexed_constants)
        requests = self.kernel.metrics.get("idc__requests.sum")
        if not requests or not executed:
            return None
        loads = self.where(lambda ins, op: op.space == "constant" and op.access == "load" and op.pipe != "uniform")
        fixed = total(self.executed, loads) - executed
        return max(1.0, (requests - fixed) / executed)

    @cached_property
    def blamed(self) -> Column:
        """Samples charged to the instruction that caused the wait rather than to the one that waited; `selected`
        stays where it was sampled."""
        return self._sums(self.blame.by_producer)

    def blamed_share(self, indices: Iterable[int], *reasons: str) -> float:
        """Share of all samples blamed on these instructions, of the given reasons (all if none), 0..1."""
        chosen = tuple(indices)
        if not self._all_samples or not chosen:
            return 0.0
        if not reasons:
            return total(self.blamed, chosen) / self._all_samples
        by = self.blame.by_producer
        return sum(total(by[r], chosen) for r in reasons if r in by) / self._all_samples

    def hottest(self, indices: Iterable[int], weight: Column | None = None) -> list[int]:
        """Indices by blamed samples (or another weight), largest first."""
        return super().hottest(indices, self.blamed if weight is None else weight)

    def location(self, index: int, share: float | None = None) -> Location:
        """Where an instruction is: pc, opcode, share of the samples that wait for it and of those taken at it, source
        line with its text where the report has it."""
        place = super().location(index, share)
        own = own_place(self, index)
        if own is not None:
            place = structs.replace(place, own=own)
        if not self._all_samples:
            return place
        waited = self.blamed[index] / self._all_samples if share is None else share
        sampled = round(self.samples[index] / self._all_samples, 4)
        return structs.replace(place, share=round(waited, 4), sampled=sampled)

    def share_of(self, members: Iterable[int]) -> float | None:
        return self.blamed_share(dict.fromkeys(members)) if self._all_samples else None

    def source_line(self, ins: Instruction) -> str | None:
        """Text of the instruction's source line from the report's imported sources, stripped; None if not there."""
        if ins.file is None or ins.line is None:
            return None
        lines = self._lines(ins.file)
        return lines[ins.line - 1].strip()[:200] if 0 < ins.line <= len(lines) else None

    def _lines(self, file: str) -> list[str]:
        cached: dict[str, list[str]] = self.__dict__.setdefault("_line_cache", {})
        if file not in cached:
            cached[file] = source_lines(self.kernel.sources.get(file, ""))
        return cached[file]


@once_per_code
def _causes(code: Structure) -> dict[tuple[int, str], list[int]]:
    """Room for what each instruction may wait for, which its launches share."""
    return {}


def _indexed(operands: tuple[Operand, ...]) -> bool:
    """Whether a constant operand is indexed by a vector register: c[0x3][R4]."""
    return any(o.kind == "constant" and any(b.register < UNIFORM_BASE for b in o.bases) for o in operands)
