"""Recordings that are ranks of one job: which they are, what they tell together, and the job's verdict."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.engine.findings.outcomes import judged
from kscope.engine.findings.rank import ranked
from kscope.engine.timelines.rank_session import Known, Waits
from kscope.engine.timelines.timeline_verdict import GROUPS, busy, starved
from kscope.features.timeline.facts import BUSY
from kscope.features.timeline.jobs.job import JobView, Late, Meanwhile, RankFacts
from kscope.features.timeline.jobs.ranks import Matched, Table, origins
from kscope.model.contract.analysis import (
    JobAnalysis,
    LateCollective,
    Limiter,
    RankFigures,
    TimelineAnalysis,
    TimeShare,
    Verdict,
)
from kscope.model.contract.job import COMPUTING, COPYING, SENDING, WAITING
from kscope.model.contract.timeline_figures import TopKernel
from kscope.model.errors import one_line
from kscope.model.timeline import Place
from kscope.rules.job_base import JobRule
from kscope.rules.registry import program_rules

LATE = 10
"""Collectives that are listed."""
_RANK = re.compile(r"(?i)(?:^|[._-])(?:rank|worker|local_rank|proc)[._-]?(\d{1,6})(?![0-9])")


class Group(Struct, frozen=True):
    """Recordings of one job: (place among the inputs, rank), by rank."""

    name: str
    world: int
    members: tuple[tuple[int, int], ...]


def groups(inputs: Sequence[tuple[Path, Place]]) -> list[Group]:
    """Jobs among recordings: those of one folder whose ranks differ and whose names differ in nothing else; where the
    names differ in more (times, hosts), those of one size of the job. Ranks are those that the recordings say, else
    those of the file names."""
    by_name: dict[tuple[Path, str, int], dict[int, int]] = defaultdict(dict)
    doubtful: set[tuple[Path, str, int]] = set()
    rest: dict[tuple[Path, int], dict[int, int]] = defaultdict(dict)
    for at, (path, place) in enumerate(inputs):
        found = _RANK.search(path.name)
        rank = place.rank if place.rank >= 0 else int(found[1]) if found else -1
        if rank < 0:
            continue
        stem = path.name[: found.start()] + path.name[found.end() :] if found else ""
        key = path.parent, stem, place.world
        if rank in by_name[key]:
            doubtful.add(key)
        by_name[key][rank] = at
    out = []
    for key, members in by_name.items():
        if key not in doubtful and len(members) > 1:
            out.append(_group(inputs, key[2], members))
        elif len(members) == 1 and key[2] > 1:
            ((rank, at),) = members.items()
            rest[key[0], key[2]].setdefault(rank, at)
    lone: dict[tuple[Path, int], int] = defaultdict(int)
    for key, members in by_name.items():
        lone[key[0], key[2]] += len(members) == 1
    out += [_group(inputs, key[1], m) for key, m in rest.items() if 1 < len(m) == lone[key]]
    return sorted(out, key=lambda g: g.members[0][0])


def _group(inputs: Sequence[tuple[Path, Place]], world: int, members: dict[int, int]) -> Group:
    ordered = tuple((at, rank) for rank, at in sorted(members.items()))
    names = [inputs[at][0].name for at, _ in ordered]
    name = _RANK.sub("", names[0])
    return Group(one_line(name if name != names[0] else inputs[ordered[0][0]][0].parent.name or name), world, ordered)


def known(matched: Matched, tables: Sequence[Table]) -> list[Known]:
    """What each rank learns from the others."""
    out = []
    numbers = np.array([t.number for t in tables])
    for column, table in enumerate(tables):
        wait = np.zeros(len(table.sent), dtype=np.int64)
        late = np.full(len(table.sent), -1, dtype=np.int64)
        there = np.flatnonzero(matched.rows[:, column] >= 0) if len(matched) else np.zeros(0, dtype=np.int64)
        at = matched.rows[there, column]
        wait[at], late[at] = matched.wait[there, column], numbers[matched.late[there]]
        out.append(Known(wait, late))
    return out


def asked(matched: Matched, tables: Sequence[Table]) -> list[list[Waits]]:
    """For each rank the times, in its clock, in which each other waited for it."""
    out: list[list[Waits]] = []
    for late in range(len(tables)):
        mine = []
        rows = np.flatnonzero(matched.late == late)
        for waiter, table in enumerate(tables):
            there = rows[matched.wait[rows, waiter] > 0]
            if waiter == late or not len(there):
                continue
            start = table.sent.start[matched.rows[there, waiter]]
            inside = (start >= table.low) & (start < table.high)
            start, there = start[inside], there[inside]
            moved = start - matched.clock[waiter] + matched.clock[late]
            mine.append(Waits(table.number, moved, moved + matched.wait[there, waiter]))
        out.append(mine)
    return out


def judge(
    group: Group,
    facts: Sequence[RankFacts],
    analyses: Sequence[TimelineAnalysis],
    meanwhile: dict[tuple[int, int], Meanwhile],
    matched: Matched,
    tables: Sequence[Table],
    codes: Collection[str] | None,
) -> JobAnalysis:
    """The job's own analysis. Findings are those of the job's rules and of its critical rank, best first."""
    inside = [_in_window(matched, tables, column) for column in range(len(tables))]
    job = JobView(facts, meanwhile, _late(matched, tables), int(np.any(inside, axis=0).sum()) if len(matched) else 0)
    said = judged(
        (rule.code, partial(rule().run, job))
        for rule in program_rules()
        if issubclass(rule, JobRule) and (codes is None or rule.code in codes)
    )
    critical = next(i for i, f in enumerate(facts) if f.number == job.critical)
    verdict, abstained = _verdict(job, analyses)
    found = sum(int(rows.sum()) for rows in inside)
    drift = _drift(matched, tables)
    return JobAnalysis(
        name=group.name, inputs=[f.path for f in facts], world=group.world,
        ranks=[_figures(f, job, drift[i]) for i, f in enumerate(facts)],
        span_us=round(max(f.span for f in facts) / 1e3, 3), steps=min(f.steps for f in facts),
        step_us=_step(facts), verdict=verdict, abstained=abstained, critical=job.critical,
        straggler=job.straggler if any(f.code == "OVH611" for f in said.findings) else None,
        matched=job.matched, matched_pct=round(100 * found / max(matched.in_windows, 1), 2),
        shares=[TimeShare(what=w, pct=round(100 * s, 3)) for w, s in job.shares.items() if s > 0],
        late=_latest(job), findings=ranked([*said.findings, *analyses[critical].findings]), passed=said.passed,
        not_applicable=said.not_applicable, errors=said.errors, notes=_notes(group, facts, job, found, matched),
    )  # fmt: skip


def _drift(matched: Matched, tables: Sequence[Table]) -> list[float]:
    """How far each rank's clock, by its collectives, is from that of its recording, in ns; 0 where that is unknown."""
    found = matched.clock - origins(tables)
    return [float(found[i]) if one.origin and tables[0].origin else 0.0 for i, one in enumerate(tables)]


