"""Bank conflicts of shared-memory accesses, from the code alone: the addresses of all lanes are computed under several
assumptions about launch values, and the access is played through the banks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES, Value
from kscope.features.lanes.values import Lanes, block_shapes
from kscope.features.sass.listing import Listing, once_per_code

BANKS = 32
WORD = 4  # bytes of a bank's row
ROW = 16  # bytes of a row of a matrix of ldmatrix and stmatrix
MATRIX = 8  # rows of it
SEEDS = (1, 2, 3, 4)
_ALL = (1,) * LANES


class Conflict(Struct, frozen=True):
    """Wavefronts of one shared-memory instruction a warp and execution, the fewest that its width allows, and the
    block shape that they hold for."""

    index: int
    wavefronts: int
    ideal: int
    block: tuple[int, int, int]

    @property
    def ways(self) -> float:
        return self.wavefronts / self.ideal


def wavefronts(addresses: Sequence[int], width: int, active: Sequence[int]) -> tuple[int, int]:
    """(wavefronts, the fewest possible) of one access of `width` bytes a lane.

    Lanes are served 32 at a time for up to 4 bytes, 16 for 8, 8 for 16; within a group each bank delivers one 4-byte
    word a wavefront to all lanes that want it (CUDA C++ Programming Guide, Shared Memory). Two neighbouring groups
    that want no more than one word of each bank together go as one. Source of the groups: our captures, where
    `memory_l1_wavefronts_shared` equals this count.
    """
    group = LANES // max(1, width // WORD)
    needed = least = 0
    for start in range(0, LANES, 2 * group):
        parts = []
        for first in range(start, min(LANES, start + 2 * group), group):
            lanes = [lane for lane in range(first, first + group) if active[lane]]
            if lanes:
                parts.append(_words(addresses, width, lanes))
        together = len(parts) == 2 and _rounds(parts[0] | parts[1]) == 1
        needed += 1 if together else sum(map(_rounds, parts))
        least += 1 if together else len(parts)
    return needed, least


_wavefronts = lru_cache(maxsize=256)(wavefronts)  # few patterns stand behind all the accesses of a function


def _words(addresses: Sequence[int], width: int, lanes: Sequence[int]) -> set[int]:
    return {w for lane in lanes for w in range(addresses[lane] // WORD, (addresses[lane] + width + WORD - 1) // WORD)}


def _rounds(words: set[int]) -> int:
    """Wavefronts that deliver these words: the most that fall into one bank."""
    banks = [0] * BANKS
    for word in words:
        banks[word % BANKS] += 1
    return max(banks)


def matrix_wavefronts(addresses: Sequence[int], active: Sequence[int]) -> tuple[int, int]:
    """The same for LDSM and STSM, whose lanes address rows of matrices: 8 lanes name the rows of 16 bytes of one
    matrix, which goes in one wavefront if they lie in different banks. Source: our captures, as above."""
    needed = least = 0
    for first in range(0, LANES, MATRIX):
        lanes = [lane for lane in range(first, first + MATRIX) if active[lane]]
        if lanes:
            needed, least = needed + _rounds(_words(addresses, ROW, lanes)), least + 1
    return needed, least


def shared_accesses(code: Listing) -> list[int]:
    """Loads and stores of shared memory by lane addresses; LDSM and STSM address rows of matrices."""
    found = code.where(lambda ins, op: "shared_lanes" in op.kind or ins.opcode in ("LDSM", "STSM"))
    return [i for i in found if code[i].guard is not None or not code[i].guard_negated]  # @!PT: never executed


def conflicts(code: Listing, block: Sequence[int] | None = None) -> dict[int, Conflict]:
    """The conflict degree of every shared access for which it follows from the code, whatever the launch values: by
    instruction index; conflict-free ones too. `block`: the block shape if known."""
    return _conflicts(code, tuple(block) if block is not None else None)


@once_per_code  # the annotations ask for the same code as the lint
def _conflicts(code: Listing, block: tuple[int, ...] | None) -> dict[int, Conflict]:
    found: dict[int, Conflict] = {}
    accesses = shared_accesses(code)
    if not accesses:
        return found
    for shape in block_shapes(code, block):
        worlds = [Lanes(code, Assumption(seed, shape)) for seed in SEEDS]
        for i in accesses:
            result = _agreed(code, worlds, i)
            if result is None:
                found.pop(i, None)
                continue
            before = found.get(i)
            # With several shapes possible the mildest counts: the others might never be launched.
            if before is None or result[0] < before.wavefronts:
                found[i] = Conflict(i, result[0], result[1], shape)
    return found


def _agreed(code: Listing, worlds: Sequence[Lanes], index: int) -> tuple[int, int] | None:
    """What an access costs under all assumptions; None where they disagree or one leaves it unknown."""
    first = _play(code, worlds[0], index)
    return first if first is not None and all(_play(code, w, index) == first for w in worlds[1:]) else None


def _play(code: Listing, lanes: Lanes, index: int) -> tuple[int, int] | None:
    address, guard = lanes.address(index), lanes.guard(index)
    if address is None:
        return None
    width = ROW if code[index].opcode in ("LDSM", "STSM") else code.classes[index].bytes
    if guard is not None and not any(_column(guard)):
        return None  # nobody takes part under this assumption
    where = _column(address)
    if width > WORD and (odd := where[0] % width):  # an invented base that is not aligned as the real one must be
        where = [a - odd for a in where]
    first = where[0] // WORD * WORD  # other banks for all lanes alike: conflicts stay what they are
    active = tuple(_column(guard)) if guard is not None else _ALL
    if code[index].opcode in ("LDSM", "STSM"):
        used = [int(on and lane < MATRIX * (code.classes[index].bytes // WORD)) for lane, on in enumerate(active)]
        return matrix_wavefronts([a - first for a in where], used)
    return _wavefronts(tuple([a - first for a in where]), width, active)


def _column(value: Value) -> list[int]:
    return list(value) if isinstance(value, tuple) else [value or 0] * LANES
