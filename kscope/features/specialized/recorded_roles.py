"""What each role of a kernel did with its time, exactly, from what its warps recorded.

A warp's time is its block's: from the first record of the block's warps to the last. Of it
- priming is what comes before the warp's first issue, work, spin or epilogue: prologue and the first wait (where scopes
  have no kinds: the first wait, if one is called so);
- drain is what comes after the last moment in which the unit that the kernel feeds was busy for that block, or, where
  no unit's busy time is known, after the last scope of any of the block's warps;
- in between, waits are covered while that unit is busy, exposed while it is not, and the rest is issued.

The time that kscope_trace.cuh's own records took is not the kernel's: it is left out, of the parts and of the whole,
unless the recorded program itself is what the shares are of.

The unit is the one whose issues were recorded with the cycles that they keep it busy (the tensor pipe of a GEMM). An
SM's busy time follows from its warps' issues in order of time: the unit works off what is queued at its full rate. Time
that an issue to that unit takes counts as waiting for it: it does not take longer than the unit makes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.model.trace import ISSUE, OTHER, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kscope.model.trace import KernelTrace

Interval = tuple[float, float]


class Share(Struct, frozen=True):
    """Percent of the role's time: mean over its warps, smallest and largest."""

    mean: float
    low: float
    high: float


class ScopeShare(Struct, frozen=True):
    """One scope between priming and drain, percent of the role's time; covered: of that, while the unit was busy."""

    name: str
    kind: str
    on: str
    count: float
    share: float
    covered: float | None


class RoleShare(Struct, frozen=True):
    """One role. time_us: mean life of its blocks, of which `recording` percent went into records. covered is None where
    no unit's busy time is known: `exposed` is then all waiting."""

    role: str
    warps: int
    time_us: float
    recording: float
    priming: Share
    issued: Share
    covered: Share | None
    exposed: Share
    drain: Share
    scopes: tuple[ScopeShare, ...]


class UnitShare(Struct, frozen=True):
    """The unit that the kernel feeds, over the life of the recorded blocks, mean of the SMs: percent busy, percent
    before its first and after its last work, and the gaps in between longer than `GAP` ns: their number and percent."""

    unit: str
    busy: float
    fill: float
    drain: float
    gaps: float
    gap_share: float


GAP = 200.0
RECORD_CYCLES = 29.0
"""Of a warp, for one record of kscope_trace.cuh. H200, fixtures/dials: between two rounds of the producer of tma_scale
lie 91 cycles with two records and 120 with three (medians of 1,478 rounds)."""


def busy(trace: KernelTrace) -> tuple[str, dict[int, list[Interval]]]:
    """The unit that has issues of known length, and its busy intervals (ns) on each SM, merged. ("", {}) if there is
    none."""
    unit, sms, _ = _worked(trace)
    return unit, sms


def _worked(trace: KernelTrace) -> tuple[str, dict[int, list[Interval]], dict[int, float]]:
    """The same, and when each block's last work was done."""
    known = {i: s for i, s in enumerate(trace.scopes) if s.kind == ISSUE and s.cycles and s.on}
    if not known or not trace.clock_ghz:
        return "", {}, {}
    unit = max(sorted({s.on for s in known.values()}), key=lambda u: sum(s.cycles for s in known.values() if s.on == u))
    queues: dict[int, list[tuple[float, float, int]]] = defaultdict(list)  # (arrival, ns of work, block)
    for warp, scope, begin in zip(trace.warp, trace.scope, trace.begin, strict=True):
        if scope in known and known[scope].on == unit:
            one = trace.warps[warp]
            queues[one.sm].append((begin, known[scope].cycles / trace.clock_ghz, one.block))
    done: dict[int, float] = {}
    return unit, {sm: _served(sorted(queue), done) for sm, queue in queues.items()}, done


def _served(queue: Iterable[tuple[float, float, int]], done: dict[int, float]) -> list[Interval]:
    out: list[list[float]] = []
    for arrival, work, block in queue:
        if out and arrival <= out[-1][1]:
            out[-1][1] += work
        else:
            out.append([arrival, arrival + work])
        done[block] = out[-1][1]
    return [(b, e) for b, e in out]


def roles(trace: KernelTrace, *, records: bool = False) -> tuple[RoleShare, ...]:
    """The breakdown, one entry a role. `records`: count the time that records took as the role's own work."""
    unit, sms, done = _worked(trace)
    spans: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for warp, scope, begin, end in zip(trace.warp, trace.scope, trace.begin, trace.end, strict=True):
        spans[warp].append((begin, end, scope))
    lives = _lives(trace)
    if not unit:
        for i, one in enumerate(trace.warps):
            done[one.block] = max([done.get(one.block, 0.0), *(e for _, e, _ in spans[i])])
    parts: dict[str, list[_Parts]] = defaultdict(list)
    warps: dict[str, int] = defaultdict(int)
    for i, one in enumerate(trace.warps):
        begin, end = lives[one.block]
        cover = _Cover(sms.get(one.sm, [])) if unit else None
        made = 0 if records else one.written
        part = _Parts(trace, spans[i], (begin, end), done.get(one.block, end), cover, made)
        warps[one.role] += 1
        if part.life > 0:  # of no time there are no shares
            parts[one.role].append(part)
    return tuple(_role(trace, name, some, unit, warps[name]) for name, some in parts.items())


