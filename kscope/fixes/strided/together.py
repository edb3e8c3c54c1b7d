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
from kscope.fixes.given.text import Span, Text, by_lines, kernel_text, spans_edited
from kscope.fixes.memory.lane_mapping import HALVED
from kscope.fixes.strided.records import Stored, stored
from kscope.fixes.thread.accesses import WHOLE
from kscope.fixes.thread.element_types import instantiated, width
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.units import counted

STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
BLOCK, WARP = 36 * 1024, 3 * 1024  # bytes that the records of a block and of a warp pass through at once (judged)
LARGEST = 256  # bytes of a record: of larger ones a warp would pass too few at once (judged)
ENOUGH = HALVED + 0.01  # of the sectors now: warps that are not whole have some more
FILLED = 0.75  # of a record that is stored, from which the rest is padding (judged)
PIECES = """template <int BYTES> struct PieceOf { using type = char; };
template <> struct PieceOf<2> { using type = short; };
template <> struct PieceOf<4> { using type = int; };
template <> struct PieceOf<8> { using type = int2; };
template <> struct PieceOf<16> { using type = int4; };
__host__ __device__ constexpr int piece_of(int size) {
  return size % 16 == 0 ? 16 : size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
}
template <class T, int N> struct WordsOf { T at[N]; };"""
GIVEN = "template <class T> struct GivenAs { using type = T; };"
TOGETHER = f"""{PIECES}
{GIVEN}
// A record a lane: where a warp's lie side by side, they go through shared memory, lanes store neighbouring pieces.
template <int WARPS, class T>
__device__ __forceinline__ void store_together(T* to, const typename GivenAs<T>::type& record) {{
  constexpr int SIZE = sizeof(T), BYTES = piece_of(SIZE), COUNT = SIZE / BYTES, PITCH = COUNT | 1;
  constexpr int ROOM = ({BLOCK} / WARPS < {WARP} ? {BLOCK} / WARPS : {WARP}) / (PITCH * BYTES);
  constexpr int AT_ONCE = ROOM >= 32 ? 32 : ROOM >= 16 ? 16 : ROOM >= 8 ? 8 : ROOM >= 4 ? 4 : 1;
  using Piece = typename PieceOf<BYTES>::type;
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int lane = thread % 32, warp = thread / 32;
  const unsigned long long at = reinterpret_cast<unsigned long long>(to);
  bool beside = __is_trivially_copyable(T) && warp < WARPS && __activemask() == ~0u;
  if (beside) {{
    const unsigned long long first = __shfl_sync(~0u, at, 0);
    beside = __all_sync(~0u, at == first + lane * SIZE && first % BYTES == 0);
  }}
  if (!beside) {{
    *to = record;
    return;
  }}
  __shared__ Piece passed[WARPS][AT_ONCE * PITCH];
  Piece mine[COUNT];
  memcpy(mine, &record, SIZE);
  #pragma unroll 1
  for (int r = 0; r < 32; r += AT_ONCE) {{
    __syncwarp();
    if (lane / AT_ONCE * AT_ONCE == r) {{
      #pragma unroll
      for (int c = 0; c < COUNT; c++) passed[warp][(lane - r) * PITCH + c] = mine[c];
    }}
    __syncwarp();
    #pragma unroll
    for (int p = lane; p < AT_ONCE * COUNT; p += 32)
      reinterpret_cast<Piece*>(to - lane + r)[p] = passed[warp][p / COUNT * PITCH + p % COUNT];
  }}
  __syncwarp();
}}"""
_NAMES = re.compile(r"\b(?:PieceOf|piece_of|WordsOf|GivenAs)\b")


def renamed(code: str, word: str) -> str:
    """With names of its own, for a file that has the others already."""
    return _NAMES.sub(lambda m: f"{word.lower()}_{m[0]}" if m[0].islower() else f"{word}{m[0]}", code)


