"""Blocks in pieces of whole warps, each a block of its own: of smaller ones an SM holds more threads, so that the last
ones fit beside the others. For threads that do not wait for each other: each does what it did, in the same warp."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.estimate.gains import expected_at_most
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, asked_here, kernel_text, shape, spans_edited
from kscope.fixes.tiling.hidden import hides_places
from kscope.isa.abi import abi
from kscope.model.contract.fixes import Condition, Fix, Proof

PIECES, WARP = (2, 4, 8, 16, 32), 32
SCHEDULERS = 4  # of an SM, which its warps are dealt to (CUDA C++ Programming Guide)
EVENER = 0.95  # of what the busiest scheduler has to do, that must be left at most (judged)
TRIED = ((1, 64), (3, 128), (5, 1024))  # blocks and their threads that are written out
THREAD, BLOCK = "thread_n", "block_n"
SHAPES = 24  # bytes of blockDim and gridDim, one behind the other
PLACE = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*x\b")
STRANGE = re.compile(
    r"\b(?:asm|volatile|atomicCAS|__nanosleep|cooperative_groups|__cluster_dims__|thread_n|block_n)\b|\bcg\s*::|"
    r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b(?!\s*\.\s*[xyz]\b)"
)


class Pieces(Struct, frozen=True):
    """Parts of a block, threads of each. waves: of whole blocks, before and after; busiest: warps of the scheduler with
    most of them."""

    count: int
    threads: int
    waves: tuple[int, int]
    busiest: tuple[int, int]


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, text = asked.setting, asked.setting.launch, kernel_text(asked.setting)
    price = asked.finding.estimate
    if text is None or launch is None or launch.block[1] * launch.block[2] > 1 or max(launch.cluster) > 1:
        return []
    if hides_places(setting.lines(text.file), text.code):
        return []
    one = pieces(setting)
    edits = spans_edited(setting, text, spans(text.code, one.count)) if one is not None else []
    if one is None or not edits or not apart(setting, text):
        return []
    grid, played = (launch.grid[0] * one.count, *launch.grid[1:]), _played(one.count)
    gone = f", and no dynamic shared memory instead of {launch.shared_dynamic}" if launch.shared_dynamic else ""
    return [
        Fix(
            kind="block_size",
            title=f"blocks of {one.threads} threads instead of {launch.threads}{gone}: "
                  "the last ones fit beside the others",
            language="cuda",
            code=f"{setting.name}<<<{shape(grid)}, {one.threads}>>>(...);",
            edits=edits,
            parameters={"grid.x": grid[0], "block.x": one.threads},
            conditions=[
                shown(played > 0, "each thread of each block is there once", "values", played,
                      "block / n and block % n * threads + thread written out for several launches"),
                proved("no thread waits for another block's part", "code", setting.code,
                       "no barrier and no access to shared memory; warps stay as they are"),
                proved(f"{one.count} pieces are whole warps", "launch", launch.block, f"{one.threads} threads each"),
                reads("nothing but the kernel's own lines asks for the thread's place", "each use of it is put in"),
                Condition(holds=f"every launch of {setting.name} has blocks of 1 / {one.count} of the threads, and "
                                f"{one.count} times as many", state="check"),
                *([Condition(holds="the bytes of shared memory are not there to hold blocks back", state="check",
                             why="no instruction touches them")] if launch.shared_dynamic else []),
            ],
            proof=[
                Proof(what="waves of blocks", before=one.waves[0], after=one.waves[1], unit="waves",
                      how="registers and slots of the SM (arch/sm.toml), the shared memory that the code touches"),
                Proof(what="warps that the busiest scheduler runs", before=one.busiest[0], after=one.busiest[1],
                      unit="warps", how=f"{launch.blocks * launch.warps} on {setting.sms} SMs of {SCHEDULERS}"),
            ],
            price=expected_at_most(price, one.busiest[0] / one.busiest[1]) if price is not None else None,
        )
    ]  # fmt: skip


def pieces(setting: Setting) -> Pieces | None:
    """The parts of blocks that take fewest waves, and of those that are most even over the SMs; None where no such take
    fewer than the blocks do."""
    launch, was = setting.launch, setting.occupancy()
    if launch is None or was is None or not was.blocks or not setting.sms:
        return None
    sms, blocks = setting.sms, launch.blocks
    before, most = -(-blocks // (was.blocks * sms)), _busiest(blocks, launch.threads, sms)
    found = []
    for count in PIECES:
        threads = launch.threads // count
        if launch.threads % (count * WARP):
            continue
        will = setting.occupancy(threads=threads, more_shared=-(setting.shared or 0))
        if will is None or not will.blocks:
            continue
        one = Pieces(count, threads, (before, -(-blocks * count // (will.blocks * sms))),
                     (most, _busiest(blocks * count, threads, sms)))  # fmt: skip
        if one.waves[1] < before and one.busiest[1] <= EVENER * most:
            found.append(one)
    return min(found, key=lambda p: (p.waves[1], p.busiest[1], p.count), default=None)


def _busiest(blocks: int, threads: int, sms: int) -> int:
    """Warps of the scheduler that most come to: of an SM with most blocks."""
    return -(-(-(-blocks // sms) * threads // WARP) // SCHEDULERS)


def apart(setting: Setting, text: Text) -> bool:
    """Whether threads meet at most within their warps, and the kernel's own lines alone ask where they are."""
    code, base = setting.code, abi(setting.code.program.sm).block_shape
    meets = code.where(lambda ins, op: op.space == "shared" or bool(op.kind & {"barrier", "mbarrier"}))
    last = text.first + text.code.count("\n")
    for ins in code.program.instructions:
        shapes = any(o.kind == "constant" and o.bank == 0 and not o.bases and base <= (o.value or 0) < base + SHAPES
                     for o in ins.operands)  # fmt: skip
        if shapes and not (ins.file == text.file and text.first <= (ins.line or 0) <= last):
            return False
    return not meets and all(asked_here(code, text, place) for place in ("TID", "CTAID"))


def spans(code: str, count: int) -> list[Span]:
    """The places of threads and blocks as they were before; none where they are asked for in another way."""
    opened = code.find("{")
    if opened < 0 or STRANGE.search(code) or not PLACE.search(code, opened) or PLACE.search(code[:opened]):
        return []
    become = {"threadIdx": THREAD, "blockIdx": BLOCK, "blockDim": f"(blockDim.x * {count})",
              "gridDim": f"(gridDim.x / {count})"}  # fmt: skip
    first = (
        f"\n  const unsigned {BLOCK} = blockIdx.x / {count}, "
        f"{THREAD} = blockIdx.x % {count} * blockDim.x + threadIdx.x;"
    ) + ("" if code[opened + 1 : opened + 2] == "\n" else "\n ")
    return [(opened + 1, opened + 1, first)] + [(*m.span(), become[m[1]]) for m in PLACE.finditer(code, opened)]


def _played(count: int) -> int:
    """How many threads were written out, if the pieces have each of them once, in the warps that they were in."""
    played = 0
    for blocks, threads in TRIED:
        small = max(1, threads // count)
        was = [(b, t) for b in range(blocks) for t in range(small * count)]
        now = [(b // count, b % count * small + t) for b in range(blocks * count) for t in range(small)]
        if was != now:
            return 0
        played += len(was)
    return played
