"""Finding to fixes: which synthesis answers which rule. A synthesis that fails costs nobody else anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import msgspec

from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import declared_at
from kscope.fixes.seen import restored, with_seen
from kscope.model.contract.findings import Finding
from kscope.model.contract.fixes import Condition, Fix
from kscope.model.faults import show_traceback

MOST = 3  # fixes of one finding that are shown: the best first
IN_ALL_WAYS = ("thread.elementwise:fixes",)
"""Makers that take a text with its `#if`, whatever macros say."""
ALONE = ("neighbours", "aggregate")
MAKERS: dict[str, tuple[str, ...]] = {
    "MEM101": ("memory.lane_mapping:fixes", "memory.vectors:fixes", "memory.rows:fixes", "memory.records:fixes",
               "memory.staged:fixes", "memory.turned:fixes", "strided.wholes:fixes", "strided.together:fixes",
               "strided.words:fixes", "triton.tiles:along", "warpgroup.products:fixes", "compute.fragments:fixes",
               "packed.quads:fixes", "epilogue.quads:fixes"),
    "MEM102": ("memory.vectors:fixes", "memory.vectors:copies", "memory.neighbours:fixes",
               "memory.neighbours:stores", "memory.elements:elements", "thread.fewer_lanes:fixes",
               "memory.blocked:fixes", "thread.peeled:fixes", "packed.along_rows:fixes",
               "thread.elementwise:fixes", "strided.wholes:fixes", "strided.together:fixes", "strided.words:fixes"),
    "MEM103": ("tile.own_rows:fixes", "tile.conflicts:fixes", "warpgroup.products:fixes"),
    "MEM104": ("work.bounds:fixes",),
    "MEM105": ("algebra.called:fixes", "memory.qualifiers:in_place", "local.sorting:fixes", "local.inserted:fixes",
               "local.at_length:fixes", "local.unrolled:fixes", "local.selects:fixes", "memory.columns:fixes"),
    "MEM106": ("triton.tiles:whole_rows", "work.passes:fixes", "compute.coarser:fixes"),
    "MEM108": ("memory.aligned:fixes",),
    "MEM109": ("memory.aggregate:fixes", "order.tickets:fixes", "atomics.combined:fixes", "atomics.places:fixes",
               "tables.firsts:fixes",
               "order.runs_sorted:fixes", "order.runs:fixes", "shared_sums.met:fixes"),
    "MEM110": ("memory.host:fixes",),
    "MEM111": ("local.handed_out:fixes", "memory.constants:fixes"),
    "MEM112": ("compute.product:fixes", "compute.crossed:fixes", "compute.joined:fixes", "memory.jammed:fixes",
               "tensor.products:fixes", "warpgroup.products:fixes", "compute.fragments:fixes",
               "compute.instances:fixes", "compute.coarser:fixes", "thread.results:fixes", "packed.extremes:fixes",
               "packed.along_rows:fixes", "pipeline.read_alike:fixes"),
    "MEM118": ("memory.jammed:fixes", "algebra.onward:fixes", "algebra.steady:fixes"),
    "MEM113": ("memory.texels:fixes",),
    "MEM114": ("memory.kept:fixes", "thread.stored_once:fixes"),
    "MEM116": ("memory.qualifiers:fixes",),
    "CMP201": ("warpgroup.products:fixes", "tensor.products:fixes"),
    "CMP203": ("accuracy.literals:fixes",),
    "CMP204": ("algebra.sectors:fixes", "algebra.steady:fixes", "accuracy.math_functions:fixes",
               "accuracy.reciprocals:fixes", "accuracy.quotients:fixes", "algebra.roots:fixes"),
    "CMP205": ("algebra.recombined:fixes", "algebra.wide:fixes", "compute.divisors:fixes", "compute.narrow:fixes"),
    "CMP206": ("compute.fused:fixes",),
    "CMP207": ("compute.conversions:fixes", "compute.integer_dots:fixes"),
    "CMP208": ("algebra.repeated:fixes",),
    "CMP209": ("pipeline.batched:fixes",),
    "CMP211": ("algebra.steady:fixes", "accuracy.powers:fixes", "algebra.roots:fixes"),
    "CMP212": ("work.build:fixes",),
    "LAT301": ("work.carveout:fixes", "work.launch:fixes", "work.grid:taller", "work.peaks:fixes",
               "shared_sums.smaller:fuller", "warpgroup.products:fixes"),
    "LAT302": ("algebra.steady:fixes", "order.dealt_out:fixes", "order.batched:fixes", "work.grid:larger",
               "memory.jammed:overlapped", "work.several:fixes", "flight.ahead:fixes", "flight.blocks:fixes",
               "thread.first:fixes", "flight.restricted:fixes", "thread.elementwise:fixes"),
    "LAT304": ("work.shuffles:fixes", "rows.warps:fixes", "template.proposed:barriers", "recurrence.tree:fixes",
               "recurrence.walk:fixes", "wavefront.skewed:fixes", "shared_sums.levels:fixes",
               "roles.lockstep:fixes", "warpgroup.products:fixes"),
    "LAT303": ("algebra.steady:fixes", "template.proposed:chains", "recurrence.chains:fixes"),
    "LAT305": ("work.halved:fixes", "order.lanes:fixes", "order.by_host:fixes", "order.by_way:fixes",
               "shared_sums.row_lanes:fixes"),
    "LAT306": ("cases.merged:fixes", "cases.called_once:fixes"),
    "LAT307": ("warpgroup.products:fixes", "triton.programs:stages", "work.waits:ring", "pipeline.ring:fixes",
               "pipeline.addressed:fixes"),
    "LAT308": ("work.fences:fences",),
    "LAT310": ("work.elected:fixes",),
    "GRD401": ("work.grid:larger", "tiling.split:fixes", "triton.tiles:parts", "atomics.rounds:fixes",
               "atomics.merged:fixes", "template.proposed:idle", "recurrence.pieces:fixes",
               "recurrence.one_pass:fixes", "recurrence.prefix:fixes", "tiling.in_turn:fixes",
               "shared_sums.smaller:spread", "tiling.added:fixes"),
    "GRD402": ("tiling.split:fixes", "work.grid:waves", "tiling.smaller:fixes", "warpgroup.products:fixes",
               "warpgroup.halved:fixes"),
    "GRD403": ("work.dealt:fixes", "recurrence.ragged:fixes", "work.parts:fixes", "shared_sums.row_lanes:fixes",
               "shared_sums.smaller:fixes", "tiling.added:fixes"),
    "GRD404": ("work.launch:rows", "work.launch:blocks", "thread.halo:fixes", "triton.programs:programs",
               "rows.warps:fixes", "template.proposed:small", "template.proposed:barriers",
               "shared_sums.abreast:fixes"),
    "GRD405": ("algebra.wide:fixes", "work.longer:fixes", "work.several:fixes", "rows.lanes:fixes",
               "rows.warps:fixes"),
    "ASY502": ("roles.delays:fixes", "roles.lockstep:fixes", "work.all_lanes:fixes"),
    "ASY503": ("roles.delays:fixes", "epilogue.quads:fixes"),
    "ASY504": ("triton.programs:stages", "work.waits:deeper"),
    "CMP202": ("warpgroup.products:fixes", "algebra.repeated:fixes"),
}  # fmt: skip
"""Code of a rule -> what answers it, as module:function of this room, imported when the rule has found something."""


def proposed(setting: Setting, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with the changes that mend them; of a profile those that pay, or promise nothing in figures."""
    bare, settings = setting.launch is None, (with_seen(setting), with_seen(setting, branches=True))
    made = [_made(settings, f) if bare or f.severity != "info" else [] for f in findings]
    best: dict[int, Fix] = {}
    for fix in (fix for fixes in made for fix in fixes if fix.price is not None):
        best[fix.identity] = max(fix, best.get(fix.identity, fix), key=_promised)
    dear = [[msgspec.structs.replace(x, price=best[x.identity].price) if x.price else x for x in y] for y in made]
    return [msgspec.structs.replace(f, fixes=x) if x else f for f, x in zip(findings, dear, strict=True)]


