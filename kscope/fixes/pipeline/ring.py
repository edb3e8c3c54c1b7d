"""A tile that is loaded, waited for and used: a ring of slots, which cp.async fills while others are used."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.features.patterns.tile_copies import Copy, exposed_copies
from kscope.fixes.given.conditions import not_written, proved, reads, shown, written_there
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, Text, by_line, by_lines, kernel_text, loops, spans_edited
from kscope.fixes.pipeline.copies import Tile
from kscope.fixes.pipeline.rounds import SHARED, Round, beside, given, live, numbers, of_instance, read, tiles
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.units import counted

SLOTS = (4, 3, 2)
"""The most first: three tiles on their way hide what memory takes for one (measured: 2 slots 1.13x, 4 1.30x)."""
DEEP = 3  # slots that are enough where one less lets an SM hold a block more (hgemm.wmma: 436 us with 3, 541 with 4)
REGISTER, SPARED = 4, 0.1  # bytes; share of the registers that the assembler saves for a block more (170 to 126)
LEAST_SM = 80  # cp.async (PTX ISA)
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
ALIGNED = 128  # bytes: what any load or copy of a tile asks for
WORTH = ("major", "critical")
"""Of findings: what less promises may be lost on the slots' own addresses (not measured)."""
HELPERS = """template <class T> __device__ __forceinline__ void copy_ahead(T* to, const T* from) {  // 4, 8 or 16 bytes
  unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if (sizeof(T) == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(sizeof(T)) : "memory");
}
template <class T> __device__ __forceinline__ T* in_slot(T* first, int bytes) { return (T*)((char*)first + bytes); }
__device__ __forceinline__ void copies_closed() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copies_arrived() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}"""
OR_ZERO = """template <class T> __device__ __forceinline__ void copy_or_zero(T* to, const T* from, bool is_there) {
  unsigned place = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               ::"r"(place), "l"(from), "n"(sizeof(T)), "r"(is_there ? (unsigned)sizeof(T) : 0u) : "memory");
}"""
_NAMES = re.compile(r"\b(?:copy_ahead|copy_or_zero|in_slot|copies_\w+|fetch|slot|ahead|slots_of_tiles)\b|_first\b")


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or code.program.sm < LEAST_SM or asked.finding.severity not in WORTH:
        return []
    instance, lines = given(setting, text), setting.lines(text.file)
    way = live(text.code, instance.values)
    held = tiles(way, numbers(setting, text, instance), launch.shared_dynamic, instance.types)
    files = sorted({ins.file for ins in code.program.instructions if ins.file is not None} - {text.file})
    around = "\n".join([*lines, *(line for file in files for line in setting.lines(file))])
    every = [r for one in loops(way) if (r := read(way, one, held, around, instance.types)) is not None]
    if len(every) != 1 or _NAMES.search(way):
        return []
    (one,) = every
    copy = next((c for c in exposed_copies(code) if not c.asynchronous and _within(setting, text, one, c)), None)
    slots, bytes_ = _slots(setting, one, held)
    if copy is None or not slots or not _alone(setting, copy):
        return []
    edits = _edits(setting, text, one, slots, bytes_, of_instance(instance))
    if not edits:
        return []
    return [_fix(asked, one, copy, edits, slots, bytes_)]


