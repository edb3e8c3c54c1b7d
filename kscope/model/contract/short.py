"""An Analysis and a kernel's in one line each, for `repr`."""

from __future__ import annotations

from typing import Any

from kscope.model.errors import one_line

NAME = 60  # characters of a kernel's name


def of_kernel(kernel: Any) -> str:
    """Name, time, verdict and first suggestion of a KernelAnalysis."""
    first = next((f for f in kernel.findings if f.severity != "info"), None)
    gain = f", {first!r}" if first is not None else ""
    took = f" {kernel.duration_us:.1f} us," if kernel.duration_us is not None else ""
    name = one_line(kernel.demangled or kernel.name)[:NAME]
    return f"<Kernel {name}:{took} {kernel.verdict.regime}-bound, {kernel.verdict.limiter}{gain}>"


def of_analysis(analysis: Any) -> str:
    """What was read, what is there of it, and the longest kernel."""
    found = {"kernel": len(analysis.kernels), "recording": len(analysis.timelines), "job": len(analysis.jobs),
             "program": len(analysis.programs)}  # fmt: skip
    told = ", ".join(f"{n} {name}{'s' * (n > 1)}" for name, n in found.items() if n) or "nothing"
    paths = ", ".join(i.path for i in analysis.inputs[:2]) + (", ..." if len(analysis.inputs) > 2 else "")
    longest = max(analysis.kernels, key=lambda k: k.duration_us or 0.0, default=None)
    return one_line(f"<Analysis of {paths}: {told}{f', {longest!r}' if longest is not None else ''}>")
