"""One benchmark from a task to its result."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from kscope._version import __version__
from kscope.bench.judge import audit, code, naming, physics
from kscope.bench.judge.clocks import Watcher
from kscope.bench.judge.hold import Died, Failed
from kscope.bench.judge.inputs import generator
from kscope.bench.judge.matrix import Record, check_all, points
from kscope.bench.judge.probes import Probing, probe
from kscope.bench.judge.referee import Referee
from kscope.bench.judge.seat import Seat, described
from kscope.bench.judge.timed import Clock, Plan, Timed
from kscope.bench.session import machine
from kscope.bench.task.spec import Source, Task
from kscope.bench.values import words
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import SCHEMA, Finding, Result, Timing
from kscope.model.errors import KscopeError

PERTURB = {"MALLOC_PERTURB_": "1"}
"""glibc fills memory that it hands out with 0xFE: as float32 -1.7e38, as float16 NaN. In the checks alone: it takes time."""
WORSE = 4.0  # errors of timed calls over those of checked ones from which they are other calculations; judged


class Options(Struct, frozen=True):
    """What a run is to do. seconds: for the timing of one shape. caches: which to time.
    generations: pairs of processes that share the rounds, 0 for what their start allows."""

    time: bool = True
    seconds: float = 4.0
    caches: tuple[Literal["cold", "hot"], ...] = ("cold", "hot")
    graph: bool = False
    checks: bool = True
    generations: int = 0
    keywords: dict[str, str] = {}
    say: Callable[[str], None] | None = None


class _Run:
    """The state of one run."""

    def __init__(self, task: Task, options: Options, libraries: Path) -> None:
        self.task, self.options, self.libraries = task, options, libraries
        self.rng = generator()
        self.seed = int.from_bytes(os.urandom(4), "little")
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.records: list[Record] = []
        self.timings: list[Timing] = []
        self.wrong = ""
        self.deterministic: bool | None = None
        self.dependent = False
        self.watcher = Watcher(task.device)
        self.printed = _digest(task.file)

    def seat(self, source: Source, role: str, *, wide: bool = False, checking: bool = False) -> Seat:
        place = machine.where(self.task, source, self.libraries)
        return Seat(self.task, source, place, role, wide=wide, seed=self.seed,
                    keywords={**self.task.keywords, **self.options.keywords}, environment=PERTURB if checking else None)  # fmt: skip

    def referee(self) -> Referee:
        source = self.task.reference
        wide = self.seat(source, "reference", wide=True) if source.language == "python" else None
        found = Referee(self.task, wide, self.seat(source, "reference"))
        if wide is None:
            found.note = "the reference is a library: it is compared with at its own precision"
        return found

    @property
    def clean(self) -> bool:
        """Whether times would tell anything: everything right, and no cheat caught."""
        return all(one.check.ok for one in self.records) and not any(one.standing == "caught" for one in self.findings)

    def say(self, text: str) -> None:
        if self.options.say is not None:
            self.options.say(text)


def bench(task: Task, options: Options) -> Result:
    """Check, probe and time a candidate. Raises KscopeError where the task or its reference cannot be used."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kscope-bench-") as folder:
        libraries = Path(os.environ.get("KSCOPE_BENCH_LIBRARIES") or folder)
        run = _Run(task, options, libraries)
        if task.modules and not task.inputs:
            run.task = _adapted(run)
        referee = run.referee()
        baseline = _baseline(run)
        try:
            with np.errstate(all="ignore"):  # NaN and infinities are data here
                _check(run, referee)
            if options.time and not run.wrong and run.clean:
                with np.errstate(all="ignore"):
                    _time(run, referee, baseline)
        except (Died, Failed) as error:
            raise KscopeError("reference", f"{task.reference.text}: {error}", "the reference must run on every shape asked for") from None  # fmt: skip
        finally:
            referee.close()
            if baseline is not None:
                baseline.close()
        if referee.note:
            run.notes.append(referee.note)
        return _result(run, time.perf_counter() - begun)


def _adapted(run: _Run) -> Task:
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


def _baseline(run: _Run) -> Seat | None:
    """What is timed against: the task's, or the reference where it runs on the candidate's device."""
    source = run.task.baseline or run.task.reference
    place = machine.where(run.task, source, run.libraries)
    if place.device != run.task.device:
        run.notes.append(
            f"{source.text} runs on the {place.device}, the candidate on the {run.task.device}: name a --baseline"
        )
        return None
    return run.seat(source, "baseline")


def _check(run: _Run, referee: Referee) -> None:
    candidate = run.seat(run.task.candidate, "candidate", checking=True)
    try:
        plan = points(run.task) if run.options.checks else []
        for record in check_all(run.task, candidate, referee, plan, run.rng):
            run.records.append(record)
            run.say(f"checked {len(run.records)} of {len(plan)}")
        right = all(one.check.ok for one in run.records)
        blind = _probe(run, candidate, referee)
        named = naming.named(run.records, blind) if not run.findings else []
        run.findings = [*run.findings, *named]
        if right:
            _tools(run, candidate)
        _audit(run, candidate)
    except Died as error:
        run.wrong = run.wrong or f"the candidate's process: {error}"
        if error.kind == "garbled":
            run.findings.append(finding(41, str(error)))
    except Failed as error:
        run.wrong = run.wrong or f"raises {error}"
    finally:
        candidate.close()
    if run.printed != _digest(run.task.file):
        run.findings.append(finding(40, "the task file is not what it was before the candidate ran"))


