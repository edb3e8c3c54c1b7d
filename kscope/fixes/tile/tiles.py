"""The arrays in shared memory that code accesses, as the lanes show them: which bytes, by which instructions, how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.bank_conflicts import MATRIX, ROW, WORD
from kscope.features.lanes.semantics import LANES, Value
from kscope.features.lanes.values import Lanes
from kscope.features.sass.listing import Listing
from kscope.fixes.tile.layouts import Pattern

SEEDS = (1, 2, 3, 4)
FURTHER = (5, 6, 7, 8, 9, 10, 11, 12)
WARPS = 8  # of a block that are run; more of them repeat what these do
LARGEST = 228 * 1024  # bytes of shared memory of an SM: no address lies beyond (CUDA C++ Programming Guide)
ALL = (1,) * LANES


class Tile(Struct, frozen=True):
    """One array. `start`, `end`: bytes of shared memory that were seen touched; `patterns` with offsets from `start`,
    by instruction."""

    start: int
    end: int
    patterns: Mapping[int, tuple[Pattern, ...]]

    @property
    def every(self) -> list[Pattern]:
        """Distinct patterns, weights of equal ones added."""
        found: dict[tuple[tuple[int, ...], int, tuple[int, ...], bool, bool], float] = {}
        for group in self.patterns.values():
            for p in group:
                key = (p.offsets, p.width, p.active, p.rows, p.copied)
                found[key] = found.get(key, 0.0) + p.weight
        return [Pattern(*key[:4], weight, key[4]) for key, weight in found.items()]

    @property
    def element(self) -> int:
        """Bytes of the narrowest access: no element is larger."""
        return min(p.width for group in self.patterns.values() for p in group)

    @property
    def widest(self) -> int:
        return max(p.width for group in self.patterns.values() for p in group)


class Tiles(Struct, frozen=True):
    """Arrays of a function; accesses that no address could be found for (the reason why there is no proof); and those
    that lie behind the block's shared memory under all values tried (remainders of loops that no launch gets to)."""

    tiles: tuple[Tile, ...]
    unknown: tuple[int, ...]
    beyond: tuple[int, ...] = ()


def accesses(code: Listing) -> list[int]:
    """Everything that a lane's address in shared memory decides: loads, stores, atomics, matrix rows, cp.async."""
    ran = getattr(code, "threads", code.executed)  # a profile knows which ones no lane took part in
    return [i for i in _every(code) if ran[i] > 0]


def idle(code: Listing) -> list[int]:
    """Accesses that another launch may get to."""
    ran = getattr(code, "threads", code.executed)
    return [i for i in _every(code) if ran[i] <= 0]


def _every(code: Listing) -> list[int]:
    found = code.where(lambda ins, op: (op.space == "shared" and op.pipe != "tma") or ins.opcode == "LDGSTS")
    return [i for i in found if code[i].guard is not None or not code[i].guard_negated]


def tiles(code: Listing, block: tuple[int, int, int], end: int = LARGEST) -> Tiles:
    """Arrays by which bytes the accesses share, all warps (up to WARPS of a block) under all assumptions. end: bytes of
    shared memory that a block has; what lies behind belongs to rounds of a loop that no launch makes."""
    members = accesses(code)
    worlds = _worlds(code, block)
    seen: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    unknown: list[int] = []
    beyond: list[int] = []
    for i in members:
        rows = [_row(code, world, i) for world in worlds]
        some = [row for row in rows if row is not None and any(row[1])]
        known = _in_reach(some, end)
        if some and not known:  # all in rounds that no launch makes: others may be the real ones
            more = (_row(code, world, i) for world in _worlds(code, block, FURTHER))
            known = _in_reach([row for row in more if row is not None and any(row[1])], end)
        if any(row is None for row in rows):
            unknown.append(i)
        elif known:
            seen[i] = known
        elif some:
            beyond.append(i)
    return Tiles(tuple(_grouped(code, seen)), tuple(unknown), tuple(beyond))


