"""Records that lie side by side, each stored by its thread: by way of shared memory a warp stores them word by word,
neighbouring lanes on neighbouring words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.strides import SEEDS, lane_stride
from kscope.features.lanes.values import Lanes
from kscope.features.profile.code import Code
from kscope.features.profile.excess import IDEAL_SECTORS, SECTORS
from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import Span, Text, by_lines, kernel_text, outside, spans_edited
from kscope.fixes.memory.lane_mapping import HALVED
from kscope.fixes.strided.helpers import BLOCK, TOGETHER, WARP, WHOLE_RECORD
from kscope.fixes.strided.records import Stored, stored, vector_of
from kscope.fixes.strided.runs import side_by_side
from kscope.fixes.strided.worth import held_up
from kscope.fixes.thread.accesses import WHOLE
from kscope.fixes.thread.element_types import instantiated, width
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.units import counted

STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
LARGEST = 256  # bytes of a record: of larger ones a warp would pass too few at once (judged)
ENOUGH = HALVED + 0.01  # of the sectors now: warps that are not whole have some more
FILLED = 0.75  # of a record that is stored, from which the rest is padding (judged)
PASSED, WHOLLY = "through shared memory: a warp stores them side by side", "by one store each"


class Moved(Struct, frozen=True):
    """A record's stores in the machine code, and its bytes."""

    one: Stored
    stores: tuple[int, ...]
    size: int


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or not isinstance(code, Code) or re.search(r"\bvolatile\b", text.code):
        return []
    if not held_up(asked.finding, memory=True):
        return []
    found = records(setting, code, text)
    sectors, warps = _sectors(setting, code, found), -(-launch.threads // LANES)
    shared = sum({(x.one.kind or x.one.name, x.size): _shared(x.size, warps) for x in found}.values())
    costs = _costs(setting, shared)
    if sectors is None or sectors[1] > ENOUGH * sectors[0] or costs is None:
        return []
    edits = spans_edited(setting, text, by_lines(text.code, put(found, warps)))
    before, after, others = sectors
    mended = before - after >= WHOLE * (before - after + others)
    if asked.finding.code != "MEM101":  # what moves few bytes at once: these alone, if nothing else is named
        named = {*asked.finding.covered, *(x.pc for x in asked.finding.locations)}
        mended = named <= {code[i].pc for x in found for i in x.stores}
    return [_fix(asked, text, found, (before, after), costs, edits)] if edits and mended else []


def records(setting: Setting, code: Code, text: Text) -> list[Moved]:
    """All records that lanes store side by side."""
    lines = setting.lines(text.file)
    types = instantiated("\n".join(lines[: text.first - 1]), setting.instance)
    said = {n: int(v[1]) for n, value in types.items() if (v := re.fullmatch(r"(?:\([\w ]+\))?(\d+)", value))}
    said |= {m[1]: int(m[2]) for x in lines if (m := re.match(r"\s*#\s*define\s+(\w+)\s+(\d+)\s*$", x))}
    every = stored(text.code, constants(lines) | said)
    return [x for one in every if (x := moved(setting, code, text, one, types)) is not None]


def _fix(
    asked: Asked, text: Text, found: Sequence[Moved], sectors: tuple[float, float], costs: list[str],
    edits: list[Edit],
) -> Fix:  # fmt: skip
    names = " and ".join(dict.fromkeys(x.one.name for x in found))
    mine = sorted({i for x in found for i in x.stores})
    whole, passed = (any((piece_of(x.size) == x.size) is yes for x in found) for yes in (True, False))
    return Fix(
        kind="tile" if costs else "vector_access",
        title=f"records of {names} {PASSED if costs else WHOLLY}",
        language="cuda",
        code="\n".join([*([TOGETHER] if passed else []), *([WHOLE_RECORD] if whole else [])]),
        edits=edits,
        conditions=_conditions(text.code, found, mine),
        proof=[
            Proof(what=f"sectors of the {len(mine)} stores to {names}", before=sectors[0], after=sectors[1],
                  unit="sectors", how="as counted; whole records, side by side"),
        ],
        costs=costs,
        price=asked.finding.estimate,
    )  # fmt: skip


def _sectors(setting: Setting, code: Code, found: Sequence[Moved]) -> tuple[float, float, float] | None:
    """(sectors of these stores now, and of whole records side by side; what the other accesses have too many)"""
    touched, best = code.column(SECTORS), code.column(IDEAL_SECTORS)
    if touched is None or best is None or not found:
        return None
    mine = {i for x in found for i in x.stores}
    after = sum(total(best, x.stores) * x.size / sum(code.classes[i].bytes for i in x.stores) for x in found)
    others = [i for i in range(len(code)) if i not in mine and touched[i] > best[i] and not _caught(setting, code, i)]
    return total(touched, sorted(mine)), after, total(touched, others) - total(best, others)


def _costs(setting: Setting, shared: int) -> list[str] | None:
    """Words for so many bytes of shared memory; None where a block or an SM has no room for them."""
    launch, was, will = setting.launch, setting.occupancy(), setting.occupancy(more_shared=shared)
    if launch is None or was is None or will is None or not will.blocks:
        return None
    if launch.shared_static + launch.shared_dynamic + shared > STATIC:
        return None
    now = f"an SM holds {counted(will.blocks, 'block')}, where it holds {was.blocks} now"
    return [f"{shared} bytes of shared memory", now] if shared else []


def _caught(setting: Setting, code: Code, index: int) -> bool:
    """Whether a load is one of several that together read all of what lies between two lanes: what one of them leaves
    of its sectors L1 has for the others."""
    size, array = lane_stride(code, index, setting.block), pointer(code, index)
    if code.classes[index].access != "load" or array is None or not size or size > LARGEST:
        return False
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    mine = [i for i in loads if pointer(code, i) == array and lane_stride(code, i, setting.block) == size]
    return sum(code.classes[i].bytes for i in mine) >= size


def _conditions(code: str, found: Sequence[Moved], mine: Sequence[int]) -> list[Condition]:
    passed = {x.size for x in found if piece_of(x.size) < x.size}
    ran = sum(map(_passed, passed))
    late = sorted({x.one.name for x in found if x.one.words and _reading(code, x.one)})
    return [
        proved("the lanes of a warp store neighbouring records", "lanes", len(mine),
               "lanes stand a record apart in each of these stores"),
        *([
            shown(ran > 0, "each piece of a record comes to its place", "values", ran,
                  "the places of all lanes' pieces written out, as stored to shared memory and as taken from there"),
            reads("records that lie otherwise, and those of warps that are not whole, are stored as before",
                  "their places are compared before"),
        ] if passed else []),
        *([reads("records that start at no multiple of their size are stored as before", "it is asked for")]
          if len(passed) < len({x.size for x in found}) else []),
        *([Condition(holds=f"{' and '.join(late)} overlap{'s' * (len(late) == 1)} none of the other arrays",
                     state="check", why="a record is stored when all of its words are known")] if late else []),
    ]  # fmt: skip


def _reading(code: str, one: Stored) -> bool:
    """Whether the values of a record's words may be read from memory."""
    text = outside(code[: one.parts[-1].end], [(0, one.parts[0].place[0]), *(p.place for p in one.parts)])
    return re.search(r"\[|\*\s*[A-Za-z_(]|->|\w\s*\(", text) is not None


def moved(setting: Setting, code: Code, text: Text, one: Stored, types: dict[str, str]) -> Moved | None:
    """The stores of a record, where lanes stand one record apart and store all of it."""
    first, last = (text.first + text.code.count("\n", 0, at) for at in (one.parts[0].place[0], one.parts[-1].end))
    lines = range(first, last + 1)
    here = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "store"))
    stores = [i for i in here if any(f == text.file and n in lines for f, n in setting.sites(i))]
    sizes = {lane_stride(code, i, setting.block) for i in stores}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None or not 2 <= size <= LARGEST or len({code.executed[i] for i in stores}) > 1:
        return None
    if piece_of(size) < size and not all(_evenly(setting, code, i, size) for i in stores):
        return None
    return Moved(one, tuple(stores), size) if _all_of(code, one, stores, size, width(one.kind, types)) else None