def _fix(asked: Asked, one: Round, copy: Copy, edits: list[Edit], slots: int, bytes_: int) -> Fix:
    setting, launch = asked.setting, asked.setting.launch
    assert launch is not None
    dynamic = _dynamic(setting, one, slots, bytes_)
    more = (slots - 1) * bytes_
    will, rounds = setting.occupancy(more_shared=more), played(slots)
    needed = -(-launch.blocks // max(1, setting.sms))
    asks = (
        f"// launch: {dynamic} bytes of dynamic shared memory, allowed by\n"
        "// cudaFuncSetAttribute(.., cudaFuncAttributeMaxDynamicSharedMemorySize, ..)\n" if dynamic else ""
    )  # fmt: skip
    names = ", ".join(t.name for t in one.tiles if not t.sized or t.bytes)
    conditions = [
        proved("the loop waits for what it has just loaded", "code", [*copy.loads, *copy.waits],
               "loads whose values the same round stores to shared memory (def-use)"),
        reads("nothing that the copy's addresses are made of changes in a round", f"all but {one.loop.name}"),
        proved("a tile's use leaves it alone", "code", setting.code.cfg.loop_body(copy.loop),
               "the loop stores nothing to shared memory but what it has loaded"),
        *not_written(setting.code, copy.loads),
        shown(will is not None and will.blocks > 0, "an SM holds as many blocks as it gets", "launch",
              len(will.limits) + 1 if will is not None else 0,
              f"{counted(will.blocks if will is not None else 0, 'block')} fit, {needed} of the launch for each SM"),
        shown(rounds > 0, "each tile is used once, and after it has arrived", "values", rounds,
              "rounds of some lengths, slot by slot"),
    ]  # fmt: skip
    if dynamic:
        holds = f"every launch gives {dynamic} bytes of dynamic shared memory"
        conditions.append(Condition(holds=holds, state="check", why="the slots lie in it"))
    return Fix(
        kind="stages",
        title=f"{slots} slots for {names}: the next {counted(slots - 1, 'tile')} on the way while one is used",
        language="cuda",
        code=asks + HELPERS + (f"\n{OR_ZERO}" if "copy_or_zero(" in one.copy else ""),
        edits=edits,
        parameters={"slots": slots, **({"shared_dynamic": dynamic} if dynamic else {})},
        conditions=conditions,
        proof=[
            Proof(what="copies that are waited for whole", before=len(copy.loads), after=0, unit="loads",
                  how=f"{counted(slots - 1, 'group')} in flight while a tile is used"),
        ],
        costs=[f"{more} bytes of shared memory a block", "a wait and the slots' addresses in each round"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _within(setting: Setting, text: Text, one: Round, copy: Copy) -> bool:
    """Whether these loads are from the loop's lines."""
    first, last = (text.first + text.code[:at].count("\n") for at in (one.loop.span[0], one.loop.body[1]))
    found = places(setting, copy.loads)
    return bool(found) and all(first <= p.number <= last for p in found)


def _alone(setting: Setting, copy: Copy) -> bool:
    """Whether the loop stores nothing to shared memory but what it copies, and nothing to the arrays that it copies."""
    code = setting.code
    if written_there(code, copy.loop, copy.loads):
        return False
    writes = [i for i in code.cfg.loop_body(copy.loop) if "shared_write" in code.classes[i].kind]
    return set(writes) <= set(copy.waits)


def _slots(setting: Setting, one: Round, held: Sequence[Tile]) -> tuple[int, int]:
    """(slots, bytes of one) that leave an SM as many blocks as it gets; (0, 0) where not even two do."""
    launch, was = setting.launch, setting.occupancy()
    sized = any(t.sized for t in one.tiles)
    mixed = sized and not all(t.sized for t in one.tiles)
    if launch is None or was is None or mixed or sum(t.sized and t.bytes > 0 for t in held) > 1:
        return 0, 0
    bytes_ = sum(-(-t.bytes // ALIGNED) * ALIGNED for t in one.tiles)
    needed = -(-launch.blocks // max(1, setting.sms))
    enough: list[int] = []
    for slots in SLOTS if bytes_ else ():
        will = setting.occupancy(more_shared=(slots - 1) * bytes_)
        clash = _dynamic(setting, one, slots, bytes_) and not sized and any(t.sized for t in held)
        if will is not None and will.blocks >= max(1, min(was.blocks, needed)) and not clash:
            enough.append(slots)
    return (_deepest(setting, enough, bytes_, was.blocks, needed), bytes_) if enough else (0, 0)


def _deepest(setting: Setting, enough: Sequence[int], bytes_: int, was: int, needed: int) -> int:
    """The most slots; DEEP ones where with more the SM would not get the block that registers will leave room for."""
    fewer = _registers(setting, bytes_)
    hoped = setting.occupancy(registers=fewer)
    least = min(hoped.blocks, needed) if hoped is not None else 0
    for slots in enough if least > was else ():
        could = setting.occupancy(registers=fewer, more_shared=(slots - 1) * bytes_)
        if slots >= DEEP and could is not None and could.blocks >= least:
            return slots
    return enough[0]


def _registers(setting: Setting, bytes_: int) -> int:
    """Registers of a thread that no tile passes through any more: about as many as the assembler may come down to."""
    launch = setting.launch
    assert launch is not None
    return max(1, int((launch.registers - bytes_ / launch.threads / REGISTER) * (1 - SPARED)))


def _dynamic(setting: Setting, one: Round, slots: int, bytes_: int) -> int:
    """Bytes that the launch has to give; 0 where the slots can be declared."""
    launch = setting.launch
    assert launch is not None
    if any(t.sized for t in one.tiles):
        return slots * bytes_
    return slots * bytes_ if launch.shared_static + (slots - 1) * bytes_ > STATIC else 0


def _edits(setting: Setting, text: Text, one: Round, slots: int, bytes_: int, only: str) -> list[Edit]:
    """The declarations, and the whole of the loop on the line where it begins; its other lines go. only: a condition
    under which it is so; the loop stays for what else the template is made for, where nothing in front of it changes.
    """
    loop, k, ahead = one.loop, one.loop.name, slots - 1
    step = loop.step.partition("+=")[2].strip() or "1"
    tiles, first = _tiles(one, bytes_), ""
    start = loop.start if re.fullmatch(r"\w+", loop.start) else f"({loop.start})"
    if any(t.sized for t in one.tiles):
        first = " ".join(f"auto* const {t.name}_first = {t.name};" for t in one.tiles) + "\n  "
    further = f"{k} + {step if ahead == 1 else f'{ahead} * {step}'}"
    new = (
        f"{{ {first}auto fetch = [&]({loop.kind} {k}, int slot) {{\n    {tiles}\n    {one.copy.strip()}\n  }};\n"
        f"  #pragma unroll\n  for (int ahead = 0; ahead < {ahead}; ahead++) {{\n"
        f"    if ({start} + ahead * {step} < {loop.end}) fetch({start} + ahead * {step}, ahead);\n"
        f"    copies_closed();\n  }}\n  int slot = 0;\n"
        f"  for ({loop.kind} {k} = {loop.start}; {k} < {loop.end}; {loop.step}) {{\n"
        f"    copies_arrived<{ahead - 1}>(); __syncthreads();\n"
        f"    if ({further} < {loop.end}) fetch({further}, (slot + {ahead}) % {slots});\n"
        f"    copies_closed();\n    {tiles}\n    {one.use.strip()}\n    slot = (slot + 1) % {slots};\n  }}\n"
        f"  __syncthreads(); }}"
    )
    declared = _declared(setting, text, one, slots, bytes_)
    gone = by_lines(text.code, [(*span, "") for span in one.gone])
    if only and first and not gone:
        return spans_edited(setting, text, beside(loop, only, new))
    return spans_edited(setting, text, [*by_line(text.code, (loop.span[0], loop.body[1], new)), *declared, *gone])


def _tiles(one: Round, bytes_: int) -> str:
    """The arrays' names for their places in a slot."""
    out, at = [], 0
    for t in one.tiles:
        if t.sized:
            out.append(f"auto* const {t.name} = in_slot({t.name}_first, slot * {bytes_});")
            continue
        out.append(f"auto& {t.name} = *({t.kind} (*){t.dims})(slots_of_tiles + slot * {bytes_} + {at});")
        at += -(-t.bytes // ALIGNED) * ALIGNED
    return " ".join(out)


def _declared(setting: Setting, text: Text, one: Round, slots: int, bytes_: int) -> list[Span]:
    """Declarations without the arrays that are in slots now."""
    if any(t.sized for t in one.tiles):
        return []
    size = "" if _dynamic(setting, one, slots, bytes_) else str(slots * bytes_)
    names, spans = {t.name for t in one.tiles}, []
    ring = f"{'' if size else 'extern '}__shared__ __align__({ALIGNED}) char slots_of_tiles[{size}];"
    for start, end in sorted({t.declared for t in one.tiles}):
        match = SHARED.match(text.code, start)
        if match is None or "\n" in match[0]:
            return []
        kept = [p.strip() for p in split_declarators(match["names"]) if re.split(r"\s*\[", p.strip())[0] not in names]
        rest = text.code[start : match.start("names")] + ", ".join(kept) + ";" if kept else ""
        spans.append((start, end, " ".join(p for p in (ring, rest) if p)))
        ring = ""
    return spans


def played(slots: int) -> int:
    """How many rounds were played, if each used its own tile and no slot was filled before its last use; 0 else."""
    count = 0
    for length in range(4 * slots):
        held: list[int | None] = [n if n < min(length, slots - 1) else None for n in range(slots)]
        for n in range(length):
            if held[n % slots] != n:
                return 0
            if n + slots - 1 < length:  # behind a barrier: all have used tile n - 1
                into = (n + slots - 1) % slots
                if held[into] not in (None, n - 1):
                    return 0
                held[into] = n + slots - 1
            if held[n % slots] != n:
                return 0
            count += 1
    return count
