"""Warp roles of a specialised kernel, from its machine code: who copies, who multiplies, who stores.

A specialised kernel branches on the warp index (or hands registers over with USETMAXREG) and never joins its paths
again until it ends. A region is what one way of such a branch dominates. Its role follows from what it executes, never
from a name: bulk or asynchronous copies make a producer, asynchronous products the MMA role, accumulator reads and
stores an epilogue. Two regions of different roles make a kernel specialised; one elected thread that issues copies
beside its own products does not.

Warps a role are exact: executions at the region's entry over blocks. They add up to the block's warps, or the
difference is said.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kscope.features.profile.code import Code
from kscope.isa.families import family
from kscope.isa.opcodes import OpClass
from kscope.model.program import Instruction

PRODUCER, MMA, EPILOGUE, CONSUMER, OTHER = "producer", "MMA", "epilogue", "consumer", "other"
_FUSED = "MMA + epilogue"
COPIES = family("async_load")
PRODUCTS = family("async_product")
STORES = family("result_store")
ACCUMULATORS = family("accumulator_load")


class Role(Struct, frozen=True):
    """One role. `ways`: instruction indices of each path of its own (two MMA warpgroups may have one each); `members`:
    all of them; `warps` a block (None without execution counts); `working`: those of them that come to its first copy,
    product or wait."""

    name: str
    ways: tuple[frozenset[int], ...]
    members: frozenset[int]
    warps: float | None
    working: float | None


class Roles(Struct, frozen=True):
    """`common`: instructions that every warp executes before and after the roles part. `unaccounted`: warps a block
    that no role has (0 where they add up); None without execution counts."""

    roles: tuple[Role, ...]
    common: frozenset[int]
    dispatch: tuple[int, ...]
    unaccounted: float | None

    def of(self, index: int) -> Role | None:
        return next((r for r in self.roles if index in r.members), None)

    def named(self, *names: str) -> list[Role]:
        return [r for r in self.roles if r.name in names]

    @property
    def producers(self) -> list[Role]:
        return self.named(PRODUCER)

    @property
    def consumers(self) -> list[Role]:
        """The roles that the unit's work depends on: products where there are any, else whoever consumes copies."""
        return self.named(MMA, _FUSED) or self.named(CONSUMER, EPILOGUE)


def find_roles(code: Code) -> Roles | None:
    """The roles of a kernel; None where its warps all do the same."""
    if not code.asynchronous:
        return None
    splits = [s for s in _splits(code) if _parts(code, s)]
    if not splits:
        return None
    outer = min(splits, key=lambda s: (code.cfg.depth[s[0]], -len(s[1][0]) - len(s[1][1])))
    leaves = _leaves(code, outer, splits)
    roles = _named(code, leaves)
    if len({r.name for r in roles}) < 2 or not any(r.name in (PRODUCER, MMA, _FUSED) for r in roles):
        return None
    inside = frozenset().union(*(r.members for r in roles))
    common = frozenset(range(len(code))) - inside
    return Roles(tuple(roles), common, tuple(s[0] for s in splits), _unaccounted(code, roles))


_Split = tuple[int, tuple[frozenset[int], frozenset[int]]]
"""A branch (instruction) and the blocks that each of its two ways alone leads to."""


def _splits(code: Code) -> list[_Split]:
    """Branches on the warp index with something on both ways."""
    cfg = code.cfg
    below = _dominated(code)
    out: list[_Split] = []
    for number, block in enumerate(cfg.blocks):
        last = block.end - 1
        if len(block.successors) != 2 or not (_by_warp(code, last) or _hands_over(code, block.successors)):
            continue
        ways = tuple(_way(code, number, s, below) for s in block.successors)
        if ways[0] and ways[1]:
            out.append((last, (ways[0], ways[1])))
    return out


def _dominated(code: Code) -> list[set[int]]:
    """Blocks that each block dominates, itself included."""
    cfg = code.cfg
    below: list[set[int]] = [{b} for b in range(len(cfg.blocks))]
    for b in reversed(cfg.order):
        above = cfg.idom[b]
        if above is not None:
            below[above] |= below[b]
    return below


def _way(code: Code, branch: int, successor: int, below: list[set[int]]) -> frozenset[int]:
    """Blocks that are reached only over the edge from a branch to one of its successors."""
    others = [p for p in code.cfg.blocks[successor].predecessors if p != branch]
    if code.cfg.idom[successor] != branch or any(p not in below[successor] for p in others):
        return frozenset()
    return frozenset(below[successor])


def _by_warp(code: Code, branch: int) -> bool:
    """Whether a branch depends on the thread index, and on no loaded data."""
    ins = code[branch]
    registers = tuple(r for r in ins.uses)
    if not registers:
        return False
    names = code.slices.names([p for r in registers for p in code.defuse.producers(branch, r)])
    return names is not None and "tid" in names and "load" not in names


def _hands_over(code: Code, successors: Iterable[int]) -> bool:
    """Registers change hands right behind the branch: USETMAXREG at the start of a successor."""
    blocks = code.cfg.blocks
    return any(
        code[i].opcode == "USETMAXREG"
        for s in successors for i in range(blocks[s].start, min(blocks[s].end, blocks[s].start + 8))
    )  # fmt: skip


def _instructions(code: Code, blocks: Iterable[int]) -> frozenset[int]:
    return frozenset(i for b in blocks for i in range(code.cfg.blocks[b].start, code.cfg.blocks[b].end))


