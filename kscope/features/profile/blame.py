"""Stalls to the instructions that cause them, after GPA (Zhou et al., CGO 2021, section 4).

A warp that waits for a scoreboard is sampled at the consumer; the cause is the load, special function or copy that
it waits for. Samples of a consumer are shared among the producers that reach it, by likelihood: a producer counts
more the fewer instructions lie between, and the more of the consumer's executions it takes part in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from kscope.features.sass.cfg import Cfg
from kscope.features.sass.columns import Column, largest
from kscope.features.sass.defuse import DefUse
from kscope.isa.families import family
from kscope.isa.opcodes import OpClass, classify
from kscope.model.program import Instruction, Program

_Test = Callable[[OpClass, Instruction], bool]
SCOREBOARDS = {"long_scoreboard": "long", "short_scoreboard": "short"}
MOVED = frozenset({*SCOREBOARDS, "gmma", "wait", "barrier"})
"""Reasons whose cause is another instruction; a full queue (QUEUES) apart."""
_GROUP_WAITS = family("group_wait")
BARRIERS = frozenset({"barrier", "wgmma_wait"})
QUEUES: Mapping[str, Callable[[OpClass], bool]] = {
    "lg_throttle": lambda op: op.space in ("global", "local", "generic") and op.pipe == "lsu",
    "drain": lambda op: op.access in ("store", "reduction", "atomic") and op.space in ("global", "local", "generic"),
    "mio_throttle": lambda op: op.scoreboard == "short" or (op.space == "shared" and op.access is not None),
}
_WINDOW = 256  # instructions searched backwards where no operand explains a wait
_FIXED = 16  # instructions within which a fixed-latency producer can still be waited for


class Blame(Struct, frozen=True):
    """Blamed samples. `by_producer[reason]` has a value an instruction; with `unattributed[reason]`, samples
    for which no cause was found, it sums to the stall's samples. `edges[reason]` gives the samples of each
    (producer, consumer) pair, for reasons that are others' (MOVED)."""

    by_producer: Mapping[str, Column]
    unattributed: Mapping[str, float]
    edges: Mapping[str, Mapping[tuple[int, int], float]]

    def top(self, reason: str, count: int = 5) -> tuple[tuple[int, float], ...]:
        """The instructions with most blamed samples of one reason, as (index, samples)."""
        samples = self.by_producer.get(reason)
        if samples is None:
            return ()
        return tuple((i, samples[i]) for i in largest(samples)[:count])


def blame(
    program: Program,
    cfg: Cfg,
    defuse: DefUse,
    stalls: Mapping[str, Column],
    executions: Column | None = None,
    costs: Column | None = None,
    classes: Sequence[OpClass] | None = None,
    known: dict[tuple[int, str], list[int]] | None = None,
) -> Blame:
    """Share the stall samples of every instruction among their causes.

    `stalls[reason]`: samples per instruction, reasons as Nsight Compute names
    them without prefix (`long_scoreboard`, `wait`, `barrier`). Scoreboard waits go to producers, `gmma` to the wgmma
    waited for, `barrier` to the last barrier passed (the sampler charges what waits for it), `wait` to the
    fixed-latency producer where it is near, a full queue (`lg_throttle`, `mio_throttle`) to what fills it in the same
    loop, by `costs`; all others are the instruction's own. `executions`: warp-level executions per instruction, if
    known. `costs`: what an instruction's executions cost its queue, e.g. wavefronts. `classes`: of the instructions, if
    they are known already. `known`: room for what follows from the code alone, which its launches share.
    """
    n = len(program)
    if classes is None:
        classes = [classify(ins, program.sm) for ins in program.instructions]
    finder = _Finder(program, classes, cfg, defuse, executions, costs, {} if known is None else known)
    by_producer: dict[str, Column] = {}
    unattributed: dict[str, float] = {}
    edges: dict[str, dict[tuple[int, int], float]] = {}
    for reason, samples in stalls.items():
        if reason not in MOVED:
            own = finder.queued(samples, reason) if reason in QUEUES else list(samples)
            by_producer[reason], unattributed[reason] = own, 0.0
            continue
        blamed = [0.0] * n
        lost = 0.0
        pairs: dict[tuple[int, int], float] = {}
        for i, amount in enumerate(samples):
            if not amount:
                continue
            shares = finder.causes(i, reason)
            if not shares:
                lost += amount
            for producer, share in shares.items():
                blamed[producer] += amount * share
                pairs[(producer, i)] = amount * share
        by_producer[reason], unattributed[reason], edges[reason] = blamed, lost, pairs
    return Blame(by_producer, unattributed, edges)