def reach(code: Listing, block: tuple[int, int, int]) -> int | None:
    """The byte behind the last one of shared memory that lanes' accesses name, whatever their guards say; 0 where there
    is no access. None where an address is not known, or is another one under other numbers of the launch, which nobody
    knows (rounds of a loop, a pitch that is passed): lanes under invented ones do not show how far it goes. (A public
    kernel whose warps keep 16,640 results each takes all of its 133,120 bytes.)"""
    last = 0
    for i in accesses(code):
        size, _ = width(code, i)
        of_warps: dict[int, set[tuple[int, ...] | None]] = {}
        for number, world in enumerate(_worlds(code, block)):
            row = _row(code, world, i)
            of_warps.setdefault(number // len(SEEDS), set()).add(row[0] if row is not None else None)
        found = [rows.pop() for rows in of_warps.values() if len(rows) == 1]
        if len(found) < len(of_warps) or None in found:
            return None
        last = max(last, size + max(max(row) for row in found if row is not None))
    return last


def _in_reach(
    rows: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], end: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [row for row in rows if max(a for a, on in zip(*row, strict=True) if on) < end]


def _worlds(code: Listing, block: tuple[int, int, int], seeds: Sequence[int] = SEEDS) -> list[Lanes]:
    warps = max(1, -(-block[0] * block[1] * block[2] // LANES))
    step = max(1, warps // WARPS)
    chosen = sorted({*range(0, warps, step), warps - 1})
    out = []
    for warp in chosen:
        for seed in seeds:
            assumption = Assumption(seed, block)
            assumption.warp = warp
            out.append(Lanes(code, assumption))
    return out


def _row(code: Listing, lanes: Lanes, index: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    copies = code[index].opcode == "LDGSTS"
    address = lanes.shared_address(index) if copies else lanes.address(index)
    if address is None:
        return None
    guard = lanes.guard(index)
    active = ALL if guard is None else _column(guard)
    if code[index].opcode in ("LDSM", "STSM"):  # x1 and x2 read the addresses of the first lanes alone
        named = MATRIX * (code.classes[index].bytes // WORD)
        active = tuple(int(on and lane < named) for lane, on in enumerate(active))
    return _column(address), active


def _column(value: Value) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value or 0,) * LANES


def width(code: Listing, index: int) -> tuple[int, bool]:
    """(bytes a lane, whether lanes name rows of matrices)."""
    if code[index].opcode in ("LDSM", "STSM"):
        return ROW, True
    return max(1, code.classes[index].bytes), False


def _grouped(code: Listing, seen: Mapping[int, Sequence[tuple[tuple[int, ...], tuple[int, ...]]]]) -> list[Tile]:
    """Accesses whose ranges of bytes overlap are of one array. A range that is only written, or only read, belongs to
    its neighbour: an array is both."""
    spans = []
    for i, rows in seen.items():
        size, _ = width(code, i)
        used = [a for where, active in rows for a, on in zip(where, active, strict=True) if on]
        spans.append((min(used), max(used) + size, [i]))
    merged: list[tuple[int, int, list[int]]] = []
    for start, end, members in sorted(spans):
        if merged and (start < merged[-1][1] or not _complete(code, merged[-1][2])):
            merged[-1] = (merged[-1][0], max(merged[-1][1], end), merged[-1][2] + members)
        else:
            merged.append((start, end, members))
    if len(merged) > 1 and not _complete(code, merged[-1][2]):
        last = merged.pop()
        merged[-1] = (merged[-1][0], last[1], merged[-1][2] + last[2])
    return [_tile(code, seen, *one) for one in merged]


def _complete(code: Listing, members: Sequence[int]) -> bool:
    kinds = {"write" if code[i].opcode in ("STS", "STSM", "LDGSTS", "ATOMS") else "read" for i in members}
    return len(kinds) == 2


def _tile(
    code: Listing, seen: Mapping[int, Sequence[tuple[tuple[int, ...], tuple[int, ...]]]], start: int, end: int,
    members: Sequence[int],
) -> Tile:  # fmt: skip
    patterns = {}
    for i in members:
        size, rows = width(code, i)
        share = code.executed[i] / len(seen[i])
        found = []
        for where, active in seen[i]:
            offsets = tuple(a - start if on else 0 for a, on in zip(where, active, strict=True))
            found.append(Pattern(offsets, size, active, rows, share, code[i].opcode == "LDGSTS"))
        patterns[i] = tuple(found)
    return Tile(start, end, patterns)


def pitches(tile: Tile) -> list[int]:
    """Lengths that a row of the tile can have, in bytes: the distances at which its lanes stand apart, and the powers
    of two between a few elements and the tile."""
    apart: set[int] = set()
    for group in tile.patterns.values():
        for p in group:
            gaps = [abs(b - a) for a, b in pairwise(p.offsets)]
            apart |= {gap for gap in gaps if 2 * gaps.count(gap) >= len(gaps)}
    limit = tile.end - tile.start
    powers = {1 << n for n in range(4, 13)}
    return sorted(d for d in apart | powers if 2 * tile.widest <= d <= limit)
