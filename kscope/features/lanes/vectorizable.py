"""Neighbouring global accesses that one wider instruction could do: proven from the code.

Same base: the same address registers, not redefined in between. Same lanes: the same guard. No alias: nothing between
the accesses could see or change the bytes that move; with `crossing`, but for stores of what these very accesses bring
(`o[0] = f(x[0]); o[1] = f(x[1])`): a compiler must keep their order, a programmer knows whether o overlaps x.
Alignment: the addresses of all lanes are computed under invented launch values (`features.lanes`): a stride of 4 bytes
a lane can never be merged, a run-time stride only if it is a multiple.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.strides import BLOCKS
from kscope.features.lanes.values import Lanes, block_shapes
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.isa.abi import abi
from kscope.model.operand import Base, memory_operand
from kscope.model.program import Instruction

SEEDS = (1, 2, 3, 4, 5, 6)
ELSEWHERE = ", and what is stored lies elsewhere than what is loaded (__restrict__)"
_ORDERED = frozenset({"STRONG", "VOLATILE", "MMIO"})  # .SYS alone is what every access of sm_75 says


_Key = tuple[str, tuple[Base, ...], int, int | None, bool]
"""What accesses of one group share: load or store, base registers, bytes a lane, guard and its sense."""


class Merge(Struct, frozen=True):
    """Accesses that would be one. `members`: instruction indices in address order of the data; `bytes`: a lane's
    bytes of the merged access; `sure`: aligned whatever the launch values are, if the pointer itself is aligned;
    otherwise `condition` names what must hold too. `crossing`: only if what is stored lies elsewhere than what is
    loaded, which the condition says as well."""

    members: tuple[int, ...]
    bytes: int
    sure: bool
    condition: str
    crossing: bool = False


class _Access(Struct, frozen=True):
    index: int
    offset: int
    width: int
    crossing: bool = False


def merges(code: Listing, block: Sequence[int] | None = None, *, crossing: bool = False) -> list[Merge]:
    """Groups of two or more global loads, or stores, that one wider access could replace."""
    widest = abi(code.program.sm).widest_access
    runs = [run for run in _neighbours(code.structure, widest, crossing) if code.executed[run[0].index] > 0]
    if not runs:
        return []
    shape = block_shapes(code, block)[0]
    return [m for run in runs for m in _aligned(code, run, widest, shape)]


def threes(code: Listing) -> list[Merge]:
    """Loads, or stores, of three adjacent pieces (the bytes of a colour, the floats of a point): one access as soon as
    the structure has a fourth."""
    widest = abi(code.program.sm).widest_access
    runs = _neighbours(code.structure, widest, False)
    return [
        Merge(tuple(a.index for a in run), wide, True, f"the structure is padded to {wide} bytes")
        for run in runs
        if len(run) == 3 and (wide := 4 * run[0].width) <= widest and code.executed[run[0].index] > 0
    ]


@once_per_code
def _neighbours(code: Structure, widest: int, crossing: bool) -> list[list[_Access]]:
    return [run for b in code.cfg.blocks for run in _runs(code, b.start, b.end, widest, crossing)]


def _runs(code: Structure, start: int, end: int, widest: int, crossing: bool) -> list[list[_Access]]:
    """Maximal groups at adjacent offsets of one base within a block, with nothing between that forbids merging."""
    done: list[list[_Access]] = []
    open_: dict[_Key, list[_Access]] = {}
    brought = _Brought() if crossing else None
    crossed = set[_Key]()
    for i in range(start, end):
        ins, op = code[i], code.classes[i]
        key = _key(code, i, widest)
        if op.access in ("load", "store", "atomic", "reduction", "async_copy") and op.space in ("global", "generic"):
            others = [k for k in open_ if k != key and _forbids(code, i, key, k)]
            passed, ended = brought.past(code, i, key, others, open_) if brought is not None else (set[_Key](), others)
            crossed |= {*passed, key} if passed and key is not None else set()
            done += [open_.pop(other) for other in ended]
        elif op.kind & {"barrier", "fence", "call", "mbarrier"}:
            done += open_.values()
            open_.clear()
        if key is not None:
            address = memory_operand(ins.operands)
            assert address is not None
            open_.setdefault(key, []).append(_Access(i, address.value, op.bytes, key in crossed))
        if brought is not None:
            brought.take(ins, key)
        for other in [k for k in open_ if not _registers(k[1]).isdisjoint(ins.defs)]:
            done.append(open_.pop(other))
            crossed.discard(other)
    done += open_.values()
    return [run for found in done for run in _adjacent(found)]


class _Brought:
    """Which loads of a block the values in registers, and what was stored, come from."""

    def __init__(self) -> None:
        self._values = dict[int, set[_Key]]()
        self._stored = dict[_Key, set[_Key]]()

    def past(
        self, code: Structure, i: int, key: _Key | None, others: list[_Key], open_: dict[_Key, list[_Access]]
    ) -> tuple[set[_Key], list[_Key]]:
        """Groups that the access only alternates with, and those that end here: where it loads again what was just
        stored, its own as well."""
        passed = {k for k in others if self.passes(code[i], key, k)}
        again = {k for k in passed if _again(code, i, k, open_[k])}
        own = [key] if again and key is not None and key in open_ else []
        return passed - again, [k for k in others if k not in passed or k in again] + own

    def take(self, ins: Instruction, key: _Key | None) -> None:
        """After the instruction, whose key this is."""
        if key is not None and key[0] == "store":
            self._stored.setdefault(key, set()).update(self._of(ins, key))
        come = {key} if key is not None and key[0] == "load" else self._of(ins, None)
        for r in ins.defs:
            self._values[r] = come

    def passes(self, ins: Instruction, key: _Key | None, other: _Key) -> bool:
        """Whether the access only alternates with the others of group `other`: a store of what they bring, a load of
        what they store, or a store of the same."""
        if key is None:
            return False
        if key[0] == "store":
            come = self._of(ins, key)
            return other in come if other[0] == "load" else bool(come & self._stored.get(other, set()))
        return other[0] == "store" and key in self._stored.get(other, set())

    def _of(self, ins: Instruction, key: _Key | None) -> set[_Key]:
        """key: of a store, whose address does not count."""
        address = _registers(key[1]) if key is not None else set()
        return set().union(*(self._values.get(r, set()) for r in ins.uses if r not in address))


def _key(code: Structure, i: int, widest: int) -> _Key | None:
    ins, op = code[i], code.classes[i]
    if op.space != "global" or op.access not in ("load", "store") or not 0 < op.bytes < widest:
        return None
    if _ORDERED & set(ins.mods) or (ins.guard is None and ins.guard_negated):
        return None
    address = memory_operand(ins.operands)
    return (op.access, address.bases, op.bytes, ins.guard, ins.guard_negated) if address is not None else None


def _forbids(code: Structure, i: int, key: _Key | None, other: _Key) -> bool:
    """Whether instruction i between two accesses of group `other` may touch the bytes that would move past it."""
    ins, op = code[i], code.classes[i]
    if key is not None and key[1] == other[1] and op.access == other[0]:
        return False  # the same base: other bytes, as offsets within a group differ
    if op.access == "load":
        return other[0] == "store" and "CONSTANT" not in ins.mods
    return True


def _again(code: Structure, i: int, other: _Key, stored: Sequence[_Access]) -> bool:
    """Whether a load takes up what a store of the group has just put there: o[1] = o[0]; o[2] = o[1]."""
    address = memory_operand(code[i].operands)
    if code.classes[i].access != "load" or other[0] != "store" or address is None or address.bases != other[1]:
        return False
    end = address.value + code.classes[i].bytes
    return any(a.offset < end and address.value < a.offset + a.width for a in stored)


def _registers(bases: tuple[Base, ...]) -> set[int]:
    """Register numbers of an address; a base is a pair."""
    return {r for base in bases for r in (base.register, base.register + 1)}


def _adjacent(found: list[_Access]) -> list[list[_Access]]:
    runs: list[list[_Access]] = []
    for access in sorted(found, key=lambda a: (a.offset, a.index)):
        if runs and access.offset == runs[-1][-1].offset + access.width:
            runs[-1].append(access)
        elif not (runs and access.offset == runs[-1][-1].offset):
            runs.append([access])
    return [run for run in runs if len(run) > 1]


def _aligned(code: Listing, run: list[_Access], widest: int, shape: tuple[int, int, int]) -> list[Merge]:
    """Cut a run into the widest pieces whose alignment is possible."""
    for target in (32, 16, 8, 4, 2):
        if target > widest or target <= run[0].width or target > run[-1].offset + run[-1].width - run[0].offset:
            continue
        residue, sure, known = _residue(code, run[0].index, target, shape)
        if residue is None:
            continue  # lanes start at different places within the wider access
        pieces = _pieces(run, target, residue - run[0].offset)
        if pieces:
            condition = f"the pointer is {target}-byte aligned" + (
                "" if sure else f" and run-time strides are multiples of {target // run[0].width} elements"
                if known else " and so is its offset"
            )
            used = {a.index for piece in pieces for a in piece}
            rest = [a for a in run if a.index not in used]
            crossing = any(a.crossing for a in run)
            condition += ELSEWHERE if crossing else ""
            out = [Merge(tuple(a.index for a in piece), target, sure, condition, crossing) for piece in pieces]
            return out + [m for part in _adjacent(rest) for m in _aligned(code, part, target // 2, shape)]
    return []


def _pieces(run: list[_Access], target: int, base: int) -> list[list[_Access]]:
    """Consecutive accesses that fill one aligned piece of `target` bytes; `base`: the address at offset 0, modulo."""
    pieces: dict[int, list[_Access]] = {}
    for access in run:
        pieces.setdefault((access.offset + base) // target, []).append(access)
    count = target // run[0].width
    return [piece for piece in pieces.values() if len(piece) == count]


def _residue(code: Listing, index: int, target: int, shape: tuple[int, int, int]) -> tuple[int | None, bool, bool]:
    """(address modulo `target`, the same for all launch values, address known). None where lanes or blocks differ."""
    even: set[int | str] = set()
    for world in _worlds(code, shape, True):
        even.add(_modulo(world, index, target))
        if len(even) != 1 or "differs" in even:
            return None, False, True
    (residue,) = even
    if residue == "unknown":
        return 0, False, False
    return int(residue), all(_modulo(w, index, target) == residue for w in _worlds(code, shape, False)), True


def _modulo(lanes: Lanes, index: int, target: int) -> int | str:
    address = lanes.address(index)
    if address is None:
        return "unknown"
    if isinstance(address, int):
        return address % target
    found = {a % target for a in address}
    return found.pop() if len(found) == 1 else "differs"


@once_per_code
def _worlds(code: Listing, shape: tuple[int, int, int], even: bool) -> tuple[Lanes, ...]:
    """Where launch values are even, the next blocks too: their numbers are never all multiples of anything."""
    given = [Assumption(seed, shape, even=even, scattered=True) for seed in SEEDS]
    if even:
        given += [Assumption(SEEDS[0], shape, even=True, scattered=True, along=axis) for axis in BLOCKS.values()]
    return tuple(Lanes(code, one) for one in given)
