"""Loads that may not be answered by L1, of data that every block reads.

`volatile`, `ld.relaxed`, `ld.acquire` and `ld.cg` compile to LDG.STRONG: coherent with other SMs, so L1, which is not,
may not serve them (PTX ISA, memory consistency model: strong operations). The compiler also keeps volatile loads in
order, one by one: it merges none and moves none up. That is what flags and results of other blocks need, and a waste
for data that nobody writes meanwhile.
"""

from __future__ import annotations

from kscope.arch import table
from kscope.features.sass.backward_slices import LIMIT
from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import address_origins
from kscope.isa.opcodes import OpClass
from kscope.model.kernel import Launch
from kscope.model.program import Instruction

KEEP = 64 << 10  # bytes that L1 holds beside any other use of it, on every chip
_SPACES = ("global", "generic")


def shared_by_blocks(code: Listing, launch: Launch) -> list[int]:
    """Executed strong loads whose addresses ignore the block index along a used dimension, of so few bytes that L1
    would keep them. Empty where the kernel talks to anybody: fences, atomics, strong stores, loads on whose value a
    loop's end depends (polling)."""
    strong = code.ran(
        code.where(lambda ins, op: op.space in _SPACES and op.access == "load" and "STRONG" in ins.mods)
    )
    if not strong or code.ran(code.where(_tells)):
        return []
    used = {axis for axis, n in zip("xyz", launch.grid, strict=True) if n > 1}
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    out, size = [], 0.0
    for i in strong:
        found = address_origins(code, i)
        if found is None or "load" in found or not used - found or _ends_a_loop(code, i):
            continue
        lanes = 32 if "tid" in found else 1
        warps = 1 if "tid" in found else code.executed[code.cfg.blocks[0].start] / blocks
        out.append(i)
        size += code.executed[i] / blocks / max(1.0, warps) * lanes * max(code.classes[i].bytes, 1)
    return out if size <= KEEP else []


def _tells(ins: Instruction, op: OpClass) -> bool:
    """Whether an instruction is what threads of different blocks talk with."""
    posted = op.access in ("atomic", "reduction") or (op.access == "store" and "STRONG" in ins.mods)
    return "fence" in op.kind or (posted and op.space in _SPACES)


def latency_left(code: Listing) -> float:
    """Latency of an L1 hit over that of an L2 hit, 0..1 (kscope/arch/latency.toml)."""
    chips = table("latency")
    chip = chips.get(f"sm_{code.program.sm}", chips["default"])
    return float(chip["l1"]) / float(chip["l2"])


def _ends_a_loop(code: Listing, load: int) -> bool:
    """Whether the loaded value decides if a loop around it goes on."""
    cfg = code.cfg
    inside = set().union(*(cfg.loops[n].blocks for n in cfg.loops_around(load)))
    if not inside:
        return False
    seen, work = {load}, [load]
    while work:
        for j in code.defuse.consumers(work.pop()):
            if j in seen:
                continue
            block = cfg.block_of[j]
            leaves = block in inside and any(s not in cfg.loops[n].blocks for n in cfg.loops_around(j)
                                             for s in cfg.blocks[block].successors)  # fmt: skip
            if len(seen) > LIMIT or (leaves and "one_way_out" in code.classes[j].kind):
                return True
            seen.add(j)
            work.append(j)
    return False