WHOLE_RECORD = renamed(f"""{PIECES}
{GIVEN}
template <class T>
__device__ __forceinline__ void store_whole(T* to, const typename GivenAs<T>::type& record) {{
  using Piece = typename PieceOf<piece_of(sizeof(T))>::type;
  if (__is_trivially_copyable(T) && sizeof(T) == sizeof(Piece)
      && reinterpret_cast<unsigned long long>(to) % sizeof(Piece) == 0) {{
    Piece piece;
    memcpy(&piece, &record, sizeof(Piece));
    *reinterpret_cast<Piece*>(to) = piece;
  }} else {{
    *to = record;
  }}
}}""", "Whole")
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
    types = instantiated("\n".join(setting.lines(text.file)[: text.first - 1]), setting.instance)
    found = [x for one in stored(text.code) if (x := moved(setting, code, text, one, types)) is not None]
    sectors, warps = _sectors(setting, code, found), -(-launch.threads // LANES)
    shared = sum({(x.one.kind, x.size): _shared(x.size, warps) for x in found}.values())
    costs = _costs(setting, shared)
    if sectors is None or sectors[1] > ENOUGH * sectors[0] or costs is None:
        return []
    edits = spans_edited(setting, text, by_lines(text.code, put(found, warps)))
    before, after, others = sectors
    mended = before - after >= WHOLE * (before - after + others)
    if asked.finding.code != "MEM101":  # what moves few bytes at once: these alone, if nothing else is named
        mended = {x.pc for x in asked.finding.locations} <= {code[i].pc for x in found for i in x.stores}
    return [_fix(asked, text, found, (before, after), costs, edits, mended=mended)] if edits else []


def _fix(
    asked: Asked, text: Text, found: Sequence[Moved], sectors: tuple[float, float], costs: list[str],
    edits: list[Edit], *, mended: bool,
) -> Fix:  # fmt: skip
    names = " and ".join(dict.fromkeys(x.one.name for x in found))
    mine = sorted({i for x in found for i in x.stores})
    whole, passed = (any((piece_of(x.size) == x.size) is yes for x in found) for yes in (True, False))
    return Fix(
        kind="lane_mapping",
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
        price=asked.finding.estimate if mended else None,
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
    late = sorted({x.one.name for x in found if len(x.one.parts) > 1 and _reading(code, x.one)})
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
        *([Condition(holds=f"{' and '.join(late)} overlap{'s' * (len(late) == 1)} none of the arrays that are read",
                     state="check", why="a record is stored when all of its words are known")] if late else []),
    ]  # fmt: skip


def _reading(code: str, one: Stored) -> bool:
    """Whether the values of a record's words may be read from memory."""
    return any(re.search(r"\[|\*\s*[A-Za-z_(]|->|\w\s*\(", code[p.place[1] : p.end]) for p in one.parts)


def moved(setting: Setting, code: Code, text: Text, one: Stored, types: dict[str, str]) -> Moved | None:
    """The stores of a record, where lanes stand one record apart and store all of it."""
    first, last = (text.first + text.code.count("\n", 0, at) for at in (one.parts[0].place[0], one.parts[-1].end))
    lines = range(first, last + 1)
    here = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "store"))
    stores = [i for i in here if any(f == text.file and n in lines for f, n in setting.sites(i))]
    sizes = {lane_stride(code, i, setting.block) for i in stores}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None or not 2 <= size <= LARGEST:
        return None
    moved = sum(code.classes[i].bytes for i in stores)
    if piece_of(size) < size and not all(_evenly(setting, code, i, size) for i in stores):
        return None
    known = width(one.kind, types)
    if not FILLED * size <= moved <= size or any(code.classes[i].bytes >= size for i in stores):
        return None
    if known is not None and known * max(1, one.words if not one.parts[0].field else 1) != size:
        return None
    runs = {code.executed[i] for i in stores}
    return Moved(one, tuple(stores), size) if len(runs) == 1 and not size % max(1, one.words) else None


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
    out: list[Span] = []
    for number, x in enumerate(found, 1):
        one, store = x.one, "store_whole" if piece_of(x.size) == x.size else f"store_together<{warps}>"
        if not one.words:
            (part,) = one.parts
            out += [(*part.place, f"{store}(&{one.name}[{part.index}], "), (part.end - 1, part.end - 1, ")")]
            continue
        own = f"{one.name}_own{number if number > 1 else ''}"
        fields = bool(one.parts[0].field)
        kind = one.kind if fields else f"{'Whole' * (store == 'store_whole')}WordsOf<{one.kind}, {one.words}>"
        for n, part in enumerate(one.parts):
            to = f"{own}.{part.field}" if fields else f"{own}.at[{part.word}]"
            out.append((*part.place, f"{f'{kind} {own}; ' if not n else ''}{to} = "))
        place = f"&{one.name}[{one.first}]"
        to = place if fields else f"reinterpret_cast<{kind}*>({place})"
        out.append((one.parts[-1].end, one.parts[-1].end, f" {store}({to}, {own});"))
    return out
