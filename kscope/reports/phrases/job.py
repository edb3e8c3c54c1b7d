"""A job of several ranks in words: its ranks, who waits for whom, what the time goes into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.model.units import counted
from kscope.reports import words
from kscope.reports._reasons import CAUSES

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, JobAnalysis, TimelineAnalysis
    from kscope.model.contract.job import RankFigures

LATE_SHOWN = 3
_SHARES = {"computing": "kernels", "communication": "communication with nothing beside it", "copying": "copies"}
HEAD = ("rank", "kernels", "sends", "waits", "copies", "idle", "others wait for it")


def size(job: JobAnalysis) -> str:
    """`2 of 8 ranks`."""
    of = f" of {job.world}" if job.world > len(job.ranks) else ""
    return f"{len(job.ranks)}{of} ranks"


def about(job: JobAnalysis) -> str:
    """Window, steps, what was matched."""
    steps = f"{counted(job.steps, 'step')} of {words.time(job.step_us)}" if job.step_us is not None else "no steps"
    clocks = max((abs(r.clock_us) for r in job.ranks), default=0.0)
    apart = f", clocks up to {words.time(clocks)} apart" if clocks >= 1 else ""
    return (
        f"window {words.time(job.span_us)}, {steps}; {counted(job.matched, 'collective')} found on all ranks that take "
        f"part ({job.matched_pct:.0f} %){apart}"
    )


def spends(job: JobAnalysis) -> str:
    """What the job's time goes into."""
    parts = [f"{s.pct:.0f} % {_SHARES.get(s.what, CAUSES.get(s.what, one_line(s.what)))}" for s in job.shares
             if s.pct >= 0.5]  # fmt: skip
    whose = f"rank {job.straggler}, which the others wait for" if job.straggler is not None else "all ranks, mean"
    return f"the time goes into {', '.join(parts)} ({whose}; a wait counts as what the awaited rank does)"


def late(job: JobAnalysis) -> list[str]:
    """The collectives that are waited at longest."""
    return [
        f"at {quoted(one.what)} in step {one.step} the others wait {words.time(one.waiting_us)} for rank {one.late}"
        for one in job.late[:LATE_SHOWN]
        if one.waiting_us >= 0.002 * job.span_us / max(job.steps, 1)
    ]


def row(rank: RankFigures) -> list[str]:
    shares = (rank.computing_pct, rank.sending_pct, rank.waiting_pct, rank.copying_pct, rank.idle_pct)
    return [str(rank.rank), *(f"{share:.1f} %" for share in shares), words.time(rank.awaited_us)]


def in_full(analysis: Analysis, *, verbose: bool) -> list[TimelineAnalysis]:
    """The recordings to show in full: of a job that of the rank whose findings it lists."""
    folded = {(r.input, r.rank) for job in analysis.jobs for r in job.ranks if r.rank != job.critical}
    return [t for t in analysis.timelines if verbose or (t.input, t.rank) not in folded]
