"""Accesses that could be wider, and what of the memory's rounds is left when they are: MEM102 asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import SECTOR, Code, CodeFacts, Facts, Listing, total
from kscope.model.operand import PREDICATE_BASE, memory_operand
from kscope.model.units import counted
from kscope.rules._shared.askew_rows import askew
from kscope.rules._shared.coarser_threads import makes_one
from kscope.rules._shared.data_reuse import wasteful
from kscope.rules._shared.own_records import copied, own_records

if TYPE_CHECKING:
    from kscope.features.facts import Demand, Merge

LANES = 32
FATTER = "fewer, fatter threads"
TILE = "as many threads: the block's part comes by loads of 16 bytes and lies in shared memory"
AT_ONCE = "load {} bytes at once, on a base aligned to as many: all lanes want the same ones"
FIX = "move 16 bytes a thread: float4 / uint4 on a 16-byte aligned base, __restrict__"
PEEL = "rows start anywhere: a head of single elements up to 16 bytes, then 16 bytes a thread, then a tail"
RECORD = "read each record in loads of 16 bytes (its loop unrolled, records aligned); side by side brings more (MEM101)"
ELEMENT = "copy each element of {n} bytes with one access (by a switch on its size) if copies do not overlap; or "
FLAT = (
    "take arrays of structures of three as flat ones, neighbouring lanes 16 bytes side by side, where all three are "
    "computed alike; or give them a fourth piece (float4). Not four a thread: stores would fill parts of sectors"
)
PAD = "give the structure of three a fourth piece (uchar4, float4): one load for all; or "
"""FLAT: four structures of three a thread took 1.5 times as long as one, flat arrays 0.9 (a public kernel)."""
FOURTH = "give each structure of three a fourth piece (float4): one access for all; what is stored mixes the pieces"
STEPS = 400  # instructions behind a value that are looked at
REACHED = "lts__t_sectors_srcunit_tex_op_write.sum"


def candidates(facts: Facts, code: Code) -> tuple[list[Merge], list[int]]:
    """Accesses that one wider access could replace, and others that are narrow."""
    # Operands that a product reads again and again want a tile (MEM112); wider loads of them are that tile.
    tiled = {i for loop in wasteful(facts, code) if loop.both for i in loop.loads}
    # Where lanes are apart, their rows or columns are the fault (MEM101), not the width of an access; but for records.
    possible = [g for g in _alternating(facts) if tiled.isdisjoint(g.members)]
    groups = [
        g for g in possible
        if all(map(facts.profile.compact, g.members)) or facts.profile.compact_together(g.members, g.bytes)
    ]  # fmt: skip
    records = own_records(facts, code)
    groups += [g for g in possible if g not in groups and (records.keys() >= set(g.members) or copied(g))]
    groups += padded(facts, {i for g in groups for i in g.members} | tiled)
    grouped = {i for g in groups for i in g.members}
    spoken_for = grouped | tiled | fed(facts, code)
    alone = facts.profile.contiguous
    rows = facts.profile.picked if makes_one(facts, code, [*alone, *facts.profile.picked]) else []
    return groups, [i for i in sorted({*alone, *rows}) if i not in spoken_for]


def fed(facts: Facts | CodeFacts, code: Listing) -> set[int]:
    """Loads of a loop whose rounds are one chain that takes them in (a hash, a cipher): a lane needs those words in
    their order, and a wider load would bring it its neighbours' instead. A flag that is carried is no such chain."""
    chains = [(lp, facts.patterns.chained(n)) for n, lp in enumerate(code.cfg.loops)]
    return {
        i for lp, ring in chains if ring and all(any(r < PREDICATE_BASE for r in code[at].defs) for at in ring)
        for i in code.slices.bringing(ring, "load") if i in lp.instructions
    }  # fmt: skip


