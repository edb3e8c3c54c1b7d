"""What a change is made for: the code, the launch where there was one, the source where it is at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.features.counters.occupancy_limits import Pressure, pressure
from kscope.features.lanes.values import block_shapes

if TYPE_CHECKING:
    from kscope.features.sass.listing import Listing
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.findings import Finding
    from kscope.model.kernel import Launch

RESERVED = 1024  # bytes of shared memory that the system keeps in each block from sm_80 on (CUDA C++ Programming Guide)

COUNTED = 90  # compute capability from which .nv.info's figure holds it (cuobjdump -res-usage of our fixtures)


class Setting(Struct, frozen=True):
    """One kernel. `launch` is None for code that nobody ran."""

    code: Listing
    lines: Lines
    launch: Launch | None = None
    name: str = ""
    sms: int = 0
    """SMs of the device that it ran on; 0 where it did not run."""
    instance: str = ""
    """Its name with the arguments of its template, where it has them."""
    us: float = 0.0
    """Microseconds that it took; 0 where it did not run, or nobody counted."""

    @property
    def block(self) -> tuple[int, int, int]:
        """Shape of a block: the launch's, or the likeliest."""
        if self.launch is not None:
            return self.launch.block
        return block_shapes(self.code, None)[0]

    @property
    def shared(self) -> int | None:
        """Bytes of shared memory a block."""
        if self.launch is not None:
            return self.launch.shared_static + self.launch.shared_dynamic
        program = self.code.program
        if program.resources is None or program.resources.shared is None:
            return None
        reserved = RESERVED if program.sm >= COUNTED else 0  # the image counts the system's share from there on
        return max(0, program.resources.shared - reserved)

    @property
    def registers(self) -> int | None:
        if self.launch is not None:
            return self.launch.registers
        resources = self.code.program.resources
        return resources.registers if resources is not None else None

    def occupancy(
        self,
        *,
        more_shared: int = 0,
        registers: int | None = None,
        threads: int | None = None,
        carved: int | None = None,
    ) -> Pressure | None:
        """Warps of an SM with so many bytes more, other registers, other threads, so many bytes of the SM set aside as
        shared memory; None without a launch."""
        if self.launch is None or self.shared is None:
            return None
        return pressure(
            self.code.program.sm, registers or self.launch.registers, threads or self.launch.threads, "launch",
            self.shared + more_shared, carved,
        )  # fmt: skip

    def sites(self, index: int) -> list[tuple[str, int]]:
        """File and line of an instruction, then of the calls through which it was inlined."""
        ins = self.code[index]
        found = [(ins.file, ins.line), *((s.file, s.line) for s in ins.inlined)]
        return [(file, line) for file, line in found if file is not None and line is not None]

    def text(self, index: int) -> tuple[str, int, Sequence[str]]:
        """File, line and all lines of the source that an instruction is from; no lines where there is no text."""
        ins = self.code[index]
        if ins.file is None or ins.line is None:
            return "", 0, ()
        return ins.file, ins.line, self.lines(ins.file)


class Asked(Struct, frozen=True):
    """A finding to mend, and where."""

    setting: Setting
    finding: Finding
