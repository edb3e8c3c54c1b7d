"""How much of what a change takes away a kernel has, each counted in its code: what `left` asks."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.bank_conflicts import conflicts
from kscope.features.lanes.vectorizable import merges
from kscope.features.patterns.kept_in_memory import kept_in_memory
from kscope.features.patterns.math_functions import integer_divisions
from kscope.features.patterns.repeated_loads import repeated_loads
from kscope.features.patterns.tile_copies import exposed_copies
from kscope.features.sass.accesses import accesses
from kscope.features.sass.slices import stored
from kscope.fixes.given.setting import Setting
from kscope.fixes.memory.lane_mapping import sectors
from kscope.fixes.memory.turned import Addressed, least
from kscope.fixes.tile.own_rows import excess as with_data
from kscope.isa.abi import abi
from kscope.isa.families import family
from kscope.model.program import Instruction

WORD, WIDEST = 4, 16
FRAGMENT = 64  # multiply-adds of a lane in a product of 16 x 8 x 16
STRIDES = 4  # that one load's lanes have between them: of more it is a gather, whose data decide (judged)
FROM_INTEGER = ("I2F", "I2FP", "I2HP", "I2F16", "I2H")
TENSOR, GROUPS = family("mma_sync"), family("wgmma")
MEETING = 8  # warps that a barrier is counted as: those of a block of 256 threads (judged)
ROUNDS = 8  # that an inner loop is taken for: only more or less than before is asked


def excess(setting: Setting) -> float:
    known = conflicts(setting.code, setting.launch.block if setting.launch is not None else None)
    found = sum(c.wavefronts - c.ideal for i, c in known.items() if setting.code.executed[i] > 0)
    return found or with_data(setting)  # data decide where the code alone shows none


def doubles(setting: Setting) -> float:
    return len(setting.code.ran(setting.code.where(lambda ins, op: op.pipe == "fp64")))


def divisions(setting: Setting) -> float:
    return len(integer_divisions(setting.code))


def divisions_a_byte(setting: Setting) -> float:
    return divisions(setting) / _bytes(setting)


def wide_divisions(setting: Setting) -> float:
    code = setting.code
    made = family("integer_to_float")
    return len(code.where(lambda ins, op: ins.opcode in made and "U64" in ins.mods))


def anew(setting: Setting) -> float:
    """Loads of an inner loop, whose addresses each round of the loop around it begins anew."""
    return sum(len(one.loads) for one in repeated_loads(setting.code))


def spills(setting: Setting) -> float:
    kinds = accesses(setting.code.program, setting.code.classes)
    return sum(a is not None and a.stack in ("spill", "spill slot") for a in kinds)


def local(setting: Setting) -> float:
    return len(setting.code.ran(_of_arrays(setting)))


def _of_arrays(setting: Setting) -> list[int]:
    kinds = accesses(setting.code.program, setting.code.classes)
    return [i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"]


def slow_tables(setting: Setting) -> float:
    """Accesses of local arrays, and of constant memory by a lane's index."""
    code = setting.code
    local = _of_arrays(setting)
    loads = code.where(lambda ins, op: ins.opcode == "LDC")
    indexed = [i for i in loads if any(o.bases for o in code[i].operands) and not _copied(setting, i)]
    return len(code.ran([*local, *indexed]))


def _copied(setting: Setting, index: int) -> bool:
    """Whether a load is for a table in shared memory alone: once a block, as the change asks for."""
    used = setting.code.defuse.consumers(index)
    return bool(used) and all(setting.code[i].opcode == "STS" for i in used)


def strong(setting: Setting) -> float:
    code = setting.code
    return len(code.where(lambda ins, op: op.access == "load" and op.space == "global" and "STRONG" in ins.mods))


def pairs(setting: Setting) -> float:
    code = setting.code
    sums = code.ran(code.where(lambda ins, op: ins.opcode == "FADD"))
    made = {p for i in sums for ps in code.defuse.sources(i).values() if len(ps) == 1 for p in ps}
    return sum(code[p].opcode == "FMUL" for p in made)


def narrow(setting: Setting) -> float:
    found = merges(setting.code, setting.launch.block if setting.launch is not None else None)
    return sum(len(m.members) - 1 for m in found if setting.code.classes[m.members[0]].access == "load")


def in_pieces(setting: Setting) -> float:
    """Where nothing is stored but single bytes; the loop for other sizes stays where it was."""
    code = setting.code
    if len(code.where(lambda ins, op: op.space == "global" and op.access == "store" and op.bytes > 1)):
        return 0.0
    found = merges(code, setting.launch.block if setting.launch is not None else None, crossing=True)
    return sum(m.crossing for m in found if code.classes[m.members[0]].bytes == 1)


