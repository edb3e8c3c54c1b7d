"""Large blocks of threads that do not meet, and whose work is of different lengths: smaller ones, so that what is done
makes room sooner."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import structs

from kscope.fixes.atomics.regions import clear
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import asked_here, hidden, index_of, kernel_text, outside, plain
from kscope.fixes.work.launch import any_shape, by_number
from kscope.model.contract.fixes import Condition, Fix, Proof

LARGE = 512  # threads of a block, below which smaller ones are not tried (judged)
_LOOP = re.compile(r"\b(?:CUDA|GPU|HIP)_(?:1D_)?KERNEL_LOOP(?:_TYPE)?\s*\(")
"""Macros of this name are a loop over the grid by all its threads."""

FEWEST = 64  # threads of a block where many SMs have none
BUSIEST = 0.75  # of the threads that the busiest SM has, that are left at most (71 blocks in halves on 132 SMs: 0.97x)
LEAST, MOST = 128, 1 << 16  # threads of the new ones; blocks along y and z (CUDA C++ Programming Guide)


def fixes(asked: Asked) -> list[Fix]:
    """For work of different lengths: what others gain by the room nobody has counted."""
    n = _axis(asked, LARGE)
    if n is None:
        return []
    times, warps = _times(asked, n)
    return _smaller(asked, n, times, warps, "room for others as soon as they are done")


def fuller(asked: Asked) -> list[Fix]:
    """For an SM that holds few warps: blocks that fit into what is left of its registers."""
    n = _axis(asked, LARGE)
    if n is None:
        return []
    times, warps = _times(asked, n)
    if warps[1] <= warps[0]:
        return []
    # No price: measured 1.03x with half as many warps more.
    return _smaller(asked, n, times, warps, f"{warps[1]} warps an SM instead of {warps[0]}")


def spread(asked: Asked) -> list[Fix]:
    """For SMs that get no block: as many more blocks as give each one, of two warps at least. Not where the busiest SM
    then has about as much to do as before, in more blocks."""
    launch, n = asked.setting.launch, _axis(asked, 2 * FEWEST)
    if n is None or launch is None or launch.blocks >= asked.setting.sms:
        return []
    times = 1
    while launch.blocks * times < asked.setting.sms and launch.block[n] % (2 * times) == 0:
        if launch.threads // (2 * times) < FEWEST:
            break
        times *= 2
    if -(-launch.blocks * times // asked.setting.sms) > BUSIEST * times:
        return []
    busy = [min(k, asked.setting.sms) for k in (launch.blocks, launch.blocks * times)]
    made = _smaller(asked, n, times, (0, 0), f"{busy[1]} SMs have some instead of {busy[0]}")
    proof = Proof(what="SMs that have a block", before=busy[0], after=busy[1], unit="SMs", how="blocks go round them")
    return [structs.replace(x, proof=[proof]) for x in made]


def _axis(asked: Asked, least: int) -> int | None:
    """Along which axis blocks can be cut: the longest of theirs, where the kernel lets it."""
    setting, launch, text = asked.setting, asked.setting.launch, kernel_text(asked.setting)
    if text is None or launch is None or launch.threads < least or setting.shared:
        return None
    n = max(range(3), key=lambda k: launch.block[k])
    if not asked_here(setting.code, text, "TID") or elsewhere(text.code, setting.lines(text.file)):
        return None  # CTAID, too
    return n if any_shape(asked, [n]) and counted(clear(text.code), "xyz"[n]) else None


def elsewhere(code: str, lines: Sequence[str]) -> bool:
    """Whether a macro asks for a place, other than those that are a loop over the grid."""
    return hidden(_LOOP.sub("(", code), lines)


def _smaller(asked: Asked, n: int, times: int, warps: tuple[int, int], why: str) -> list[Fix]:
    setting, launch, axis = asked.setting, asked.setting.launch, "xyz"[n]
    if launch is None or times < 2 or launch.threads // times % 32 or (n and launch.grid[n] * times >= MOST):
        return []
    block = [side // times if k == n else side for k, side in enumerate(launch.block)]
    grid = [side * times if k == n else side for k, side in enumerate(launch.grid)]
    was, will = (" x ".join(map(str, side)).removesuffix(" x 1").removesuffix(" x 1") for side in (launch.block, block))
    return [
        Fix(
            kind="block_size",
            title=f"blocks of {will} threads instead of {was}: {why}",
            language="cuda",
            code=f"dim3 block({', '.join(map(str, block))}), grid({', '.join(map(str, grid))});",
            parameters={f"block.{axis}": block[n], f"grid.{axis}": grid[n]},
            conditions=[
                by_number(setting.code),
                proved("the same threads run", "launch", (*block, *grid), f"{times} blocks for each of now"),
                reads("each thread's number is the same", f"of blockIdx.{axis} times the block's size"),
                Condition(holds="other launches of it have as many threads as they need", state="check"),
            ],
            proof=[
                Proof(what="threads that wait for the longest of them, before others have their place",
                      before=launch.threads, after=launch.threads // times, unit="threads",
                      how="a block's place is free when all of it is done"),
                *([Proof(what="warps that an SM holds", before=warps[0], after=warps[1], unit="warps",
                         how="registers, shared memory and slots of the SM (arch/sm.toml)")]
                  if warps[1] > warps[0] else []),
            ],
            costs=[f"{times} times the blocks to start"],
            price=None,
        )
    ]  # fmt: skip


def _times(asked: Asked, axis: int) -> tuple[int, tuple[int, int]]:
    """How many blocks become of one: of whole warps, with no fewer of them on an SM; these before, and after."""
    setting, launch = asked.setting, asked.setting.launch
    was = setting.occupancy()
    if launch is None or was is None:
        return 1, (0, 0)
    best, times, warps = 1, 2, was.warps
    while launch.block[axis] % times == 0 and launch.threads // times >= LEAST and launch.threads // times % 32 == 0:
        will = setting.occupancy(threads=launch.threads // times)
        if will is not None and will.warps >= warps:
            best, warps = times, will.warps
        times *= 2
    return best, (was.warps, warps)


def counted(code: str, axis: str) -> bool:
    """Whether a kernel asks for its block's place along one axis of the grid only as the place times the block's size
    plus the thread's: so many blocks more, each smaller, have the same threads."""
    body = code[code.find("{") :]
    if axis == "x" and _LOOP.search(body):
        return not re.search(r"\b(?:blockIdx|blockDim|threadIdx|gridDim|__shared__|__sync\w*|\w+_sync)\b", body)
    named = re.search(rf"=\s*(?:blockDim|threadIdx|blockIdx)\s*\.\s*{axis}\s*[;,]", body)
    if named is not None or re.search(rf"\b(?:__shared__|__sync\w*|\w+_sync)\b|\bgridDim\s*\.\s*{axis}", body):
        return False
    at = list(re.finditer(rf"\b\w+\s*=\s*([^;,=]*\bblockIdx\s*\.\s*{axis}\b[^;,]*)[;,]", body))
    if len(at) != 1 or len(re.findall(rf"\bblockIdx\s*\.\s*{axis}\b", body)) != 1:
        return False
    rest = outside(body, [at[0].span()])
    asks = re.search(rf"\b(?:blockDim|threadIdx)\s*\.\s*{axis}\b", rest)
    turned = re.sub(r"\.([xyz])\b", lambda m: ".x" if m[1] == axis else ".other", plain(at[0][1], ""))
    per = index_of(turned, "")
    return asks is None and per == "blockDim.x"
