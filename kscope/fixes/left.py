"""What a change was to take away, counted in code: how a new version shows whether it has the change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.bank_conflicts import conflicts
from kscope.features.lanes.vectorizable import merges
from kscope.features.patterns.math_functions import integer_divisions
from kscope.features.patterns.tile_copies import exposed_copies
from kscope.features.sass.accesses import accesses
from kscope.fixes.given.setting import Setting
from kscope.fixes.memory.lane_mapping import sectors
from kscope.fixes.memory.turned import Addressed, least
from kscope.fixes.tile.own_rows import excess as with_data
from kscope.fixes.work.all_lanes import by_one_lane
from kscope.fixes.work.elected import by_lane
from kscope.fixes.work.halved import exits
from kscope.fixes.work.passes import passes
from kscope.isa.families import family
from kscope.model.contract.fixes import Kind


def left(kind: Kind, setting: Setting, rule: str = "") -> tuple[str, float] | None:
    """(what is counted, how much of it a kernel has), for each kind of change whose effect its code shows; None for the
    others, and where this code does not tell. rule: what found it, where changes of one kind take away different
    things."""
    what, count = BY_RULE.get((rule, kind)) or COUNTS.get(kind) or ("", _never)
    found = count(setting)
    return (what, found) if found is not None else None


def _never(setting: Setting) -> float | None:
    return None


def _excess(setting: Setting) -> float:
    known = conflicts(setting.code, setting.launch.block if setting.launch is not None else None)
    found = sum(c.wavefronts - c.ideal for i, c in known.items() if setting.code.executed[i] > 0)
    return found or with_data(setting)  # data decide where the code alone shows none


def _doubles(setting: Setting) -> float:
    return len(setting.code.ran(setting.code.where(lambda ins, op: op.pipe == "fp64")))


def _divisions(setting: Setting) -> float:
    return len(integer_divisions(setting.code))


def _wide_divisions(setting: Setting) -> float:
    code = setting.code
    made = family("integer_to_float")
    return len(code.where(lambda ins, op: ins.opcode in made and "U64" in ins.mods))


def _spills(setting: Setting) -> float:
    kinds = accesses(setting.code.program, setting.code.classes)
    return sum(a is not None and a.stack in ("spill", "spill slot") for a in kinds)


def _local(setting: Setting) -> float:
    return len(setting.code.ran(_of_arrays(setting)))


def _of_arrays(setting: Setting) -> list[int]:
    kinds = accesses(setting.code.program, setting.code.classes)
    return [i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"]


def _slow_tables(setting: Setting) -> float:
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


def _strong(setting: Setting) -> float:
    code = setting.code
    return len(code.where(lambda ins, op: op.access == "load" and op.space == "global" and "STRONG" in ins.mods))


def _pairs(setting: Setting) -> float:
    code = setting.code
    sums = code.ran(code.where(lambda ins, op: ins.opcode == "FADD"))
    made = {p for i in sums for ps in code.defuse.sources(i).values() if len(ps) == 1 for p in ps}
    return sum(code[p].opcode == "FMUL" for p in made)


def _narrow(setting: Setting) -> float:
    found = merges(setting.code, setting.launch.block if setting.launch is not None else None)
    return sum(len(m.members) - 1 for m in found if setting.code.classes[m.members[0]].access == "load")


def _in_pieces(setting: Setting) -> float:
    """Where nothing is stored but single bytes; the loop for other sizes stays where it was."""
    code = setting.code
    if len(code.where(lambda ins, op: op.space == "global" and op.access == "store" and op.bytes > 1)):
        return 0.0
    found = merges(code, setting.launch.block if setting.launch is not None else None, crossing=True)
    return sum(m.crossing for m in found if code.classes[m.members[0]].bytes == 1)


def _instructions(setting: Setting) -> float:
    """A byte that is loaded: a loop of shorter rounds may be unrolled further."""
    return len(setting.code.ran(range(len(setting.code)))) / _bytes(setting)


def _bytes(setting: Setting) -> int:
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "shared") and op.access == "load"))
    return max(1, sum(code.classes[i].bytes for i in loads))


def _conversions(setting: Setting) -> float:
    code = setting.code
    return len(code.ran(code.where(lambda ins, op: ins.opcode in FROM_INTEGER))) / _bytes(setting)


def _narrow_ones(setting: Setting) -> float:
    """Where none of 16 bytes does the most of them: what is left over is done one by one."""
    code = setting.code
    moves = ("load", "store")
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in moves and op.bytes > 0))
    widest = {code.classes[i].access: max(code.classes[j].bytes for j in found
              if code.classes[j].access == code.classes[i].access) for i in found}  # fmt: skip
    return sum(code.classes[i].bytes < WORD and widest[code.classes[i].access] < WIDEST for i in found)


def _fences(setting: Setting) -> float:
    code = setting.code
    return sum(code.cfg.loop_of[i] is not None for i in code.where(lambda ins, op: ins.opcode == "MEMBAR"))


def _reciprocals(setting: Setting) -> float:
    return len(setting.code.where(lambda ins, op: ins.opcode == "MUFU" and "RCP" in ins.mods))


def _fetches(setting: Setting) -> float:
    return len(setting.code.where(lambda ins, op: ins.opcode in ("TEX", "TLD")))


def _stored(setting: Setting) -> float:
    code = setting.code
    return len(code.ran(code.where(lambda ins, op: op.space == "shared" and op.access == "store")))


def _sectors(setting: Setting) -> float | None:
    """Of the loads whose addresses follow from the code, but for loaded words that are the same for the same address:
    those in loops, where there are some."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    chosen = [i for i in loads if code.cfg.loop_of[i] is not None] or loads
    lanes = Addressed(code, Assumption(1, setting.block))
    rows = [(row, code.classes[i].bytes) for i in chosen if isinstance(row := lanes.address(i), tuple)]
    known = [(row, width) for row, width in rows if len({b - a for a, b in pairwise(row)}) <= STRIDES]
    return sum(sectors(row, width) / least(row, width) - 1 for row, width in known) / len(known) if known else None


