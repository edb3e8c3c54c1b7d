"""All ranks of a job together: what each spends its time on, who waits for whom, and what the awaited do meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from kscope.features.timeline.spending import COMPUTING, COPYING, LEFT_OUT, SENDING, WAITING

_ONE = 0.65  # share of the waits that one rank causes, from which on it is the straggler
_PIPELINE = 0.25  # share of the waits that are in transfers between two ranks, from which on they are a pipeline's


class Meanwhile(Struct, frozen=True):
    """What a rank did while others waited for it: time by what it went into (ns), what the host was in, most first."""

    spent: dict[str, int]
    places: tuple[str, ...]


class RankFacts(Struct, frozen=True):
    """One rank. whole: time that its shares are of, ns. spent: of it by what it went into. awaits: exposed waiting time
    by the rank that it waits for. pairwise: of the waits those in transfers between two ranks."""

    number: int
    path: str
    whole: int
    span: int
    steps: int
    step_ns: float | None
    window: str
    spent: dict[str, int]
    awaits: dict[int, int]
    pairwise: int
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
        self, ranks: Sequence[RankFacts], meanwhile: dict[tuple[int, int], Meanwhile], late: Sequence[Late], matched: int
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

    def spared(self, rank: int) -> float:
        """Share of the window that all other ranks wait for this one at least: what goes when it is no longer late."""
        others = [r for r in self.ranks if r.number != rank]
        return min((r.awaits.get(rank, 0) / max(r.whole, 1) for r in others), default=0.0)

    def doing(self, rank: int) -> Meanwhile:
        """What a rank did while any other waited for it."""
        spent: Counter[str] = Counter()
        places: dict[str, None] = {}
        for (_, late), one in self.meanwhile.items():
            if late == rank:
                spent.update(one.spent)
                places.update(dict.fromkeys(one.places))
        return Meanwhile(dict(spent), tuple(places))

    @cached_property
    def shares(self) -> dict[str, float]:
        """What the ranks' time goes into, most first; a wait counts as what the awaited rank does meanwhile, and as
        communication where that waits or sends itself."""
        out: Counter[str] = Counter()
        for rank in self.ranks:
            for what, time in rank.spent.items():
                if what not in (*LEFT_OUT, WAITING):
                    out[what] += time / max(rank.whole, 1)  # type: ignore[assignment]
            left = rank.spent.get(WAITING, 0)
            for other, time in rank.awaits.items():
                seen = self.meanwhile.get((rank.number, other))
                kept = {w: t for w, t in seen.spent.items() if w not in LEFT_OUT} if seen is not None else {}
                for what, part in kept.items():
                    key = SENDING if what == WAITING else what
                    out[key] += time * part / max(sum(kept.values()), 1) / max(rank.whole, 1)  # type: ignore[assignment]
                left -= time if kept else 0
            out[SENDING] += max(left, 0) / max(rank.whole, 1)  # type: ignore[assignment]
        return {what: share / len(self.ranks) for what, share in out.most_common()}

    def removable(self, rank: int) -> float:
        """Of what a rank does while others wait for it, the share (0..1) that is no work of the GPU."""
        spent = {w: t for w, t in self.doing(rank).spent.items() if w not in LEFT_OUT}
        work = sum(spent.get(w, 0) for w in (COMPUTING, SENDING, WAITING, COPYING))
        return 1 - work / sum(spent.values()) if sum(spent.values()) else 0.0
