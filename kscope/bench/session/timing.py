"""The timing of one run, and what the candidate's processes reported."""

from __future__ import annotations

from typing import Any

from kscope.bench.judge import audit, physics
from kscope.bench.judge.hold import Died, Failed
from kscope.bench.judge.matrix import Record
from kscope.bench.judge.referee import Referee
from kscope.bench.judge.seat import Seat
from kscope.bench.judge.side import Plan, Timed
from kscope.bench.judge.timed import Clock
from kscope.bench.session import machine
from kscope.bench.session.state import Run
from kscope.bench.values import words
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import Timing

WORSE = 4.0  # errors of timed calls over those of checked ones from which they are other calculations; judged


def audited(run: Run, candidate: Seat) -> None:
    if candidate.hold is None:
        return
    size = max((sum(a.raw.nbytes for a in one.outputs) for one in run.records), default=0)
    seen: dict[str, Any] = candidate.hold.ask("audit")
    known = {(one.cheat, one.evidence) for one in run.findings}
    run.findings += [one for one in audit.findings(run.task, seen, size) if (one.cheat, one.evidence) not in known]
    if children := candidate.hold.children():
        run.findings.append(finding(2, f"{children} processes that it started are still there", "seen"))


def times(run: Run, referee: Referee, baseline: Seat | None) -> None:
    """In a new process of the candidate, so that nothing is left of the checks."""
    candidate = run.seat(run.task.candidate, "candidate")
    here = machine.gpu() if run.task.device == "cuda" else None
    cached = (here or machine.processor()).cache_bytes
    slow = any(one is not None and one.where.framework == "torch" for one in (candidate, baseline))
    generations = run.options.generations or ((1 if slow else 2) if here else (2 if slow else 3))
    plan = Plan(
        budget_s=run.options.seconds,
        cache_bytes=cached,
        most_bytes=4 << 30 if here else 256 << 20,
        batch_s=0.02 if here else 0.01,
        generations=generations,
    )
    rates = physics.rates(run.task.device, here.name if here else "")
    try:
        for chosen in run.task.dtypes:
            for dims in run.task.cases:
                for cache in run.options.caches:
                    run.say(f"timing {words.dims_of(dims)} {chosen}, {cache}")
                    clock = Clock(run.task, candidate, baseline, referee, plan, run.watcher, run.rng)
                    timed = clock.time(dims, chosen, cache, graph=run.options.graph)
                    _take(run, timed, rates)
        audited(run, candidate)
    except Died as error:
        run.wrong = f"timed calls: {error}"
        if error.kind == "garbled":
            run.findings.append(finding(41, str(error)))
    except Failed as error:
        run.wrong = f"timed calls raise {error}"
    finally:
        candidate.close()


def _take(run: Run, timed: Timed, rates: physics.Rates | None) -> None:
    """A timing into the run, with what its outputs, and physics, say of it."""
    timing = timed.timing
    known = {one.cheat for one in run.findings}
    run.findings += [one for one in timed.findings if one.cheat not in known]
    run.notes += [one for one in timed.notes if one not in run.notes]
    same = next((one for one in run.records if _same(one, timing)), None)
    if timed.wrong and not run.wrong:
        _wrong(run, timed)
    elif same is not None and not run.wrong and timed.rms > WORSE * max(same.rms, 0.1):
        times = timed.rms / max(same.rms, 1e-3)
        run.findings.append(finding(39, f"errors of timed calls are {times:.0f} times those of checked ones"))
    if same is not None and same.truth is not None:
        floor, size = physics.floor_us(run.task, timing, same.truth, rates, dependent=run.dependent and not timed.notes)
        timing = _with(timing, floor, size)
        if found := physics.judge(timing, floor, size, rates.of if rates else ""):
            run.findings.append(found)
    run.timings.append(timing)


def _same(record: Record, timing: Timing) -> bool:
    point = record.point
    return (point.kind, point.dims, point.dtype, point.layout) == ("normal", timing.dims, timing.dtype, "plain")


def _wrong(run: Run, timed: Timed) -> None:
    timing = timed.timing
    run.wrong = f"{words.dims_of(timing.dims)} {timing.dtype}, output of a timed call: {timed.wrong}"
    if any(one.standing == "caught" for one in run.findings):
        return  # it has a name already
    number = (16 if timing.mode == "called" else 10) if timed.stale else 36
    what = "the answer to earlier data" if timed.stale else timed.wrong
    run.findings.append(finding(number, f"every check passes, a timed call does not: {what}"))


def _with(timing: Timing, floor: float, size: float) -> Timing:
    from msgspec.structs import replace

    return replace(timing, floor_us=floor or None, bytes_needed=size or None)
