"""Whether a kernel is held up by what a change takes away."""

from __future__ import annotations

from kscope.model.contract.findings import Finding

LEAST = 1.15
"""Gain that a finding must promise: of public kernels whose findings promised 1.06 to 1.13 the records moved whole gave
0.97x to 1.03x, of those that promised 2 to 2.8 they gave 1.4x to 4.9x."""
MEMORY = "dram"


def held_up(finding: Finding, *, memory: bool) -> bool:
    """memory: whether bytes that device memory moves may be fewer, not only the requests for them (0.99x to 1.02x where
    that alone was full)."""
    estimate = finding.estimate
    if estimate is None or estimate.speedup < LEAST:
        return False
    relieved = list(estimate.relieves) if estimate.relieves else []
    return bool(relieved) and (memory or relieved[0] != MEMORY)