def _unshared(setting: Setting) -> float:
    code = setting.code
    adding = code.where(lambda ins, op: op.access in ("atomic", "reduction"))
    shared = [i for i in adding if code.classes[i].space == "shared"]
    return 0 if shared else len(adding)


def _exchanges(setting: Setting) -> float:
    code = setting.code
    barriers = code.where(lambda ins, op: ins.opcode == "BAR")
    return 0 if code.where(lambda ins, op: ins.opcode == "SHFL") else len(barriers)


def _loaded(setting: Setting, *, whole: bool = False) -> float | None:
    """Of the outermost loop with most multiplications; `whole`: with its inner loops, by the rounds that they are taken
    for."""
    code = setting.code
    products = code.where(lambda ins, op: ins.opcode in ("FFMA", "FFMA2"))
    products = products or code.where(lambda ins, op: ins.opcode in ("FADD", "FADD2", "FMNMX"))
    around = [code.cfg.loops_around(i) for i in products]
    outer = Counter(loops[-1] for loops in around if loops)
    if not outer:
        return None
    most = max(outer, key=lambda loop: outer[loop])
    body = code.cfg.loops[most].instructions if whole else code.cfg.loop_body(most)
    depth = {i: len(code.cfg.loops_around(i)) for i in body}
    least = min(depth.values())
    made = sum(float(ROUNDS ** (depth[i] - least)) for i in products if i in depth)
    loads = [i for i in body if code.classes[i].space == "global" and code.classes[i].access == "load"]
    return sum(float(ROUNDS ** (depth[i] - least)) * code.classes[i].bytes / 4 for i in loads) / made


def _loads_apart(setting: Setting) -> float | None:
    """In the innermost loops that have some."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    around = {code.cfg.loop_of[i] for i in loads} - {None}
    body = {i for loop in around if loop is not None for i in code.cfg.loop_body(loop)}
    return len(body & set(loads)) / len(body) if body else None


def _loads_a_product(setting: Setting) -> float | None:
    """Of global memory, by the loops around both."""
    code = setting.code
    loads = code.where(lambda ins, op: op.space == "global" and op.access == "load")
    products = code.where(lambda ins, op: ins.opcode in TENSOR)
    made, loaded = (sum(float(ROUNDS ** code.cfg.depth[i]) for i in code.ran(one)) for one in (products, loads))
    return loaded / made if made else None


def _rounds_a_load(setting: Setting) -> float | None:
    """In the innermost loop that has the most of them; a thread without loops is one round."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    most = Counter(code.cfg.loop_of[i] for i in loads if code.cfg.loop_of[i] is not None)
    return 1 / max(most.values(), default=len(loads)) if loads else None


