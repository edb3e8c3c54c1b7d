"""One kernel to its KernelAnalysis: rules, regime, ranking."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from msgspec import UNSET

from kscope.engine.findings.fitting import fitting
from kscope.engine.findings.library_code import for_the_caller
from kscope.engine.findings.mended import of_kernel
from kscope.engine.findings.outcomes import Outcomes, judged, of_this_build
from kscope.engine.findings.rank import ranked
from kscope.engine.findings.sureness import tempered
from kscope.engine.findings.thin import weighed
from kscope.engine.kernels.circumstances import circumstances
from kscope.engine.kernels.collecting import command, unsampled
from kscope.engine.kernels.elders import without_advice
from kscope.engine.kernels.headroom import headroom, under_the_roof
from kscope.engine.kernels.libraries import library_of, note
from kscope.engine.kernels.reading import reading
from kscope.engine.kernels.tiles import without_threads
from kscope.engine.kernels.unexplained import unexplained
from kscope.engine.verdict.next_step import LATER, Blind, next_step
from kscope.engine.verdict.regime import Regimen, decide
from kscope.engine.verdict.verdict import verdict
from kscope.features.counters.units import ELAPSED
from kscope.features.facts import Facts
from kscope.model.contract.analysis import (
    DeviceInfo,
    HotInstruction,
    KernelAnalysis,
    LaunchInfo,
    LibraryKernel,
    NvidiaFinding,
    Roofline,
    Stall,
    Utilization,
)
from kscope.model.contract.findings import NvidiaTable
from kscope.model.contract.specialization import WarpSpecialization
from kscope.model.errors import one_line
from kscope.model.kernel import Kernel
from kscope.rules.base import Rule
from kscope.rules.registry import all_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from msgspec import UnsetType

    from kscope.features.sass.listing import Structure
    from kscope.features.views.footprint import Footprints
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.analysis import Finding, Headroom, ProblemFit
    from kscope.model.contract.detail import KernelDetail
    from kscope.napkin.problem import Problem

HOT = 12


def analyze_kernel(
    kernel: Kernel, ident: str, codes: Collection[str] | None = None, details: list[KernelDetail] | None = None,
    report: str = "", structure: Structure | None = None, footprints: Footprints | None = None,
    problem: Problem | None = None, before: int = 0, lines: Lines | None = None,
) -> KernelAnalysis:  # fmt: skip
    """codes: run only these rules (all if None). A rule that raises becomes an entry of `errors`. details: where the
    kernel's detail is put, if it is wanted; report: the plain file that it was read from; structure: of the kernel's
    program, if it is known already; footprints: where the kernel's is put, for a comparison; problem: what it was to
    solve; before: launches of the same function that came earlier in its report; lines: sources where the report holds
    none."""
    facts = Facts(kernel, structure)
    library = library_of(kernel.demangled or kernel.name or "")
    said = _said(facts, codes)
    findings = for_the_caller(tempered(facts, under_the_roof(facts, said.findings)), library)
    findings = fitting(findings, facts.chip)
    regimen = decide(facts)
    if details is not None:
        from kscope.features.views.kernel import kernel_detail

        details.append(kernel_detail(facts, ident, report, findings, regimen.limiter))
    if footprints is not None:
        footprints.add(ident, facts, findings)
    device = kernel.device
    room = headroom(facts, findings)
    solved = _problem(facts, problem, room)
    blind = _blind(facts, said, regimen, before)
    step = next_step(facts, findings, room, solved or None, blind)
    return KernelAnalysis(
        id=ident,
        name=kernel.name or kernel.demangled or "(unnamed)",
        demangled=kernel.demangled,
        input=kernel.path,
        duration_us=facts.counters.launch.duration_us,
        device=DeviceInfo(name=device.name, cc=f"{device.cc[0]}.{device.cc[1]}", sms=device.sms),
        launch=_launch(kernel),
        verdict=verdict(facts, regimen, findings, blind, step),
        headroom=room,
        roofline=_roofline(facts),
        utilization=_utilization(facts),
        stalls=_stalls(facts),
        warp_specialization=_specialised(facts),
        findings=of_kernel(facts, findings, lines),
        passed=said.passed,
        not_applicable=said.not_applicable,
        errors=said.errors,
        nvidia=_nvidia(kernel),
        nvtx=list(kernel.nvtx),
        hot=_hot(facts),
        notes=[*_notes(facts, findings, library, every=codes is None), *circumstances(facts, regimen, before)],
        workload=kernel.workload,
        problem=solved,
        next_step=step,
        library=library,
    )  # fmt: skip


def _launch(kernel: Kernel) -> LaunchInfo:
    launch = kernel.launch
    return LaunchInfo(
        grid=launch.grid, block=launch.block, cluster=launch.cluster, registers=launch.registers,
        shared_static=launch.shared_static, shared_dynamic=launch.shared_dynamic, waves=launch.waves,
        known=launch.known,
    )  # fmt: skip


def _nvidia(kernel: Kernel) -> list[NvidiaFinding]:
    return [
        NvidiaFinding(
            rule=n.rule, title=n.title, message=n.message, speedup_pct=n.speedup_pct, type=n.kind,  # type: ignore[arg-type]
            tables=[NvidiaTable(title=t.title, headers=t.headers, rows=t.rows) for t in n.tables] or UNSET,
        )
        for n in kernel.nvidia
    ]  # fmt: skip


def _blind(facts: Facts, said: Outcomes, regimen: Regimen, before: int) -> Blind:
    """What could not be looked at. before: launches of the function that came earlier in the report."""
    silent = len(said.not_applicable) + len(said.errors)
    rules = silent + len(said.passed) + len(said.findings)
    asked = command(facts, said.not_applicable, before)
    later, lost = (LATER, None) if facts.chip.elder else ("", reading(facts.kernel))
    if asked is None and lost is not None:
        return Blind(silent, rules, lost[0], regimen.regime == "unknown", unsampled(facts), unread=lost[1])
    return Blind(silent, rules, asked, regimen.regime == "unknown", unsampled(facts), later)


def _said(facts: Facts, codes: Collection[str] | None) -> Outcomes:
    """What the rules say, best first; what few samples say counts for less."""
    checks = (
        (rule.code, partial(rule().run, facts))
        for rule in all_rules()
        if issubclass(rule, Rule) and (codes is None or rule.code in codes)
    )
    said = of_this_build(judged(checks, lambda findings: ranked(weighed(facts, findings))))
    return without_advice(facts.chip, without_threads(facts.kernel.tile, said))


def _notes(facts: Facts, findings: list[Finding], library: LibraryKernel | None, *, every: bool) -> list[str]:
    """What the reader said, whose kernel it is, and, where every rule ran, what none of them explains."""
    said = [*map(one_line, facts.kernel.notes), *([note(library)] if library is not None else [])]
    return [*said, *unexplained(facts, findings)] if every else said


def _problem(facts: Facts, problem: Problem | None, room: Headroom | None) -> ProblemFit | UnsetType:
    if problem is None:
        return UNSET
    from kscope.engine.kernels.problem import fit

    return fit(facts, problem, room)


def _roofline(facts: Facts) -> Roofline | None:
    point = facts.counters.roofline
    if point is None or not point.moved:
        return None
    main = point.main
    return Roofline(
        flops_per_s=main.flops if main else 0.0 if point.counted else None,
        bytes_per_s=point.bytes_per_s,
        intensity=point.intensity,
        ridge=point.ridge,
        pct_of_roof=round(100 * point.share_of_roof, 2),
        precision=main.precision if main else "none" if point.counted else "not collected",
        peak_flops_per_s=main.peak if main else None,
        peak_bytes_per_s=point.bandwidth,
    )


def _utilization(facts: Facts) -> list[Utilization]:
    rows = [
        Utilization(unit=u.title, pct=round(100 * u.busy, 2), metric=u.parts[0].metric)
        for u in facts.counters.units.values()
    ]
    issue = facts.kernel.metrics.get("smsp__issue_active" + ELAPSED)
    if "issue" not in facts.counters.units and issue is not None:
        rows.append(Utilization(unit="issue slots", pct=round(issue, 2), metric="smsp__issue_active" + ELAPSED))
    return sorted(rows, key=lambda r: -r.pct)


def _stalls(facts: Facts) -> list[Stall]:
    """Raw shares, and what coverage leaves of them (`kscope.features.specialized.specialization`); where they come from
    samples, low and high are two standard errors of the count."""
    mix = facts.counters.stalls
    out = []
    for reason, share in sorted(mix.share.items(), key=lambda row: -row[1]):
        error = 0.0 if mix.exact or not mix.samples else 2 * (share * (1 - share) / mix.samples) ** 0.5
        point, low, high = share, max(0.0, share - error), min(1.0, share + error)
        if facts.specialized.pipeline is not None:
            from kscope.engine.kernels.specialized import adjusted_stall

            point, low, high = adjusted_stall(facts.specialized.pipeline, reason, share, error)
        out.append(
            Stall(
                reason=reason, share_raw=round(share, 4), share_adjusted=round(point, 4),
                low=round(low, 4), high=round(high, 4),
            )
        )  # fmt: skip
    return out


def _specialised(facts: Facts) -> WarpSpecialization | None:
    if facts.specialized.pipeline is None:
        return None
    from kscope.engine.kernels.specialized import warp_specialization

    return warp_specialization(facts)


def _hot(facts: Facts) -> list[HotInstruction]:
    code = facts.code
    total = sum(code.samples) if code is not None else 0.0
    if code is None or not total:
        return []
    from kscope.features.views.waiting import Waits

    out, waits = [], Waits(facts, code)
    for i in code.hottest(range(len(code)), code.samples)[:HOT]:
        if not code.samples[i]:
            break
        stall = max(code.stall, key=lambda r: code.stall[r][i])
        ins, waiting = code[i], waits.at(i, stall)
        out.append(
            HotInstruction(
                pc=ins.pc, sass=ins.text, share=round(code.samples[i] / total, 4), stall=stall,
                file=ins.file, line=ins.line, source=code.source_line(ins), cause=waiting.text,
                cause_pcs=list(waiting.pcs),
            )
        )  # fmt: skip
    return out
