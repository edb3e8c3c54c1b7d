"""The hottest instructions in words: what they are, where, and whose fault the waiting is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words

if TYPE_CHECKING:
    from kscope.model.contract.analysis import HotInstruction, KernelAnalysis

TOLD = 0.05
"""Share of samples from which the hottest instruction is worth a line of its own. Judged."""


def hottest(kernel: KernelAnalysis) -> HotInstruction | None:
    """The instruction where most samples fall, if those are worth a line."""
    return kernel.hot[0] if kernel.hot and kernel.hot[0].share >= TOLD else None


def why(hot: HotInstruction) -> str:
    """`mio throttle: queues behind the LDS at 0290`."""
    reason = words.reason(one_line(hot.stall))
    return f"{reason}: {one_line(hot.cause)}" if hot.cause else reason


def place(hot: HotInstruction) -> str:
    """`0050, dev_kernels.cu:70`."""
    at = f"{hot.pc:04x}"
    return f"{at}, {words.basename(one_line(hot.file or ''))}:{hot.line}" if hot.line else at


def covering(kernel: KernelAnalysis, pc: int) -> list[str]:
    """Codes of the findings that are about an instruction."""
    return [f.code for f in kernel.findings if pc in f.covered or any(x.pc == pc for x in f.locations)]


def told(kernel: KernelAnalysis, hot: HotInstruction) -> str:
    """Where and why, and the findings that it belongs to."""
    codes = covering(kernel, hot.pc)
    return f"{why(hot)}" + (f" ({', '.join(codes)})" if codes else "")