def instructions(setting: Setting) -> float:
    """A byte that is loaded: a loop of shorter rounds may be unrolled further."""
    return len(setting.code.ran(range(len(setting.code)))) / _bytes(setting)


def _bytes(setting: Setting) -> int:
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "shared") and op.access == "load"))
    return max(1, sum(code.classes[i].bytes for i in loads))


def conversions(setting: Setting) -> float:
    code = setting.code
    return len(code.ran(code.where(lambda ins, op: ins.opcode in FROM_INTEGER))) / _bytes(setting)


def small_accesses(setting: Setting) -> float:
    """Where none of 16 bytes does the most of them: what is left over is done one by one."""
    code = setting.code
    moves = ("load", "store")
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in moves and op.bytes > 0))
    widest = {code.classes[i].access: max(code.classes[j].bytes for j in found
              if code.classes[j].access == code.classes[i].access) for i in found}  # fmt: skip
    return sum(code.classes[i].bytes < WORD and widest[code.classes[i].access] < WIDEST for i in found)


def fences(setting: Setting) -> float:
    code = setting.code
    return sum(code.cfg.loop_of[i] is not None for i in code.where(lambda ins, op: ins.opcode == "MEMBAR"))


def reciprocals(setting: Setting) -> float:
    return len(setting.code.where(lambda ins, op: ins.opcode == "MUFU" and "RCP" in ins.mods))


def fetches(setting: Setting) -> float:
    return len(setting.code.where(lambda ins, op: ins.opcode in ("TEX", "TLD")))


def shared_stores(setting: Setting) -> float:
    code = setting.code
    return len(code.ran(code.where(lambda ins, op: op.space == "shared" and op.access == "store")))


def spread(setting: Setting) -> float | None:
    """Of the loads whose addresses follow from the code, but for loaded words that are the same for the same address:
    those in loops, where there are some."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    chosen = [i for i in loads if code.cfg.loop_of[i] is not None] or loads
    lanes = Addressed(code, Assumption(1, setting.block))
    rows = [(row, code.classes[i].bytes) for i in chosen if isinstance(row := lanes.address(i), tuple)]
    known = [(row, width) for row, width in rows if len({b - a for a, b in pairwise(row)}) <= STRIDES]
    return sum(sectors(row, width) / least(row, width) - 1 for row, width in known) / len(known) if known else None


def unshared(setting: Setting) -> float:
    code = setting.code
    adding = code.where(lambda ins, op: op.access in ("atomic", "reduction"))
    shared = [i for i in adding if code.classes[i].space == "shared"] or code.where(lambda i, _: i.opcode == "MATCH")
    return 0 if shared else sum(not _of_warps(setting, i) for i in adding)


def _of_warps(setting: Setting, index: int) -> bool:
    """Whether an atomic's value was put together by lanes, of what the block's warps had left in shared memory."""
    code = setting.code
    starts = [p for r in stored(code, index) for p in code.defuse.sources(index).get(r, ())]
    left_there = any(code.classes[i].space == "shared" for i in code.slices.bringing(starts, "load"))
    return left_there and bool(code.where(lambda ins, op: ins.opcode in ("SHFL", "REDUX")))


def whole_sums(setting: Setting) -> float:
    """Global stores, where no block adds a part of what it has to another's, or takes a part of another's rounds: it
    asks how many blocks lie along y or z then."""
    code = setting.code
    sides = [f"c[0x0][{abi(code.program.sm).block_shape + at:#x}]" for at in (16, 20)]
    if any(o.text in sides for ins in code.program.instructions for o in ins.operands):
        return 0
    outside = code.where(lambda ins, op: op.space in ("global", "generic"))
    kinds = Counter(code.classes[i].access for i in outside)
    return 0 if kinds["atomic"] + kinds["reduction"] else kinds["store"]


def exchanges(setting: Setting) -> float:
    """All of code without shuffles; else those of loops that have none."""
    code = setting.code
    barriers = code.where(lambda ins, op: ins.opcode == "BAR")
    shuffles = set(code.where(lambda ins, op: ins.opcode == "SHFL"))
    loops = [code.cfg.loop_of[i] for i in barriers]
    without = [x for x in loops if x is not None and not shuffles & set(code.cfg.loops[x].instructions)]
    return len(without if shuffles else barriers)


def meetings(setting: Setting) -> float:
    """Shuffles, and barriers by the warps that meet there: a round of pairs takes two shuffles for its barrier."""
    barriers = setting.code.where(lambda ins, op: ins.opcode == "BAR")
    return len(setting.code.where(lambda ins, op: ins.opcode == "SHFL")) + MEETING * len(barriers)


def loaded(setting: Setting, *, whole: bool = False) -> float | None:
    """Of the outermost loop with most multiplications; `whole`: with its inner loops, by the rounds that they are taken
    for."""
    code = setting.code
    products = code.where(lambda ins, op: ins.opcode in ("FFMA", "FFMA2"))
    products = products or code.where(lambda ins, op: ins.opcode in ("FADD", "FADD2", "FMNMX"))
    products = products or code.where(lambda ins, op: ins.opcode in ("VIADDMNMX", "VIMNMX", "IMNMX"))
    around = [code.cfg.loops_around(i) for i in products]
    outer = Counter(loops[-1] for loops in around if loops)
    if not outer:
        return _loaded_for_fragments(setting)
    most = max(outer, key=lambda loop: outer[loop])
    body = code.cfg.loops[most].instructions if whole else code.cfg.loop_body(most)
    depth = {i: len(code.cfg.loops_around(i)) for i in body}
    least = min(depth.values())
    made = sum(float(ROUNDS ** (depth[i] - least)) for i in products if i in depth)
    loads = [i for i in body if code.classes[i].space == "global" and code.classes[i].access == "load"]
    return sum(float(ROUNDS ** (depth[i] - least)) * code.classes[i].bytes / 4 for i in loads) / made


def _loaded_for_fragments(setting: Setting) -> float | None:
    """The same where tensor cores multiply: a lane's share of the instructions that run in loops with them."""
    code = setting.code
    chosen = code.where(lambda ins, op: ins.opcode in TENSOR or ins.opcode in GROUPS)
    tensor = [i for i in chosen if code.cfg.loops_around(i)]
    loops = {loop for i in tensor for loop in code.cfg.loops_around(i)}
    loads = code.where(lambda ins, op: op.space == "global" and op.access in ("load", "async_copy"))
    inside = [i for i in loads if loops & set(code.cfg.loops_around(i))]
    if not tensor or (not inside and code[tensor[0]].opcode in GROUPS):  # bulk copies are asked for elsewhere
        return None
    return sum(code.classes[i].bytes / 4 for i in inside) / sum(_of_a_lane(code[i]) for i in tensor)