class _Finder:
    """Causes of one instruction's stall, as shares that sum to one (empty: none found)."""

    def __init__(
        self, program: Program, classes: Sequence[OpClass], cfg: Cfg, defuse: DefUse, executions: Column | None,
        costs: Column | None, known: dict[tuple[int, str], list[int]],
    ) -> None:  # fmt: skip
        self._code = program.instructions
        self._known = known
        self._costs = costs if costs is not None else executions
        self._queues: dict[tuple[str, int | None], dict[int, float]] = {}
        self._cfg, self._defuse, self._executions = cfg, defuse, executions
        self._classes = classes

    def causes(self, i: int, reason: str) -> dict[int, float]:
        key = (i, reason)
        if key not in self._known:
            self._known[key] = self._producers(i, reason)
        found = self._known[key]
        return self._shares(i, found) or ({} if reason in SCOREBOARDS else {i: 1.0})

    def _producers(self, i: int, reason: str) -> list[int]:
        board = SCOREBOARDS.get(reason)
        if board is not None:
            return self._scoreboard(i, board)
        if reason == "gmma":
            return self._first_before(i, lambda c, _: "wgmma" in c.kind)
        return self._fixed(i) if reason == "wait" else self._barriers(i)

    def queued(self, samples: Column, reason: str) -> Column:
        """Samples of a full queue, handed to whoever fills it, the whole of a loop at once."""
        blamed = [0.0] * len(samples)
        waiting: dict[int | None, float] = {}
        for i, amount in enumerate(samples):
            if amount:
                loop = None if reason == "drain" else self._cfg.loop_of[i]
                if self._queue(loop, reason):
                    waiting[loop] = waiting.get(loop, 0.0) + amount
                else:
                    blamed[i] += amount
        for loop, amount in waiting.items():
            for j, share in self._queue(loop, reason).items():
                blamed[j] += amount * share
        return blamed

    def _barriers(self, i: int) -> list[int]:
        """The barriers (or waits for wgmma, which the sampler counts as such) that a warp may have passed last. It
        waits at whatever it may not do before the others have arrived: BAR.SYNC.DEFER_BLOCKING lets it go on to the
        next memory access, branch or exit, which can lie dozens of instructions and some branches behind."""
        if self._classes[i].kind & BARRIERS:
            return [i]
        found: set[int] = set()
        left, seen, queue = _WINDOW, set[int](), [(self._cfg.block_of[i], i)]
        for block, stop in queue:
            for at in range(stop - 1, self._cfg.blocks[block].start - 1, -1):
                left -= 1
                if left <= 0 or self._classes[at].kind & BARRIERS:
                    break
            else:
                behind = set(self._cfg.blocks[block].predecessors) - seen
                seen |= behind
                queue += [(p, self._cfg.blocks[p].end) for p in sorted(behind)]
                continue
            if left <= 0:
                break
            found.add(at)
        return sorted(found)

    def _queue(self, loop: int | None, reason: str) -> dict[int, float]:
        """Shares of a full queue: whoever is sampled waits for a place, whoever costs most takes the places. `drain`
        is sampled at the exit, where a warp waits until its stores are accepted."""
        key = (reason, loop)
        if key not in self._queues:
            inside = self._cfg.loops[loop].instructions if loop is not None else range(len(self._code))
            users = {
                j: self._costs[j] for j in inside
                if self._costs is not None and self._costs[j] > 0 and QUEUES[reason](self._classes[j])
            }  # fmt: skip
            every = sum(users.values())
            self._queues[key] = {j: cost / every for j, cost in users.items()}
        return self._queues[key]

    def _scoreboard(self, i: int, board: str) -> list[int]:
        reads = {p for found in self._defuse.sources(i).values() for p in found}
        direct = [p for p in reads if self._classes[p].scoreboard == board]
        # A try-wait on an mbarrier shows as a long scoreboard, on itself or where its predicate is read.
        if direct or (direct := [p for p in reads if _tries(self._code[p])]):
            return sorted(direct)
        ins = self._code[i]
        if _tries(ins):
            return [i]
        if ins.opcode in _GROUP_WAITS:
            copies = self._all_before(i, lambda c, _: c.access == "async_copy")
            if copies:
                return copies
        if ins.opcode == "BAR":
            return [i]
        written = set(ins.defs)
        if written:  # the register is still being read by a store, or written by an earlier load
            overlap = self._first_before(
                i, lambda c, x: _goes_to(c, board) and not written.isdisjoint((*x.uses, *x.defs))
            )
            if overlap:
                return overlap
        # No operand explains it: the nearest instruction of that kind (a scoreboard is shared by several).
        return self._first_before(i, lambda c, _: _goes_to(c, board))

    def _fixed(self, i: int) -> list[int]:
        """The nearest fixed-latency producer in the same block: the one whose latency the wait covers."""
        start = self._cfg.blocks[self._cfg.block_of[i]].start
        near = [
            p for found in self._defuse.sources(i).values() for p in found
            if start <= p < i and i - p <= _FIXED and self._classes[p].scoreboard is None
        ]  # fmt: skip
        return [max(near)] if near else []

    def _shares(self, i: int, producers: Sequence[int]) -> dict[int, float]:
        if len(producers) == 1:
            return {producers[0]: 1.0}
        weights = {p: self._likelihood(p, i) for p in producers}
        total = sum(weights.values())
        return {p: w / total for p, w in weights.items()} if total > 0 else {}

    def _likelihood(self, producer: int, consumer: int) -> float:
        weight = 1.0 / self._distance(producer, consumer)
        if self._executions is not None and self._executions[consumer] > 0:
            # Never quite zero: counters of a replayed pass may miss what samples have seen.
            weight *= min(1.0, max(1e-3, self._executions[producer] / self._executions[consumer]))
        return weight

    def _distance(self, producer: int, consumer: int) -> int:
        if producer < consumer:
            return consumer - producer
        loop = self._cfg.loop_of[consumer]
        size = len(self._cfg.loops[loop].instructions) if loop is not None else len(self._code)
        return max(1, size - (producer - consumer))

    def _before(self, i: int) -> Iterator[int]:
        """Instructions before i, nearest first: the block, then its predecessors breadth first."""
        left = _WINDOW
        seen: set[int] = set()
        queue = [(self._cfg.block_of[i], i)]
        for block, stop in queue:
            for at in range(stop - 1, self._cfg.blocks[block].start - 1, -1):
                yield at
                left -= 1
                if left <= 0:
                    return
            for p in self._cfg.blocks[block].predecessors:
                if p not in seen:
                    seen.add(p)
                    queue.append((p, self._cfg.blocks[p].end))

    def _first_before(self, i: int, wanted: _Test) -> list[int]:
        return next(([at] for at in self._before(i) if wanted(self._classes[at], self._code[at])), [])

    def _all_before(self, i: int, wanted: _Test) -> list[int]:
        return sorted({at for at in self._before(i) if wanted(self._classes[at], self._code[at])})


def _tries(ins: Instruction) -> bool:
    return ins.opcode == "SYNCS" and "TRYWAIT" in ins.mods


def _goes_to(op: OpClass, board: str) -> bool:
    """Whether an instruction occupies the long (L1TEX) or short (MIO) scoreboard, stores included: their operands
    are read late."""
    if op.scoreboard is not None:
        return op.scoreboard == board
    if op.access in ("store", "reduction"):
        return (board == "long") == (op.space in ("global", "local", "generic"))
    return False