def _kinds(code: Code, members: Iterable[int]) -> frozenset[str]:
    """What a set of instructions does, in the terms that roles are named by."""
    found = set()
    for i in members:
        opcode = code[i].opcode
        if copies(code[i]):
            found.add("copy")
        elif opcode in PRODUCTS:
            found.add("product")
        elif opcode in ACCUMULATORS:
            found.add("accumulator")
        elif opcode in STORES or opcode in COPIES:
            found.add("store")
        elif _waits(code[i], code.classes[i]):
            found.add("wait")
        elif opcode in ("LDS", "LDSM", "STS"):
            found.add("shared")
    return frozenset(found)


def copies(ins: Instruction) -> bool:
    """Whether an instruction brings data into shared memory asynchronously; UBLKCP.G.S goes the other way."""
    return ins.opcode in COPIES and ins.mods[:2] != ("G", "S")


def _waits(ins: Instruction, op: OpClass) -> bool:
    return (ins.opcode == "SYNCS" and "TRYWAIT" in ins.mods) or ins.opcode == "BAR"


def _parts(code: Code, split: _Split) -> bool:
    """Whether a branch parts different roles: copies on one way only, or products on one way only, with waits or work
    on the other."""
    one, other = (_kinds(code, _instructions(code, way)) for way in split[1])
    apart = any((kind in one) != (kind in other) for kind in ("copy", "product"))
    return apart and all(k & {"copy", "product", "accumulator", "wait"} for k in (one, other))


def _leaves(code: Code, outer: _Split, splits: list[_Split]) -> list[frozenset[int]]:
    """Blocks of each role: the ways of the outermost branch, parted again where a branch inside does so."""
    out: list[frozenset[int]] = []
    for way in outer[1]:
        inner = [s for s in splits if code.cfg.block_of[s[0]] in way and s is not outer]
        if not inner:
            out.append(way)
            continue
        first = max(inner, key=lambda s: len(s[1][0]) + len(s[1][1]))
        out += _leaves(code, first, [s for s in inner if s is not first])
    return out


def _role_name(kinds: frozenset[str]) -> str:
    if "product" in kinds:
        # wgmma's accumulators lie in registers: whoever multiplies stores. tcgen05's go through tensor memory.
        return _FUSED if "store" in kinds else MMA
    if "copy" in kinds:
        return PRODUCER
    if "accumulator" in kinds:
        return EPILOGUE
    if "wait" in kinds and kinds & {"shared", "store"}:
        return CONSUMER if "shared" in kinds else EPILOGUE
    return OTHER


def _named(code: Code, leaves: list[frozenset[int]]) -> list[Role]:
    """Roles by name; paths of one role (two MMA warpgroups with code of their own) are one."""
    grouped: dict[str, list[frozenset[int]]] = {}
    for blocks in leaves:
        name = _role_name(_kinds(code, _instructions(code, blocks)))
        grouped.setdefault(name, []).append(blocks)
    if _FUSED in grouped and EPILOGUE not in grouped and CONSUMER not in grouped:
        grouped[MMA] = grouped.pop(_FUSED) + grouped.pop(MMA, [])  # the plain case: call it what it is for
    out = []
    for name, ways in grouped.items():
        paths = tuple(_instructions(code, w) for w in ways)
        members = frozenset().union(*paths)
        warps = [_entering(code, w) for w in ways]
        known = [w for w in warps if w is not None]
        out.append(
            Role(
                name,
                paths,
                members,
                round(sum(known), 3) if len(known) == len(warps) else None,
                _working(code, members),
            )
        )
    order = (PRODUCER, MMA, _FUSED, CONSUMER, EPILOGUE, OTHER)
    return sorted(out, key=lambda r: order.index(r.name))


def _entering(code: Code, blocks: frozenset[int]) -> float | None:
    """Warps a block that enter a region: executions of its first block outside inner loops (a retried USETMAXREG is
    a loop of its own), over the executions of the branch that leads there."""
    launch = code.kernel.launch
    if not any(code.executed) or not launch.blocks:
        return None
    depths = {b: code.cfg.depth[code.cfg.blocks[b].start] for b in blocks}
    least = min(depths.values())
    first = min((b for b in blocks if depths[b] == least), key=lambda b: code.cfg.order.index(b))
    rounds = 1.0
    loop = code.cfg.loop_of[code.cfg.blocks[first].start]
    if loop is not None and code.cfg.loops[loop].header not in blocks:  # roles part anew in every round of a loop
        header = code.cfg.blocks[code.cfg.loops[loop].header].start
        rounds = max(1.0, code.executed[header] / (launch.blocks * launch.warps))
    return code.executed[code.cfg.blocks[first].start] / launch.blocks / rounds


def _working(code: Code, members: frozenset[int]) -> float | None:
    """Warps a block that come to a region's copies, products or waits: the others leave or stand by. From the last
    block on the way there that no inner loop holds."""
    anchors = [i for i in members if code.executed[i] and (_works(code[i]) or _waits(code[i], code.classes[i]))]
    if not anchors:
        return None
    cfg, least = code.cfg, min(code.cfg.depth[i] for i in members)
    found = []
    for block in {cfg.block_of[i] for i in anchors}:
        at: int | None = block
        while at is not None and cfg.depth[cfg.blocks[at].start] > least:
            at = cfg.idom[at]
        if at is not None and cfg.blocks[at].start in members:
            found.append(code.executed[cfg.blocks[at].start])
    return max(found) / code.kernel.launch.blocks if found else None


def _works(ins: Instruction) -> bool:
    return copies(ins) or ins.opcode in PRODUCTS or ins.opcode in ACCUMULATORS


def _unaccounted(code: Code, roles: list[Role]) -> float | None:
    warps = [r.warps for r in roles]
    if any(w is None for w in warps):
        return None
    return round(code.kernel.launch.warps - sum(w for w in warps if w is not None), 3)
