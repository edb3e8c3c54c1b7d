"""Records that each thread reads whole, word by word: lanes stand a record apart, and every access asks for as many
sectors as there are lanes. Wider accesses are no cure (that is another layout, or a way through shared memory: MEM101),
but each that takes the place of four asks for as many sectors as one of them did. That L1 catches the other three is
no reuse: nobody else reads the record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import SECTOR, SECTORS, WIDE, Code, Facts, total
from kscope.model.operand import memory_operand

if TYPE_CHECKING:
    from kscope.features.facts import Merge

WORD, MOST = 4, 8  # bytes, and words of a structure that lanes side by side are said to stand in (a sector's)
LOOSE = 1.4  # times the bytes of such a structure that a lane's sectors hold, for rows of them end (judged: one kernel)
WHOLE = 0.5  # of a record, from which what its sectors hold is read, not a field here and there
_Place = tuple[str | None, int | None, int]
"""What the accesses of a record share: its array, the loop, bytes between lanes."""


def own_records(facts: Facts, code: Code) -> dict[int, int]:
    """Loads that read records of their threads' own, whole in one round or over the rounds of a loop, with the bytes of
    a record. Rows that other threads of the launch read as well, for another column, are none."""
    launch = facts.kernel.launch
    used = {axis for axis, n in zip("xyz", launch.grid, strict=True) if n > 1}
    if launch.block[1] * launch.block[2] > 1:
        return {}
    found = dict[_Place, list[int]]()
    for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load")):
        if facts.profile.compact(i):
            continue
        apart, reached = facts.lanes.stride(i), facts.addresses.grid_dimensions(i)
        if apart is not None and apart > code.classes[i].bytes and reached is not None and used <= reached:
            found.setdefault((facts.addresses.pointer(i), code.cfg.loop_of[i], apart), []).append(i)
    return {i: place[2] for place, loads in found.items() if _whole(facts, code, place, loads) for i in loads}


def apart(facts: Facts, code: Code, groups: Iterable[Merge]) -> dict[int, int]:
    """Members of groups whose lanes stay a record apart however wide they are, with the bytes of a record; an element
    that is copied piece by piece, from wherever it lies, is one."""
    known = own_records(facts, code)
    return {
        i: known.get(i, g.bytes) for g in groups if known.keys() >= set(g.members) or copied(g)
        if not facts.profile.compact_together(g.members, g.bytes)
        for i in g.members
    }  # fmt: skip


def copied(group: Merge) -> bool:
    """Pieces of an element whose size a launch value sets, each of which is stored before the next is loaded."""
    return group.crossing and not group.sure


def widest(groups: Sequence[Merge], records: Mapping[int, int]) -> int:
    """Bytes of the widest access that takes the place of any group: of records, from round to round, as their length
    allows."""
    return max([g.bytes if records.get(g.members[0], 1) % WIDE else WIDE for g in groups], default=WIDE)


def _whole(facts: Facts, code: Code, place: _Place, loads: list[int]) -> bool:
    """Whether the bytes of a round, or of all rounds that go on where the last one stopped, are most of a record."""
    _, loop, apart = place
    ran = max(code.executed[i] for i in loads)
    bytes_ = round(sum(code.classes[i].bytes * code.executed[i] for i in loads) / ran)  # of one round, ways apart
    rounds = 1.0
    if loop is not None:
        steps = facts.lanes.strides.steps(loads[0])
        if steps and all(step == bytes_ for step in steps):
            rounds = facts.patterns.trips(loop)
    return WHOLE * apart <= bytes_ * rounds <= 1.01 * apart


def fetched_again(facts: Facts, code: Code, records: Collection[int], ratio: float) -> float:
    """What of all sectors that L2 is asked for is left when `ratio` of these loads is. A sector comes once, and again
    where L1 had lost it before its next word was read: the fewer the accesses, the less often."""
    touched, traffic = code.column(SECTORS), facts.counters.traffic
    if touched is None or traffic.l1_hit is None:
        return 1.0
    bytes_ = sum((code.threads[i] or 32 * code.executed[i]) * code.classes[i].bytes for i in records)
    now = total(touched, sorted(records)) / max(1.0, bytes_ / SECTOR)
    missed = max(1.0, (1 - traffic.l1_hit) * now)  # of the accesses to one sector
    lost = min(1.0, (missed - 1) / (now - 1)) if now > 1 else 0.0
    left = 1 + max(0.0, now * ratio - 1) * lost
    return 1 - facts.profile.sectors_share(records) * (1 - min(1.0, left / missed))


def ordered_words(facts: Facts, code: Code, members: Sequence[int]) -> bool:
    """Whether most of these accesses are strong stores at adjacent offsets of one base, 8 or 16 bytes in all, that fill
    the sectors of a warp together: an order that the compiler has to keep holds them apart. A public kernel: one of 16
    bytes 1.5x, the words dealt out to neighbouring lanes 0.94x."""
    groups: dict[tuple[object, int], dict[int, int]] = {}
    for i in members:
        place = memory_operand(code[i].operands)
        if place is not None and code.classes[i].access == "store" and "STRONG" in code[i].name:
            key = (code.cfg.block_of[i], place.bases, code[i].guard), code.classes[i].bytes
            groups.setdefault(key, {})[place.value] = i
    found = 0
    for (_, size), at in groups.items():
        count, first = len(at), min(at)
        side_by_side = size * count in (8, WIDE) and sorted(at) == [first + size * n for n in range(count)]
        found += count * (side_by_side and facts.profile.compact_together(at.values(), size * count))
    return found > len(members) / 2


def split(facts: Facts, code: Code, members: Sequence[int]) -> int:
    """Words of a small structure whose parts each thread loads, stores or adds to one by one, neighbouring lanes in
    neighbouring structures, as the sectors of a request tell: no other mapping of lanes fills the sectors, for all that
    is in them is used. 0 where the accesses are not of that kind."""
    touched, arrays = code.column(SECTORS), dict[str | None, dict[int, list[int]]]()
    if touched is None:
        return 0
    for i in members:
        at = memory_operand(code[i].operands)
        if at is None:
            return 0
        arrays.setdefault(facts.addresses.pointer(i), {}).setdefault(at.value, []).append(i)
    words = 0
    for parts in arrays.values():
        first, bytes_ = min(parts), sum(code.classes[there[0]].bytes for there in parts.values())
        there = sorted(i for part in parts.values() for i in part)
        asked = total(touched, there) * SECTOR / max(1.0, sum(float(code.threads[i]) for i in there))
        if len(parts) < 2 or max(parts) - first >= bytes_ or bytes_ > MOST * WORD or asked > LOOSE * bytes_:
            return 0
        words = max(words, bytes_ // WORD)
    return words
