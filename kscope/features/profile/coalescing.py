"""How lanes share global accesses: unit stride, or one address for all."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.profile.code import Code
from kscope.features.profile.excess import POSTED, SECTORS
from kscope.features.sass.columns import Column, total
from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import address_origins, gathers
from kscope.model.operand import memory_operand

APART = 0.7  # sectors over lanes from which every lane is somewhere else
WIDE = 16  # bytes a lane of the widest load that all chips have


def contiguous(code: Code) -> list[int]:
    """Global loads and stores under 16 bytes a lane whose lanes together fill the sectors that they touch: unit
    stride. A load that all lanes share (one sector) is not narrow, it is uniform; of what loaded data picks, lanes lie
    side by side by chance."""
    return [i for i in _side_by_side(code) if not gathers(code, i)]


def picked(code: Code) -> list[int]:
    """The same where loaded data picks a row and the lane's own number a place in it, outside loops: the row's elements
    lie side by side whichever it is. Rows that loops walk start anywhere (MEM108)."""
    rows = [i for i in _side_by_side(code) if code.cfg.loop_of[i] is None]
    return [i for i in rows if (found := address_origins(code, i)) is not None and {"load", "tid"} <= found]


def _side_by_side(code: Code) -> list[int]:
    out = []
    for i in code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")):
        if not 0 < code.classes[i].bytes < WIDE:
            continue
        lanes, needed, touched = _sectors(code, i)
        if lanes > 24 and needed * 0.8 <= touched and _compact(needed, touched):
            out.append(int(i))
    return out


def compact(code: Code, index: int) -> bool:
    """The lanes of a global access touch no more sectors than their bytes fill: unit stride, or one address for all.
    False where sectors were not counted."""
    _, needed, touched = _sectors(code, index)
    return touched > 0 and _compact(needed, touched)


def compact_together(code: Code, members: Iterable[int], each: int) -> bool:
    """Accesses that lie side by side in each lane touch no more sectors than all their bytes, `each` a lane, fill:
    lanes seem apart only because a lane's bytes are accessed in pieces."""
    found = [_sectors(code, i) for i in members]
    return all(touched > 0 and _compact(max(1.0, lanes * each / 32), touched) for lanes, _, touched in found)


def _compact(needed: float, touched: float) -> bool:
    return touched <= needed * 1.1 + 0.1


def apart(code: Code, members: Iterable[int], sectors: Column) -> list[int]:
    """Those of the accesses that touch about a sector for every active lane."""
    out = []
    for i in members:
        runs = max(code.executed[i], 1)
        lanes = code.threads[i] / runs if code.threads[i] else 32.0
        if sectors[i] > APART * lanes * runs:
            out.append(i)
    return out


def halves(code: Listing, members: Iterable[int]) -> list[int]:
    """Those of the loads that take 16 bytes of an element whose next 16 another one takes at the same address, and are
    stored as they came: each request has half of the sectors' bytes, and no lane needs the whole element."""
    found: dict[tuple[object, ...], dict[int, int]] = {}
    for i in members:
        address = memory_operand(code[i].operands) if code.classes[i].access == "load" else None
        if address is not None and code.classes[i].bytes == WIDE and _stored(code, i):
            came = tuple(code.defuse.producers(i, base.register) for base in address.bases)
            found.setdefault((address.bases, came), {})[address.value] = i
    return [
        i for at in found.values() for offset, i in at.items()
        if not at.keys().isdisjoint((offset - WIDE, offset + WIDE))
    ]  # fmt: skip


def _stored(code: Listing, load: int) -> bool:
    """Whether what it loads goes to stores alone, and is no address of theirs."""
    users = code.defuse.consumers(load)
    addresses = [memory_operand(code[u].operands) for u in users if code.classes[u].access == "store"]
    based = {base.register for address in addresses if address is not None for base in address.bases}
    return 0 < len(users) == len(addresses) and based.isdisjoint(code[load].defs)


def strewn(code: Code, served: float) -> float:
    """Share of the sectors that L2 served which stores and reductions touch, each lane one of its own; 0..1."""
    sectors = code.column(SECTORS)
    if sectors is None or not served:
        return 0.0
    changed = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in POSTED))
    return min(1.0, total(sectors, apart(code, changed, sectors)) / served)


def _sectors(code: Code, index: int) -> tuple[float, float, float]:
    """Of one request: active lanes, the sectors that their bytes fill, the sectors touched (0 where not counted)."""
    sectors, executed = code.column(SECTORS), code.executed[index]
    if sectors is None or not executed:
        return 0.0, 1.0, 0.0
    lanes = code.threads[index] / executed if code.threads[index] else 32.0
    return lanes, max(1.0, lanes * code.classes[index].bytes / 32), sectors[index] / executed
