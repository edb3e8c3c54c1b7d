"""A ring of slots for a tile that has no name but the number that is its address: what assembly stores there is copied
by cp.async into slots behind each other, while others are used."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.patterns.tile_copies import Copy, exposed_copies
from kscope.fixes.atomics.effects import touched
from kscope.fixes.given.conditions import not_written, proved, reads, shown, written_there
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.setting import COUNTED, RESERVED, Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, Text, by_line, kernel_text, loops, outside, spans_edited
from kscope.fixes.pipeline import ring
from kscope.fixes.pipeline.assembled import Stores, words
from kscope.fixes.pipeline.inlined import numbered, written_out
from kscope.fixes.pipeline.ranges import Ranges
from kscope.fixes.pipeline.rounds import beside, given, halves, live, numbers, of_instance
from kscope.fixes.tile.layouts import Pattern
from kscope.fixes.tile.tiles import WARPS, tiles
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.units import counted

SLOTS = (3, 2)  # what the registers that the tile leaves are worth, more slots would take (judged)
FRAGMENT = 16  # bytes that a lane's address of ldmatrix names (PTX ISA)
HELPER = """template <class T> __device__ __forceinline__ void copy_ahead_at(unsigned place, const T* from) {
  if (sizeof(T) == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(sizeof(T)) : "memory");
}
__device__ __forceinline__ void copies_closed() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copies_arrived() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}"""
_NAMES = re.compile(r"\b(?:copy_ahead\w*|copies_\w+|fetch|slot|ahead|slots_of_tiles)\b|_first\b")
_DECLARED = re.compile(r"\s*(?:const\s+)?(?:unsigned\s+int|unsigned|uint32_t)\s+(?P<names>\w+\s*=[^;{}]*);")
_WAIT = re.compile(r"cp\.async\.wait_(?:group|all)")


class Addressed(Struct, frozen=True):
    """`root`: the name of the tile's address in front of the loop; `addresses`: what a round declares from it, as text;
    `names`: of all of these; `copy`: by cp.async; `use`; `low`, `high`: bytes that they lie between, from the first."""

    loop: Loop
    root: str
    addresses: str
    names: tuple[str, ...]
    copy: str
    use: str
    low: int
    high: int


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or code.program.sm < ring.LEAST_SM:
        return []
    if launch.shared_dynamic or launch.warps > WARPS or max(launch.cluster) > 1:
        return []
    one = _found(setting, text)
    copies = [c for c in exposed_copies(code) if not c.asynchronous]
    if one is None or len(copies) != 1 or not _as_lanes_show(setting, copies[0], one):
        return []
    bytes_ = -(-(one.high - one.low) // ring.ALIGNED) * ring.ALIGNED
    slots = _slots(setting, bytes_)
    edits = _edits(setting, text, one, slots, bytes_) if slots else []
    return [_fix(asked, one, copies[0], edits, slots, bytes_)] if edits else []


def _found(setting: Setting, text: Text) -> Addressed | None:
    """The one such round of a kernel with one shared array."""
    code, launch, instance = setting.code, setting.launch, given(setting, text)
    files = sorted({ins.file for ins in code.program.instructions if ins.file is not None} - {text.file})
    around = "\n".join(line for file in (text.file, *files) for line in setting.lines(file))
    way = live(text.code, instance.values)
    if launch is None or _NAMES.search(way) or "extern" in way or way.count("__shared__") != 1:
        return None
    ranges = Ranges(way, launch.block, launch.grid, numbers(setting, text, instance), numbered(around))
    every = [one for loop in loops(way) if (one := addressed(way, loop, around, ranges)) is not None]
    return every[0] if len(every) == 1 else None


def _fix(asked: Asked, one: Addressed, copy: Copy, edits: list[Edit], slots: int, bytes_: int) -> Fix:
    setting, launch, more = asked.setting, asked.setting.launch, (slots - 1) * bytes_
    will, played = setting.occupancy(more_shared=more), ring.played(slots)
    assert launch is not None
    asks = f"// launch: {more} bytes of dynamic shared memory"
    if launch.shared_static + more > ring.STATIC:
        asks += ", allowed by\n// cudaFuncSetAttribute(.., cudaFuncAttributeMaxDynamicSharedMemorySize, ..)"
    return Fix(
        kind="stages",
        title=f"{slots} slots for what {one.root} points to: the next {counted(slots - 1, 'tile')} on the way while one"
              " is used",
        language="cuda",
        code=f"{asks}\n{HELPER}",
        edits=edits,
        parameters={"slots": slots, "shared_dynamic": more},
        conditions=[
            proved("the loop waits for what it has just loaded", "code", [*copy.loads, *copy.waits],
                   "loads whose values the same round stores to shared memory (def-use)"),
            proved("all that the copy stores, and nothing that comes from elsewhere, lies in the tile", "lanes",
                   len(copy.waits) * launch.threads, f"bytes {one.low} to {one.high} behind the first address"),
            reads("what is loaded from the tile has its address, and no other load gets there",
                  "bounds of each address that the round names, for all threads and rounds"),
            reads("nothing that the copy's addresses are made of changes in a round", f"all but {one.loop.name}"),
            proved("a tile's use leaves it alone", "code", setting.code.cfg.loop_body(copy.loop),
                   "the loop stores nothing to shared memory but what it has loaded"),
            *not_written(setting.code, copy.loads),
            shown(will is not None and will.blocks > 0, "an SM holds as many blocks as it gets", "launch",
                  len(will.limits) + 1 if will is not None else 0,
                  f"{counted(will.blocks if will is not None else 0, 'block')} fit"),
            shown(played > 0, "each tile is used once, and after it has arrived", "values", played,
                  "rounds of some lengths, slot by slot"),
            Condition(holds=f"every launch gives {more} bytes of dynamic shared memory", state="check",
                      why="the slots lie in it"),
        ],
        proof=[
            Proof(what="copies that are waited for whole", before=len(copy.loads), after=0, unit="loads",
                  how=f"{counted(slots - 1, 'group')} in flight while a tile is used"),
        ],
        costs=[f"{more} bytes of shared memory a block", "a wait and the slots' addresses in each round"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _slots(setting: Setting, bytes_: int) -> int:
    """The most that leave an SM as many blocks as it holds now; 0 where not even two do."""
    was = setting.occupancy()
    found = ((n, setting.occupancy(more_shared=(n - 1) * bytes_)) for n in SLOTS)
    return next((n for n, will in found if was is not None and will is not None and will.blocks >= was.blocks), 0)


def _as_lanes_show(setting: Setting, copy: Copy, one: Addressed) -> bool:
    """Whether the stores are all that the loop stores to shared memory, lie where the text says, and whatever else gets
    there are loads of the loop."""
    code, first = setting.code, RESERVED if setting.code.program.sm >= COUNTED else 0
    inside = set(code.cfg.loop_body(copy.loop))
    writes = {i for i in inside if "shared_write" in code.classes[i].kind}
    seen = tiles(code, setting.block)
    if seen.unknown or not writes <= set(copy.waits) or written_there(code, copy.loop, copy.loads):
        return False
    loads = {i for i in inside - writes if code[i].opcode != "LDGSTS"}
    for tile in seen.tiles:
        low, high = first + one.low - tile.start, first + one.high - tile.start
        for i, patterns in tile.patterns.items():
            where = _where(patterns, low, high)
            if where != "within" and (where != "apart" or i in copy.waits):
                return False
            if where == "within" and i not in loads | set(copy.waits):
                return False
    return True


def _where(patterns: Sequence[Pattern], low: int, high: int) -> str:
    """Whether accesses lie within some bytes or apart from them; "" for any other."""
    used = [(o, o + p.width) for p in patterns for o, on in zip(p.offsets, p.active, strict=True) if on]
    if all(low <= a and b <= high for a, b in used):
        return "within"
    return "apart" if all(b <= low or high <= a for a, b in used) else ""


def addressed(code: str, loop: Loop, around: str, ranges: Ranges) -> Addressed | None:
    """`{ copy; __syncthreads(); use; __syncthreads(); }` of a tile whose address is a number."""
    parts = halves(code, loop)
    if parts is None:
        return None
    (copy, use), bases = parts, _bases(code[: loop.span[0]], ranges.first)
    copy, addresses, names = _declarations(copy)
    copy, _ = written_out(_without_waits(copy, around), code, loop, around)
    taken = Stores(code, {loop.name}, set(names))
    becomes = taken.read(copy)
    roots = (taken.roots | words(addresses)) & bases
    strange = re.search(r"\+\+|--|\w\s*\(", addresses) or taken.outer & words(use)
    if strange or becomes is None or not taken.stores or len(roots) != 1:
        return None
    (root,) = roots
    if len(re.findall(rf"(?<![\w.]){root}\b", outside(code, [loop.span, loop.body]))) != 1:
        return None
    fixed = f"{copy} {addresses} {loop.start} {loop.end} {loop.step}"
    named = words(fixed) - taken.local | taken.asked | {loop.name, root, *names}
    if touched(use, code, around) & named:
        return None
    try:
        low, high = _bounds(code, loop, use, {root, *names}, bases, around, ranges)
    except Unplayable:
        return None
    return Addressed(loop, root, addresses, (root, *names), becomes.strip(), use.strip(), low, high)


def _bases(before: str, first: set[str]) -> set[str]:
    """Numbers in front of a loop that are addresses of shared memory."""
    made = {m[1]: m[2] for m in re.finditer(r"(?<![\w.])(\w+)\s*=(?!=)\s*([^;,=]*)", before)}
    found = {name for name, value in made.items() if any(re.search(rf"\b{f}\s*\(", value) for f in first)}
    while more := {name for name, value in made.items() if words(value) & found} - found:
        found |= more
    return found


def _edits(setting: Setting, text: Text, one: Addressed, slots: int, bytes_: int) -> list[Edit]:
    """The whole of the loop on the line where it begins; its other lines go, or are for the template's other instances.
    """
    loop, k, ahead = one.loop, one.loop.name, slots - 1
    step = loop.step.partition("+=")[2].strip() or "1"
    start = loop.start if re.fullmatch(r"\w+", loop.start) else f"({loop.start})"
    further = f"{k} + {step if ahead == 1 else f'{ahead} * {step}'}"
    more = f"more_first + slot * {bytes_} - {bytes_}" if ahead > 1 else "more_first"
    here = f"const unsigned {one.root} = slot ? {more} : {one.root}_first; {one.addresses}".rstrip()
    new = (
        f"{{ extern __shared__ __align__({ring.ALIGNED}) char slots_of_tiles[];\n"
        f"  const unsigned {one.root}_first = {one.root};\n"
        f"  const unsigned more_first = (unsigned)__cvta_generic_to_shared(slots_of_tiles);\n"
        f"  auto fetch = [&]({loop.kind} {k}, int slot) {{\n    {here}\n    {one.copy}\n  }};\n"
        f"  #pragma unroll\n  for (int ahead = 0; ahead < {ahead}; ahead++) {{\n"
        f"    if ({start} + ahead * {step} < {loop.end}) fetch({start} + ahead * {step}, ahead);\n"
        f"    copies_closed();\n  }}\n  int slot = 0;\n"
        f"  for ({loop.kind} {k} = {loop.start}; {k} < {loop.end}; {loop.step}) {{\n"
        f"    copies_arrived<{ahead - 1}>(); __syncthreads();\n"
        f"    if ({further} < {loop.end}) fetch({further}, (slot + {ahead}) % {slots});\n"
        f"    copies_closed();\n    {here}\n    {one.use}\n    slot = (slot + 1) % {slots};\n  }}\n"
        f"  __syncthreads(); }}"
    )
    only = of_instance(given(setting, text))
    if only:
        return spans_edited(setting, text, beside(loop, only, new))
    return spans_edited(setting, text, by_line(text.code, (loop.span[0], loop.body[1], new)))


def _declarations(copy: str) -> tuple[str, str, list[str]]:
    """A copy without the addresses that it declares first; these; and their names."""
    found, names = [], list[str]()
    while (match := _DECLARED.match(copy)) is not None:
        found.append(" ".join(match[0].split()))
        names += [part.partition("=")[0].strip() for part in split_declarators(match["names"])]
        copy = copy[match.end() :]
    return copy, " ".join(found), names


def _without_waits(copy: str, around: str) -> str:
    """A copy without calls that wait for cp.async: what was copied before arrives before the first tile does."""
    for match in list(re.finditer(r"(?<![\w.])(\w+)\s*(?:<\s*\d+\s*>)?\s*\(\s*\)\s*;", copy))[::-1]:
        body = re.search(rf"__device__[^;{{}}]*\b{match[1]}\s*\(\s*\)\s*\{{([^{{}}]*)\}}", around)
        if body is not None and _WAIT.search(body[1]) and body[1].count(";") <= 2:
            copy = copy[: match.start()] + copy[match.end() :]
    return copy


def _bounds(
    code: str, loop: Loop, use: str, names: set[str], bases: set[str], around: str, ranges: Ranges
) -> tuple[int, int]:
    """Between which bytes the loads lie whose addresses are made of the tile's. Raises Unplayable where one is not
    told, where others come there, or where an address goes elsewhere than into a load of fragments."""
    at, rest = code.index(use, loop.body[0]), use
    mine, others = list[tuple[int, int]](), list[tuple[int, int]]()
    for name in sorted(n for n in words(use) if _loads(n, around)):
        for call in reversed(calls_of(rest, name)):
            address = call.arguments[-1]
            if words(address) & (names | bases):
                low, high = ranges.of(address, at + call.start)
                (mine if words(address) & names else others).append((low, high + FRAGMENT))
            rest = rest[: call.start] + " " * (call.end - call.start) + rest[call.end :]
    if words(rest) & (names | bases) or not mine:
        raise Unplayable("an address that goes elsewhere")
    low, high = min(a for a, _ in mine), max(b for _, b in mine)
    if any(a < high and low < b for a, b in others):
        raise Unplayable("others come there")
    return low, high


def _loads(name: str, around: str) -> bool:
    """Whether a function is one ldmatrix, of the address that it is given last."""
    heads = list(re.finditer(rf"__device__[^;{{}}]*\b{name}\s*\(([^{{}}]*)\)\s*\{{", around))
    if len(heads) != 1:
        return False
    last = split_declarators(heads[0][1])
    names = [re.search(r"(\w+)\s*$", p) for p in last]
    body = around[heads[0].end() : around.find("}", around.find(";\"", heads[0].end()))]
    loads = re.search(r"ldmatrix\.sync\.aligned[^;]*\[%(\d)\];\"", body)
    used = re.search(rf"\"r\"\s*\(\s*{names[-1][1]}\s*\)", body) if names and names[-1] is not None else None
    return loads is not None and used is not None and body.count("asm") == 1 and "st." not in body
