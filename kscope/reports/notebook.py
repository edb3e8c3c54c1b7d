"""What a notebook shows of an Analysis: `_repr_html_`, and the rows of its kernels. No script and no style sheet:
output of a notebook is kept, mailed and sanitised, so everything is inline and small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kscope.reports import words
from kscope.reports.escape import html_text

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, Finding, KernelAnalysis

SHOWN, SUGGESTED = 10, 3
COLOURS = {"compute": "#2456c9", "memory": "#a04b00", "overhead": "#7a2fb0"}


def repr_html(analysis: Analysis) -> str:
    """The sentences and first suggestions of the longest kernels and of every recording, as HTML."""
    out = ["<div>"]
    for timeline in analysis.timelines:
        regime = timeline.verdict.regime if timeline.verdict is not None else ""
        text = timeline.verdict.sentence if timeline.verdict is not None else timeline.abstained
        note = f"window {words.time(timeline.span_us)}, GPU busy {timeline.gpu_busy_pct:.1f} %"
        out.append(_entry(words.basename(timeline.input), note, regime, text, timeline.findings))
    kernels = words.by_time(analysis.kernels)
    for kernel in kernels[:SHOWN]:
        note = f"{words.time(kernel.duration_us)}, {words.device(kernel)}, {words.launch(kernel)}"
        name = words.without_parameters(kernel.demangled or kernel.name)
        out.append(_entry(name, note, kernel.verdict.regime, kernel.verdict.sentence, kernel.findings))
    if (left := len(kernels) - SHOWN) > 0:
        out.append(f"<p>and {left} more: <code>analysis.to_dataframe()</code></p>")
    return "".join([*out, "</div>"])


def _entry(name: str, note: str, regime: str, sentence: str, findings: list[Finding]) -> str:
    rows = []
    for finding in [f for f in findings if f.severity != "info"][:SUGGESTED]:
        rows.append(
            f"<tr><td><code>{html_text(finding.code)}</code></td>"
            f"<td style='text-align:left'>{html_text(finding.title)}</td>"
            f"<td>{html_text(words.expectation(finding.estimate))}</td>"
            f"<td style='text-align:left'>{html_text(_place(finding))}</td></tr>"
        )
    table = f"<table><tbody>{''.join(rows)}</tbody></table>" if rows else ""
    border = COLOURS.get(regime, "#5a6172")
    return (
        f"<div style='border-left:4px solid {border};padding:2px 12px;margin:8px 0'>"
        f"<code><b>{html_text(name)}</b></code> <small>{html_text(note)}</small>"
        f"<p style='margin:4px 0'>{html_text(sentence)}</p>{table}</div>"
    )


def _place(finding: Finding) -> str:
    if not finding.locations:
        return ""
    first = finding.locations[0]
    return f"{words.place(first)}  {first.sass or first.opcode}"


COLUMNS = [
    "id", "name", "input", "device", "launches", "total_us", "duration_us", "grid", "block", "registers",
    "shared_bytes", "waves", "regime", "limiter", "confidence", "sentence", "headroom", "bounded_by", "flops_per_s",
    "bytes_per_s", "intensity", "pct_of_roof", "precision", "busiest_unit", "busiest_pct", "first_stall",
    "first_stall_share", "first_rule", "first_speedup", "first_low", "first_high", "first_place", "findings",
]  # fmt: skip


def row(kernel: KernelAnalysis) -> dict[str, Any]:
    """A kernel by the names of COLUMNS. Times in us, shares 0..1."""
    launch, verdict, room = kernel.launch, kernel.verdict, kernel.headroom
    return {
        "id": kernel.id, "name": kernel.demangled or kernel.name, "input": kernel.input, "device": kernel.device.name,
        "launches": kernel.repeats.count if kernel.repeats else 1, "total_us": words.total_us(kernel),
        "duration_us": kernel.duration_us, "grid": words.dims(launch.grid), "block": words.dims(launch.block),
        "registers": launch.registers, "shared_bytes": launch.shared_static + launch.shared_dynamic,
        "waves": launch.waves, "regime": verdict.regime, "limiter": verdict.limiter, "confidence": verdict.confidence,
        "sentence": verdict.sentence, "headroom": room.speedup_bound if room else None,
        "bounded_by": room.bounded_by if room else None, **_measured(kernel), **_first(kernel),
        "findings": [f.code for f in kernel.findings],
    }  # fmt: skip


def _measured(kernel: KernelAnalysis) -> dict[str, Any]:
    """Roofline, busiest unit and first wait; None where the report has none."""
    roof, unit = kernel.roofline, next(iter(kernel.utilization), None)
    waiting = [s for s in kernel.stalls if s.reason not in ("selected", "not_selected")]
    stall = max(waiting, key=lambda s: s.share_adjusted, default=None)
    rates = ("flops_per_s", "bytes_per_s", "intensity", "pct_of_roof", "precision")
    return {
        **{name: getattr(roof, name) if roof else None for name in rates},
        "busiest_unit": unit.unit if unit else None, "busiest_pct": unit.pct if unit else None,
        "first_stall": stall.reason if stall else None, "first_stall_share": stall.share_adjusted if stall else None,
    }  # fmt: skip


def _first(kernel: KernelAnalysis) -> dict[str, Any]:
    """The first suggestion; None where there is none."""
    first = next((f for f in kernel.findings if f.severity != "info"), None)
    estimate = first.estimate if first is not None else None
    return {
        "first_rule": first.code if first else None, "first_speedup": estimate.speedup if estimate else None,
        "first_low": estimate.low if estimate else None, "first_high": estimate.high if estimate else None,
        "first_place": _place(first) if first else None,
    }  # fmt: skip
