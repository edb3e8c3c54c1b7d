"""Data that a kernel loads more than once: what of them are distinct bytes (MEM106), and what it takes to keep them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from kscope.features.facts import SECTOR, SECTORS, Code, Facts, up_to
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.model.units import figure

WORTH = 1.5  # traffic over distinct bytes below which nothing is called redundant
REGISTERS, THREADS = 255, 1024  # a thread and a block can have
LANES = 32
UNROLLED = (1, 2, 4, 8)  # rounds that the compiler makes one
HALF = 0.5  # of the warps of now, whose loads are wide enough to wait for memory together (classifiers of llm.c: 1.8x)
SETTLED = 0.5  # of L2, which data in use may fill for the next pass to find them: streams beside them need the rest
FEW = "so few are at work at a time that L2 keeps what each passes over again"
Passes = dict[str, dict[int | None, float]]
"""Pointer -> loop -> bytes that one pass of it loads."""


class Covered(Struct, frozen=True):
    """What the loads cover, in bytes: each once (`distinct`) and all (`asked`). repeated: loads of what another block
    or loop reads too; again: there are passes over the same data; windows: neighbouring blocks' windows overlap.
    kept: bytes that a block would have to keep from one pass to the next; dealt: its threads share the rounds of each
    pass, side by side, so that more threads would keep fewer bytes each; rows: data of their own that its warps pass
    over, each alone."""

    distinct: float
    asked: float
    repeated: list[int]
    again: bool
    windows: bool
    kept: float = 0.0
    dealt: bool = False
    rows: int = 1

    @property
    def fix(self) -> str:
        if self.again:
            return "keep the data in registers or shared memory between passes, or fuse the passes (online algorithms)"
        if self.windows:
            return "let one block do what blocks with overlapping windows do, so that each value is loaded once for all"
        return "larger tiles in shared memory; grouped or Hilbert block order; clusters; L2 persistence"


def _rounds(passes: Passes) -> dict[str, int]:
    """Passes over each pointer's data. Loops of about the same size are passes; a much smaller one is the remainder of
    an unrolled one."""
    return {p: sum(size > max(loops.values()) / 2 for size in loops.values()) for p, loops in passes.items()}


def covered(facts: Facts, code: Code) -> Covered:
    """Bytes by pointer and loop: the loads of one loop cover different elements (unrolling), another loop over the
    same pointer passes over them again."""
    loads = code.where(lambda ins, op: op.space == "global" and op.access in ("load", "async_copy"))
    sizes = {i: _fetched(facts, code, i) for i in code.ran(loads)}
    passes: Passes = {}
    whole: Passes = {}  # the same, of all blocks
    repeated = []
    times_each, windows = _repeats(facts, sizes)
    for i, times in times_each.items():
        name = facts.addresses.pointer(i) or f"unknown {i}"
        loops, every = passes.setdefault(name, {}), whole.setdefault(name, {})
        loop = _pass_of(facts, code, i, loops)
        loops[loop] = loops.get(loop, 0.0) + sizes[i] / times
        every[loop] = every.get(loop, 0.0) + sizes[i]
        if times > 1 or len(loops) > 1:
            repeated.append(i)
    own = _written_first(facts, code, loads)
    rounds = _rounds(passes)
    distinct = sum(sum(loops.values()) / rounds[p] for p, loops in passes.items() if rounds[p] and p not in own)
    over = {p for p, n in rounds.items() if n > 1}
    kept = sum(max(whole[p].values()) for p in over) / max(1, facts.counters.launch.blocks)
    again = [i for i in sizes if facts.addresses.pointer(i) in over]
    dealt = _all_dealt(facts, code, again)
    inside = [i for i in again if code.cfg.loop_of[i] is not None and any(facts.lanes.strides.steps(i))]
    rows = 1 if dealt or not _all_dealt(facts, code, inside, LANES) else facts.kernel.launch.warps
    return Covered(
        distinct, sum(sizes.values()), repeated, bool(over) or bool(own), windows, kept, dealt, rows
    )  # fmt: skip


def _fetched(facts: Facts, code: Code, load: int) -> float:
    """Bytes that a load fetches: of lanes that read the same word once, and once of the same in every round. A gather
    goes where its indices say, another place each round though its address is made of nothing else that changes."""
    asked = (code.threads[load] or LANES * code.executed[load]) * code.classes[load].bytes
    sectors, steps, loop = code.column(SECTORS), facts.lanes.strides.steps(load), code.cfg.loop_of[load]
    if sectors is not None:
        asked = min(asked, SECTOR * sectors[load])
    if loop is None or not steps or any(steps) or facts.addresses.gathers(load):
        return asked
    return asked / max(1.0, facts.patterns.trips(loop))


def _repeats(facts: Facts, sizes: Mapping[int, float]) -> tuple[dict[int, float], bool]:
    """How many times all blocks together load the same, by load: along the grid dimensions that its address ignores,
    or because their windows overlap; 1 where that is not known. And whether windows do."""
    used = {axis: n for axis, n in zip("xyz", facts.kernel.launch.grid, strict=True) if n > 1}
    axes = {i: facts.addresses.grid_dimensions(i) for i in sizes}
    direct = {i: size for i, size in sizes.items() if axes[i] is not None}
    windows = facts.lanes.strides.windows(direct, used) if used else {}
    out = dict[int, float]()
    for i, reached in axes.items():
        ignored = [n for axis, n in used.items() if reached is not None and axis not in reached]
        out[i] = windows.get(i) or math.prod(ignored)
    return out, bool(windows)


def _all_dealt(facts: Facts, code: Code, loads: list[int], threads: int = 0) -> bool:
    """In each round the loads go on by what all threads of the block (or so many) load side by side: they share the
    rounds."""
    return bool(loads) and all(_dealt(facts, code, i, threads or facts.kernel.launch.threads) for i in loads)


def _dealt(facts: Facts, code: Code, load: int, threads: int) -> bool:
    a_round, steps = threads * code.classes[load].bytes, facts.lanes.strides.steps(load)
    return bool(steps) and set(steps) <= {a_round * times for times in UNROLLED}


def left_by_l2(facts: Facts, code: Code) -> float | None:
    """Share of device memory's bytes that stay where blocks are as wide as they can be: so few are then at work at a
    time that L2 keeps what a block passes over again. None where there are no such passes, where the threads of a
    block do not share them, or where it is too much even so."""
    m, launch, occupancy = facts.kernel.metrics, facts.counters.launch, facts.counters.occupancy
    read, written = (m.get(f"dram__bytes_{what}.sum") or 0.0 for what in ("read", "write"))
    seen = covered(facts, code)
    if not seen.dealt or occupancy is None or not seen.distinct or read < WORTH * seen.distinct:
        return None
    at_work = min(launch.blocks, launch.sms * max(1, occupancy.maximum * LANES // THREADS))
    if at_work * seen.kept > SETTLED * (m.get("device__attribute_l2_cache_size") or 0.0):
        return None
    return (seen.distinct + written) / (read + written)


def widest_blocks(facts: Facts, factor: float, estimate: Estimate) -> tuple[list[Remedy], Estimate]:
    """That way for a launch that leaves room for `factor` times the warps, with what it brings; and the estimate of
    more blocks, whose upper end it may raise."""
    left = left_by_l2(facts, facts.code) if facts.code is not None else None
    if left is None:
        return [], estimate
    gain = facts.estimate.overlap(factor, {"dram_bytes": left})
    return [Remedy(step="the widest blocks", applies=True, why=FEW, estimate=gain)], up_to(estimate, gain)


def ways(facts: Facts, seen: Covered) -> list[Remedy]:
    """Ways to keep what is passed over again whose condition does not hold, and the one that then does. Registers may
    cost resident warps: a row that lies in them is loaded at once, and its loads cover each other (softmax_rows:
    128 words a thread, an eighth of the warps, and faster). Loads on their way through shared memory need the warps."""
    launch, geometry = facts.kernel.launch, facts.counters.launch
    if not seen.kept:
        return []
    words = _words(seen.kept, launch.threads)
    if _in_registers(facts, words, launch.threads):
        return []
    now = min(geometry.resident_warps, geometry.warps / geometry.sms)
    then = facts.profile.occupancy_with(launch.registers, launch.threads, launch.shared_static + int(seen.kept))
    size = f"{seen.kept / 1024:,.0f} KiB a block"
    over = f"{words:,} words a thread beside {launch.registers} registers are more than it can have"
    out = [Remedy(step="the data in registers between passes", applies=False, why=over)]
    if then is None or then.warps < now:
        left = f"leave {then.warps} of {figure(now)} warps an SM to wait" if then else "are more than an SM has"
        out.append(Remedy(step="the data in shared memory between passes", applies=False, why=f"{size} {left}"))
    if seen.rows > 1 and (alone := _row_by_row(facts, seen, now)):
        return [alone]
    wider = [launch.threads << n for n in range(1, 6) if launch.threads << n <= THREADS] if seen.dealt else []
    held = {n: _in_registers(facts, _words(seen.kept, n), n) for n in wider}
    best = max(wider, key=lambda n: held[n], default=0)
    if best and held[best] >= now:
        why = f"{_words(seen.kept, best)} words a thread, {held[best]} warps an SM"
        out.append(Remedy(step=f"blocks of {best} threads, each with its part in registers", applies=True, why=why))
    return out


def _row_by_row(facts: Facts, seen: Covered, now: float) -> Remedy | None:
    """Rows that warps pass over alone: a block for each, whose threads share it, keeps a row where it kept several."""
    launch, row = facts.kernel.launch, seen.kept / seen.rows
    for threads in (THREADS // 2, THREADS):
        then = facts.profile.occupancy_with(launch.registers, threads, launch.shared_static + int(row))
        if then is not None and then.warps >= HALF * now:
            step = f"a block of {threads} threads a row in place of a warp, the row in shared memory between passes"
            return Remedy(step=step, applies=True, why=f"{row / 1024:,.0f} KiB a block, {then.warps} warps an SM")
    return None


def _words(kept: float, threads: int) -> int:
    return math.ceil(kept / threads / 4)


def _in_registers(facts: Facts, words: int, threads: int) -> int:
    """Warps that an SM holds where each thread keeps so many words beside the registers of now; 0 where none fits."""
    registers = facts.kernel.launch.registers + words
    then = facts.profile.occupancy_with(registers, threads) if registers <= REGISTERS else None
    return then.warps if then is not None else 0


def _pass_of(facts: Facts, code: Code, load: int, loops: Mapping[int | None, float]) -> int | None:
    """The loop that a load belongs to. The remainder of an unrolled loop goes on where that one stopped: one
    pass."""
    own = code.cfg.loop_of[load]
    others = (other for other in loops if other is not None and other != own)
    return next((other for other in others if facts.addresses.continues(load, other)), own)


def _written_first(facts: Facts, code: Code, loads: list[int]) -> set[str]:
    """Arrays that the kernel stores to before it loads from them: their loads only fetch its own results back."""
    first: dict[str, int] = {}
    for i in code.ran(loads):
        based = facts.addresses.pointer(i)
        if based is not None:
            first[based] = min(i, first.get(based, i))
    stored = code.where(lambda ins, op: op.space == "global" and op.access == "store")
    return {p for i in code.ran(stored) if (p := facts.addresses.pointer(i)) is not None and i < first.get(p, -1)}
