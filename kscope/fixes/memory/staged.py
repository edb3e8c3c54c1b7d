"""A record a thread, word by word: the block's records through shared memory, where a warp reads and writes them side
by side."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES, MASK
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Span, index_of, kernel_text, spans_edited
from kscope.fixes.memory.lane_mapping import HALVED, SECTOR, sectors
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.units import counted

WORD = 4
SEEDS = (1, 2)
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
_POINTER = re.compile(
    r"\b(?P<const>const\s+)?(?P<type>float|unsigned\s+int|int|unsigned)\s*\*\s*(?:__restrict__\s+)?(?P<name>\w+)\s*(?=[,)])"
)
_INDEX = re.compile(
    r"\b(?:size_t|int|unsigned|long long)\s+(?P<name>\w+)\s*=\s*(?P<from>[^;,]*threadIdx\.x[^;,]*)(?=[;,])"
)
_USED = re.compile(
    r"^\s*(?:\(\s*size_t\s*\)\s*)?(?:(?P<m>\w+)\s*\*\s*(?P<r>\w+)|(?P<r2>\w+)\s*\*\s*(?P<m2>\w+))\s*\+\s*(?P<rest>.+)$"
)
_WAYS = re.compile(r"\b(?:if|while|switch|return|break|continue|goto|asm)\b|\b__shared__\b|_tile\b")
Uses = tuple[tuple[int, int, str], ...]


class _Array(Struct, frozen=True):
    """A parameter whose every use is `name[m * words + rest]`: the spans of these uses with their rests."""

    name: str
    kind: str
    words: int
    uses: tuple[tuple[int, int, str], ...]
    written: bool


class Records(Lanes):
    """Lanes that also say where a lane's record begins."""

    def begins(self, parameter: int, size: int, lane: int) -> int:
        """Byte address (32 bits) of the record of a lane. parameter: offset in constant bank 0; size: of a record."""
        block = self._given.number("SR_CTAID.X") * self._given.block[0]
        return (self._constant(0, parameter) + (block + self.warp * LANES + lane) * size) & MASK


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or launch.block[1] * launch.block[2] > 1 or max(launch.grid[1:]) > 1:
        return []
    found = _arrays(text.code, constants(setting.lines(text.file)))
    offsets = _offsets(setting, found) if found else None
    if not found or offsets is None or not _whole(setting, found, offsets):
        return []
    shared = _together(text.code, found)
    sizes = [launch.threads * _pitch(a) * WORD for a in found]
    more = max(sizes) if shared else sum(sizes)
    was, will = setting.occupancy(), setting.occupancy(more_shared=more)
    moved = list(offsets)
    before = sum(_each(setting, i) * code.executed[i] for i in moved)
    after = float(sum(a.words * WORD * launch.threads * launch.blocks // SECTOR for a in found))
    fits = launch.shared_static + more <= STATIC
    if not fits or was is None or will is None or not will.blocks or after > HALVED * before:
        return []
    edits = spans_edited(setting, text, _spans(text.code, found, launch.threads, shared))
    names = " and ".join(a.name for a in found)
    return [
        Fix(
            kind="lane_mapping",
            title=f"records of {names} through shared memory: a block moves them side by side",
            language="cuda",
            edits=edits,
            parameters={"shared": more},
            conditions=_conditions(setting, found, moved, launch.threads, text.code),
            proof=[
                Proof(what=f"sectors of the {len(moved)} accesses of {names}", before=before, after=after,
                      unit="sectors", how="32 lanes a record apart; whole records, side by side"),
            ],
            costs=[f"{more} bytes of shared memory",
                   f"an SM holds {counted(will.blocks, 'block')}, where it holds {was.blocks} now"],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def _conditions(
    setting: Setting, found: Sequence[_Array], moved: Sequence[int], threads: int, code: str
) -> list[Condition]:  # fmt: skip
    stores = [i for i in moved if _stores(setting, i)]
    late = stores and len(stores) < len(moved) and not _first(code, found)
    whole = proved("each thread writes all of its record", "code", stores, "every word, in every warp of the launch")
    return [
        proved("each thread keeps to its own record", "lanes", LANES * len(SEEDS) * len(moved),
               "addresses of all lanes against where their records begin"),
        *([whole] if stores else []),
        reads("these arrays are used by the thread's own place", f"{sum(len(a.uses) for a in found)} uses"),
        reads("every thread comes to the barriers", "neither if, while, switch nor return"),
        *(not_written(setting.code, [i for i in moved if i not in stores]) if late else []),
        Condition(holds=f"every launch has blocks of {threads} threads", state="check", why="as this one has"),
    ]  # fmt: skip


def _pitch(array: _Array) -> int:
    """Words of a row of the tile: an odd number, so that the words of 32 rows lie in 32 banks."""
    return array.words + 1 - array.words % 2


def _stores(setting: Setting, index: int) -> bool:
    return setting.code.classes[index].access == "store"


def _each(setting: Setting, index: int) -> int:
    """Sectors of one execution, all lanes on."""
    address = Lanes(setting.code, Assumption(SEEDS[0], setting.block)).address(index)
    return sectors(address if isinstance(address, tuple) else (0,), setting.code.classes[index].bytes)


def _arrays(code: str, known: dict[str, int]) -> list[_Array]:
    """All arrays of the kernel that are read or written, if they are such; none where one is not, or where a thread
    may leave early or has no place of its own."""
    index, opening = _INDEX.search(code), code.find("{")
    if index is None or index_of(index["from"], "") is None or _WAYS.search(code) or code.count("threadIdx") != 1:
        return []
    out: list[_Array] = []
    for match in _POINTER.finditer(code[:opening]):
        uses = _uses(code, match["name"], index["name"], known)
        if uses is None:
            return []
        words, spans, written = uses
        if written == bool(match["const"]):
            return []
        out.append(_Array(match["name"], match["type"], words, spans, written))
    after = code.find(";", index.end() - 1)
    early = any(start < after for a in out for start, _, _ in a.uses) or any(a.name == "e" for a in out)
    return out if out and code[:opening].count("*") == len(out) and not early else []


def _uses(code: str, name: str, m: str, known: dict[str, int]) -> tuple[int, Uses, bool] | None:
    """(words of a record, uses, whether all of them write) of an array that each thread uses in its own record alone"""
    opening, spans, words, writes = code.find("{"), [], set(), set()
    for use in re.finditer(rf"(?<![\w.])(?<!->){name}\b", code[opening:]):
        at = opening + use.end()
        inside = re.match(r"\s*\[([^][]*)\]", code[at:])
        one = _USED.match(inside[1]) if inside is not None else None
        if inside is None or one is None or m not in (one["m"], one["m2"]) or re.search(rf"\b{m}\b", one["rest"]):
            return None
        count = evaluated(one["r"] or one["r2"], known)
        end = at + inside.end()
        if count is None or "," in one["rest"] or re.match(r"\s*(?:[-+*/&|^]=|\+\+|--)", code[end:]):
            return None
        words.add(count)
        writes.add(re.match(r"\s*=(?!=)", code[end:]) is not None)
        spans.append((opening + use.start(), end, one["rest"].strip()))
    return (words.pop(), tuple(spans), writes.pop()) if len(words) == len(writes) == 1 else None


def _offsets(setting: Setting, found: Sequence[_Array]) -> dict[int, tuple[str, int]] | None:
    """Access -> (parameter, byte offset in the lane's record, the same in all lanes); None where one is not known, or
    outside of its record."""
    code = setting.code
    accesses = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access is not None))
    by_kind: dict[bool, set[int]] = {w: {a.words * WORD for a in found if a.written == w} for w in (False, True)}
    out: dict[int, tuple[str, int]] = {}
    for i in accesses:
        name, sizes = pointer(code, i), by_kind[_stores(setting, i)]
        if name is None or len(sizes) != 1 or code.classes[i].access not in ("load", "store"):
            return None
        if code.cfg.loop_of[i] is not None:
            return None  # rounds may go beyond the record
        (size,) = sizes
        seen: set[int] = set()
        for seed in SEEDS:
            lanes = Records(code, Assumption(seed, setting.block))
            address = lanes.address(i)
            if not isinstance(address, tuple):
                return None
            at = int(name.rpartition("[")[2].rstrip("]"), 16)
            seen |= {(a - lanes.begins(at, size, n)) & MASK for n, a in enumerate(address)}
        offset = seen.pop()
        if seen or offset + code.classes[i].bytes > size:
            return None
        out[i] = (name, offset)
    return out


def _whole(setting: Setting, found: Sequence[_Array], offsets: dict[int, tuple[str, int]]) -> bool:
    """Whether every thread writes every word of the records that are written, and each parameter is one of these."""
    code, launch = setting.code, setting.launch
    stores = {i: at for i, at in offsets.items() if _stores(setting, i)}
    if launch is None or len({name for name, _ in offsets.values()}) != len(found):
        return False
    if {n for n, _ in stores.values()} & {n for i, (n, _) in offsets.items() if i not in stores}:
        return False
    every = launch.warps * launch.blocks
    if any(code.executed[i] != every or code[i].guard is not None for i in stores):
        return False
    written = all(_covered(setting, array, stores) for array in found if array.written)
    return written and sum(a.written for a in found) <= 1 and total(code.executed, list(offsets)) > 0


def _covered(setting: Setting, array: _Array, stores: dict[int, tuple[str, int]]) -> bool:
    """Whether these stores write every word of a record."""
    words = {at + w for i, (_, at) in stores.items() for w in range(0, setting.code.classes[i].bytes, WORD)}
    return len(words) == array.words


def _together(code: str, found: Sequence[_Array]) -> bool:
    """Whether one tile serves what is read and what is written: no thread reads its record after it has written it."""
    ins, outs = ([a for a in found if a.written is w] for w in (False, True))
    if len(ins) != 1 or len(outs) != 1 or ins[0].words != outs[0].words or ins[0].kind != outs[0].kind:
        return False
    return _first(code, found)


def _first(code: str, found: Sequence[_Array]) -> bool:
    """Whether all is read before anything is written."""
    last = max(end for a in found if not a.written for _, end, _ in a.uses)
    first = min(start for a in found if a.written for start, _, _ in a.uses)
    depth = [code[: p].count("{") - code[: p].count("}") for p in (last, first)]
    return last < first and depth == [1, 1]


def _spans(code: str, found: Sequence[_Array], threads: int, shared: bool) -> list[Span]:
    index = _INDEX.search(code)
    assert index is not None
    at = code.find(";", index.end() - 1) + 1
    names = {a.name: f"{found[0].name if shared else a.name}_tile" for a in found}
    spans: list[Span] = []
    head = tail = ""
    for a in found:
        tile, every = names[a.name], f"{threads} * {a.words}"
        if f"float {tile}[" not in head and not (shared and head):
            head += f"\n  __shared__ {a.kind} {tile}[{threads}][{_pitch(a)}];"
        walk = f"for (int e = threadIdx.x; e < {every}; e += {threads})"
        place = f"{a.name}[(size_t)blockIdx.x * ({every}) + e]"
        inside = f"{tile}[e / {a.words}][e % {a.words}]"
        if a.written:
            tail += f"  __syncthreads();\n  #pragma unroll 16\n  {walk} {place} = {inside};\n"
        else:
            head += f"\n  #pragma unroll 16\n  {walk} {inside} = {place};"
        spans += [(start, end, f"{tile}[threadIdx.x][{rest}]") for start, end, rest in a.uses]
    if any(not a.written for a in found):
        head += "\n  __syncthreads();"
    close = code.rstrip().rfind("}")
    return [*spans, (at, at, head), (close, close, tail)]

