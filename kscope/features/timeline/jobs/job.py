"""All ranks of a job together: what each spends its time on, who waits for whom, and what the awaited do meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from kscope.features.timeline.jobs.spending import LEFT_OUT
from kscope.model.contract.job import COMPUTING, COPYING, SENDING, WAITING

_ONE = 0.65  # share of the waits that one rank causes, from which on it is the straggler
_LATE = 0.03  # share of the window that ranks wait, from which on the late one's time is the job's
_PIPELINE = 0.25  # share of the waits that are in transfers between two ranks, from which on they are a pipeline's


class Meanwhile(Struct, frozen=True):
    """What a rank did while another waited for it: time by what it went into, ns."""

    spent: dict[str, int]


class RankFacts(Struct, frozen=True):
    """One rank. whole: time that its shares are of, ns. spent: of it by what it went into. awaits: exposed waiting time
    by the rank that it waits for, as it recurs from step to step. pairwise: of the waits those in transfers between two
    ranks. host: share of the window that its host needs to issue the steps. recorded: of its time waiting for launches
    the part (0..1) that recording took. places: what its host was in during idle time, by cause."""

    number: int
    path: str
    whole: int
    span: int
    steps: int
    step_ns: float | None
    window: str
    spent: dict[str, int]
    places: dict[str, tuple[str, ...]]
    awaits: dict[int, int]
    pairwise: int
    host: float
    recorded: float
    one_way: bool
    """Whether it only sends to, or only receives from, each other rank: a stage of a pipeline without a way back."""


class Late(Struct, frozen=True):
    """A collective at which others waited. wait: of each of the others, mean, ns."""

    what: str
    group: str
    step: int
    late: int
    wait: int


class JobView:
    """What job rules see. Numbers are ranks; shares are means over the ranks, of their windows."""

    def __init__(
        self,
        ranks: Sequence[RankFacts],
        meanwhile: dict[tuple[int, int], Meanwhile],
        late: Sequence[Late],
        matched: int,
    ) -> None:
        self.ranks = ranks
        self.meanwhile = meanwhile
        """(rank that waits, rank it waits for) -> what the latter did."""
        self.late = late
        self.matched = matched

    @cached_property
    def waited(self) -> dict[int, float]:
        """For each rank the share of the window that it waits for others."""
        return {r.number: sum(r.awaits.values()) / max(r.whole, 1) for r in self.ranks}

    @cached_property
    def waiting(self) -> float:
        """The same, mean over the ranks: what perfect balance would save."""
        return sum(self.waited.values()) / max(len(self.ranks), 1)

    @cached_property
    def caused(self) -> dict[int, int]:
        """For each rank the time that others wait for it, ns, added up."""
        out = {r.number: 0 for r in self.ranks}
        for rank in self.ranks:
            for other, time in rank.awaits.items():
                out[other] = out.get(other, 0) + time
        return out

    @cached_property
    def critical(self) -> int:
        """The rank that the others wait for most."""
        return max(self.caused, key=lambda r: (self.caused[r], -self.waited.get(r, 0.0), -r))

    @cached_property
    def pipelined(self) -> bool:
        """Whether the waits are those of a pipeline's stages: much of them where one rank sends to another."""
        whole = sum(sum(r.awaits.values()) for r in self.ranks)
        return sum(r.pairwise for r in self.ranks) >= _PIPELINE * max(whole, 1) and any(r.one_way for r in self.ranks)

    @cached_property
    def straggler(self) -> int | None:
        """The one rank that causes most of the waits; None where they take turns, wait little, or are stages."""
        whole = sum(self.caused.values())
        mine = self.caused[self.critical]
        return self.critical if whole and mine >= _ONE * whole and not self.pipelined else None

    @cached_property
    def idle_hosts(self) -> dict[int, float]:
        """For each rank the share of the window that its host has nothing to do with: no shorter wait for others makes
        a step shorter than its own host takes to issue it."""
        return {r.number: max(1 - r.host, 0.0) for r in self.ranks}

    @cached_property
    def balanced(self) -> float:
        """Share of the window that goes when all ranks have the same work on the GPU."""
        return sum(min(w, self.idle_hosts[r]) for r, w in self.waited.items()) / max(len(self.ranks), 1)

    def spared(self, rank: int) -> float:
        """Share of the window that goes when this rank is no longer late: what all others wait for it at least."""
        others = [r for r in self.ranks if r.number != rank]
        return min(
            (min(r.awaits.get(rank, 0) / max(r.whole, 1), self.idle_hosts[r.number]) for r in others), default=0.0
        )

    @cached_property
    def shares(self) -> dict[str, float]:
        """What the job's time goes into, most first: that of the rank that all wait for where there is one, else the
        mean of the ranks. A wait counts as what the awaited rank does meanwhile, and as communication where that waits
        or sends itself."""
        late = self.straggler if self.waiting >= _LATE else None
        ranks = [r for r in self.ranks if late is None or r.number == late]
        parts: dict[str, list[float]] = {}
        for rank in ranks:
            for what, time in self._spent(rank).items():
                parts.setdefault(what, []).append(time / max(rank.whole, 1))
        return {what: sum(p) / len(ranks) for what, p in sorted(parts.items(), key=lambda p: -sum(p[1]))}

    def _spent(self, rank: RankFacts) -> dict[str, float]:
        out: dict[str, float] = {w: float(t) for w, t in rank.spent.items() if w not in (*LEFT_OUT, WAITING)}
        left = float(rank.spent.get(WAITING, 0))
        for other, time in rank.awaits.items():
            seen = self.meanwhile.get((rank.number, other))
            kept = {w: t for w, t in seen.spent.items() if w not in LEFT_OUT} if seen is not None else {}
            for what, part in kept.items():
                key = SENDING if what == WAITING else what
                out[key] = out.get(key, 0.0) + time * part / max(sum(kept.values()), 1)
            left -= time if kept else 0
        out[SENDING] = out.get(SENDING, 0.0) + max(left, 0.0)
        return out

    @cached_property
    def recorded_launch(self) -> float:
        """Of the share that goes into waiting for launches, what recording took."""
        late = self.straggler if self.waiting >= _LATE else None
        ranks = [r for r in self.ranks if late is None or r.number == late]
        return self.shares.get("launch", 0.0) * sum(r.recorded for r in ranks) / max(len(ranks), 1)

    def excess(self, rank: int) -> dict[str, float]:
        """What a rank spends more on than the others do on average, as shares of its window, most first: that makes it
        late. What recording took of its waits for launches is left out."""
        mine = next(r for r in self.ranks if r.number == rank)
        others = [r for r in self.ranks if r.number != rank]
        out = {}
        for what, time in mine.spent.items():
            if what in (*LEFT_OUT, WAITING):
                continue
            share = time / max(mine.whole, 1) * (1 - mine.recorded if what == "launch" else 1)
            usual = sum(r.spent.get(what, 0) / max(r.whole, 1) for r in others) / max(len(others), 1)
            if share > usual:
                out[what] = share - usual
        return dict(sorted(out.items(), key=lambda p: -p[1]))

    def lateness(self, rank: int) -> tuple[float, float]:
        """Of what makes a rank late the shares (0..1) that are no work of its GPU, and that are; the rest is what
        recording it took."""
        more = self.excess(rank)
        mine = next(r for r in self.ranks if r.number == rank)
        recorded = mine.recorded * mine.spent.get("launch", 0) / max(mine.whole, 1)
        work = sum(more.get(w, 0.0) for w in (COMPUTING, SENDING, COPYING))
        whole = sum(more.values()) + recorded
        return ((sum(more.values()) - work) / whole, work / whole) if whole else (0.0, 0.0)