def _all_of(code: Code, one: Stored, stores: Sequence[int], size: int, known: int | None) -> bool:
    """Whether stores fill a record of such a size: what is stored word by word leaves nothing between. known: bytes of
    the array's elements."""
    bytes_, each = sum(code.classes[i].bytes for i in stores), 1 if one.fields else max(1, one.words)
    if any(code.classes[i].bytes >= size for i in stores) or size % each:
        return False
    if known is not None and known * each != size:
        return False
    if not one.words:
        return FILLED * size <= bytes_ <= size
    return bytes_ == size and len(side_by_side(code, stores)) == 1


def _evenly(setting: Setting, code: Code, index: int, size: int) -> bool:
    """Whether all lanes of a warp follow each other so far apart."""
    addresses = [Lanes(code, Assumption(seed, setting.block)).address(index) for seed in SEEDS]
    return all(isinstance(a, tuple) and {y - x for x, y in pairwise(a)} == {size} for a in addresses)


def piece_of(size: int) -> int:
    return next(n for n in (16, 8, 4, 2, 1) if size % n == 0)


def _at_once(size: int, warps: int) -> tuple[int, int]:
    """(records of a warp that pass at once, bytes between two of them)"""
    piece = piece_of(size)
    pitch = (size // piece | 1) * piece
    room = min(BLOCK // warps, WARP) // pitch
    return next((n for n in (32, 16, 8, 4) if n <= room), 1), pitch


def _shared(size: int, warps: int) -> int:
    """Bytes that the records of a block pass through."""
    records, pitch = _at_once(size, warps)
    return 0 if piece_of(size) == size else warps * records * pitch


def _passed(size: int) -> int:
    """How many pieces of records were written out, if each comes to where its record lies; 0 otherwise."""
    ran = 0
    for warps in (1, 8, 32):
        records, pitch = _at_once(size, warps)
        count, pitch = size // piece_of(size), pitch // piece_of(size)
        for r in range(0, LANES, records):
            lanes = [n for n in range(LANES) if n // records * records == r]
            held = {(n - r) * pitch + c: n * count + c for n in lanes for c in range(count)}
            taken = {r * count + p: held.get(p // count * pitch + p % count)
                     for lane in range(LANES) for p in range(lane, records * count, LANES)}  # fmt: skip
            if any(to != whose for to, whose in taken.items()) or len(taken) != len(held):
                return 0
            ran += len(taken)
    return ran


def put(found: Sequence[Moved], warps: int) -> list[Span]:
    """What changes in the text."""
    out: list[Span] = []
    for number, x in enumerate(found, 1):
        one, whole = x.one, piece_of(x.size) == x.size
        store = "store_whole" if whole else f"store_together<{warps}>"
        if not one.words:
            (part,) = one.parts
            out += [(*part.place, f"{store}(&{part.left}, "), (part.end - 1, part.end - 1, ")")]
            continue
        own = f"{one.name}_own{number if number > 1 else ''}"
        plain = one.fields and vector_of(one.kind)
        words = f"OwnOf<{one.kind}>" if one.fields else f"WordsOf<{one.kind}, {one.words}>"
        kind = one.kind if plain else f"{'Whole' * whole}{words}"
        value = f"{own}.whole" if one.fields and not plain else own
        begin = one.loop[0] if one.counter else one.parts[0].place[0]
        out.append((begin, begin, f"\n  {kind} {own};" if one.counter else f"{kind} {own}; "))
        for part in one.parts:
            to = f"{value}.{part.field}" if one.fields else f"{own}.at[{one.counter or part.word}]"
            out.append((*part.place, f"{to} = "))
        place, end = f"&{one.name}[{one.first}]", one.loop[1] if one.counter else one.parts[-1].end
        to = place if one.fields else f"reinterpret_cast<{kind}*>({place})"
        out.append((end, end, f" {store}({to}, {value});"))
    return out
