"""Which kernels of a recording are worth a profile of their counters, and the command for the right launch."""

from __future__ import annotations

import re

import numpy as np

from kscope.arch.vendors import vendor
from kscope.features.timeline.operations.kernel_kinds import COMMUNICATION, base_name
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.contract.timeline_figures import KernelToProfile, TopKernel
from kscope.model.timeline import Op

MOST = 3
LEAST = 0.05
"""Share of the window that a kernel must take to be worth a profile."""
WARM_STEPS = 2
"""Steps that a program is given to warm up in before its kernels are profiled."""
_PLAIN = re.compile(r"^\w+$", re.ASCII)


def worth_profiling(facts: TimelineFacts, kernels: list[TopKernel], whole_us: float) -> list[KernelToProfile]:
    """The kernels with the largest share of the window that being faster would shorten. whole_us: the window, all
    devices together. Kernels that communicate are left out (they wait for other ranks), and names that are no plain
    identifiers: they could not be given to a shell as they are."""
    out: list[KernelToProfile] = []
    command = vendor(facts.timeline.devices.values()).command
    ranked = sorted(kernels, key=lambda k: -k.total_us * (1 - k.hidden))
    for kernel in ranked:
        share = min(kernel.total_us * (1 - kernel.hidden) / max(whole_us, 1e-9), 1.0)
        base = base_name(kernel.name)
        if len(out) == MOST or share < LEAST:
            break
        if kernel.kind == COMMUNICATION or not _PLAIN.match(base):
            continue
        skip = _skip(facts, kernel, base)
        out.append(
            KernelToProfile(
                name=kernel.name, grid=kernel.grid, block=kernel.block, share=round(share, 4),
                speedup_bound=round(1 / max(1 - share, 1e-3), 3), skip=skip,
                command=command.format(kernel=base, skip=skip, file=base[:40]),
            )
        )  # fmt: skip
    return out


def _skip(facts: TimelineFacts, kernel: TopKernel, base: str) -> int:
    """Launches of the same function to let pass: WARM_STEPS steps of them, and those before the first of this shape in
    a step; without steps half of those before the middle one of this shape."""
    timeline = facts.timeline
    ops = timeline.ops
    same = np.array([base_name(name) == base for name in timeline.names] or [False])
    rows = np.flatnonzero((ops.kind == Op.KERNEL) & same[ops.name])
    shape = np.stack([*ops.grid, *ops.block])[:, rows]
    mine = (shape == np.array([*kernel.grid, *kernel.block])[:, None]).all(axis=0)
    mine &= np.array([name == kernel.name for name in timeline.names])[ops.name[rows]]
    steps = facts.steps
    if steps is None:
        at = np.flatnonzero(mine)
        return int(at[len(at) // 2])
    step = np.searchsorted(steps.begin, ops.start[rows], side="right") - 1
    usual = np.flatnonzero(step == min(1, len(steps.begin) - 1))
    place = np.flatnonzero(mine[usual])
    return WARM_STEPS * len(usual) + (int(place[0]) if len(place) else 0)