def _promised(fix: Fix) -> float:
    return fix.price.speedup if fix.price is not None else 1.0


def _made(settings: tuple[Setting, Setting], finding: Finding) -> list[Fix]:
    """settings: as makers read it, and with what other macros would leave in of it."""
    found: list[tuple[Fix, Setting]] = []
    for name in MAKERS.get(finding.code, ()):
        module, _, function = name.partition(":")
        make: Callable[[Asked], list[Fix]] = getattr(import_module(f"kscope.fixes.{module}"), function)
        for setting in reversed(settings) if name in IN_ALL_WAYS else settings[:1]:
            try:
                fixes = make(Asked(setting, finding))
            except Exception as error:  # a change that cannot be computed must not cost the finding
                show_traceback(error)
                continue
            found += [(fix, setting) for fix in fixes]
            if fixes:
                break
    # What takes several neighbours at once, or puts atomics together, is printed in one way alone.
    kinds = [fix.kind for fix, _ in found]
    found = [one for n, one in enumerate(found) if kinds[n] not in ALONE or kinds[n] not in kinds[:n]]
    placed = [(_placed(s, f), s) for f, s in found if f.printable or f.refused]
    whole = (restored(f, [(e.file, s.lines(e.file)) for e in f.edits]) for f, s in placed)
    return [f for f in whole if f is not None and (f.printable or f.refused)][:MOST]


def _placed(setting: Setting, fix: Fix) -> Fix:
    """With the line that functions to add stand before: of what holds the first line that changes, which uses them."""
    if not fix.edits or fix.language != "cuda" or fix.refused:
        return fix
    lines, first = setting.lines(fix.edits[0].file), min(e.line for e in fix.edits)
    alone = any("if constexpr (" in e.becomes and "if constexpr (" not in e.was for e in fix.edits)
    if "<" in setting.instance.partition("(")[0] and not alone:
        why = "they are made of the same lines"
        others = Condition(holds="the template's other instances may change with it", state="check", why=why)
        fix = msgspec.structs.replace(fix, conditions=[*fix.conditions, others])
    if "{" not in fix.code:
        return fix
    if fix.code.partition("\n")[0] in lines:  # an earlier change has brought them
        return msgspec.structs.replace(fix, code="")
    return msgspec.structs.replace(fix, above=declared_at(lines, first))
