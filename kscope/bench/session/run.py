"""One benchmark from a task to its result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from kscope._version import __version__
from kscope.bench.judge import audit, code, naming, proof
from kscope.bench.judge.hold import Died, Failed, Unfit
from kscope.bench.judge.matrix import FIRST, Point, check_all, points
from kscope.bench.judge.probes import Probing, probe
from kscope.bench.judge.referee import Referee
from kscope.bench.judge.seat import Seat, described, prepare
from kscope.bench.session import machine
from kscope.bench.session.state import PERTURB, Options, Run, digest
from kscope.bench.session.timing import audited, times
from kscope.bench.task.spec import Task, check
from kscope.bench.values import words
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import SCHEMA, Result
from kscope.model.errors import KscopeError
from kscope.parsers import scratch


def bench(task: Task, options: Options) -> Result:
    """Check, probe and time a candidate. Raises KscopeError where the task or its reference cannot be used."""
    begun = time.perf_counter()
    with scratch.folder("kscope-bench-") as folder:
        libraries = Path(options.libraries or folder)
        run = Run(task, options, libraries)
        prepare([task.framework, machine.of(task.reference)], [None, PERTURB])
        if task.modules and not task.inputs:
            run.task = _adapted(run)
        check(run.task)
        referee = run.referee()
        baseline = _baseline(run)
        try:
            with np.errstate(all="ignore"):  # NaN and infinities are data here
                _check(run, referee)
                if options.time and not run.wrong and run.clean:
                    times(run, referee, baseline)
                if options.prove and not run.wrong and run.clean:
                    _prove(run)
        except Unfit as error:
            raise KscopeError("reference", str(error), "it must run on every shape that is asked for") from None
        finally:
            referee.close()
            if baseline is not None:
                baseline.close()
        if referee.note:
            run.notes.append(referee.note)
        return _result(run, time.perf_counter() - begun)


def _adapted(run: Run) -> Task:
    from msgspec.structs import replace

    seat = run.seat(run.task.reference, "reference")
    try:
        inputs, cases = described(seat)
    except (Died, Failed) as error:
        hint = "it needs get_inputs(), or a task file with inputs"
        raise KscopeError("bad-task", f"{run.task.reference.text}: {error}", hint) from None
    finally:
        seat.close()
    return replace(run.task, inputs=inputs, cases=cases, derived=False, layouts=False)


def _baseline(run: Run) -> Seat | None:
    """What is timed against: the task's, or the reference where it runs on the candidate's device."""
    source = run.task.baseline or run.task.reference
    place = machine.where(run.task, source, run.libraries)
    if place.device != run.task.device:
        run.notes.append(
            f"{source.text} runs on the {place.device}, the candidate on the {run.task.device}: name a --baseline"
        )
        return None
    return run.seat(source, "baseline")


def _check(run: Run, referee: Referee) -> None:
    candidate = run.seat(run.task.candidate, "candidate", checking=True)
    try:
        plan = points(run.task) if run.options.checks else []
        for record in check_all(run.task, candidate, referee, _while_there_is_time(run, plan), run.rng):
            run.records.append(record)
            run.say(f"checked {len(run.records)} of {len(plan)}")
        right = all(one.check.ok for one in run.records)
        blind = ""
        try:
            blind = _probe(run, candidate, referee)
        finally:  # a candidate that raises has a name for it, too
            run.findings += naming.named(run.records, blind) if not run.findings else []
        if right:
            _tools(run, candidate)
        audited(run, candidate)
    except Died as error:
        run.wrong = run.wrong or f"the candidate's process: {error}"
        if error.kind == "garbled":
            run.findings.append(finding(41, str(error)))
    except Failed as error:
        run.wrong = run.wrong or f"raises {error}"
    finally:
        candidate.close()
    if run.printed != digest(run.task.file):
        run.findings.append(finding(40, "the task file is not what it was before the candidate ran"))


def _while_there_is_time(run: Run, plan: Sequence[Point]) -> Iterator[Point]:
    """Every shape and format is checked; more kinds of data for it as long as checks have time."""
    begun, left = time.monotonic(), 0
    for point in plan:
        if time.monotonic() - begun > run.options.check_seconds and not (point.asked and point.kind in FIRST):
            left += 1
        else:
            yield point
    if left:
        spent = time.monotonic() - begun
        run.notes.append(f"{left} of {len(plan)} checks are left out: those before took {spent:.0f} s")


def _probe(run: Run, candidate: Seat, referee: Referee) -> str:
    dims, chosen = run.task.cases[0], run.task.dtypes[0]
    run.say("probing for results that are kept")
    candidate.close()  # a new process: nothing is left of the matrix
    it = Probing(run.task, candidate, referee, run.rng)
    probe(it, dims, chosen)
    run.findings += it.findings
    run.deterministic = it.deterministic
    run.dependent = it.dependent
    if run.task.deterministic and it.deterministic is False:
        run.wrong = "not deterministic: other bits for the same inputs"
    return it.blind


def _tools(run: Run, candidate: Seat) -> None:
    """What the profiler, streams and machine code tell of a candidate that is right."""
    dims, chosen = run.task.cases[0], run.task.dtypes[0]
    assert candidate.hold is not None
    candidate.open(dims, chosen, slots=2)
    data = [run.records[0].data] if run.records and run.records[0].data else []
    for slot in range(2 if data else 0):
        assert data[0] is not None
        candidate.fill(slot, data[0])
    caught: list[str] = []
    if candidate.where.framework == "torch":
        profile, single = candidate.hold.ask("profile", orders=[[0, 1] * 4, [0]])["found"]
        if run.task.own:
            caught = candidate.hold.ask("exceptions", slot=0)["found"]
        run.findings += audit.borrowed(run.task, profile, caught)
        if many := audit.merged(profile, single, 8):
            run.findings.append(many)
        if run.task.device == "cuda":
            _streams(run, candidate)
    run.findings += code.findings(run.task, candidate, run.libraries)


def _prove(run: Run) -> None:
    here = machine.gpu()
    if run.task.device != "cuda" or here is None:
        run.notes.append("--prove: counters are those of a GPU; this candidate runs on the processor")
        return
    run.say("counting by Nsight Compute")
    place = machine.where(run.task, run.task.candidate, run.libraries)
    findings, notes = proof.prove(run.task, place, here.cache_bytes, run.rng, dependent=run.dependent)
    run.findings += findings
    run.notes += notes


def _streams(run: Run, candidate: Seat) -> None:
    """Three tries: a result that is late once is late."""
    assert candidate.hold is not None
    for _ in range(3):
        seen = candidate.hold.ask("streams", slot=0)
        late = seen["device_s"] - seen["stream_s"]
        if not seen["same"]:
            run.findings.append(finding(1, "a copy on the caller's stream right behind the call holds other values"))
            return
    if late > 0.25 * seen["device_s"] and late > 1e-4:
        run.findings.append(finding(1, f"the device is busy {1e6 * late:.0f} us after the caller's stream is done"))


def _result(run: Run, seconds: float) -> Result:
    checks = [one.check for one in run.records]
    verdict, sentence = words.decide(checks, run.findings, run.timings, run.wrong)
    task = run.task
    refused = [one for one in run.records if one.refused]
    if refused:
        run.notes.append(f"refuses {len(refused)} shapes or layouts that nobody asked for: {refused[0].fault}")
    if run.deterministic is False:
        run.notes.append("not deterministic: other bits for the same inputs")
    here = machine.gpu() if task.device == "cuda" else None
    return Result(
        schema=SCHEMA,
        kscope=__version__,
        candidate=task.candidate.text,
        reference=task.reference.text,
        baseline=(task.baseline or task.reference).text,
        device=(here or machine.processor()).name,
        verdict=verdict,
        sentence=sentence,
        findings=run.findings,
        notes=list(dict.fromkeys(run.notes)),
        checks=checks,
        timings=run.timings,
        clocks=run.watcher.record() if run.timings else None,
        geomean=words.geomean(run.timings),
        deterministic=run.deterministic,
        seconds=seconds,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
    )
