"""Registers and occupancy: how many warps an SM holds at this register count, and where the next steps are.

Registers are handed to a warp in units, a warp's lie in one sub-partition, blocks come whole: so occupancy falls in
steps. Limits are in `arch/sm.toml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kscope.arch import table

if TYPE_CHECKING:
    from collections.abc import Sequence

LANES = 32
MAX_REGISTERS = 255
ASSUMED_THREADS = 256
"""Block size where neither the launch nor the code names one."""


class Step(Struct, frozen=True):
    """`registers`: the most a thread may take for `blocks` blocks, `warps` warps an SM."""

    registers: int
    blocks: int
    warps: int


class Pressure(Struct, frozen=True):
    """`threads` of a block and where the number is from ("launch", "launch bounds", "assumed"). `blocks` and `warps`
    an SM holds, of at most `warps_max`; `limits`: which resources set that. `steps` around the register count: more
    warps first, the present one, fewer last."""

    registers: int
    threads: int
    threads_from: str
    shared: int
    blocks: int
    warps: int
    warps_max: int
    limits: tuple[str, ...]
    steps: tuple[Step, ...]


def limits_of(sm: int) -> dict[str, Any] | None:
    """The SM's limits (see arch/sm.toml); None for a target below the table."""
    known = sorted(int(key) for key in table("sm"))
    below = [t for t in known if t <= sm]
    return dict(table("sm")[str(below[-1])]) if below else None


def pressure(
    sm: int, registers: int, threads: int, threads_from: str, shared: int = 0, carved: int | None = None
) -> Pressure | None:
    """Occupancy of a kernel of `registers` a thread, `threads` and `shared` bytes a block, with `carved` bytes of an SM
    set aside as shared memory; as many as it has, if None. None where the target is not in the table or nothing fits.
    """
    chip = limits_of(sm)
    if chip is None or registers <= 0 or threads <= 0:
        return None
    warps = -(-threads // LANES)
    others = {"warps": chip["warps"] // warps, "blocks": int(chip["blocks"])}
    taken = _taken(chip, shared)
    if taken and (shared or carved is not None):  # the system's share is taken from what was set aside, too
        others["shared memory"] = (chip["shared"] if carved is None else carved) // taken
    by_registers = _blocks(chip, registers, warps)
    every = {"registers": by_registers, **others}
    blocks = min(every.values())
    if blocks <= 0:
        return None
    return Pressure(
        registers=registers, threads=threads, threads_from=threads_from, shared=shared, blocks=blocks,
        warps=blocks * warps, warps_max=chip["warps"],
        limits=tuple(name for name, value in every.items() if value == blocks),
        steps=tuple(_steps(chip, registers, warps, min(others.values()))),
    )  # fmt: skip


def shared_blocks(sm: int, shared: int) -> int | None:
    """Blocks of so many bytes of shared memory for which an SM has room; None where nothing is known of the chip."""
    chip = limits_of(sm)
    return int(chip["shared"]) // taken if chip is not None and (taken := _taken(chip, shared)) else None


def _taken(chip: dict[str, Any], shared: int) -> int:
    """Bytes of an SM's shared memory that a block takes: its own and the system's, in whole units."""
    return int(-(-(shared + chip["reserved"]) // chip["shared_unit"]) * chip["shared_unit"])


def _blocks(chip: dict[str, Any], registers: int, warps: int) -> int:
    """Blocks an SM by registers alone: whole warps in each sub-partition's share of the file."""
    unit, parts = chip["register_unit"], chip["partitions"]
    a_warp = -(-registers * LANES // unit) * unit
    return int(chip["registers"] // parts // a_warp * parts // warps)


def _steps(chip: dict[str, Any], registers: int, warps: int, most: int) -> Sequence[Step]:
    """Two steps with more warps, the present, one with fewer; none beyond what other limits allow."""
    ladder: list[Step] = []
    whole = max(1, chip["register_unit"] // LANES)  # registers are handed out in these: between two nothing changes
    counts = (MAX_REGISTERS, *range(MAX_REGISTERS // whole * whole, 0, -whole))
    for count in counts:  # most registers first, so that each step keeps its largest count
        blocks = min(_blocks(chip, count, warps), most)
        if blocks and (not ladder or blocks > ladder[-1].blocks):
            ladder.append(Step(count, blocks, blocks * warps))
    here = next((n for n, step in enumerate(ladder) if step.registers >= registers and
                 (n + 1 == len(ladder) or ladder[n + 1].registers < registers)), None)  # fmt: skip
    if here is None:
        return []
    return list(reversed(ladder[max(0, here - 1) : here + 3]))