def _step(facts: Sequence[RankFacts]) -> float | None:
    """Time of a step on the slowest rank in us; None where one of them has no steps."""
    steps = [f.step_ns for f in facts if f.step_ns is not None]
    return round(max(steps) / 1e3, 3) if len(steps) == len(facts) else None


def _latest(job: JobView) -> list[LateCollective]:
    """Those collectives that were waited for longest."""
    return [
        LateCollective(what=one.what, group=one.group, step=one.step, late=one.late, waiting_us=one.wait / 1e3)
        for one in sorted(job.late, key=lambda one: -one.wait)[:LATE]
    ]


def _in_window(matched: Matched, tables: Sequence[Table], column: int) -> NDArray[np.bool_]:
    """Which of the matched collectives begin in the window of a rank."""
    if not len(matched):
        return np.zeros(0, dtype=bool)
    table, rows = tables[column], matched.rows[:, column]
    if not len(table.sent):
        return np.zeros(len(rows), dtype=bool)
    start = table.sent.start[np.maximum(rows, 0)]
    return (rows >= 0) & (start >= table.low) & (start < table.high)


def _late(matched: Matched, tables: Sequence[Table]) -> list[Late]:
    """Collectives with waits, by the rank that came last."""
    out = []
    for row in range(len(matched)):
        others = matched.wait[row][matched.rows[row] >= 0]
        column = int(matched.late[row])
        table, at = tables[column], int(matched.rows[row, column])
        wait = int(others.sum() // max(len(others) - 1, 1))
        if wait > 0 and table.low <= int(table.sent.start[at]) < table.high:
            sent = table.sent
            what, group = sent.kinds[int(sent.what[at])], sent.groups[int(sent.group[at])][0]
            out.append(Late(what, group, int(sent.step[at]), table.number, wait))
    return out


def _figures(rank: RankFacts, job: JobView, drift: float) -> RankFigures:
    def pct(*what: str) -> float:
        return round(100 * sum(rank.spent.get(w, 0) for w in what) / max(rank.whole, 1), 3)

    idle = [w for w in rank.spent if w not in (COMPUTING, SENDING, WAITING, COPYING, "profiler", "one_off")]
    return RankFigures(
        rank=rank.number, input=rank.path, span_us=round(rank.span / 1e3, 3),
        step_us=round(rank.step_ns / 1e3, 3) if rank.step_ns is not None else None,
        computing_pct=pct(COMPUTING), sending_pct=pct(SENDING), waiting_pct=pct(WAITING), copying_pct=pct(COPYING),
        idle_pct=pct(*idle), awaited_us=round(job.caused.get(rank.number, 0) / 1e3, 3), clock_us=round(drift / 1e3, 3),
    )  # fmt: skip


def _verdict(job: JobView, analyses: Sequence[TimelineAnalysis]) -> tuple[Verdict | None, str]:
    """As of one recording (timeline_verdict), of what the ranks' time goes into."""
    told = [a for a in analyses if a.verdict is not None]
    if not told:
        return None, analyses[0].abstained
    window = f"{len(job.ranks)} ranks, {job.ranks[0].window}"
    computing = job.shares.get(COMPUTING, 0.0)
    cost = job.recorded_launch
    if computing / (1 - cost) >= BUSY:
        return busy(_kernels(analyses), computing, window, cost, devices=[d.name for a in analyses for d in a.devices])
    shares: dict[Limiter, float] = {
        limiter: sum(job.shares.get(cause, 0.0) for cause in causes) for limiter, causes in GROUPS.items()
    }
    shares["transfer"] += job.shares.get(COPYING, 0.0)
    shares["communication"] = job.shares.get(SENDING, 0.0)
    if max(shares.values()) < sum(job.shares.get(w, 0.0) for w in ("queued", "unknown")):
        return None, "the GPUs are idle, and the recordings do not say why: operations that were issued waited"
    return starved(shares, computing, window, cost), ""


def _kernels(analyses: Sequence[TimelineAnalysis]) -> list[TopKernel]:
    """The kernels of all ranks that compute, each rank with the same weight, those of most time first."""
    out = []
    for one in analyses:
        whole = sum(k.share for k in one.top_kernels if k.kind != "communication") or 1.0
        out += [
            msgspec.structs.replace(k, share=k.share / whole / len(analyses))
            for k in one.top_kernels
            if k.kind != "communication"
        ]
    return sorted(out, key=lambda k: -k.share)


def _notes(group: Group, facts: Sequence[RankFacts], job: JobView, found: int, matched: Matched) -> list[str]:
    notes = []
    if group.world > len(facts):
        lost = sorted(set(range(group.world)) - {f.number for f in facts})
        names = ", ".join(map(str, lost[:8])) + (", .." if len(lost) > 8 else "")
        notes.append(f"{len(facts)} of {group.world} ranks were recorded; not {names}: who they wait for is unknown")
    if matched.in_windows and found < 0.9 * matched.in_windows:
        share = 100 * found / matched.in_windows
        notes.append(f"{share:.0f} % of the collectives were found on several ranks: the others' waits are unknown")
    if len({f.steps for f in facts}) > 1:
        notes.append("the ranks recorded different numbers of steps: record the same on each")
    return notes
