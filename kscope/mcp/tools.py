"""What the tools of `kscope.mcp.catalogue` do. Each is a function of the desk and its arguments; a fault is a
KscopeError, whose line the client gets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kscope.mcp import answers, arguments
from kscope.mcp.code import code
from kscope.mcp.desk import Desk
from kscope.mcp.keys import find, finding_key, kernel_keys
from kscope.mcp.mending import check_fix, propose_fix
from kscope.mcp.metrics import metrics
from kscope.mcp.pages import having, page
from kscope.mcp.roots import SCANNED
from kscope.mcp.trying import checklist
from kscope.model.contract.analysis import Analysis, Finding, KernelAnalysis, NotApplicable

BRIEFS = 3  # findings of a kernel that an overview names
KINDS = (
    ((".ncu-rep", ".ncu-repz"), "kernel report"),
    ((".sqlite", ".json"), "timeline"),
    ((".cubin", ".fatbin", ".o", ".so", ".sass"), "machine code"),
)


def list_inputs(desk: Desk, asked: arguments.ListInputs) -> answers.Inputs:
    found = [(path, kind) for path in desk.roots.files() if (kind := _kind(path.name))]
    chosen = [found[i] for i in having([str(path) for path, _ in found], asked.contains)]
    rows = [answers.InputRow(path=str(p), kind=k, bytes=os.stat(p).st_size) for p, k in chosen]  # type: ignore[arg-type]
    kept, after = page(rows, asked.offset, asked.limit)
    return answers.Inputs(
        rows=kept, total=len(rows), next_offset=after, roots=[str(folder) for folder in desk.roots.folders],
        notes=[] if rows else [f"nothing to read here among the first {SCANNED:,} entries: `kscope run -- COMMAND` "
                               "records a program"],
    )  # fmt: skip


def _kind(name: str) -> str:
    for packed in (".gz", ".xz", ".zst"):
        name = name.removesuffix(packed)
    return next((kind for suffixes, kind in KINDS if name.endswith(suffixes)), "")


def diagnose(desk: Desk, asked: arguments.Diagnose) -> answers.Diagnosis:
    path = desk.roots.file(asked.path)
    if desk.is_binary(path):
        return _functions(desk, asked)
    if asked.key:
        return _whole(desk.analysis(path, "", asked.problem), asked.key)
    analysis = desk.analysis(path, asked.name, asked.problem)
    rows = [_row(key, k) for key, k in zip(kernel_keys(analysis.kernels), analysis.kernels, strict=True)]
    kept, after = page(rows, asked.offset, asked.limit)
    shown = analysis.kernels[asked.offset : asked.offset + len(kept)]
    return answers.Diagnosis(
        kernels=kept, total=len(rows), next_offset=after, timelines=[_timeline(t) for t in analysis.timelines],
        skipped=analysis.skipped, absent=_absent([n for k in shown for n in k.not_applicable], analysis),
    )  # fmt: skip


def _row(key: str, kernel: KernelAnalysis) -> answers.KernelRow:
    return answers.KernelRow(
        key=key, name=kernel.demangled or kernel.name, duration_us=kernel.duration_us,
        launches=kernel.repeats.count if kernel.repeats else 1, device=kernel.device, launch=kernel.launch,
        verdict=kernel.verdict, headroom=kernel.headroom, next=kernel.next_step, findings=_briefs(kernel.findings),
    )  # fmt: skip


def _briefs(findings: list[Finding]) -> list[answers.Brief]:
    return [
        answers.Brief(
            key=finding_key(f), code=f.code, title=f.title, severity=f.severity, confidence=f.confidence,
            speedup=f.estimate.speedup if f.estimate else None,
        )
        for f in findings if f.severity != "info"
    ][:BRIEFS]  # fmt: skip


def _timeline(timeline: Any) -> answers.TimelineRow:
    return answers.TimelineRow(
        window=timeline.window, span_us=timeline.span_us, gpu_busy_pct=timeline.gpu_busy_pct,
        verdict=timeline.verdict, abstained=timeline.abstained, findings=timeline.findings[:BRIEFS],
    )  # fmt: skip


def _absent(missing: list[NotApplicable], analysis: Analysis | None = None) -> list[answers.Absent]:
    """What rules lacked, with what collects it; reasons in the order in which they came."""
    by: dict[str, list[str]] = {}
    for item in missing:
        codes = by.setdefault(item.why, [])
        if item.code not in codes:
            codes.append(item.code)
    found = [answers.Absent(what=why, codes=codes) for why, codes in by.items()]
    if analysis is not None and analysis.timelines and not analysis.kernels:
        what = "counters of single kernels: ncu --set full --import-source yes records them (`kscope run --tool ncu`)"
        found.append(answers.Absent(what=what))
    return found


def _functions(desk: Desk, asked: arguments.Diagnose) -> answers.Diagnosis:
    from kscope.mcp.code import binary

    functions = binary(desk, desk.roots.file(asked.path), annotate=False)
    chosen = [functions[i] for i in having([f.demangled or f.name for _, f in functions], asked.name)]
    rows = [
        answers.FunctionRow(key=f.name, arch=arch, instructions=f.instructions, registers=f.registers,
                            findings=_briefs(f.findings))
        for arch, f in chosen
    ]  # fmt: skip
    kept, after = page(rows, asked.offset, asked.limit)
    what = "times, counters and gains: this is machine code that nobody ran; ncu --set full records a run, and"
    what += " `kscope analyze FILE --time 41us --grid N --block N` bounds one from its time alone"
    return answers.Diagnosis(functions=kept, total=len(rows), next_offset=after, absent=[answers.Absent(what=what)])


def _whole(analysis: Analysis, asked: str) -> answers.Diagnosis:
    """Everything about one kernel."""
    key, one = find(analysis.kernels, asked)
    absent = _absent(one.not_applicable)
    absent += [answers.Absent(what=f"{e.code} failed: {e.message}", codes=[e.code]) for e in one.errors]
    if not one.hot:
        absent.append(answers.Absent(what="samples by instruction: --section SourceCounters"))
    whole = answers.KernelAnswer(key=key, kernel=one, finding_keys=[finding_key(f) for f in one.findings])
    return answers.Diagnosis(kernel=whole, total=1, next_offset=None, absent=absent)


def explain(desk: Desk, asked: arguments.Explain) -> answers.RulePage:
    from kscope.rules.registry import page as text
    from kscope.rules.registry import rule

    found = rule(asked.code)
    return answers.RulePage(code=found.code, rule=found.slug, title=found.title, page=text(found),
                            collect=found.collect)  # fmt: skip


def compare(desk: Desk, asked: arguments.Compare) -> answers.CompareAnswer:
    from kscope.mcp.compared import compared

    sides = compared(desk, asked)
    found = sides.comparison
    rows = [
        answers.PairRow(
            before=sides.before[p.before.id], after=sides.after[p.after.id], matched_by=p.matched_by, guess=p.guess,
            speedup=p.speedup, sentence=p.sentence,
            fixed=p.fixed, new=p.new, remaining=p.remaining, unknown=p.unknown, gone=p.gone, promises=p.promises,
            changes=p.changes, next=p.after.next_step,
        )
        for p in found.pairs
    ]  # fmt: skip
    kept, after = page(rows, asked.offset, asked.limit)
    return answers.CompareAnswer(
        pairs=kept, total=len(rows), next_offset=after, speedup=found.speedup, only_before=found.only_before,
        only_after=found.only_after, notes=found.notes, skipped=found.skipped,
    )  # fmt: skip


def napkin(desk: Desk, asked: arguments.Napkin) -> answers.NapkinAnswer:
    from kscope.arch.chips import find as chip_of
    from kscope.arch.user import measured as of_user
    from kscope.model.errors import EXIT_USAGE, KscopeError
    from kscope.napkin.answer import answer
    from kscope.napkin.asked import ask
    from kscope.napkin.measured import parse_time
    from kscope.napkin.roofs import roofs

    chip = chip_of(asked.chip)
    mine = of_user(chip.key)
    try:
        took = parse_time(asked.measured) if asked.measured else None
    except ValueError:
        raise KscopeError("usage", f"{asked.measured!r} is no time", "write 5.1ms or 180us", EXIT_USAGE) from None
    rates = roofs(chip, mine.rates, f"measured here on {mine.day}") if mine is not None else roofs(chip)
    found = answer(ask(asked.problem), rates, measured_us=took)
    e, beside = found.estimate, found.measured
    return answers.NapkinAnswer(
        problem=e.problem.text, chip=chip.name, flop=e.problem.flop, bytes=e.problem.bytes, regime=e.regime,
        limiter=e.limiter, floor_us=e.floor_us, attained_us=e.attained_us,
        levels=[answers.LevelRow(name=v.name, amount=v.amount, unit=v.unit, peak_us=v.peak_us,
                                 attained_us=v.attained_us, source=v.source) for v in e.levels],
        measured=beside.verdict if beside else "", notes=[*e.notes, *(beside.notes if beside else ())],
        explanations=[answers.Story(what=s.what, us=s.us) for s in (beside.stories if beside else ())],
    )  # fmt: skip


RUN: dict[str, Callable[[Desk, Any], Any]] = {
    "list_inputs": list_inputs, "diagnose": diagnose, "code": code, "metrics": metrics,
    "explain": explain, "compare": compare, "napkin": napkin, "propose_fix": propose_fix, "check_fix": check_fix,
    "checklist": checklist,
}  # fmt: skip
