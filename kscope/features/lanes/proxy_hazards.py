"""Shared memory that the generic and the asynchronous proxy both touch, and the fences between them.

Ordinary loads and stores use the generic proxy; TMA, bulk copies, wgmma and tcgen05 read and write shared memory
through the asynchronous one. A barrier orders threads, not proxies: only `fence.proxy.async` (FENCE.VIEW.ASYNC) makes
a store visible to the other side (PTX ISA, Memory Consistency Model, Proxies; Asynchronous operations).

A forward data-flow analysis carries the generic accesses that no fence has covered yet along every path, and from
each barrier that releases threads (BAR, mbarrier arrive, cluster arrive) to each that acquires (BAR, mbarrier wait),
so that producer and consumer warps of a specialised kernel are seen together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import cached_property

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.async_accesses import asynchronous, multiplies, overwrites, sends, shared_operands
from kscope.features.lanes.values import Lanes, block_shapes
from kscope.features.sass.listing import Listing
from kscope.isa.families import family
from kscope.model.program import Instruction

SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
LEAST = 256  # bytes that an asynchronous access is taken to move at least
PRODUCT = 8192  # bytes of an operand of wgmma: 64 rows of 128 bytes
WORDS = 4  # different addresses of a store, up to which it writes a word or two for other threads, and no tile
_WRITES = family("generic_shared_write")
_READS = family("shared_read")
_ORDERING = family("orders_threads")


class Hazard(Struct, frozen=True):
    """An asynchronous access that may see, or overwrite, what an uncovered generic access left.

    `sites`: the generic accesses; `reads`: whether they only read (the asynchronous side then overwrites). `path`: an
    example, instruction by instruction: site, barriers on the way, the asynchronous access. `overlap`: the addresses
    were computed and meet; otherwise they are not known. `ordered`: a barrier stands on every found path.
    """

    index: int
    sites: tuple[int, ...]
    reads: bool
    path: tuple[int, ...]
    overlap: bool
    ordered: bool


def hazards(code: Listing, block: Sequence[int] | None = None) -> list[Hazard]:
    """Every asynchronous access of shared memory that a path reaches from a generic one without a proxy fence.

    What a bulk or TMA store picks up was stored for it: a fence is missing once, before that store. The same bytes are
    not followed further, to products and loads of a later round that only seem to meet them, because a run-time index
    of a ring of buffers has no known bound.
    """
    proxies = Proxies(code, block)
    found: list[Hazard] = []
    staged: set[int] = set()
    for i in sorted(proxies.asynchronous, key=lambda i: (not sends(code[i]), i)):
        new = proxies.at(i, staged)
        found += new
        if sends(code[i]):
            staged.update(site for h in new if not h.reads for site in h.sites)
    return sorted(found, key=lambda h: h.index)


class Proxies:
    """Uncovered generic accesses at each asynchronous one. `block`: the block shape, if known."""

    def __init__(self, code: Listing, block: Sequence[int] | None = None) -> None:
        self._code, self._block = code, block
        ran = set(code.ran(range(len(code))))
        self.asynchronous = [i for i in code.where(asynchronous) if i in ran]
        self.sites = [i for i in code.where(lambda ins, op: ins.opcode in _WRITES | _READS) if i in ran]
        self.sites = [i for i in self.sites if code[i].guard is not None or not code[i].guard_negated]
        self._bit = {i: 1 << n for n, i in enumerate(self.sites)}
        self._reached: dict[int, list[int] | None] = {}

    def at(self, index: int, without: Collection[int] = ()) -> list[Hazard]:
        """Hazards of one asynchronous access: writes before it, and reads before it where it writes. `without`: sites
        to leave out where it does not itself send what they stored."""
        pending = self._before.get(index, 0)
        sites = [i for i in self.sites if self._bit[i] & pending and (sends(self._code[index]) or i not in without)]
        out = []
        for reads in (False, True):
            kind = [i for i in sites if (self._code[i].opcode in _READS) == reads]
            if reads and not overwrites(self._code[index]):
                continue  # two readers never race
            chosen, sure = self._chosen(kind, index, reads)
            if chosen:
                path = self._path(chosen[0], index)
                ordered = any(self._code[i].opcode in _ORDERING for i in path[1:-1])
                out.append(Hazard(index, tuple(chosen), reads, path, sure, ordered))
        return out

    def _chosen(self, kind: list[int], index: int, reads: bool) -> tuple[list[int], bool]:
        """The sites that meet an asynchronous access, and whether that is sure. What a store into a buffer is for shows
        where the buffer is sent; a product, or a load of the next round, may be of any other."""
        met = {i: self._meets(i, index) for i in kind if not self._spared(i, index)}
        sure = [i for i in kind if met.get(i)]
        if sure or reads or not sends(self._code[index]):
            return sure, bool(sure)
        return [i for i in met if met[i] is None], False

    @cached_property
    def _before(self) -> dict[int, int]:
        """Uncovered sites (bits) that reach each asynchronous access."""
        code, cfg = self._code, self._code.cfg
        if not self.asynchronous or not self.sites:
            return {}
        entering = [0] * len(cfg.blocks)
        shared: dict[tuple[str, object], int] = {}
        links = self._links
        before: dict[int, int] = {}
        changed = True
        while changed:
            changed = False
            for number in cfg.order:
                bits = entering[number]
                b = cfg.blocks[number]
                for i in range(b.start, b.end):
                    ins = code[i]
                    if i in self._bit:
                        bits |= self._bit[i]
                    elif ins.opcode == "FENCE" and "ASYNC" in ins.mods:
                        bits = self._uncovered(ins, bits)
                    release, acquire = links.get(i, ((), ()))
                    for name in release:
                        if bits & ~shared.get(name, 0):
                            shared[name] = shared.get(name, 0) | bits
                            changed = True
                    for name in acquire:
                        bits |= shared.get(name, 0)
                    if i in before or asynchronous(ins, None):
                        before[i] = before.get(i, 0) | bits
                for s in [*b.successors, *self._calls.get(number, ())]:
                    if bits & ~entering[s]:
                        entering[s] |= bits
                        changed = True
        return before

    def _uncovered(self, fence: Instruction, bits: int) -> int:
        """What a fence leaves: nothing, or, where the fence is guarded, all but the sites under the same guard."""
        if fence.guard is None:
            return 0
        same = sum(
            bit for i, bit in self._bit.items()
            if (self._code[i].guard, self._code[i].guard_negated) == (fence.guard, fence.guard_negated)
        )  # fmt: skip
        return bits & ~same

    @cached_property
    def _calls(self) -> dict[int, list[int]]:
        cfg = self._code.cfg
        out: dict[int, list[int]] = {}
        for call, target in cfg.calls.items():
            out.setdefault(cfg.block_of[call], []).append(cfg.block_of[target])
        return out

    @cached_property
    def _links(self) -> dict[int, tuple[tuple[tuple[str, object], ...], tuple[tuple[str, object], ...]]]:
        """For each barrier instruction, the names under which it releases and acquires: the barrier's number or
        address, and one for all of its kind where that is not known."""
        kinds: dict[int, tuple[str, bool, bool, object]] = {}
        for i, ins in enumerate(self._code.program.instructions):
            if ins.opcode == "BAR":
                number = next((o.value for o in ins.operands if o.kind == "integer"), None)
                kinds[i] = ("bar", True, "ARV" not in ins.mods, number)
            elif ins.opcode == "SYNCS" and ("ARRIVE" in ins.mods or "PHASECHK" in ins.mods):
                kinds[i] = ("mbarrier", "ARRIVE" in ins.mods, "PHASECHK" in ins.mods, self._fixed(i))
            elif ins.opcode in ("UCGABAR_ARV", "UCGABAR_WAIT"):
                kinds[i] = ("cluster", ins.opcode.endswith("ARV"), ins.opcode.endswith("WAIT"), 0)
        out = {}
        names: dict[str, set[object]] = {}
        for kind, _, _, name in kinds.values():
            names.setdefault(kind, set()).add(name)
        for i, (kind, releases, acquires, name) in kinds.items():
            # An unknown barrier may be any of its kind: it releases to all and acquires from all.
            each = tuple((kind, n) for n in (names[kind] if name is None else {name, None}))
            out[i] = (each if releases else (), each if acquires else ())
        return out

    def _fixed(self, index: int) -> int | None:
        found = {w.address(index) for w in self._worlds}
        (value,) = found if len(found) == 1 else (None,)
        return value if isinstance(value, int) else None

    @cached_property
    def _worlds(self) -> list[Lanes]:
        shapes = block_shapes(self._code, self._block)
        return [Lanes(self._code, Assumption(seed, shapes[seed % len(shapes)])) for seed in SEEDS]

    def _meets(self, site: int, index: int) -> bool | None:
        """Whether the bytes of a site and of an asynchronous access can be the same; None where that is not known.

        Of the asynchronous side the first byte is known, not the size: what lies further behind counts as another
        buffer. Several warps and rounds of the loops are tried, the first warp among them.
        """
        if multiplies(self._code[index]):
            return self._in_every_world(site, index)
        lows = self._starts.get(index)
        touched = self._touched(site)
        if lows is None or touched is None:
            return None
        return any(bisect_left(touched, low) < bisect_left(touched, low + LEAST) for low in lows)

    def _touched(self, site: int) -> list[int] | None:
        """Bytes that a site touches under any assumption, sorted."""
        if site not in self._reached:
            self._reached[site] = self._addresses(site)
        return self._reached[site]

    def _spared(self, site: int, index: int) -> bool:
        """Copies by cp.async before a product: by the memory model they need the fence too, and no library has it. And
        a single word that a thread stores for others (a tile's number, a barrier) is no operand of a product."""
        if not multiplies(self._code[index]):
            return False
        touched = self._touched(site)
        return self._code[site].opcode == "LDGSTS" or (touched is not None and len(touched) <= WORDS)

    def _in_every_world(self, site: int, index: int) -> bool | None:
        """Whether a product's operand, PRODUCT bytes from where its descriptor begins, holds what a warp stores, under
        each assumption for itself: one that meets only under some met by chance."""
        for w in self._worlds:
            value = w.shared_address(site)
            starts = [w.read(index, register) for register, _ in shared_operands(self._code[index])]
            if value is None or not starts or any(s is None for s in starts):
                return None
            lanes = value if isinstance(value, tuple) else (value,)
            lows = [((s[0] if isinstance(s, tuple) else s) & 0x3FFF) << 4 for s in starts if s is not None]
            if not any(low <= a < low + PRODUCT for low in lows for a in lanes):
                return False
        return True

    def _addresses(self, site: int) -> list[int] | None:
        out: set[int] = set()
        for w in self._worlds:
            value = w.shared_address(site)
            if value is None:
                return None
            out |= set(value) if isinstance(value, tuple) else {value}
        return sorted(out)

    @cached_property
    def _starts(self) -> dict[int, set[int] | None]:
        """First shared-memory bytes of each asynchronous access, over all assumptions."""
        return {i: self._async_starts(i) for i in self.asynchronous}

    def _async_starts(self, index: int) -> set[int] | None:
        ins = self._code[index]
        found: set[int] = set()
        for w in self._worlds:
            for register, descriptor in shared_operands(ins):
                value = w.read(index, register)
                if value is None:
                    return None
                first = value[0] if isinstance(value, tuple) else value
                first = (first & 0x3FFF) << 4 if descriptor else first
                if first % 16:
                    return None  # no such address: it was made of something that the code does not tell
                found.add(first)
        return found or None

    def _path(self, site: int, index: int) -> tuple[int, ...]:
        """The shortest way from a site to an asynchronous access without a fence: the barriers on it, ends included."""
        code, cfg, links = self._code, self._code.cfg, self._links
        acquirers: dict[tuple[str, object], list[int]] = {}
        for i, (_, acquires) in links.items():
            for name in acquires:
                acquirers.setdefault(name, []).append(i)
        came: dict[int, int] = {site: -1}
        work = [site]
        while work:
            following: list[int] = []
            for i in work:
                if i == index:
                    return self._trace(came, i)
                ins = code[i]
                if ins.opcode == "FENCE" and "ASYNC" in ins.mods and ins.guard is None:
                    continue
                b = cfg.blocks[cfg.block_of[i]]
                near = [i + 1] if i + 1 < b.end else [cfg.blocks[s].start for s in b.successors]
                near += [a for name in links.get(i, ((), ()))[0] for a in acquirers.get(name, ()) if a != i]
                for j in near:
                    if j not in came:
                        came[j] = i
                        following.append(j)
            work = following
        return (site, index)

    def _trace(self, came: dict[int, int], at: int) -> tuple[int, ...]:
        way = [at]
        while came[at] >= 0:
            at = came[at]
            if self._code[at].opcode in _ORDERING or came[at] < 0:
                way.append(at)
        return tuple(reversed(way))
