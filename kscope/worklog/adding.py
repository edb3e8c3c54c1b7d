"""A report becomes an entry: analysed, measured against its parent, with what git says of the code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kscope._version import __version__
from kscope.engine.comparing.compare import compare
from kscope.engine.comparing.pairing import Rule, name_of
from kscope.engine.comparing.parts import NOISE
from kscope.engine.run import analyze_paths
from kscope.features.views.footprint import Footprint, Footprints, quoted
from kscope.model.contract.analysis import Analysis, Finding, KernelAnalysis, from_json, to_json
from kscope.model.contract.comparison import Comparison, KernelPair
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import fenced
from kscope.model.quoted import quoted as in_quotes
from kscope.parsers.files.inputs import collect, open_input
from kscope.worklog import changes, git
from kscope.worklog.entries import Attempt, Claim, Delivered, Entry, Git, Status, Step, Tools
from kscope.worklog.marks import Witness
from kscope.worklog.metrics import CLOCKS, WANTED, metrics
from kscope.worklog.objects import LARGEST, Objects
from kscope.worklog.opportunities import attempts, opportunities
from kscope.worklog.store import Worklog, new_uid, now

NAMES = 5  # of kernels, in the line that asks which one


class Given(Struct, frozen=True):
    """What the user says of a version. repository: folder that git is asked in, None for not at all. status: None lets
    the clock decide."""

    message: str = ""
    kernel: str | None = None
    tries: tuple[str, ...] = ()
    flags: str | None = None
    status: Status | None = None
    why: str = ""
    repository: Path | None = None
    added: str | None = None


class Read(Struct, frozen=True):
    """One kernel of a report as it was just analysed."""

    analysis: Analysis
    kernel: KernelAnalysis
    witness: Witness
    raw: dict[str, float]

    @property
    def marks(self) -> dict[str, float]:
        return self.witness.marks.get(self.kernel.id, {})


def read(report: Path | str, pattern: str | None, like: str = "", wanted: Sequence[str] = ()) -> Read:
    """Analyse a report of one kernel. like: of several, the one of this name is meant. Raises KscopeError: not a report
    of Nsight Compute, several kernels and none chosen."""
    witness = Witness(wanted={*WANTED, *wanted})
    analysis = analyze_paths([report], kernel=pattern, footprints=witness)
    if not analysis.kernels:
        hint = "record kernels with ncu (kscope run -- CMD)"
        raise KscopeError("no-kernels", f"{report}: holds no profiled kernel", hint)
    kernel = _chosen(analysis.kernels, like, report)
    if not kernel.duration_us:
        raise KscopeError("no-time", f"{report}: {in_quotes(name_of(kernel))} has no time",
                          "collect gpu__time_duration.sum (ncu --section SpeedOfLight)")  # fmt: skip
    print_ = witness.by_kernel.get(kernel.id)
    return Read(msgspec.structs.replace(analysis, kernels=[kernel]), kernel, witness,
                dict(print_.metrics) if print_ is not None else {})  # fmt: skip


def add(log: Worklog, report: Path | str, given: Given, parent: Entry | None) -> Entry:
    """Append the version that a report shows. Raises KscopeError."""
    with fenced(report):
        found = collect([report])
    if len(found) != 1 or found[0][1] != "ncu":
        hint = "name one report of Nsight Compute; kscope log import takes a folder"
        raise KscopeError("usage", f"{report}: not one report of Nsight Compute", hint, EXIT_USAGE)
    before = _before(log.objects, parent) if parent is not None and log.objects.has(parent.analysis) else None
    claimed = quoted([f for k in before[0].kernels for f in k.findings]) if before else set()
    one = read(report, given.kernel, parent.kernel if parent else "", tuple(claimed))
    with fenced(report):
        entry = _entry(one, Path(report).name, given)
        if parent is not None:
            entry = _against(entry, one, parent, before, given) if before else _by_time(entry, parent, given)
    return log.add(_kept(log.objects, entry, one, report, given, parent))


def _chosen(kernels: Sequence[KernelAnalysis], like: str, report: Path | str) -> KernelAnalysis:
    """Several launches with other shapes are several kernels; the longest stands for a name."""
    names = dict.fromkeys(name_of(k) for k in kernels)
    if like in names:
        return next(k for k in kernels if name_of(k) == like)
    if len(names) > 1:
        shown = ", ".join(in_quotes(n) for n in list(names)[:NAMES]) + (", ..." if len(names) > NAMES else "")
        raise KscopeError("several-kernels", f"{report}: holds {len(names)} kernels: {shown}",
                          "--kernel REGEX chooses one", EXIT_USAGE)  # fmt: skip
    return max(kernels, key=lambda k: k.duration_us or 0.0)


def _entry(one: Read, name: str, given: Given) -> Entry:
    kernel, verdict = one.kernel, one.kernel.verdict
    clocks = {field: one.raw.get(metric) for field, metric in CLOCKS.items()}
    tools = Tools(kscope=__version__, profiler=next((i.tool_version for i in one.analysis.inputs), None),
                  flags=_sound(given.flags) if given.flags else None, **clocks)  # fmt: skip
    return Entry(
        uid=new_uid(), added=given.added or now(), kernel=name_of(kernel), time_us=kernel.duration_us or 0.0,
        regime=verdict.regime, limiter=verdict.limiter, sentence=verdict.sentence, device=kernel.device, tools=tools,
        git=Git(), report="", report_name=_sound(name), analysis="", message=_sound(given.message),
        status=given.status or "kept", why=_sound(given.why), spread=kernel.repeats,
        pct_of_roof=kernel.roofline.pct_of_roof if kernel.roofline else None,
        headroom=kernel.headroom.speedup_bound if kernel.headroom else None,
        bounded_by=kernel.headroom.bounded_by if kernel.headroom else "", metrics=metrics(kernel, one.raw),
        marks=one.marks, claims=[_claim(f) for f in kernel.findings], passed=kernel.passed,
        blind={n.code: n.why for n in kernel.not_applicable},
        attempts=[Attempt(opportunity=name, how="told", told=True) for name in given.tries],
    )  # fmt: skip


def _claim(finding: Finding) -> Claim:
    e = finding.estimate
    return Claim(code=finding.code, rule=finding.rule, title=finding.title, severity=finding.severity,
                 speedup=e.speedup if e else 0.0, low=e.low if e else 0.0, high=e.high if e else 0.0)  # fmt: skip


def _before(objects: Objects, parent: Entry) -> tuple[Analysis, Footprint | None]:
    analysis = from_json(objects.get(parent.analysis))
    if parent.footprint is None:
        return analysis, None
    return analysis, msgspec.json.decode(objects.get(parent.footprint), type=_Print).footprint()


def _against(
    entry: Entry, one: Read, parent: Entry, before: tuple[Analysis, Footprint | None], given: Given
) -> Entry:
    """The same entry with its step. The user says which version became this one: nothing is guessed."""
    old, print_ = before
    (was,) = old.kernels
    prints = Footprints(by_kernel={was.id: print_} if print_ is not None else {})
    (pair,) = _compared(old, one, prints).pairs
    tried = attempts(parent.marks, entry.marks, pair.fixed, given.tries)
    step = Step(parent=parent.uid, speedup=pair.speedup, sentence=pair.sentence, fixed=pair.fixed, new=pair.new,
                remaining=pair.remaining, delivered=_delivered(pair, tried), against=pair.against)  # fmt: skip
    return _stepped(entry, parent, step, tried, given)


def _by_time(entry: Entry, parent: Entry, given: Given) -> Entry:
    """The same of a parent whose objects are not here (taken from git notes, or merged without them)."""
    step = Step(parent=parent.uid, speedup=parent.time_us / entry.time_us,
                sentence="compared by time alone: the parent's report is not here")  # fmt: skip
    return _stepped(entry, parent, step, attempts(parent.marks, entry.marks, [], given.tries), given)


def _stepped(entry: Entry, parent: Entry, step: Step, tried: list[Attempt], given: Given) -> Entry:
    slower = given.status is None and step.speedup is not None and step.speedup < 1 - NOISE
    why = ": ".join([f"slower than version {parent.number}", *step.against[:1]])
    return replace(entry, parent=parent.uid, step=step, attempts=tried,
                   status="set aside" if slower else entry.status, why=why if slower else entry.why)  # fmt: skip


def again(log: Worklog, a: Entry, b: Entry) -> Comparison:
    """Two versions compared from their packed reports, by this kscope. Raises KscopeError where one is not here."""
    before = read(log.objects.path(a.report), f"^{re.escape(a.kernel)}$")
    wanted = quoted([f for k in before.analysis.kernels for f in k.findings])
    after = read(log.objects.path(b.report), f"^{re.escape(b.kernel)}$", wanted=tuple(wanted))
    return _compared(before.analysis, after, before.witness)


def _compared(old: Analysis, one: Read, prints: Footprints) -> Comparison:
    (was,) = old.kernels
    rule = Rule(f"^{re.escape(name_of(was))}$", f"^{re.escape(name_of(one.kernel))}$")
    return compare(old, one.analysis, [rule], (prints, one.witness))


def _delivered(pair: KernelPair, tried: Sequence[Attempt]) -> list[Delivered]:
    """Promises of what was repaired, then of what was tried though its finding is still there."""
    rows = [
        Delivered(code=p.code, rule=p.rule, speedup=p.speedup, low=p.low, high=p.high, measured=p.measured,
                  alone=p.alone, outcome=p.outcome, because="evidence gone")
        for p in pair.promises
    ]  # fmt: skip
    known, table = {row.code for row in rows}, opportunities()
    told = {code: a.told for a in tried for code in table[a.opportunity].rules}
    for finding in pair.before.findings:
        e = finding.estimate
        if finding.code in told and finding.code not in known and e is not None and finding.severity != "info":
            measured = pair.speedup or 1.0
            outcome = "below" if measured < e.low * (1 - NOISE) else "above" if measured > e.high * (1 + NOISE) else ""
            rows.append(Delivered(code=finding.code, rule=finding.rule, speedup=e.speedup, low=e.low, high=e.high,
                                  measured=measured, alone=True, outcome=outcome or "inside",  # type: ignore[arg-type]
                                  because="told" if told[finding.code] else "recognised"))  # fmt: skip
    one = len(rows) == 1 and len(tried) < 2
    return [replace(row, alone=row.alone and one) for row in rows]


def _kept(
    objects: Objects, entry: Entry, one: Read, report: Path | str, given: Given, parent: Entry | None
) -> Entry:
    """The entry with its objects on disk."""
    with open_input(report) as plain, open(plain, "rb") as file:
        content = file.read(LARGEST)
    print_ = one.witness.by_kernel.get(one.kernel.id)
    code = one.witness.code.get(one.kernel.id, "")
    facts, change = _git(given.repository, parent, objects)
    if not change and parent is not None:
        change = changes.difference(changes.text(objects, parent.code), code)
    return replace(
        entry, git=facts, report=objects.put(content, "ncu-rep"), analysis=objects.put(to_json(one.analysis), "json"),
        footprint=objects.put(msgspec.json.encode(_Print.of(print_)), "json") if print_ is not None else None,
        code=_put(objects, code, "txt"), change=_put(objects, change, "diff"),
    )  # fmt: skip


def _git(folder: Path | None, parent: Entry | None, objects: Objects) -> tuple[Git, str]:
    """Where the code is, and what changed since the parent, which git can tell where that was a clean commit."""
    found = git.state(folder) if folder is not None else None
    if found is None or folder is None:
        return Git(), ""
    facts = Git(
        commit=found.commit, branch=_sound(found.branch) if found.branch else None,
        dirty=bool(found.patch or found.left_out), patch=_put(objects, found.patch, "diff"),
        left_out=[_sound(name) for name in found.left_out],
    )  # fmt: skip
    if parent is None or parent.git.commit is None or parent.git.dirty:
        return facts, ""
    return facts, git.since(folder, parent.git.commit) or ""


def _put(objects: Objects, text: str, suffix: str) -> str | None:
    return objects.put(text.encode("utf-8", "surrogateescape"), suffix) if text else None


def _sound(text: str) -> str:
    """Without lone surrogates, which names of files may bring."""
    return text.encode("utf-8", "replace").decode()


class _Print(Struct):
    """A footprint without the shape of its code: the pair is known."""

    executed: dict[str, float]
    samples: dict[str, float]
    metrics: dict[str, float]

    @classmethod
    def of(cls, footprint: Footprint) -> _Print:
        return cls(dict(footprint.executed), dict(footprint.samples), dict(footprint.metrics))

    def footprint(self) -> Footprint:
        return Footprint(shape=Counter(), executed=self.executed, samples=self.samples, metrics=self.metrics)
