"""Whose fault it is that warps stand at an instruction: `queues behind the LDS at 0290`.

The sampler charges a wait to the instruction that waited. The words here name the one that caused it, by blame
(`features/profile/blame`): the producer of the late register, whoever fills the queue, the barrier and the warps that
come last, and for a spin on an mbarrier who ends it (`features/specialized/wait_sites`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.features.profile.blame import BARRIERS, QUEUES, SCOREBOARDS

if TYPE_CHECKING:
    from kscope.features.facts import Facts
    from kscope.features.profile.code import Code
    from kscope.features.specialized.wait_sites import Wait

MAIN = 0.6
"""Share of a wait from which one cause is named alone; below it the second is, too. Judged."""
PIPES = {"alu": "integer (ALU)", "fma": "FMA", "fmaheavy": "FMA", "fmalite": "FMA", "fp64": "FP64", "xu": "XU",
         "tensor": "tensor", "lsu": "load/store", "uniform": "uniform", "half": "FP16"}  # fmt: skip
SELF = {
    "branch_resolving": "waits for the target of the branch before it",
    "imc_miss": "its constant is not in the cache",
    "membar": "waits until its earlier writes are visible to others",
    "no_instructions": "the instruction cache does not have it yet",
    "not_selected": "ready, but another warp was chosen: enough warps",
    "selected": "issues: no wait",
    "sleeping": "sleeps by its own wish",
}
"""Reasons that blame no other instruction."""
FIXED = "waits a few cycles, a fixed latency"
ENDS = {"memory": "for its data to arrive", "tensor": "for the tensor core", "block": "for the block's other warps",
        "cluster": "for the other blocks of the cluster", "work": "for the answer whose work to take"}  # fmt: skip


class Waiting(Struct, frozen=True):
    """text: what warps wait for here, empty where nothing is known; pcs: the instructions that it names."""

    text: str
    pcs: tuple[int, ...] = ()


class Waits:
    """Causes of the waits of one kernel."""

    def __init__(self, facts: Facts, code: Code) -> None:
        self._facts, self._code = facts, code

    @cached_property
    def _sites(self) -> dict[int, Wait]:
        """Wait sites of the asynchronous parts, by the instructions that stand at them."""
        if not self._code.asynchronous or self._facts.specialized.waits is None:
            return {}
        return {i: site for site in self._facts.specialized.waits.sites for i in site.members}

    @cached_property
    def _producers(self) -> dict[tuple[str, int], list[tuple[int, float]]]:
        """Whom an instruction waits for, by (reason, instruction), most samples first."""
        out: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for reason, pairs in self._code.blame.edges.items():
            for (producer, consumer), n in pairs.items():
                if producer != consumer or reason == "barrier":
                    out.setdefault((reason, consumer), []).append((producer, n))
        for shares in out.values():
            shares.sort(key=lambda row: (-row[1], row[0]))
        return out

    def at(self, i: int, reason: str) -> Waiting:
        """Why warps stand at instruction i, for its most frequent reason."""
        site = self._sites.get(i)
        if site is not None and reason not in ("selected", "not_selected", "no_instructions", "wait"):
            return self._site(site)
        if reason in QUEUES:
            return self._queue(i, reason)
        if reason in SCOREBOARDS or reason in ("gmma", "wait"):
            return self._producer(i, reason)
        if reason == "barrier":
            return self._barrier(i)
        if reason == "math_pipe_throttle":
            pipe = PIPES.get(self._code.classes[i].pipe, "math")
            return Waiting(f"queues for the {pipe} pipe, which others keep busy")
        return Waiting(SELF.get(reason, ""))

    def _named(self, index: int) -> str:
        """`the LDS at 0290`."""
        ins = self._code[index]
        return f"the {ins.opcode} at {ins.pc:04x}"

    def _two(self, shares: list[tuple[int, float]], what: str) -> Waiting:
        """The main cause, with the second where the first is not most of it."""
        every = sum(n for _, n in shares)
        if not every:
            return Waiting("")
        kept = shares[: 1 if shares[0][1] >= MAIN * every else 2]
        left = len(shares) - len(kept)
        more = f" and {left} more" if left > 0 and len(kept) > 1 else ""
        named = ", ".join(self._named(p) for p, _ in kept) if more else " and ".join(self._named(p) for p, _ in kept)
        return Waiting(f"{what} {named}{more}", tuple(self._code[p].pc for p, _ in kept))

    def _queue(self, i: int, reason: str) -> Waiting:
        """Who fills the queue that is full: what costs most rounds in the same loop."""
        code = self._code
        loop = None if reason == "drain" else code.cfg.loop_of[i]
        inside = code.cfg.loops[loop].instructions if loop is not None else range(len(code))
        users = [(j, code.costs[j]) for j in inside if code.costs[j] > 0 and QUEUES[reason](code.classes[j])]
        users.sort(key=lambda row: (-row[1], row[0]))
        if reason == "drain":
            return self._two(users, "waits at its end until memory takes the stores of")
        others = [row for row in users if row[0] != i]
        if not users:
            return Waiting("")
        if not others or (users[0][0] == i and users[0][1] >= MAIN * sum(n for _, n in users)):
            return Waiting(f"its own accesses fill the queue: {self._named(i)}", (code[i].pc,))
        return self._alike(others) or self._two(others, "queues behind")

    def _alike(self, users: list[tuple[int, float]]) -> Waiting | None:
        """Several of one opcode that fill most of the queue together, each about as much: `the LDS at 0290 and 3 like
        it`."""
        code, (first, cost) = self._code, users[0]
        alike = {j: n for j, n in users if code[j].opcode == code[first].opcode and 2 * n >= cost}
        if len(alike) < 2 or sum(alike.values()) < MAIN * sum(n for _, n in users):
            return None
        return Waiting(f"queues behind {self._named(min(alike))} and {len(alike) - 1} like it", (code[min(alike)].pc,))

    def _producer(self, i: int, reason: str) -> Waiting:
        shares = self._producers.get((reason, i), [])
        if reason == "wait":
            return self._two(shares, "waits a few cycles for") if shares else Waiting(FIXED)
        if not shares:
            return Waiting("")
        first = self._code[shares[0][0]]
        if self._code.classes[shares[0][0]].access in ("store", "reduction"):  # a register that it has not read yet
            return Waiting(f"waits until the {first.opcode} at {first.pc:04x} has read its operands", (first.pc,))
        return self._two(shares, "waits for")

    def _barrier(self, i: int) -> Waiting:
        """The barrier just before, where the sampler charges the instruction behind it."""
        at = self._producers.get(("barrier", i), [(i, 0.0)])[0][0]
        if not self._code.classes[at].kind & BARRIERS:
            return Waiting("waits for the block's other warps at a barrier")
        if "wgmma_wait" in self._code.classes[at].kind:
            return Waiting(f"waits for the results of wgmma, at {self._named(at)}", (self._code[at].pc,))
        return Waiting(f"waits for the block's other warps at {self._named(at)}", (self._code[at].pc,))

    def _site(self, site: Wait) -> Waiting:
        """A wait for asynchronous work: the role that waits, and what it waits for."""
        who = f"the {site.role} " if site.role != "all" else ""
        others = " and the ".join(name for name in site.signallers if name != "all")
        if site.unit == "role" and others:
            what = f"for the {others}"
        elif site.unit == "memory" and others:
            what = f"for data that the {others} asked for"
        else:
            what = ENDS.get(site.unit, "for whoever ends it (not found in the code)")
        pc = self._code[site.index].pc
        verb = f"{who}waits {what}, at the {self._code[site.index].opcode} at {pc:04x}"
        return Waiting(verb, (pc,))
