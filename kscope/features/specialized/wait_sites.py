"""Where warps wait for asynchronous work, for whom, and how often they had to.

A wait site is one place in the code: the try-wait on an mbarrier with everything that retries it, a wait for wgmma
results, a named or block barrier, a cluster barrier, the end of bulk stores or of cp.async groups. Who ends the wait
follows from the barrier's address: the same constant part (`kscope.features.lanes.affine`) in a bulk copy's mbarrier
operand means memory, in a UTCBAR the tensor core, in an arrive the role that arrives. A wait whose signaller is not
found stays unresolved: nothing is assumed about what covers it.

Retries are exact. A try-wait that fails at once goes to a block of its own, out of line: its executions over those of
the first try count the waits that were not over yet.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from kscope.features.profile.code import Code
from kscope.features.sass.columns import total
from kscope.features.specialized.mbarriers import BarrierSlots
from kscope.features.specialized.roles import COPIES, PRODUCTS, Roles, copies
from kscope.isa.families import family

Unit = Literal["memory", "tensor", "role", "block", "cluster", "work", "unknown"]
"""What ends a wait: arriving data, products, another role's arrival, all warps of the block or cluster, the answer
to who gets the work of a block that has not started (cluster launch control)."""
_RETRY = 12  # blocks behind a failed try that may belong to its retry loop
_BACK = 2  # instructions back to the barrier that a sample behind it belongs to
_BULK, _WGMMA, _ASKS = family("bulk_load"), family("wgmma"), family("work_request")
_LONG = frozenset({"long_scoreboard", "sleeping", "short_scoreboard", "membar", "barrier", "warpgroup_arrive"})


class Wait(Struct, frozen=True):
    """One wait site. `index`: its first instruction; `members`: every instruction whose waiting belongs to it;
    `unit`: what ends the wait, `signallers`: the roles that do; `executed`: warps that came, `failed`: of them those
    that had to try again (None where the code does not tell); `slot`: constant part of the barrier's address; `beside`:
    what the warp executes while the answer to its try is on the way."""

    index: int
    kind: str
    role: str
    members: frozenset[int]
    unit: Unit
    signallers: tuple[str, ...]
    executed: float
    failed: float | None
    slot: int | None = None
    beside: frozenset[int] = frozenset()

    @property
    def retried(self) -> float | None:
        """Share of the waits that were not over at the first try, 0..1."""
        return min(1.0, self.failed / self.executed) if self.failed is not None and self.executed else None


class Waits(Struct, frozen=True):
    """All sites in program order; `stages`: barriers of the ring that the products wait on (None if not found);
    `stage_bytes`: bytes of a stage (None if not found)."""

    sites: tuple[Wait, ...]
    stages: int | None
    stage_bytes: int | None

    def of(self, role: str) -> list[Wait]:
        return [w for w in self.sites if w.role == role]


def find_waits(code: Code, roles: Roles | None) -> Waits:
    """Every wait site of the code; roles are named "all" for code that no role owns."""
    finder = _Finder(code, roles)
    sites = [*finder.mbarriers(), *finder.others()]
    sites.sort(key=lambda w: w.index)
    full = {w.slot for w in sites if w.unit == "memory" and w.kind == "mbarrier" and w.slot is not None}
    stages, size = finder.slots.ring(full)
    return Waits(tuple(sites), stages, size)


def samples_of(code: Code, wait: Wait) -> float:
    """Samples that stand at a wait site, of any reason in which a warp waits."""
    return sum(total(column, wait.members) for reason, column in code.stall.items() if reason in _LONG)


class _Finder:
    def __init__(self, code: Code, roles: Roles | None) -> None:
        self.code, self.roles = code, roles
        self.slots = BarrierSlots(code)

    def role(self, index: int) -> str:
        role = self.roles.of(index) if self.roles is not None else None
        return role.name if role is not None else "all"

    # --- mbarriers

    def mbarriers(self) -> list[Wait]:
        code = self.code
        tries = code.where(lambda ins, op: ins.opcode == "SYNCS" and "TRYWAIT" in ins.mods)
        retry: dict[int, tuple[int, frozenset[int]]] = {}
        groups: dict[int, tuple[set[int], float | None]] = {}
        for i in tries:
            path = self._failing(i)
            again = [t for t in tries if t in path and t != i]
            if again and i not in retry:
                for t in again:
                    retry[t] = (i, path)
                entered = self._entered(i, path)
                groups[i] = (set(path), entered)
            elif i not in retry:
                groups[i] = (set(), self._spins(i))
        out = []
        for i, (again_at, failed) in groups.items():
            wide = {i, *again_at} | {c for c in code.defuse.consumers(i) if code[c].opcode != "SYNCS"}
            slot = self.slots.slot(i)
            unit, who = self._signaller(i, slot)
            done = code.executed[i] if again_at else code.executed[i] - (failed or 0.0)  # a spin counts its retries too
            beside = self._shadow(i) - wide
            out.append(Wait(i, "mbarrier", self.role(i), frozenset(wide), unit, who, done, failed, slot, beside))
        return out

    def _shadow(self, i: int) -> frozenset[int]:
        """Instructions between a try and the branch on its answer: the warp would wait there without them."""
        end = self.code.cfg.blocks[self.code.cfg.block_of[i]].end
        branch = next((c for c in sorted(self.code.defuse.consumers(i)) if i < c < end), i)
        return frozenset(range(i + 1, branch))

    def _failing(self, i: int) -> frozenset[int]:
        """Instructions between a failed try and the place where a successful one goes on."""
        code, cfg = self.code, self.code.cfg
        branch = next((c for c in code.defuse.consumers(i) if code[c].opcode == "BRA" and c > i and c - i < 64), None)
        if branch is None or len(cfg.blocks[cfg.block_of[branch]].successors) != 2:
            return frozenset()
        here = cfg.block_of[branch]
        fall = here + 1
        taken = next((s for s in cfg.blocks[here].successors if s != fall), fall)
        negated = code[branch].guard_negated
        bad, good = (taken, fall) if negated else (fall, taken)
        if bad == cfg.block_of[i]:  # a spin loop of its own: the try is its own retry
            return frozenset()
        seen: set[int] = set()
        queue = [bad]
        while queue and len(seen) < _RETRY:
            block = queue.pop(0)
            if block == good or block in seen:
                continue
            seen.add(block)
            queue += cfg.blocks[block].successors
        if good in seen or len(seen) >= _RETRY:
            return frozenset()
        return frozenset(x for b in seen for x in range(cfg.blocks[b].start, cfg.blocks[b].end))

    def _entered(self, i: int, path: frozenset[int]) -> float | None:
        """How many waits went into the retry code: executions of its first block, or, where that is a loop's header,
        of the blocks from which it is left."""
        code, cfg = self.code, self.code.cfg
        blocks = {cfg.block_of[x] for x in path}
        if not any(code.executed):
            return None
        first = next(b for b in blocks if any(p not in blocks for p in cfg.blocks[b].predecessors))
        if not any(p in blocks for p in cfg.blocks[first].predecessors):
            return min(code.executed[i], code.executed[cfg.blocks[first].start])
        leaving = [b for b in blocks if all(s not in blocks for s in cfg.blocks[b].successors)]
        if not leaving:
            return None
        return min(code.executed[i], sum(code.executed[cfg.blocks[b].start] for b in leaving))

    def _spins(self, i: int) -> float | None:
        """A try-wait that branches back to itself: executions beyond those of the code behind it."""
        cfg, code = self.code.cfg, self.code
        block = cfg.block_of[i]
        if block not in cfg.blocks[block].successors:
            return None
        after = next((s for s in cfg.blocks[block].successors if s != block), None)
        if after is None or not code.executed[i]:
            return None
        return max(0.0, code.executed[i] - code.executed[cfg.blocks[after].start])

    def _signaller(self, i: int, slot: int | None) -> tuple[Unit, tuple[str, ...]]:
        """What ends a wait on the barrier at `slot`, and which roles do."""
        if slot is None:
            return self._other_side(i)
        group = self.slots.group(slot)
        code = self.code
        copying: list[int] = []
        asking: list[int] = []
        committing: list[int] = []
        arriving: list[int] = []
        for j in code.where(lambda ins, op: ins.opcode in COPIES | _ASKS or ins.opcode in ("UTCBAR", "SYNCS")):
            ins = code[j]
            if ins.opcode in _BULK and copies(ins):
                found, into = self.slots.of_copy(j), copying
            elif ins.opcode in _ASKS:
                found, into = self.slots.of_request(j), asking
            elif ins.opcode == "UTCBAR":
                found, into = self.slots.slot(j), committing
            elif ins.opcode == "SYNCS" and "ARRIVE" in ins.mods:
                found, into = self.slots.slot(j), arriving
            else:
                continue
            if found is not None and self.slots.group(found) == group:
                into.append(j)
        if copying:
            return "memory", self._roles_of(copying)
        if committing:
            return "tensor", self._roles_of(committing)
        if asking:
            return "work", self._roles_of(asking)
        mine = self.role(i)
        others = [j for j in arriving if self.role(j) != mine]
        if others or arriving:
            return "role", self._roles_of(others or arriving)
        return self._other_side(i)

    def _other_side(self, i: int) -> tuple[Unit, tuple[str, ...]]:
        """By elimination, where the address does not tell: with two roles, a producer waits for its consumer, and
        whoever consumes waits for the data that the producer sends."""
        roles = self.roles
        if roles is None or len(roles.roles) != 2:
            return "unknown", ()
        mine = roles.of(i)
        other = next((r for r in roles.roles if r is not mine), None)
        if mine is None or other is None:
            return "unknown", ()
        if other in roles.producers and any(copies(self.code[j]) for j in other.members):
            return "memory", (other.name,)
        return "role", (other.name,)

    def _roles_of(self, indices: list[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.role(j) for j in indices))

    # --- everything else

    def others(self) -> list[Wait]:
        code = self.code
        out = []
        for i in code.where(lambda ins, op: _kind(ins.opcode, ins.mods) is not None):
            ins = code[i]
            kind = _kind(ins.opcode, ins.mods)
            assert kind is not None
            unit: Unit = _UNITS[kind]
            members = {i}
            if kind == "barrier":
                end = code.cfg.blocks[code.cfg.block_of[i]].end
                members |= {j for j in range(i + 1, min(i + 1 + _BACK, end)) if code[j].opcode not in PRODUCTS}
            if kind == "copies" and self._seen_behind(i):
                members.add(i + 1)
            out.append(Wait(i, kind, self.role(i), frozenset(members), unit, (), code.executed[i], None))
        return out

    def _seen_behind(self, i: int) -> bool:
        """Whether a warp that waits for copies (DEPBAR) is sampled at the next instruction: it is, where that has no
        wait of its own."""
        code, after = self.code, i + 1
        if after >= code.cfg.blocks[code.cfg.block_of[i]].end or _kind(code[after].opcode, code[after].mods):
            return False
        loads = {j for found in code.defuse.sources(after).values() for j in found}
        return not any(code[j].opcode.startswith(("LD", "S2", "SHFL", "ATOM", "RED")) for j in loads)


_UNITS: dict[str, Unit] = {
    "wgmma": "tensor", "barrier": "block", "cluster": "cluster", "store": "memory", "copies": "memory",
    "tmem": "tensor", "fence": "memory", "registers": "role",
}  # fmt: skip


def _kind(opcode: str, mods: tuple[str, ...]) -> str | None:
    """Kind of wait of an instruction other than a try-wait; None for all that do not wait."""
    if opcode == "WARPGROUP" and ("DEPBAR" in mods or "ARRIVE" in mods):
        return "wgmma"
    if opcode in _WGMMA:
        return "wgmma"
    if opcode == "BAR" and "ARV" not in mods:
        return "barrier"
    if opcode == "UCGABAR_WAIT":
        return "cluster"
    if opcode == "UTMACMDFLUSH":
        return "store"
    if opcode == "DEPBAR" and "LE" in mods:
        return "copies"
    if opcode == "FENCE" and "VIEW" in mods:
        return "tmem" if "T" in mods else "fence"
    if opcode == "USETMAXREG" and "TRY_ALLOC" in mods:
        return "registers"
    return None