def _waited(setting: Setting) -> float:
    return len(exposed_copies(setting.code))


def _idle_moves(setting: Setting) -> float:
    moves = setting.code.where(lambda ins, op: ins.opcode == "MOV" and len(ins.operands) == 2)
    return sum(len({o.text for o in setting.code[i].operands}) == 1 for i in moves)


WORD, WIDEST = 4, 16
STRIDES = 4  # that one load's lanes have between them: of more it is a gather, whose data decide (judged)
FROM_INTEGER = ("I2F", "I2FP", "I2HP", "I2F16", "I2H")
Count = tuple[str, Callable[[Setting], float | None]]
TENSOR = family("mma_sync")
ROUNDS = 8  # that an inner loop is taken for: only more or less than before is asked
BY_RULE: dict[tuple[str, Kind], Count] = {
    ("MEM101", "lane_mapping"): ("sectors too many for each that a warp's load needs, the mean", _sectors),
    ("CMP207", "math_function"): ("conversions of integers a byte that is loaded", _conversions),
    ("LAT302", "jam"): ("rounds of a loop for each load in it", _rounds_a_load),
    ("GRD405", "jam"): ("rounds of a thread for each load in them", _rounds_a_load),
    ("LAT304", "lane_mapping"): ("barriers of exchanges without a shuffle", _exchanges),
    ("LAT310", "lane_mapping"): ("bulk copies that are issued lane by lane", lambda setting: len(by_lane(setting))),
    ("MEM106", "jam"): ("words loaded a multiplication, in all loops", lambda setting: _loaded(setting, whole=True)),
    ("MEM112", "jam"): ("words loaded a multiplication, in all loops", lambda setting: _loaded(setting, whole=True)),
    ("MEM101", "jam"): ("warp loads a product of fragments", _loads_a_product),
    ("MEM106", "register"): ("loops that load from global memory", passes),
    ("ASY502", "lane_mapping"): ("bulk copies that one lane alone asks for", lambda setting: len(by_one_lane(setting))),
    ("LAT305", "lane_mapping"): ("exits of every second lane", lambda setting: len(exits(setting))),
}
COUNTS: dict[Kind, Count] = {
    "aggregate": ("global atomics of what no table in shared memory sums up", _unshared),
    "tile": ("words loaded from global memory a multiplication", _loaded),
    "stages": ("copies that are waited for whole", _waited),
    "jam": ("global loads an instruction of their loops", _loads_apart),
    "build": ("moves of a register to itself", _idle_moves),
    "pad": ("wavefronts too many, an execution of each shared access", _excess),
    "swizzle": ("wavefronts too many, an execution of each shared access", _excess),
    "literal": ("double instructions", _doubles),
    "divisor": ("integer divisions", _divisions),
    "index_width": ("divisions of 64-bit integers", _wide_divisions),
    "launch_bounds": ("spill loads and stores", _spills),
    "copy_constants": ("indexed accesses of local and constant memory", _slow_tables),
    "qualifier": ("strong loads", _strong),
    "hoist": ("products and sums that are not fused", _pairs),
    "vector_access": ("loads that could be part of a wider one", _narrow),
    "element_access": ("elements that are copied byte by byte alone", _in_pieces),
    "math_function": ("instructions a byte that is loaded", _instructions),
    "neighbours": ("global accesses of one or two bytes a lane, and none of 16", _narrow_ones),
    "fence": ("fences in loops", _fences),
    "reciprocal": ("reciprocals", _reciprocals),
    "texel_loads": ("texture fetches", _fetches),
    "register": ("stores to shared memory", _stored),
    "unroll": ("accesses of local arrays", _local),
}
