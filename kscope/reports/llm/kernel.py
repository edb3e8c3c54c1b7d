"""One kernel in blocks: verdict, measurements, hot code, findings, what is not known, what would change the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import next_step, words
from kscope.reports.escape import code, fence
from kscope.reports.llm.blocks import Block, said, span
from kscope.reports.llm.findings import findings
from kscope.reports.phrases import hot as hottest
from kscope.reports.phrases import pipeline

if TYPE_CHECKING:
    from kscope.model.analysis import HotInstruction, KernelAnalysis, Stall

KERNEL_STEP = 30
"""Each kernel further down the list by time makes its blocks this much less important."""
UNITS_SHOWN = 6
CLOSE_PCT = 30
"""A second unit at least this busy is worth a remark."""


def kernel_blocks(kernel: KernelAnalysis, index: int) -> list[Block]:
    """The blocks of one kernel in document order; `index` is its rank by time."""
    base = index * KERNEL_STEP
    return [
        *_verdict(kernel, base, index),
        *_measured(kernel, base, index),
        *_pipeline(kernel, base, index),
        *_hot(kernel, base, index),
        *findings(kernel, base, _title(index, "findings, best first (gains never add up)")),
        *_unknown(kernel, base, index),
        *_changes(kernel, base, index),
    ]


def _title(index: int, part: str) -> str:
    return f"## Kernel {index + 1}: {part}"


def _verdict(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    heading = _title(index, "verdict")
    word, sentence = words.badge(kernel.verdict)
    name = span(words.shorten(kernel.demangled or kernel.name, 100))
    about = f"Kernel {name}, {words.time(kernel.duration_us)}. {said(word)} {said(sentence)}"
    limits = f"Limiter: {kernel.verdict.limiter}, confidence {kernel.verdict.confidence:.2f}."
    if kernel.headroom:
        bound = words.headroom(kernel.headroom)
        limits += f" Headroom: {bound}, bounded by {said(kernel.headroom.bounded_by)}."
    blocks = [Block(base, "verdicts", heading, about), Block(base + 3, "limiters", heading, limits)]
    shape = f"On {span(words.device(kernel))}, {words.launch(kernel)}."
    if many := words.repeats(kernel):
        shape += f" {many}."
    if kernel.workload != "kernel":
        shape += f" Profiled as one {span(kernel.workload)}, not as single kernels."
    if kernel.nvtx:
        shape += f" NVTX {span(' / '.join(kernel.nvtx))}."
    if kernel.next_step:
        blocks.append(Block(base, "next steps", heading, f"Next: {said(next_step.line(kernel.next_step))}."))
    if kernel.problem:
        text = ". ".join(said(line) for line in words.problem(kernel.problem))
        blocks.append(Block(base + 4, "problems", heading, f"The problem: {text}."))
    return [*blocks, Block(base + 6, "launch shapes", heading, shape)]


def _measured(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    heading = _title(index, "measured")
    blocks = []
    if kernel.duration_us is not None:
        line = f"- gpu__time_duration.sum = {words.number(kernel.duration_us)} us"
        blocks.append(Block(base + 4, "measurements", heading, line))
    for rank, unit in enumerate(sorted(kernel.utilization, key=lambda u: -u.pct)[:UNITS_SHOWN]):
        line = f"- {span(f'{unit.metric} = {unit.pct:.3g} %')} ({said(unit.unit)})"
        blocks.append(Block(base + 3 + rank, "measurements", heading, line))
    if roof := kernel.roofline:
        line = f"- roofline: {roof.pct_of_roof:.3g} % of the roof, {said(words.rates(roof))}"
        if roof.intensity is not None and roof.ridge is not None:
            line += f", intensity {roof.intensity:.3g} FLOP/B, ridge {roof.ridge:.3g} FLOP/B"
        blocks.append(Block(base + 7, "measurements", heading, line + " (derived)"))
    stalls = sorted(kernel.stalls, key=lambda s: -s.share_adjusted)
    if stalls:
        listed = ", ".join(_stall(s) for s in stalls[:6])
        blocks.append(Block(base + 5, "measurements", heading, f"- warp-state samples: {listed}"))
    return blocks


def _pipeline(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    """Roles and phases of a warp-specialised kernel."""
    heading = _title(index, "warp roles and pipeline")
    lines = pipeline.lines(kernel)
    return [Block(base + 4 + i, "pipeline facts", heading, f"- {said(line)}") for i, line in enumerate(lines)]


def _stall(stall: Stall) -> str:
    moved = abs(stall.share_raw - stall.share_adjusted) >= 0.01
    adjusted = f" (adjusted {words.percent(stall.share_adjusted)})" if moved else ""
    return f"{code(words.middle(one_line(stall.reason), 40))} {words.percent(stall.share_raw)}{adjusted}"


def _hot(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    heading = _title(index, "hot instructions (share of samples, pc, SASS, main wait and whose fault it is)")
    lines = [_hot_line(hot, before) for hot, before in zip(kernel.hot, [None, *kernel.hot], strict=False)]
    blocks = []
    for start, step in ((0, 10), (3, 22), (8, 60)):  # the hottest three first, then five, then the rest
        if some := lines[start : {0: 3, 3: 8, 8: len(lines)}[start]]:
            text = fence([line for pair in some for line in pair], "sass")
            blocks.append(Block(base + step, "SASS listings", heading, text))
    return blocks


def _hot_line(hot: HotInstruction, before: HotInstruction | None) -> list[str]:
    """The instruction, and its source line unless that is the one already shown."""
    sass, stall = words.middle(one_line(hot.sass), 90), words.middle(hottest.why(hot), 120)
    line = f"{words.percent(hot.share):>5} {hot.pc:06x} {sass}  [{stall}]"
    if not hot.line or (before and (before.file, before.line) == (hot.file, hot.line)):
        return [line]
    at = f"{words.basename(one_line(hot.file or ''))}:{hot.line}"
    return [line, f"      {words.middle(at, 60)}  {words.middle(one_line(hot.source or ''), 120)}"]


def _unknown(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    heading = _title(index, "not known")
    grouped: dict[str, list[str]] = {}
    for item in kernel.not_applicable:
        grouped.setdefault(said(item.why, 200), []).append(item.code)
    lines = [f"- {', '.join(codes)}: {why}" for why, codes in grouped.items()]
    blocks = [Block(base + 14, "missing inputs", heading, line) for line in lines]
    for error in kernel.errors:
        blocks.append(Block(base + 15, "failed rules", heading, f"- {error.code} failed: {span(error.message)}"))
    for note in kernel.notes:
        blocks.append(Block(base + 14, "notes", heading, f"- {said(note, 300)}"))
    if not blocks:
        blocks.append(Block(base + 40, "notes", heading, "- Every rule had its inputs."))
    return blocks


def _changes(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    heading = _title(index, "what would change the verdict")
    lines = []
    units = sorted(kernel.utilization, key=lambda u: -u.pct)
    if len(units) > 1 and units[1].pct >= CLOSE_PCT:
        first, second = units[:2]
        loads = f"{said(second.unit)} is next at {second.pct:.0f} % after {said(first.unit)} at {first.pct:.0f} %"
        lines.append(f"{loads}: it takes over once the first is relieved.")
    top = next((f for f in kernel.findings if f.severity != "info" and f.estimate), None)
    if top and top.estimate:
        low = words.times(top.estimate.low)
        lines.append(f"If fixing {top.code} gives less than {low}, its samples have another cause.")
    if kernel.verdict.confidence < words.UNSURE:
        sure = f"{kernel.verdict.confidence:.2f}"
        lines.append(f"Confidence is only {sure}: profile again with --set full before acting.")
    if not kernel.repeats or kernel.repeats.count < 2:
        lines.append("One launch was measured: another input size or clock can move the limiter.")
    return [Block(base + 16 + i, "remarks", heading, f"- {line}") for i, line in enumerate(lines)]
