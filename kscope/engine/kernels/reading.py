"""The command that makes code readable which a report holds: another disassembler, not another profile."""

from __future__ import annotations

from kscope.model.faults import NO_CODE
from kscope.model.kernel import Kernel

TOOL = "nvdisasm"
REPORT = "REPORT"


def unreadable(kernel: Kernel) -> bool:
    """Whether the report was collected with its code and the code could not be read. One that embeds no code is another
    matter: profiling again brings it."""
    lacks = any(NO_CODE in note for note in kernel.notes)
    return kernel.program is None and kernel.counters is not None and not lacks


def reading(kernel: Kernel) -> tuple[str, str] | None:
    """(command, what it does) where the code is there and cannot be read here: an nvdisasm of the toolkit that knows
    the chip reads it from the report. None elsewhere."""
    if not unreadable(kernel):
        return None
    from kscope.parsers import toolchain  # starts programs, which ordinary reports need not

    sm = kernel.device.sm
    _, last = toolchain.limits(sm)
    why = f"the code is in the report, and what is installed does not read sm_{sm} ({toolchain.span(sm)})"
    if not last:
        return f"{toolchain.INSTALL[TOOL]} --upgrade && kscope analyze {REPORT}", why
    version = ".".join(map(str, last))
    return f"KSCOPE_{TOOL.upper()}=/usr/local/cuda-{version}/bin/{TOOL} kscope analyze {REPORT}", why