def _probe(run: _Run, candidate: Seat, referee: Referee) -> str:
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


def _tools(run: _Run, candidate: Seat) -> None:
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
        profile = candidate.hold.ask("profile", order=[0, 1] * 4)
        single = candidate.hold.ask("profile", order=[0])
        if run.task.own:
            caught = candidate.hold.ask("exceptions", slot=0)["found"]
        run.findings += audit.borrowed(run.task, profile, caught)
        if many := audit.merged(profile, single, 8):
            run.findings.append(many)
        if run.task.device == "cuda":
            _streams(run, candidate)
    run.findings += code.findings(run.task, candidate, run.libraries)


def _streams(run: _Run, candidate: Seat) -> None:
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


def _audit(run: _Run, candidate: Seat) -> None:
    if candidate.hold is None:
        return
    size = max((sum(a.raw.nbytes for a in one.outputs) for one in run.records), default=0)
    seen: dict[str, Any] = candidate.hold.ask("audit")
    known = {(one.cheat, one.evidence) for one in run.findings}
    run.findings += [one for one in audit.findings(run.task, seen, size) if (one.cheat, one.evidence) not in known]
    if children := candidate.hold.children():
        run.findings.append(finding(2, f"{children} processes that it started are still there", "seen"))


def _time(run: _Run, referee: Referee, baseline: Seat | None) -> None:
    """In a new process of the candidate, so that nothing is left of the checks."""
    candidate = run.seat(run.task.candidate, "candidate")
    here = machine.gpu() if run.task.device == "cuda" else None
    cached = (here or machine.processor()).cache_bytes
    slow = any(one is not None and one.where.framework == "torch" for one in (candidate, baseline))
    generations = run.options.generations or ((1 if slow else 2) if here else (2 if slow else 3))
    plan = Plan(budget_s=run.options.seconds, cache_bytes=cached,
                most_bytes=4 << 30 if here else 256 << 20, batch_s=0.02 if here else 0.01, generations=generations)  # fmt: skip
    rates = physics.rates(run.task.device, here.name if here else "")
    try:
        for chosen in run.task.dtypes:
            for dims in run.task.cases:
                for cache in run.options.caches:
                    run.say(f"timing {words.dims_of(dims)} {chosen}, {cache}")
                    clock = Clock(run.task, candidate, baseline, referee, plan, run.watcher, run.rng)
                    timed = clock.time(dims, chosen, cache, graph=run.options.graph)
                    _take(run, timed, rates)
        _audit(run, candidate)
    except Died as error:
        run.wrong = f"timed calls: {error}"
        if error.kind == "garbled":
            run.findings.append(finding(41, str(error)))
    except Failed as error:
        run.wrong = f"timed calls raise {error}"
    finally:
        candidate.close()


def _take(run: _Run, timed: Timed, rates: physics.Rates | None) -> None:
    timing = timed.timing
    run.findings += [one for one in timed.findings if one.cheat not in {known.cheat for known in run.findings}]
    run.notes += [one for one in timed.notes if one not in run.notes]
    same = [one for one in run.records if one.point.kind == "normal" and one.point.dims == timing.dims
            and one.point.dtype == timing.dtype and one.point.layout == "plain"]  # fmt: skip
    if timed.wrong and not run.wrong:
        run.wrong = f"{words.dims_of(timing.dims)} {timing.dtype}, output of a timed call: {timed.wrong}"
        if not any(one.standing == "caught" for one in run.findings):
            number = 16 if timed.stale and timing.mode == "called" else 10 if timed.stale else 36
            what = "the answer to earlier data" if timed.stale else timed.wrong
            run.findings.append(finding(number, f"every check passes, a timed call does not: {what}"))
    elif same and not run.wrong and timed.rms > WORSE * max(same[0].rms, 0.1):
        run.findings.append(
            finding(
                39, f"errors of timed calls are {timed.rms / max(same[0].rms, 1e-3):.0f} times those of checked ones"
            )
        )
    truth = same[0].truth if same else None
    if truth is not None:
        floor, size = physics.floor_us(run.task, timing, truth, rates, dependent=run.dependent and not timed.notes)
        timing = _with(timing, floor, size)
        if found := physics.judge(timing, floor, size, rates.of if rates else ""):
            run.findings.append(found)
    run.timings.append(timing)


def _with(timing: Timing, floor: float, size: float) -> Timing:
    from msgspec.structs import replace

    return replace(timing, floor_us=floor or None, bytes_needed=size or None)


def _result(run: _Run, seconds: float) -> Result:
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
        schema=SCHEMA, kscope=__version__, candidate=task.candidate.text, reference=task.reference.text,
        baseline=(task.baseline or task.reference).text, device=(here or machine.processor()).name, verdict=verdict,
        sentence=sentence, findings=run.findings, notes=list(dict.fromkeys(run.notes)), checks=checks, timings=run.timings,
        clocks=run.watcher.record() if run.timings else None, geomean=words.geomean(run.timings),
        deterministic=run.deterministic, seconds=seconds, when=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""
    except OSError:
        return "gone"