def padded(facts: Facts, others: set[int]) -> list[Merge]:
    """Structures of three pieces that lie side by side, or that each lane picks from somewhere: a fourth piece makes
    one access of them. Neighbours of a stencil lie side by side one by one, and are none. others: accesses that are
    spoken for. Three rounds of an array of single elements are none: its loop moves by four of them, or by 16."""
    flat = {
        facts.addresses.pointer(i) for g in facts.lanes.threes for i in g.members
        if any(step % (3 * g.bytes // 4) for step in facts.lanes.strides.steps(i))
    } - {None}  # fmt: skip
    return [
        g for g in facts.lanes.threes
        if others.isdisjoint(g.members) and not any(map(facts.profile.compact, g.members))
        and flat.isdisjoint(map(facts.addresses.pointer, g.members))
        and (facts.profile.compact_together(g.members, g.bytes) or all(map(facts.addresses.gathers, g.members)))
    ]  # fmt: skip


def pieces(facts: Facts, code: Code) -> set[int]:
    """Accesses that touch sectors which others of their lane touch again: a structure that is read a few bytes at a
    time, though lanes lie side by side and one access would do; or that start off a sector, side by side as well."""
    return set(askew(facts, code)) | {
        i for g in [*_alternating(facts), *facts.lanes.threes]
        if copied(g) or facts.profile.compact_together(g.members, g.bytes)
        for i in g.members if not facts.profile.compact(i)
    }  # fmt: skip


def _alternating(facts: Facts) -> list[Merge]:
    """Groups that are aligned whatever the launch values are, or whose lanes lie a group apart in this launch: elements
    of so many bytes that a loop copies piece by piece, on the one side picked from anywhere."""
    dense = [g for g in facts.lanes.alternating if not g.sure and _elements(facts, g)]
    sizes = {(g.bytes, len(g.members)) for g in dense if copied(g)}
    dense += [g for g in facts.lanes.alternating if copied(g) and (g.bytes, len(g.members)) in sizes and g not in dense]
    return [g for g in facts.lanes.alternating if g.sure or g in dense]


def _elements(facts: Facts, group: Merge) -> bool:
    return not all(map(facts.profile.compact, group.members)) and facts.profile.compact_together(
        group.members, group.bytes
    )


def adjacent(groups: Sequence[Merge]) -> str:
    """How the accesses of groups lie, for a finding's reasons."""
    if not groups:
        return ""
    sized = "" if all(g.sure for g in groups) else ", side by side at this launch's sizes"
    return f"; {counted(len(groups), 'group')} at adjacent offsets of one base{sized}"


def fix(
    facts: Facts, code: Code, members: list[int], groups: Sequence[Merge], *, peeled: bool, own: bool, few: bool
) -> str:  # fmt: skip
    """What to do about narrow accesses. peeled: most are of rows that start anywhere; own: most of records of their
    threads' own; few: threads are, so that the block has to share out what it loads at once."""
    first = code.hottest(members)[0]
    elements = next((ELEMENT.format(n=g.bytes) for g in groups if first in g.members and copied(g)), "")
    if peeled or (own and not elements):
        return PEEL if peeled else RECORD
    threes = sorted({i for g in padded(facts, set()) for i in g.members}.intersection(members))
    most = 2 * total(code.executed, threes) > total(code.executed, members)
    if most and any(code.classes[i].access == "store" for i in threes):
        return FOURTH if mixes(code, padded(facts, set()), groups) else FLAT
    return f"{elements or PAD if elements or first in threes else ''}{FIX}; {TILE if few else FATTER}"


def streams(code: Code, accesses: float) -> bool:
    """Little happens to each element between its load and its store: wider accesses change most of the work.
    A kernel that computes much on each element, or reads it in a pattern of its own, gains less."""
    return total(code.executed) / accesses < 16 and not any("barrier" in op.kind for op in code.classes)


def wavefronts_left(facts: Facts, code: Code, members: list[int]) -> float:
    """What remains of the L1 wavefronts when these accesses carry full 128-byte wavefronts. A request of 4-byte
    lanes fills one already; narrower or strided ones do not."""
    requests = total(code.executed, members)
    carried = sum(float(code.executed[i]) * code.classes[i].bytes for i in members) * 32
    every = facts.counters.traffic.l1_wavefronts or 0.0
    mine = max(0.0, every - facts.counters.traffic.shared_wavefronts)
    least = carried / 128
    return (every - mine + min(mine, max(least, requests / 8))) / every if every else 1.0


def apart_stores(facts: Facts, code: Code, groups: Sequence[Merge]) -> float:
    """Share of what L2 serves that goes when stores of neighbouring pieces, each of which touches the sectors of all,
    become one (0..1): L1 is written through. What reaches L2 is counted, where the report has it: pieces that leave
    back to back may be one there already."""
    served, spare = facts.counters.traffic.l2_sectors, 0.0
    for g in groups:
        if code.classes[g.members[0]].access == "store" and not facts.profile.compact(g.members[0]):
            spare += facts.profile.written_to_l2(g.members, served) * (1 - 1 / len(g.members))
    reached = facts.kernel.metrics.get(REACHED)
    if not spare or reached is None:
        return min(1.0, spare)
    stores = code.where(lambda ins, op: op.access == "store" and op.space in ("global", "generic"))
    least = sum((code.threads[i] or LANES * code.executed[i]) * code.classes[i].bytes for i in stores) / SECTOR
    return min(1.0, spare, max(0.0, reached - least) / served)


def mixes(code: Listing, threes: Sequence[Merge], groups: Sequence[Merge]) -> bool:
    """Whether a piece of a structure of three that is stored hangs on several pieces of one that is loaded (a turn of a
    vector): lanes that take the words as they come would need each other's."""
    loads = [g for g in threes if code.classes[g.members[0]].access == "load"]
    stores = {i for g in groups for i in g.members if code.classes[i].access == "store"}
    behind = (_behind(code, i) for i in stores)
    return any(len(seen.intersection(g.members)) > 1 for seen in behind for g in loads)


def _behind(code: Listing, store: int) -> set[int]:
    """What leads to the value that is stored, up to the loads."""
    at = memory_operand(code[store].operands)
    address = {r for b in at.bases for r in (b.register, b.register + 1)} if at is not None else set[int]()
    other = {*address, code[store].guard}
    work = [p for r, ps in code.defuse.sources(store).items() if r not in other for p in ps]
    seen = set[int]()
    while work and len(seen) < STEPS:
        i = work.pop()
        if i not in seen and code.classes[i].access is None:
            work += [p for ps in code.defuse.sources(i).values() for p in ps]
        seen.add(i)
    return seen


def padding(facts: Facts, code: Code, groups: Sequence[Merge], scale: dict[Demand, float]) -> dict[Demand, float]:
    """What is left of each demand, with the bytes of a fourth piece where that is what is left for structures of three.
    A public kernel at a full L2: 0.92x."""
    pieces_of_three = padded(facts, set())
    if not mixes(code, pieces_of_three, groups):
        return scale

    def moved(members: Iterable[int]) -> float:
        return sum(float(code.threads[i]) * code.classes[i].bytes for i in members)

    every = moved(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    threes = {i for g in pieces_of_three for i in g.members}.intersection(i for g in groups for i in g.members)
    more = 1 + moved(threes) / 3 / max(1.0, every)
    return {**scale, "dram_bytes": more * scale.get("dram_bytes", 1.0), "l2_sectors": more * scale["l2_sectors"]}