def unit_share(trace: KernelTrace) -> UnitShare | None:
    """How busy the unit was; None where no busy time is known."""
    unit, sms = busy(trace)
    if not sms:
        return None
    lives: dict[int, Interval] = {}
    for warp in trace.warps:
        begin, end = lives.get(warp.sm, (warp.begin, warp.end))
        lives[warp.sm] = min(begin, warp.begin), max(end, warp.end)
    rows = []
    for sm, intervals in sms.items():
        begin, end = lives[sm]
        life, first, last = end - begin, intervals[0][0], min(intervals[-1][1], end)
        if life <= 0:
            continue
        gaps = [b - e for (_, e), (b, _) in pairwise(intervals) if b - e > GAP]
        work = sum(e - b for b, e in intervals)
        rows.append((work / life, (first - begin) / life, (end - last) / life, len(gaps), sum(gaps) / life))
    if not rows:
        return None
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return UnitShare(unit, 100 * means[0], 100 * means[1], 100 * means[2], means[3], 100 * means[4])


def _lives(trace: KernelTrace) -> dict[int, Interval]:
    out: dict[int, Interval] = {}
    for warp in trace.warps:
        begin, end = out.get(warp.block, (warp.begin, warp.end))
        out[warp.block] = min(begin, warp.begin), max(end, warp.end)
    return out


class _Cover:
    """Busy time of one SM inside any interval, by bisection over the sums."""

    def __init__(self, intervals: Sequence[Interval]) -> None:
        self.begins = [b for b, _ in intervals]
        self.ends = [e for _, e in intervals]
        self.sums = [0.0]
        for b, e in intervals:
            self.sums.append(self.sums[-1] + e - b)

    def until(self, t: float) -> float:
        i = bisect_right(self.begins, t)
        return self.sums[i] - max(0.0, self.ends[i - 1] - t) if i else 0.0

    def inside(self, begin: float, end: float) -> float:
        return self.until(end) - self.until(begin)


class _Parts:
    """One warp, all in ns: life, priming, drain, and (scope, time, covered, count) in between."""

    def __init__(
        self, trace: KernelTrace, spans: list[tuple[float, float, int]], life: Interval, done: float,
        cover: _Cover | None, written: int,
    ) -> None:  # fmt: skip
        begin, end = life
        kinds = [s.kind for s in trace.scopes]
        productive = [b for b, _, s in spans if kinds[s] not in (WAIT, OTHER)]
        waits = [e for _, e, s in spans if kinds[s] == WAIT]
        start = min(productive, default=min(waits, default=begin))
        records = written * RECORD_CYCLES / trace.clock_ghz if trace.source == "kscope" and trace.clock_ghz else 0.0
        self.recording = min(records, 0.5 * (end - begin))
        self.life = end - begin - self.recording
        self.begin, self.drain_from = min(max(start, begin), end), min(max(done, start, begin), end)
        self.priming, self.drain = self.begin - begin, end - self.drain_from
        self.scopes: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        tail = self.drain_from  # what follows the warp's last record is waiting for the others to finish
        after = max((e for _, e, _ in spans), default=begin)
        self.tail = max(0.0, tail - max(after, self.begin))
        self.tail_covered = cover.inside(max(after, self.begin), tail) if cover and self.tail else 0.0
        for b, e, scope in _own(spans):
            b, e = max(b, self.begin), min(e, self.drain_from)
            if e >= b:
                row = self.scopes[scope]
                row[0] += e - b
                row[1] += cover.inside(b, e) if cover else 0.0
        for b, e, scope in spans:
            self.scopes[scope][2] += b <= self.drain_from and e >= self.begin


def _own(spans: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Spans (sorted by begin, outer first) cut where inner ones lie."""
    out: list[tuple[float, float, int]] = []
    stack: list[list[float]] = []  # [time from which it runs on, end, scope]

    def close(until: float) -> None:
        while stack and stack[-1][1] <= until:
            at, end, scope = stack.pop()
            out.append((at, end, int(scope)))
            if stack:
                stack[-1][0] = max(stack[-1][0], end)

    for begin, end, scope in spans:
        close(begin)
        if stack and begin > stack[-1][0]:
            out.append((stack[-1][0], begin, int(stack[-1][2])))
        stack.append([begin, end, float(scope)])
    close(float("inf"))
    return out


def _role(trace: KernelTrace, name: str, some: list[_Parts], unit: str, warps: int) -> RoleShare:
    waiting = [i for i, s in enumerate(trace.scopes) if s.kind == WAIT or (unit and s.kind == ISSUE and s.on == unit)]
    rows = []
    for p in some:
        waited = sum(p.scopes[i][0] for i in waiting if i in p.scopes) + p.tail
        covered = sum(p.scopes[i][1] for i in waiting if i in p.scopes) + p.tail_covered
        rest = p.life - p.priming - p.drain - waited  # without the records, which were written between the spans
        rows.append([100 * x / p.life for x in (p.priming, rest, covered, waited - covered, p.drain)])
    shares = [Share(sum(c) / len(c), min(c), max(c)) for c in zip(*rows, strict=True)]
    return RoleShare(
        role=name, warps=warps, time_us=sum(p.life + p.recording for p in some) / len(some) / 1e3,
        recording=sum(100 * p.recording / (p.life + p.recording) for p in some) / len(some),
        priming=shares[0], issued=shares[1], covered=shares[2] if unit else None, exposed=shares[3], drain=shares[4],
        scopes=_scopes(trace, some, unit),
    )  # fmt: skip


def _scopes(trace: KernelTrace, some: list[_Parts], unit: str) -> tuple[ScopeShare, ...]:
    """Those that some of a role's warps were in between priming and drain."""
    out = []
    for i, scope in enumerate(trace.scopes):
        found = [(p.scopes[i], p.life) for p in some if i in p.scopes]
        if found:
            share = sum(100 * r[0] / life for r, life in found) / len(some)
            covered = sum(100 * r[1] / life for r, life in found) / len(some)
            count = sum(r[2] for r, _ in found) / len(some)
            out.append(ScopeShare(scope.name, scope.kind, scope.on, count, share, covered if unit else None))
    return tuple(out)
