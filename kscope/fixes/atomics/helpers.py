"""Functions that a change adds: what a block's threads have, combined, and one atomic for all of them. Each text that
is printed is played, with its atomic as a store of the block's own."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.model.lazily import np

ENDLESS = Rules(endless=True)  # one play for all types
BLOCKS, THREADS = 3, (32, 96, 256, 1024)  # that are played
MOST, SIZE = 100, 60  # of a thread's number that is drawn, and its bits where bits are combined
FLAT = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
_NONE = {
    ("atomicMax", "int"): "-2147483647 - 1", ("atomicMax", "unsigned"): "0",
    ("atomicMax", "unsigned long long"): "0", ("atomicMax", "long long"): "-9223372036854775807ll - 1",
    ("atomicMin", "int"): "2147483647", ("atomicMin", "unsigned"): "0xffffffffu",
    ("atomicMin", "unsigned long long"): "0xffffffffffffffffull", ("atomicMin", "long long"): "9223372036854775807ll",
    ("atomicAnd", "int"): "-1", ("atomicAnd", "unsigned"): "0xffffffffu",
    ("atomicAnd", "unsigned long long"): "0xffffffffffffffffull",
}  # fmt: skip
"""What changes nothing, where that is not zero."""


class Operation(Struct, frozen=True):
    """`name`: of the helper; `step`: how a value `b` goes into `a`; `made`: the same of whole numbers; `far`: a number
    that changes nothing, in a play whose numbers have no end."""

    name: str
    step: str
    made: Callable[[int, int], int]
    far: int = 0


OPERATIONS = {
    "atomicAdd": Operation("block_sum", "{a} += {b}", lambda a, b: a + b),
    "atomicMax": Operation("block_max", "{a} = {b} > {a} ? {b} : {a}", max, -1),
    "atomicMin": Operation("block_min", "{a} = {b} < {a} ? {b} : {a}", min, 1 << 20),
    "atomicAnd": Operation("block_and", "{a} &= {b}", lambda a, b: a & b, -1),
    "atomicOr": Operation("block_or", "{a} |= {b}", lambda a, b: a | b),
    "atomicXor": Operation("block_xor", "{a} ^= {b}", lambda a, b: a ^ b),
}


def neutral(function: str, kind: str) -> str:
    return _NONE.get((function, kind), "0")


def combining(function: str, kind: str, *, flat: bool, again: bool) -> str:
    """A function by which a block's threads combine a value each, and their first thread does the atomic. flat: blocks
    have one dimension; again: the kernel calls it more than once."""
    one, size = OPERATIONS[function], "blockDim.x" if flat else "blockDim.x * blockDim.y * blockDim.z"
    step = one.step.format(a="mine", b="other")
    turn = f"for (int d = 16; d; d /= 2) {{ {kind} other = __shfl_xor_sync(~0u, mine, d); {step}; }}"
    meet = "  __syncthreads();\n" if again else ""
    return (
        f"__device__ __forceinline__ void {one.name}({kind}* at, {kind} mine) {{\n"
        f"  __shared__ {kind} of_warp[32];\n"
        f"  const unsigned thread = {'threadIdx.x' if flat else FLAT}, warps = {size if flat else f'({size})'} / 32;\n"
        f"  const {kind} none = {neutral(function, kind)};\n{meet}"
        f"#pragma unroll\n  {turn}\n"
        "  if (thread % 32 == 0) of_warp[thread / 32] = mine;\n"
        "  __syncthreads();\n"
        "  if (thread < 32) {\n"
        "    mine = thread < warps ? of_warp[thread] : none;\n"
        f"#pragma unroll\n    {turn}\n"
        f"    if (thread == 0 && mine != none) {function}(at, mine);\n"
        "  }\n}"
    )


def placing(kind: str, *, flat: bool, idle: bool) -> str:
    """A function that gives each of a block's threads the first of as many places as it asks for, of a counter that the
    block asks once. idle: a block none of whose threads asks for any leaves the counter alone."""
    size = "blockDim.x" if flat else "(blockDim.x * blockDim.y * blockDim.z)"
    sum_, all_ = (
        f"for (int d = 1; d < 32; d *= 2) {{ {kind} up = __shfl_up_sync(~0u, {s}, d); if (lane >= d) {s} += up; }}"
        for s in ("sum", "all")
    )
    asked = "all ? atomicAdd(at, all) : 0" if idle else "atomicAdd(at, all)"
    return (
        f"__device__ __forceinline__ {kind} block_places({kind}* at, {kind} mine) {{\n"
        f"  __shared__ {kind} of_warp[33];\n"
        f"  const unsigned thread = {'threadIdx.x' if flat else FLAT}, warps = {size} / 32;\n"
        "  const unsigned lane = thread % 32, warp = thread / 32;\n"
        f"  {kind} sum = mine;\n"
        "#pragma unroll\n"
        f"  {sum_}\n"
        "  if (lane == 31) of_warp[warp] = sum;\n"
        "  __syncthreads();\n"
        "  if (warp == 0) {\n"
        f"    const {kind} own = lane < warps ? of_warp[lane] : 0;\n"
        f"    {kind} all = own;\n"
        "#pragma unroll\n"
        f"    {all_}\n"
        f"    if (lane == 31) of_warp[32] = {asked};\n"
        "    if (lane < warps) of_warp[lane] = all - own;\n"
        "  }\n"
        "  __syncthreads();\n"
        "  return of_warp[32] + of_warp[warp] + sum - mine;\n}"
    )


@cache
def combined(function: str, text: str) -> int:
    """How many values were combined, if blocks of all sizes gave what their threads had; 0 otherwise."""
    one, count, generator = OPERATIONS[function], 0, random.Random(function)
    body = re.sub(r"none = [^;]*;", f"none = {one.far};", _body(text))
    body = body.replace(f"{function}(at, mine);", "out[blockIdx.x] = mine;")
    for threads in THREADS:
        drawn = _drawn(generator, function, BLOCKS * threads)
        memory = {"given": np.array(drawn), "out": np.full(BLOCKS, one.far)}
        if not _plays(body, threads, memory):
            return 0
        for b in range(BLOCKS):
            wanted = one.far
            for value in drawn[b * threads : (b + 1) * threads]:
                wanted = one.made(wanted, value)
            if memory["out"][b] != wanted:
                return 0
        count += len(drawn)
    return count


def _drawn(generator: random.Random, function: str, count: int) -> list[int]:
    """Numbers of threads. Of bits each is one thread's alone: what all have shows nothing of who was left out."""
    if function not in ("atomicAnd", "atomicOr"):
        return [generator.randrange(MOST) for _ in range(count)]
    out = [0] * count
    for bit in range(SIZE):
        out[generator.randrange(count)] |= 1 << bit
    return [~value for value in out] if function == "atomicAnd" else out


