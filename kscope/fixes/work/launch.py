"""What the launch asks for and the code does not use: dynamic shared memory behind the last byte that lanes touch,
lanes of warps that no thread fills."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kscope.features.counters.packing import longer_rows
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.setting import COUNTED, RESERVED, Asked, Setting
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import CAST, asked_here, hidden, kernel_text
from kscope.fixes.tile.tiles import accesses, reach
from kscope.fixes.work.numbered import numbered
from kscope.model.contract.fixes import Condition, Fix, Proof

if TYPE_CHECKING:
    from kscope.features.sass.listing import Listing
    from kscope.model.program import Instruction

WARP = 32
SIZE = 128  # threads of a block that is proposed where the finding names none: 4 warps, of which several fit on an SM
A_LINE = "threads of a row that is a line"  # the same of short rows
ENOUGH = "threads a block that are enough"  # the finding's (GRD404)
TOGETHER = ("SHFL", "VOTE", "MATCH", "REDUX")
_LANES = ("LANEID", "MASK", "WARPID")


def fixes(asked: Asked) -> list[Fix]:
    """Fewer bytes of dynamic shared memory."""
    setting = asked.setting
    launch = setting.launch
    if launch is None or not launch.shared_dynamic:
        return []
    code = setting.code
    end = reach(code, setting.block)
    if end is None or code.where(lambda ins, op: op.pipe == "tma" or "mbarrier" in op.kind):
        return []
    base = RESERVED if code.program.sm >= COUNTED else 0  # elsewhere addresses may not count it: rather too many
    needed = max(0, end - base - launch.shared_static)
    needed = -(-needed // 128) * 128
    was, will = setting.occupancy(), setting.occupancy(more_shared=needed - launch.shared_dynamic)
    if was is None or will is None or will.warps <= was.warps:
        return []
    return [
        Fix(
            kind="shared_bytes",
            title=f"{needed} bytes of dynamic shared memory instead of {launch.shared_dynamic}",
            language="cuda",
            code=f"{setting.name}<<<grid, block, {needed}>>>(...);  // grid and block as they are",
            parameters={"shared_dynamic": needed},
            conditions=[
                proved(
                    f"no lane touches shared memory behind byte {needed}", "lanes" if end else "code",
                    accesses(code) if end else code,
                    "the addresses of all accesses, for blocks of this shape and any numbers of the launch" if end
                    else "it has no access",
                ),
                Condition(holds="no other launch needs more", state="check"),
            ],
            proof=[
                Proof(
                    what="warps that an SM holds", before=was.warps, after=will.warps, unit="warps",
                    how="registers, shared memory and slots of the SM (arch/sm.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def blocks(asked: Asked) -> list[Fix]:
    """Whole warps: the same threads in blocks whose rows are warps."""
    setting = asked.setting
    launch = setting.launch
    if launch is None or launch.block[2] > 1 or launch.grid[2] > 1 or not launch.threads % WARP:
        return []
    axes = [n for n in (0, 1) if launch.block[n] > 1]
    named = (int(e.value) for e in asked.finding.evidence if e.metric == ENOUGH and isinstance(e.value, (int, float)))
    size = next((n for n in named if n and not n % WARP), SIZE)
    wide, tall = (WARP, size // WARP) if len(axes) == 2 else (size, 1)
    if not _free(asked, [n for n in (0, 1) if launch.block[n] != (wide, tall)[n]], wide * tall):
        return []
    across = [launch.grid[n] * launch.block[n] for n in (0, 1)]
    grid = [-(-across[0] // wide), -(-across[1] // tall)]
    before = launch.threads / (WARP * launch.warps)
    after = across[0] * across[1] / (grid[0] * grid[1] * wide * tall)
    if after <= before:
        return []
    return [
        Fix(
            kind="block_size",
            title=f"blocks of {wide} x {tall} threads instead of {launch.block[0]} x {launch.block[1]}",
            language="cuda",
            code=f"dim3 block({wide}, {tall}), grid({grid[0]}, {grid[1]});",
            parameters={"block.x": wide, "block.y": tall, "grid.x": grid[0], "grid.y": grid[1]},
            conditions=[
                by_number(setting.code),
                shown(
                    after == 1, "threads beyond the data return", "launch", grid, "there are none",
                    "the grid is rounded up",
                ),
            ],
            proof=[
                Proof(
                    what="lanes of each warp that hold a thread", before=round(WARP * before, 1),
                    after=round(WARP * after, 1), unit="lanes", how="threads over warps, before and after",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def rows(asked: Asked) -> list[Fix]:
    """The same threads in blocks whose rows are lines of memory."""
    launch, metrics = asked.setting.launch, {e.metric: e.value for e in asked.finding.evidence}
    long = metrics.get(A_LINE)
    if launch is None or not isinstance(long, (int, float)):
        return []
    block = longer_rows(launch.block, int(long) // launch.block[0])
    if not _free(asked, [n for n in range(3) if launch.block[n] != block[n]], math.prod(block)):
        return []
    data = [launch.grid[n] * launch.block[n] for n in range(3)]
    grid = [-(-data[n] // block[n]) for n in range(3)]
    was, will = (" x ".join(map(str, shape)) for shape in (launch.block, block))
    return [
        Fix(
            kind="block_size",
            title=f"blocks of {will} threads instead of {was}",
            language="cuda",
            code=f"dim3 block({', '.join(map(str, block))}), grid({', '.join(map(str, grid))});",
            parameters={f"{name}.{axis}": value for name, shape in (("block", block), ("grid", grid))
                        for axis, value in zip("xyz", shape, strict=True)},
            conditions=[
                by_number(asked.setting.code),
                shown(
                    all(data[n] % block[n] == 0 for n in range(3)), "threads beyond the data return", "launch", grid,
                    "there are none", "the grid is rounded up",
                ),
            ],
            proof=[
                Proof(
                    what="requests to L2 of a warp's access", before=WARP // launch.block[0], after=WARP // block[0],
                    unit="requests", how="rows of a block that a warp lies in, each a line or less",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _free(asked: Asked, axes: list[int], threads: int) -> bool:
    """Whether blocks may have so many threads, of another shape along these axes, as the code and its text say."""
    return any_shape(asked, axes) and _elements(asked.setting, axes, threads)


def _elements(setting: Setting, axes: list[int], threads: int) -> bool:
    """Whether a thread of the kernel's text takes the element of its number in the grid along these axes, asks for its
    place in no other way, and may be one of so many in a block. Yes of kernels whose text is not here."""
    text = kernel_text(setting)
    if text is None:
        return True
    bare = re.sub(r"\s+", "", CAST.sub("", text.code[text.code.find("{") :]))
    bare = re.sub(r"\((block(?:Idx|Dim)\.[xyz]\*block(?:Idx|Dim)\.[xyz])\)", r"\1", bare)
    for axis in ("xyz"[n] for n in axes):
        block = rf"(?:blockIdx\.{axis}\*blockDim\.{axis}|blockDim\.{axis}\*blockIdx\.{axis})"
        element = rf"(?:{block}\+threadIdx\.{axis}|threadIdx\.{axis}\+{block})"
        bare = re.sub(rf"(?<![-*/%\w.]){element}(?![*/%\w.])", "0", bare)
        bare = re.sub(rf"\+=(?:gridDim\.{axis}\*blockDim\.{axis}|blockDim\.{axis}\*gridDim\.{axis})(?=[;)])", "", bare)
    places = rf"(?:threadIdx|blockIdx|blockDim|gridDim)(?:\.[{''.join('xyz'[n] for n in axes)}]|(?!\.))\b"
    bounds = re.search(r"__launch_bounds__\s*\(([^(),]*)", text.code)
    most = evaluated(bounds[1], constants(setting.lines(text.file))) if bounds is not None else threads
    if re.search(rf"\b(?:{places}|__shared__|__shfl\w*|\w+_sync|\w+_block|asm|cg::)", bare) or (most or 0) < threads:
        return False
    return not hidden(text.code, setting.lines(text.file)) and all(
        asked_here(setting.code, text, place) for place in ("SR_TID", "CTAID"))  # fmt: skip


def any_shape(asked: Asked, axes: list[int]) -> bool:
    """Whether blocks may have another size along these axes, and as many threads in all: each is numbered through the
    grid, and neither a block nor a warp does anything together."""
    code = asked.setting.code
    if code.where(lambda ins, op: "barrier" in op.kind or ins.opcode in TOGETHER or _lane(ins)):
        return False
    return bool(axes) and all(numbered(code, n) for n in axes)


def by_number(code: Listing) -> Condition:
    """What `any_shape` has shown."""
    holds = "threads ask for their number in the grid alone, and blocks and warps do nothing together"
    return proved(holds, "code", code, "what is made of a block's and a thread's number, followed through the code")


def _lane(ins: Instruction) -> bool:
    return ins.opcode in ("S2R", "S2UR", "CS2R") and any(word in ins.text for word in _LANES)
