"""What a profile counted, instruction by instruction, for the listing: samples, stalls, executions, traffic."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.sass.columns import Column, total
from kscope.model.contract.programs import Cause, Measured, StallShare

if TYPE_CHECKING:
    from kscope.features.profile.code import Code

_TRAFFIC = (
    ("wavefronts", "memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"),
    ("sectors", "memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal"),
)
"""Unit, counter, and the same for a perfect pattern. Sectors are 32 bytes at L2, wavefronts rounds at shared memory."""
DIVERGENT = "smsp__branch_targets_threads_divergent"
"""Targets of a branch beyond the first that lanes of one warp took (checked on a switch and on if/else)."""
ACTIVE = ("thread_inst_executed_true", "thread_inst_executed")
CAUSES = 4  # named of one wait


class Profile:
    """Per-instruction columns of one kernel, on the indices of its program."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.executed: Column = code.executed
        self.samples: Column = code.samples
        self.all_samples = total(code.samples)
        self._lanes = next((c for c in map(code.column, ACTIVE) if c is not None), None)
        self._divergent = code.column(DIVERGENT)
        self._traffic = [
            (unit, moved, ideal) for unit, counter, perfect in _TRAFFIC
            if (moved := code.column(counter)) is not None and (ideal := code.column(perfect)) is not None
        ]  # fmt: skip

    @cached_property
    def _causes(self) -> dict[int, list[tuple[int, float]]]:
        """For each instruction that waits, the others that it waits for, most samples first."""
        found: dict[int, dict[int, float]] = {}
        for pairs in self.code.blame.edges.values():
            for (producer, consumer), amount in pairs.items():
                if producer != consumer:
                    into = found.setdefault(consumer, {})
                    into[producer] = into.get(producer, 0.0) + amount
        return {i: sorted(by.items(), key=lambda kv: (-kv[1], kv[0]))[:CAUSES] for i, by in found.items()}

    def share(self, indices: Iterable[int]) -> float | None:
        """Share of all samples, 0..1; None without samples."""
        return round(total(self.samples, indices) / self.all_samples, 4) if self.all_samples else None

    def traffic(self, indices: Iterable[int]) -> tuple[str, float, float] | None:
        """(unit, moved, ideal) of some accesses, the worse of sectors and wavefronts where both were counted
        (cp.async); None where nothing was."""
        chosen = tuple(indices)
        counted = [(unit, total(moved, chosen), total(ideal, chosen)) for unit, moved, ideal in self._traffic]
        worst = [row for row in counted if row[1] and row[2]]
        return max(worst, key=lambda row: row[1] / row[2], default=None)

    def wavefronts(self) -> dict[int, float]:
        """Wavefronts of one execution of each shared-memory access that ran."""
        counted = self.code.column(_TRAFFIC[0][1])
        if counted is None:
            return {}
        return {i: n / self.executed[i] for i, n in enumerate(counted) if n and self.executed[i]}

    def at(self, i: int) -> Measured:
        counted = self.traffic((i,))
        stalls = sorted(((r, c[i]) for r, c in self.code.stall.items() if c[i]), key=lambda row: -row[1])
        executed = self.executed[i]
        parted = self._divergent[i] if self._divergent is not None else 0.0
        return Measured(
            samples=int(self.samples[i]),
            blamed=round(self.code.blamed[i], 1),
            causes=[Cause(pc=self.code[p].pc, samples=round(n, 1)) for p, n in self._causes.get(i, ())],
            stalls=[StallShare(reason=reason, samples=int(n)) for reason, n in stalls],
            executed=int(executed),
            lanes=round(self._lanes[i] / executed, 1) if self._lanes is not None and executed else None,
            ways=round(1 + parted / executed, 2) if parted and executed else None,
            unit=counted[0] if counted else "",
            moved=counted[1] if counted else None,
            ideal=counted[2] if counted else None,
        )
