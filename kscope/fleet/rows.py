"""One Analysis as rows of the dataset's tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kscope.fleet.seen import Code
from kscope.model.contract.analysis import Analysis, Finding, KernelAnalysis, ProgramAnalysis, TimelineAnalysis

Row = dict[str, Any]
Rows = dict[str, list[Row]]


def rows_of(analysis: Analysis, codes: Mapping[str, Code], common: Row) -> Rows:
    """common: columns that every row of an input has. codes: of kernels by their id, of functions by `function_key`."""
    out: Rows = {"kernels": [], "findings": [], "timelines": [], "gaps": [], "programs": []}
    for kernel in analysis.kernels:
        out["kernels"].append({**common, **kernel_row(kernel, codes.get(kernel.id))})
        out["findings"] += [{**common, "kernel": kernel.id, **row} for row in _findings(kernel.findings)]
    for number, timeline in enumerate(analysis.timelines):
        about = {**common, "timeline": number}
        out["timelines"].append({**about, **_timeline(timeline)})
        out["findings"] += [{**about, **row} for row in _findings(timeline.findings)]
        out["gaps"] += [
            {**about, "cause": g.cause, "idle_us": g.us, "pct": g.pct, "gaps": g.gaps, "during": g.during}
            for g in timeline.idle
        ]
    for program in analysis.programs:
        _program(program, codes, out, common)
    return out


def function_key(member: str, name: str) -> str:
    """By which `codes` knows a function of a binary."""
    return f"{member}\0{name}"


def _program(program: ProgramAnalysis, codes: Mapping[str, Code], out: Rows, common: Row) -> None:
    for function in program.functions:
        code = codes.get(function_key(program.member, function.name))
        about = {"arch": program.arch, "member": program.member, "code": (code.identity or None) if code else None}
        wanted = ("name", "demangled", "instructions", "registers", "stack", "shared", "spill_stores", "spill_loads")
        out["programs"].append({**common, **about, **{name: getattr(function, name) for name in wanted}})
        out["findings"] += [{**common, "function": function.name, **row} for row in _findings(function.findings)]


def kernel_row(kernel: KernelAnalysis, code: Code | None) -> Row:
    launch, verdict, room, step = kernel.launch, kernel.verdict, kernel.headroom, kernel.next_step
    roof, repeats, best = kernel.roofline, kernel.repeats, best_finding(kernel.findings)
    median = kernel.duration_us
    return {
        "kernel": kernel.id, "name": kernel.name, "demangled": kernel.demangled or kernel.name,
        "code": (code.identity or None) if code else None,
        "chip": kernel.device.name, "cc": kernel.device.cc, "sms": kernel.device.sms, "grid": _dims(launch.grid),
        "block": _dims(launch.block), "cluster": _dims(launch.cluster), "registers": launch.registers,
        "shared_bytes": launch.shared_static + launch.shared_dynamic, "waves": launch.waves,
        "launches": repeats.count if repeats else 1, "duration_us": median,
        "min_us": repeats.min_us if repeats else median, "max_us": repeats.max_us if repeats else median,
        "total_us": repeats.total_us if repeats else median, "regime": verdict.regime, "limiter": verdict.limiter,
        "confidence": verdict.confidence, "sentence": verdict.sentence,
        "gain": best.estimate.speedup if best and best.estimate else 1.0, "cause": best.code if best else None,
        "nvtx": list(kernel.nvtx), **_of(room, headroom="speedup_bound", bounded_by="bounded_by"),
        **_of(roof, pct_of_roof="pct_of_roof", flops_per_s="flops_per_s", bytes_per_s="bytes_per_s"),
        **_of(step, next="do", next_words="words", next_code="code"),
        **_of(code, instructions="instructions", sm_clock_hz="sm_clock_hz", dram_clock_hz="dram_clock_hz"),
    }  # fmt: skip


def _of(part: object, **fields: str) -> Row:
    """Columns of a part of a kernel, all null where there is none."""
    return {column: getattr(part, field) if part is not None else None for column, field in fields.items()}


def best_finding(findings: Sequence[Finding]) -> Finding | None:
    """The one that promises most; None where none pays. Promises of several are never added."""
    paying = [f for f in findings if f.severity != "info" and f.estimate is not None and f.estimate.speedup > 1]
    return max(paying, key=lambda f: f.estimate.speedup if f.estimate else 0.0, default=None)


def finding_row(finding: Finding) -> Row:
    estimate = finding.estimate
    place = finding.locations[0] if finding.locations else None
    return {
        "code": finding.code, "rule": finding.rule, "title": finding.title, "regime": finding.regime,
        "severity": finding.severity, "speedup": estimate.speedup if estimate else None,
        "low": estimate.low if estimate else None, "high": estimate.high if estimate else None,
        "capped_by": estimate.capped_by if estimate else None, "kind": estimate.kind if estimate else None,
        "confidence": finding.confidence, "file": place.file if place else None, "line": place.line if place else None,
        "pc": place.pc if place else None, "sass": place.sass if place else None,
        "evidence": json.dumps(msgspec.to_builtins(finding.evidence), separators=(",", ":")), "fix": finding.fix,
    }  # fmt: skip


def _findings(findings: Sequence[Finding]) -> list[Row]:
    return [{"rank": rank, **finding_row(finding)} for rank, finding in enumerate(findings)]


def _timeline(one: TimelineAnalysis) -> Row:
    verdict, steps = one.verdict, one.steps
    return {
        "span_us": one.span_us, "gpu_busy_pct": one.gpu_busy_pct, "kernels_pct": one.kernels_pct,
        "regime": verdict.regime if verdict else None, "limiter": verdict.limiter if verdict else None,
        "sentence": verdict.sentence if verdict else one.abstained, "rank": one.rank,
        "steps": steps.count if steps else None, "step_us": steps.median_us if steps else None,
        "operations": one.coverage.operations,
    }  # fmt: skip


def _dims(values: Sequence[int]) -> str:
    return "x".join(map(str, values))
