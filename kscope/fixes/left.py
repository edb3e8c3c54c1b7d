"""What a change was to take away, counted in code: how a new version shows whether it has the change."""

from __future__ import annotations

from collections.abc import Callable

from kscope.fixes import counted, remaining
from kscope.fixes.algebra.onward import ANEW
from kscope.fixes.algebra.repeated import ALIKE, alike
from kscope.fixes.algebra.steady import AGAIN, again
from kscope.fixes.given.setting import Setting
from kscope.fixes.packed.extremes import LOOKED, looked_through
from kscope.fixes.packed.quads import pairs_stored
from kscope.fixes.pipeline.batched import waits_one_by_one
from kscope.fixes.roles.delays import CLOCKS, clocks_in_loops
from kscope.fixes.strided.passed import not_passed
from kscope.fixes.template.chain import a_round, one_chain
from kscope.fixes.thread.first import BEHIND, all_behind
from kscope.fixes.thread.results import narrow_ones
from kscope.fixes.tiling.split import CHAINED, unshared
from kscope.fixes.work.all_lanes import by_one_lane
from kscope.fixes.work.elected import by_lane
from kscope.fixes.work.halved import exits
from kscope.fixes.work.passes import passes
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


Count = tuple[str, Callable[[Setting], float | None]]
BY_RULE: dict[tuple[str, Kind], Count] = {
    **{(rule, "hoist"): (ALIKE, lambda setting: len(alike(setting))) for rule in ("CMP202", "CMP208")},
    **{(rule, "register"): (AGAIN, again) for rule in ("CMP204", "CMP211", "LAT302", "LAT303", "MEM118")},
    ("CMP209", "stages"): ("loops that wait for each product", lambda setting: waits_one_by_one(setting.code)),
    ("MEM101", "lane_mapping"): ("sectors too many for each that a warp's load needs, the mean", counted.spread),
    ("MEM105", "qualifier"): ("accesses of local arrays", counted.local),
    ("MEM105", "register"): ("loops that call by pointer, of all", remaining.by_pointer),
    ("CMP201", "tile"): ("products on the FMA pipe", remaining.fused_products),
    **{(rule, "tile"): ("products by fragments in registers", remaining.by_fragments)
       for rule in ("CMP202", "GRD402", "LAT301", "LAT304", "LAT307", "MEM101", "MEM103")},
    ("CMP207", "math_function"): ("conversions of integers a byte that is loaded", counted.conversions),
    ("LAT302", "jam"): ("rounds of a loop for each load in it", counted.rounds_a_load),
    ("LAT302", "hoist"): (BEHIND, all_behind),
    ("LAT302", "qualifier"): (BEHIND, all_behind),
    ("LAT302", "lane_mapping"): ("loads of loops without shuffles", remaining.undealt),
    ("LAT302", "unroll"): ("stretches without a branch that a loop's loads are in, a load", remaining.loads_apart),
    ("MEM109", "jam"): ("atomics of elements in no order", remaining.unordered),
    **{(rule, "vector_access"): ("integer divisions a byte that is loaded", counted.divisions_a_byte)
       for rule in ("CMP205", "GRD405")},
    ("MEM118", "hoist"): (ANEW, counted.anew),
    ("GRD405", "jam"): ("rounds of a thread for each load in them", counted.rounds_a_load),
    ("LAT303", "jam"): ("cycles of the longest chain, an operation of its rounds", one_chain),
    ("LAT303", "unroll"): ("cycles of the longest chain, a round", a_round),
    ("LAT304", "lane_mapping"): ("barriers of exchanges without a shuffle", counted.exchanges),
    ("GRD404", "lane_mapping"): ("shuffles that lanes of a row meet in, and barriers as eight", counted.meetings),
    ("GRD405", "lane_mapping"): ("shuffles that lanes of a row meet in, and barriers as eight", counted.meetings),
    ("LAT310", "lane_mapping"): ("bulk copies that are issued lane by lane", lambda setting: len(by_lane(setting))),
    ("MEM106", "jam"): ("words loaded a multiplication, in all loops", counted.loaded_in_all),
    ("MEM112", "jam"): ("words loaded a multiplication, in all loops", counted.loaded_in_all),
    ("MEM112", "register"): ("loads of shared memory narrower than 16 bytes", narrow_ones),
    ("MEM112", "hoist"): (LOOKED, looked_through),
    ("MEM101", "tile"): ("stores of records that do not pass through shared memory", not_passed),
    ("MEM101", "register"): ("stores of four bytes a lane", pairs_stored),
    ("ASY503", "register"): ("stores of four bytes a lane", pairs_stored),
    ("MEM101", "jam"): ("warp loads a product of fragments", counted.loads_a_product),
    ("MEM114", "register"): ("stores of sums that are kept in memory", counted.kept_stores),
    ("MEM106", "register"): ("loops that load from global memory", passes),
    **{(rule, "hoist"): (CLOCKS, lambda setting: len(clocks_in_loops(setting))) for rule in ("ASY502", "ASY503")},
    **{(rule, "fence"): ("barriers of a block in loops", remaining.stops_in_loops) for rule in ("ASY502", "LAT304")},
    ("ASY502", "lane_mapping"): ("bulk copies that one lane alone asks for", lambda setting: len(by_one_lane(setting))),
    ("GRD401", "jam"): ("stores of sequences that no threads go along together", remaining.unjoined),
    ("GRD401", "lane_mapping"): ("stores of what no blocks share in parts", counted.whole_sums),
    ("LAT306", "unroll"): ("bytes of code", remaining.code_bytes),
    ("LAT305", "jam"): ("branches in front of which no warp votes", remaining.unvoted),
    ("GRD401", "register"): (CHAINED, unshared),
    ("GRD402", "lane_mapping"): (CHAINED, unshared),
    ("LAT305", "lane_mapping"): ("exits of every second lane", lambda setting: len(exits(setting))),
}
COUNTS: dict[Kind, Count] = {
    "aggregate": ("global atomics of what no table in shared memory sums up", counted.unshared),
    "tile": ("words loaded from global memory a multiplication", counted.loaded),
    "stages": ("copies that are waited for whole", counted.waited),
    "jam": ("global loads an instruction of their loops", counted.loads_apart),
    "build": ("moves of a register to itself", counted.idle_moves),
    "pad": ("wavefronts too many, an execution of each shared access", counted.excess),
    "swizzle": ("wavefronts too many, an execution of each shared access", counted.excess),
    "literal": ("double instructions", counted.doubles),
    "divisor": ("integer divisions", counted.divisions),
    "index_width": ("divisions of 64-bit integers", counted.wide_divisions),
    "launch_bounds": ("spill loads and stores", counted.spills),
    "copy_constants": ("indexed accesses of local and constant memory", counted.slow_tables),
    "qualifier": ("strong loads", counted.strong),
    "hoist": ("products and sums that are not fused", counted.pairs),
    "vector_access": ("loads that could be part of a wider one", counted.narrow),
    "element_access": ("elements that are copied byte by byte alone", counted.in_pieces),
    "math_function": ("instructions a byte that is loaded", counted.instructions),
    "neighbours": ("global accesses of one or two bytes a lane, and none of 16", counted.small_accesses),
    "fence": ("fences in loops", counted.fences),
    "reciprocal": ("reciprocals", counted.reciprocals),
    "texel_loads": ("texture fetches", counted.fetches),
    "register": ("stores to shared memory", counted.shared_stores),
    "unroll": ("accesses of local arrays", counted.local),
}
