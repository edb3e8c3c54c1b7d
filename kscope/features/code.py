"""The kernel's machine code with what the profiler saw at each instruction, aligned by instruction index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from kscope.features.blame import Blame, blame
from kscope.features.cfg import Cfg, build_cfg
from kscope.features.defuse import DefUse
from kscope.features.opcodes import OpClass, classify
from kscope.features.stalls import SAMPLED
from kscope.model.analysis import Location
from kscope.model.kernel import Kernel
from kscope.model.program import Instruction, Program

Array = np.ndarray[Any, Any]


class Code:
    """Program, flow graph, def-use and per-instruction columns (float64, one value an instruction).

    `executed` counts warp instructions, `threads` the active lanes of them, `samples` all warp samples;
    `stall[reason]` the samples of one reason. All zero where the report has none.
    """

    def __init__(self, kernel: Kernel, program: Program) -> None:
        self.kernel = kernel
        self.program = program
        self.function = kernel.name
        self._index = {ins.pc: i for i, ins in enumerate(program.instructions)}
        self.classes: tuple[OpClass, ...] = tuple(classify(i, program.sm) for i in program.instructions)

    def __len__(self) -> int:
        return len(self.program.instructions)

    def __getitem__(self, index: int) -> Instruction:
        return self.program.instructions[index]

    def column(self, name: str) -> Array | None:
        """A per-instruction counter on instruction indices; None if the report has none of that name."""
        counters = self.kernel.counters
        source = counters.get(name) if counters is not None else None
        if counters is None or source is None:
            return None
        out = np.zeros(len(self))
        for pc, value in zip(counters.pcs.tolist(), source.tolist(), strict=True):
            index = self._index.get(pc)
            if index is not None:
                out[index] = value
        return out

    def _column(self, name: str) -> Array:
        column = self.column(name)
        return column if column is not None else np.zeros(len(self))

    @cached_property
    def executed(self) -> Array:
        return self._column("inst_executed")

    @cached_property
    def threads(self) -> Array:
        return self._column("thread_inst_executed")

    @cached_property
    def stall(self) -> Mapping[str, Array]:
        columns = self.kernel.counters.columns if self.kernel.counters is not None else {}
        return {n.removeprefix(SAMPLED): self._column(n) for n in columns if n.startswith(SAMPLED)}

    @cached_property
    def samples(self) -> Array:
        total: Array = sum(self.stall.values(), np.zeros(len(self)))
        return total

    @cached_property
    def cfg(self) -> Cfg:
        return build_cfg(self.program)

    @cached_property
    def defuse(self) -> DefUse:
        return DefUse(self.program, self.cfg)

    @cached_property
    def blame(self) -> Blame:
        return blame(self.program, self.cfg, self.defuse, self.stall, self.executed)

    @cached_property
    def blamed(self) -> Array:
        """Samples charged to the instruction that caused the wait rather than to the one that waited; `selected`
        stays where it was sampled."""
        total: Array = sum(self.blame.by_producer.values(), np.zeros(len(self)))
        return total

    def where(self, test: Callable[[Instruction, OpClass], bool]) -> Array:
        """Indices of the instructions that a test accepts."""
        pairs = zip(self.program.instructions, self.classes, strict=True)
        return np.array([i for i, (ins, op) in enumerate(pairs) if test(ins, op)], dtype=np.int64)

    def issue_share(self, indices: Iterable[int]) -> float:
        """Share of the executed warp instructions, 0..1."""
        total = float(self.executed.sum())
        chosen = np.fromiter(indices, dtype=np.int64)
        return float(self.executed[chosen].sum()) / total if total and len(chosen) else 0.0

    def blamed_share(self, indices: Iterable[int], *reasons: str) -> float:
        """Share of all samples blamed on these instructions, of the given reasons (all if none), 0..1."""
        total = float(self.samples.sum())
        chosen = np.fromiter(indices, dtype=np.int64)
        if not total or not len(chosen):
            return 0.0
        if not reasons:
            return float(self.blamed[chosen].sum()) / total
        by = self.blame.by_producer
        return sum(float(by[r][chosen].sum()) for r in reasons if r in by) / total

    def hottest(self, indices: Iterable[int], weight: Array | None = None) -> list[int]:
        """Indices by blamed samples (or another weight), largest first."""
        key = self.blamed if weight is None else weight
        return sorted(indices, key=lambda i: (-float(key[i]), i))

    def location(self, index: int, share: float | None = None) -> Location:
        """Where an instruction is: pc, opcode, source line with its text where the report has it."""
        ins = self[index]
        total = float(self.samples.sum())
        if share is None and total:
            share = float(self.blamed[index]) / total
        return Location(
            function=self.function,
            pc=ins.pc,
            opcode=ins.name,
            file=ins.file,
            line=ins.line,
            share=round(share, 4) if share is not None else None,
            sass=ins.text,
            source=self.source_line(ins),
        )

    def locations(self, indices: Iterable[int], limit: int = 4, weight: Array | None = None) -> list[Location]:
        return [self.location(i) for i in self.hottest(indices, weight)[:limit]]

    def source_line(self, ins: Instruction) -> str | None:
        """Text of the instruction's source line from the report's imported sources, stripped; None if not there."""
        if ins.file is None or ins.line is None:
            return None
        lines = self._lines(ins.file)
        return lines[ins.line - 1].strip()[:200] if 0 < ins.line <= len(lines) else None

    def _lines(self, file: str) -> list[str]:
        cached: dict[str, list[str]] = self.__dict__.setdefault("_line_cache", {})
        if file not in cached:
            cached[file] = self.kernel.sources.get(file, "").splitlines()
        return cached[file]
