"""One kernel in blocks: the verdict, what to do, the evidence, then the kernel itself, and what is unknown.

A reader has to write the next version from this alone: so the fix and its place come before the figures, nothing below
a percent is told, and no advice that does not follow from the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import figure
from kscope.reports import next_step, words
from kscope.reports.escape import code
from kscope.reports.llm import code as of_code
from kscope.reports.llm.blocks import Block, said, span
from kscope.reports.llm.findings import findings
from kscope.reports.phrases import pipeline

if TYPE_CHECKING:
    from kscope.model.contract.analysis import KernelAnalysis, Stall
    from kscope.model.contract.detail import KernelDetail, Link

KERNEL_STEP = 30
"""Each kernel further down the list by worth makes its blocks this much less important."""
UNITS_SHOWN = 6
WORTH_SAYING = 1.02
"""A lower bound of a gain at least this high can be missed by a measurement."""
CLOSE_PCT = 30
"""A second unit at least this busy is worth a remark."""
LEAST = 0.01
"""Share below which a figure is noise."""
CACHES = {"emptied": "emptied before it ran: what it reads came from device memory first",
          "kept": "as the work before left them"}  # fmt: skip
WAYS = {"kernel": "the kernel", "l1": "L1", "l2": "L2", "shared": "shared memory", "global": "global", "local": "local",
        "dram": "device memory", "sysmem": "system memory", "peer": "peer memory", "tma": "TMA", "copy": "cp.async",
        "texture": "texture"}  # fmt: skip


def kernel_blocks(kernel: KernelAnalysis, index: int, worth: int, detail: KernelDetail | None) -> list[Block]:
    """The blocks of one kernel in document order. index: its rank by time; worth: by what can be gained of the time of
    all; detail: code, charts and loops, where they were computed."""
    base = worth * KERNEL_STEP
    return [
        *_verdict(kernel, base, index),
        *findings(kernel, base, _title(index, "what to do, best first (gains never add up)")),
        *of_code.hot(kernel, base, _title(index, "hot instructions (share of samples, pc, SASS, cause)")),
        *_measured(kernel, base, index),
        *_pipeline(kernel, base, index),
        *_about(kernel, detail, base, index),
        *of_code.source(kernel, detail, base, _title(index, "source (share of samples, line, finding)")),
        *of_code.loops(detail, base, _title(index, "loops")),
        *_memory(kernel, detail, base, index),
        *of_code.listing(kernel, detail, base, _title(index, "hottest loops, annotated")),
        *_unknown(kernel, detail, base, index),
        *_changes(kernel, base, index),
    ]


def _title(index: int, part: str) -> str:
    return f"## Kernel {index + 1}: {part}"


def _verdict(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    heading = _title(index, "verdict")
    word, sentence = words.badge(kernel.verdict)
    name = span(words.shorten(kernel.demangled or kernel.name, 100))
    about = f"Kernel {name}, {words.time(kernel.duration_us)}. {said(word)} {said(sentence)}"
    short = f"Kernel {name}, {words.time(kernel.duration_us)}. {said(_headline(kernel))}."
    short = short if kernel.verdict.headline else ""
    blocks = [Block(base, "verdicts", heading, short or about, (about,) if short else ())]
    if kernel.next_step:
        blocks.append(Block(base, "next steps", heading, f"Next: {said(next_step.short(kernel.next_step))}."))
    if kernel.headroom:
        bound = words.headroom(kernel.headroom)
        limits = f"Headroom {bound}, bounded by {said(kernel.headroom.bounded_by)}, while the code does the same work."
        blocks.append(Block(base + 3, "limits", heading, limits))
    if kernel.problem:
        text = ". ".join(said(line) for line in words.problem(kernel.problem))
        blocks.append(Block(base + 4, "problems", heading, f"The problem: {text}."))
    return blocks


def _headline(kernel: KernelAnalysis) -> str:
    """`MEMORY-BOUND on shared memory`: what the shortest pack says of the verdict."""
    bound, _, rest = kernel.verdict.headline.partition("-bound")
    return f"{bound.upper()}-BOUND{rest}"


def _measured(kernel: KernelAnalysis, base: int, index: int) -> list[Block]:
    heading = _title(index, "measured")
    blocks = []
    units = [u for u in sorted(kernel.utilization, key=lambda u: -u.pct) if u.pct >= 100 * LEAST][:UNITS_SHOWN]
    if units:
        told = ", ".join(f"{said(u.unit)} {u.pct:.0f} %" for u in units)
        blocks.append(Block(base + 3, "measurements", heading, f"- busy, of peak: {told}"))
        named = ", ".join(span(f"{u.metric} = {figure(u.pct)} %") for u in units[:2])
        blocks.append(Block(base + 9, "metric names", heading, f"- the fullest by their metrics: {named}"))
    if roof := kernel.roofline:
        line = f"- roofline: {figure(roof.pct_of_roof)} % of the roof, {said(words.rates(roof))}"
        if roof.intensity is not None and roof.ridge is not None:
            line += f", {figure(roof.intensity)} FLOP/B (ridge {figure(roof.ridge)})"
        blocks.append(Block(base + 7, "measurements", heading, line))
        if kernel.duration_us:
            seconds = kernel.duration_us / 1e6
            flop = f"{words.si(roof.flops_per_s * seconds, 'FLOP')} and " if roof.flops_per_s else ""
            moved = f"- done in all: {flop}{words.si(roof.bytes_per_s * seconds, 'B')} of device memory's traffic"
            blocks.append(Block(base + 8, "measurements", heading, moved))
    stalls = [s for s in sorted(kernel.stalls, key=lambda s: -s.share_adjusted) if s.share_raw >= LEAST]
    if stalls:
        listed = ", ".join(_stall(s) for s in stalls[:6])
        blocks.append(Block(base + 5, "measurements", heading, f"- warps: {listed}"))
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


def _about(kernel: KernelAnalysis, detail: KernelDetail | None, base: int, index: int) -> list[Block]:
    """Launch, chip, occupancy, clocks, types."""
    heading = _title(index, "launch and resources")
    shape = f"- {words.launch(kernel)}; on {span(words.device(kernel))} with {kernel.device.sms} SMs."
    if many := words.repeats(kernel):
        shape += f" {many}."
    if kernel.workload != "kernel":
        shape += f" Profiled as one {span(kernel.workload)}, not as single kernels."
    if kernel.nvtx:
        shape += f" NVTX {span(' / '.join(kernel.nvtx))}."
    blocks = [Block(base + 6, "launch shapes", heading, shape)]
    if detail is None:
        return blocks
    if found := detail.occupancy:
        lowest = min(found.limits.values(), default=0)
        by = " and ".join(span(name) for name, most in found.limits.items() if most == lowest)
        reached = f", {figure(found.achieved)} reached" if found.achieved is not None else ""
        text = f"- occupancy: {found.theoretical} of {found.maximum} warps an SM, limited by {by}{reached}"
        blocks.append(Block(base + 8, "occupancy", heading, text))
    if detail.clocks:
        told = ", ".join(f"{name} {words.si(hz, 'Hz')}" for name, hz in detail.clocks.items())
        blocks.append(Block(base + 13, "clocks", heading, f"- clocks while measured: {told}"))
    if detail.caches:
        blocks.append(Block(base + 13, "caches", heading, f"- caches: {CACHES[detail.caches]}"))
    if (launch := kernel.launch).shared_dynamic:
        told = f"{launch.shared_static:,} B in arrays of the code, {launch.shared_dynamic:,} B asked for by the launch"
        blocks.append(Block(base + 13, "shared memory", heading, f"- shared memory of a block: {told}"))
    if detail.code is not None and (widths := _widths(detail)):
        blocks.append(Block(base + 9, "access widths", heading, f"- accesses a lane: {widths}"))
    return blocks


def _widths(detail: KernelDetail) -> str:
    """`global load 4 B x8, shared store 4 B x4`: what tells the types of what is moved."""
    assert detail.code is not None
    flat = detail.code.bytes
    size = dict(zip(flat[::2], flat[1::2], strict=True))
    counts: dict[tuple[str, int], int] = {}
    for space, members in detail.code.spaces.items():
        for i in members:
            if i in size and not space.startswith("constant"):
                counts[space, size[i]] = counts.get((space, size[i]), 0) + 1
    ranked = sorted(counts.items(), key=lambda kv: -kv[1])[:8]
    return ", ".join(f"{space.replace('_', ' ')} {width} B x{n}" for (space, width), n in ranked)


def _memory(kernel: KernelAnalysis, detail: KernelDetail | None, base: int, index: int) -> list[Block]:
    """Traffic by level with rates, shares of peak and hit rates."""
    chart = detail.memory if detail is not None else None
    if chart is None:
        return []
    heading = _title(index, "memory traffic")
    lines = [_way(link, kernel.duration_us) for link in chart.links]
    hits = [f"{_box(n.id)} {n.hit_pct:.0f} %" for n in chart.nodes if n.hit_pct is not None]
    if hits:
        lines.append(f"hit rates: {', '.join(hits)}")
    lines += [f"{_box(n.id)}: {said(n.note)}" for n in chart.nodes if n.note]
    return [Block(base + 10, "memory traffic", heading, "\n".join(f"- {line}" for line in lines))] if lines else []


def _box(name: str) -> str:
    """A box of the memory chart in words."""
    return code(WAYS.get(name, name))


def _way(link: Link, us: float | None) -> str:
    """Amount, rate and share of the peak of one way."""
    amount = words.si(link.value, "B") if link.unit == "B" else f"{words.si(link.value, '').strip()} {code(link.unit)}"
    rate = f", {words.si(link.value / us * 1e6, 'B/s')}" if link.unit == "B" and us else ""
    peak = f", {link.pct:.0f} % of that way's peak" if link.pct is not None and link.pct >= 1 else ""
    note = f" ({said(link.note)})" if link.note else ""
    return f"{_box(link.source)} to {_box(link.target)}: {amount}{rate}{peak}{note}"


def _unknown(kernel: KernelAnalysis, detail: KernelDetail | None, base: int, index: int) -> list[Block]:
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
    if detail is not None:
        if not detail.caches:
            text = "- Whether caches were emptied before is not in the report (ncu does, unless --cache-control none)."
            blocks.append(Block(base + 16, "notes", heading, text))
        if not kernel.problem:
            text = "- The bytes and FLOP that the problem itself needs: --problem tells (`kscope napkin`)."
            blocks.append(Block(base + 16, "notes", heading, text))
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
    if top and top.estimate and top.estimate.low > WORTH_SAYING:
        low = words.times(top.estimate.low)
        lines.append(f"If fixing {top.code} gives less than {low}, its samples have another cause.")
    if kernel.verdict.confidence < words.UNSURE:
        sure = f"{kernel.verdict.confidence:.2f}"
        lines.append(f"Confidence is only {sure}: profile again with --set full before acting.")
    return [Block(base + 16 + i, "remarks", heading, f"- {line}") for i, line in enumerate(lines)]
