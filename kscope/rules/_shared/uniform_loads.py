"""Loads in a loop whose lanes all want the same address: no lane has a neighbour to take over, one value serves all.
What to do about them differs from other loads: LAT302 and MEM102 ask."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.features.facts import Code, Facts
from kscope.model.contract.analysis import Remedy

STAGED = "stage them in shared memory: lanes load neighbours side by side, then all read them, 16 bytes at a time"
CONSTANT = "__constant__ memory: an operand of the arithmetic, no load is left"
SEVERAL = "several results a thread: each loaded value then feeds all of them"
WAVES = 2.0  # from which threads can take several results each and still fill the device once (as for LAT302)


def for_all_lanes(facts: Facts, code: Code, loads: Sequence[int]) -> bool:
    """Most of the waits for these loads are for ones in a loop whose lanes all want the same address."""
    same = [i for i in loads if code.cfg.loop_of[i] is not None and isinstance(facts.lanes.addresses(i), int)]
    return bool(same) and code.blamed_share(same) > 0.5 * code.blamed_share(loads)


def ways(facts: Facts, code: Code, loads: Sequence[int]) -> list[Remedy]:
    """The ways to mend them, each with its condition."""
    met = any("barrier" in code.classes[i].kind for i in code.ran(range(len(code))))
    staged = "a tile each block, a barrier behind it" + ("; it has barriers already" if met else "")
    out = [Remedy(step=STAGED, applies=True, why=staged)]
    dimensions = [facts.addresses.grid_dimensions(i) for i in loads]
    written = any("CONSTANT" not in code[i].mods for i in loads)
    if any(d is None or d for d in dimensions):
        why = "other blocks read other values"
    elif written:
        why = "the code does not say that nobody writes them (const __restrict__)"
    else:
        why = ""
    fits = "if they fit 64 KiB and are known before the launch"
    out.append(Remedy(step=CONSTANT, applies=not why, why=why or fits))
    waves = facts.counters.launch.waves
    few = f"{waves:.2g} waves: fewer threads would leave SMs empty"
    out.append(Remedy(step=SEVERAL, applies=waves >= WAVES, why="" if waves >= WAVES else few))
    return out