@cache
def placed(text: str) -> int:
    """How many threads were played, if their places lay side by side, one block's behind another's in any order; 0
    otherwise."""
    count, generator = 0, random.Random(len(text))
    asked = re.search(r"of_warp\[32\] = [^;]*;", text)
    if asked is None:
        return 0
    body = _body(text).replace(asked[0], "{ of_block[blockIdx.x] = all; of_warp[32] = starts[blockIdx.x]; }")
    body = re.sub(r"return ([^;]*);", r"out[blockIdx.x * size + thread] = \1;", body)
    for threads in THREADS:
        drawn = [generator.randrange(4) for _ in range(BLOCKS * threads)]
        memory = {
            "given": np.array(drawn), "out": np.zeros(len(drawn), dtype=np.int64),
            "of_block": np.zeros(BLOCKS, dtype=np.int64), "starts": np.zeros(BLOCKS, dtype=np.int64),
        }  # fmt: skip
        if not _plays(body, threads, memory):
            return 0
        at = 0
        for b in generator.sample(range(BLOCKS), BLOCKS):  # whose atomic comes first
            memory["starts"][b], at = at, at + int(memory["of_block"][b])
        if at != sum(drawn) or not _plays(body, threads, memory):
            return 0
        taken = sorted(n for first, n_of in zip(memory["out"], drawn, strict=True) for n in range(first, first + n_of))
        if taken != list(range(at)):
            return 0
        count += len(drawn)
    return count


def _body(text: str) -> str:
    """A helper's body, whose value is what a thread was given."""
    return "{ int mine = given[blockIdx.x * size + PLACE];" + text[text.index("{") :] + "}"


def _plays(body: str, threads: int, memory: dict[str, np.ndarray]) -> bool:
    sides = (32, threads // 32) if "threadIdx.y" in body else (threads, 1)
    place = "threadIdx.x + 32 * threadIdx.y" if sides[1] > 1 else "threadIdx.x"
    try:
        play(body.replace("PLACE", f"({place})"), (BLOCKS, 1), sides, memory, {"size": threads}, ENDLESS)
    except Unplayable:
        return False
    return True