def _of_a_lane(ins: Instruction) -> float:
    """Multiply-adds of a lane in a product: of a warpgroup's by the sides that it says."""
    sides = [mod.split("x") for mod in ins.mods if re.fullmatch(r"\d+x\d+x\d+", mod)] if ins.opcode in GROUPS else []
    return math.prod(map(int, sides[0])) / 128 if sides else FRAGMENT


def kept_stores(setting: Setting) -> float:
    """Of sums that a loop or its terms keep in memory."""
    return len({i for kept in kept_in_memory(setting.code) for i in kept.stores})


def loaded_in_all(setting: Setting) -> float | None:
    return loaded(setting, whole=True)


def loads_apart(setting: Setting) -> float | None:
    """In the innermost loops that have some."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    around = {code.cfg.loop_of[i] for i in loads} - {None}
    body = {i for loop in around if loop is not None for i in code.cfg.loop_body(loop)}
    return len(body & set(loads)) / len(body) if body else None


def loads_a_product(setting: Setting) -> float | None:
    """Of global memory, by the loops around both."""
    code = setting.code
    loads = code.where(lambda ins, op: op.space == "global" and op.access == "load")
    products = code.where(lambda ins, op: ins.opcode in TENSOR)
    made, loaded = (sum(float(ROUNDS ** code.cfg.depth[i]) for i in code.ran(one)) for one in (products, loads))
    return loaded / made if made else None


def rounds_a_load(setting: Setting) -> float | None:
    """In the innermost loop that has the most of them; a thread without loops is one round."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    most = Counter(code.cfg.loop_of[i] for i in loads if code.cfg.loop_of[i] is not None)
    return 1 / max(most.values(), default=len(loads)) if loads else None


def waited(setting: Setting) -> float:
    return len(exposed_copies(setting.code))


def idle_moves(setting: Setting) -> float:
    moves = setting.code.where(lambda ins, op: ins.opcode == "MOV" and len(ins.operands) == 2)
    return sum(len({o.text for o in setting.code[i].operands}) == 1 for i in moves)
