"""The launch of a kernel whose threads take several elements at once, and whether each element is done once then."""

from __future__ import annotations

import re
from itertools import chain, product

from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import plain
from kscope.fixes.thread.elements import Elements

LEAST_BLOCK = 32  # threads that a block is made no smaller than: a warp
_BUILTIN = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*([xyz])\b")


def launched(
    one: Elements, code: str, grid: tuple[int, ...], block: tuple[int, ...], count: int
) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:  # fmt: skip
    """(grid, block, indices that were written out) with so many elements a thread: fewer blocks along x, or fewer
    threads where there is one; None where the index is not seen to go over all elements then."""
    start = plain(one.start, code[code.find("{") : one.declared[0]])
    if one.shape == "loop":
        step = plain(one.step, code[code.find("{") : one.declared[0]])
        return (grid, block, _rounds(count)) if dense(start, step) else None
    of_blocks = re.search(r"\bblockIdx\s*\.\s*x\b", start) is not None and grid[0] >= count
    if not of_blocks and block[0] < LEAST_BLOCK * count:
        return None
    if elsewhere(one, code, ("blockIdx.x", "gridDim.x") if of_blocks else ("blockDim.x",)):
        return None
    tried = covered(start, count, of_blocks=of_blocks)
    if not tried:
        return None
    if of_blocks:
        return (-(-grid[0] // count), *grid[1:]), block, tried
    return grid, (-(-block[0] // count // LEAST_BLOCK) * LEAST_BLOCK, *block[1:]), tried


def elsewhere(one: Elements, code: str, words: tuple[str, ...]) -> bool:
    """Whether what is another number with the new launch serves for more than the element's."""
    text = code[code.find("{") : one.declared[0]] + code[one.declared[1] :]
    if code.startswith("while", one.declared[0]):  # whose counter is declared and grows apart from its head
        text = re.sub(rf"\b{one.name}\s*\+?=(?!=)[^;]*;", "", text)
    for made in re.finditer(r"\b(?:[A-Za-z_]\w*\s+)+([A-Za-z_]\w*)\s*=(?!=)[^;,]*;", text):
        if one.shape == "loop" and one.start == made[1]:  # one thread asks so, whatever the launch
            text = re.sub(rf"(?<![\w.>&|]){made[1]}\s*==\s*0\b", "0", text)
        once = len(re.findall(rf"(?<![\w.])(?<!->){made[1]}\b", text)) == 1
        if once and re.search(rf"\b{made[1]}\b", f"{one.start} {one.step}"):
            text = text.replace(made[0], "")
    return any(word in re.sub(r"\s*\.\s*", ".", text) for word in words)


def dense(start: str, step: str) -> bool:
    """Whether the threads that share a loop begin with the elements from 0 on, as many as a round takes: of the block,
    of the grid or of a warp."""
    for sides in ((3, 64), (5, 96)):
        first, by = _indices(start, sides, 1), _indices(step, sides, 1)
        if first is None or by is None or len(set(by[0])) != 1:
            return False
        together, found = by[0][0], sorted(first[0])
        if together < 1 or found != sorted([*range(together)] * (len(found) // together)):
            return False
    return True


def covered(start: str, count: int, *, of_blocks: bool) -> int:
    """How many elements were written out, if each that a thread of the old launch has is one of the new launch's,
    once; 0 otherwise."""
    tried = 0
    flat = re.search(r"\b(?:blockIdx|threadIdx)\s*\.\s*[yz]\b", start) is not None
    own = not re.search(r"\bblockIdx\s*\.\s*x\b", start)  # a row a block
    for blocks, threads, rest in ((8, 32, 1), (9, 32, 2), (8 * count, 96, 3)):
        if own:
            blocks, threads = 1, threads * count
        new = (-(-blocks // count), threads) if of_blocks else (blocks, threads // count)
        before = _indices(start, (blocks, threads), rest)
        after = _indices(start, new, rest)
        if before is None or after is None:
            return 0
        for old, now in [([*chain(*before)], [*chain(*after)])] if flat else zip(before, after, strict=True):
            done = [n * count + k for n in now for k in range(count)]
            if len(set(done)) != len(done) or not set(old) <= set(done) or len(set(old)) != len(old):
                return 0
            tried += len(done)
    return tried


def _indices(start: str, sides: tuple[int, int], rest: int) -> list[list[int]] | None:
    """Values of an index for all blocks and threads along x, for each place along y."""
    out = []
    for y in range(rest):
        row: list[int] = []
        for block, thread in product(range(sides[0]), range(sides[1])):
            known = {"blockIdx_x": block, "threadIdx_x": thread, "gridDim_x": sides[0], "blockDim_x": sides[1],
                     "blockIdx_y": y, "gridDim_y": rest, "blockDim_y": 1, "threadIdx_y": 0, "blockIdx_z": 0,
                     "gridDim_z": 1, "blockDim_z": 1, "threadIdx_z": 0}  # fmt: skip
            value = evaluated(_BUILTIN.sub(r"\1_\2", start), known)
            if value is None:
                return None
            row.append(value)
        out.append(row)
    return out


def _rounds(count: int) -> int:
    """How many elements were written out, if whole accesses up to the last multiple and the rest one by one do each of
    them once; 0 otherwise."""
    tried = 0
    for bound, threads in product(range(4 * count + 3), (1, 2, 5)):
        whole = bound // count * count
        done = [i + k for t in range(threads) for i in range(t * count, whole, threads * count) for k in range(count)]
        done += [i for t in range(threads) for i in range(whole + t, bound, threads)]
        if sorted(done) != list(range(bound)):
            return 0
        tried += len(done)
    return tried
