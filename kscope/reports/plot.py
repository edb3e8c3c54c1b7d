"""Roofline and stall chart as a picture for papers and worklogs (`kscope analyze --plot FILE.png|svg|pdf`), by
matplotlib, which is imported only here."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kscope.model.contract.detail import Level
from kscope.model.errors import EXIT_TOOL, EXIT_USAGE, KscopeError, one_line
from kscope.reports import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import Analysis, KernelAnalysis, TimelineAnalysis
    from kscope.model.contract.detail import Detail, KernelDetail, Roofs

SUFFIXES = (".png", ".svg", ".pdf")
KERNELS, STALLS, FEWEST, MOVES = 8, 10, 6, 4
TOLD = 0.005  # of warp time, below which a state is no bar
APART = 0.055  # of the axis, by which the marks of suggestions are kept from one another
LEVELS = {"DRAM": "#a04b00", "L2": "#0f766e", "L1": "#4353c6"}
INK, DIM, GAIN, BARS = "#171a21", "#5a6172", "#1b7a3d", "#d9730d"


def check(path: Path) -> None:
    """Raises KscopeError: usage for a suffix that is none of SUFFIXES, tool where matplotlib is missing."""
    if path.suffix.lower() not in SUFFIXES:
        raise KscopeError("usage", f"{path}: no picture that kscope draws", f"use {', '.join(SUFFIXES)}", EXIT_USAGE)
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise KscopeError("no-matplotlib", "--plot needs matplotlib", "pip install 'kscope-gpu[plot]'", EXIT_TOOL)


def draw(analysis: Analysis, detail: Detail | None, path: Path) -> None:
    """Write the picture: the roofline of all kernels (the longest in full) beside what the warps of the longest wait
    for; for recordings, why the GPU is idle. Raises KscopeError where nothing can be drawn or written."""
    check(path)
    prepare()
    kernels = words.by_time(analysis.kernels)
    if kernels:
        figure = _kernels(kernels, detail)
    elif analysis.timelines:
        figure = _timeline(analysis.timelines[0])
    else:
        raise KscopeError("no-kernels", "nothing to plot", "the input holds no kernel and no GPU operation")
    save(figure, path, "--plot")


def prepare() -> None:
    """What all pictures of kscope have in common."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({
        "svg.hashsalt": "kscope", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
        "text.parse_math": False,
    })  # fmt: skip


def save(figure: Any, path: Path, option: str) -> None:
    """The same bytes each time. option: which named the path. Raises KscopeError (usage) where it cannot be written."""
    metadata = {"Date": None} if path.suffix == ".svg" else {"CreationDate": None} if path.suffix == ".pdf" else {}
    try:
        with warnings.catch_warnings(action="ignore"):  # of letters that the font lacks: a box says it
            figure.savefig(path, dpi=160, bbox_inches="tight", metadata=metadata)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise KscopeError("unwritable", f"{path}: {reason}", f"choose another place for {option}", EXIT_USAGE) from None


def _kernels(kernels: Sequence[KernelAnalysis], detail: Detail | None) -> Any:
    from matplotlib.figure import Figure

    first = kernels[0]
    found = next((d for d in detail.kernels if d.id == first.id), None) if detail is not None else None
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    roof, stalls = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _roofline(roof, kernels, found)
    _stalls(stalls, first)
    figure.suptitle(_name(first), fontsize=10, fontweight="bold")
    return figure


def _name(kernel: KernelAnalysis) -> str:
    return words.shorten(words.without_parameters(kernel.demangled or kernel.name), 90)


def _label(text: str) -> str:
    """A foreign text of a length that leaves room for the axes."""
    return words.middle(one_line(text), 40)


def _roofline(axes: Any, kernels: Sequence[KernelAnalysis], detail: KernelDetail | None) -> None:
    first = kernels[0]
    point, roofs = first.roofline, detail.roofs if detail is not None else None
    if point is None or not point.flops_per_s or not point.peak_flops_per_s or not point.intensity:
        _bandwidth(axes, first, roofs)
        return
    peak, flops = point.peak_flops_per_s, point.flops_per_s
    found = roofs.levels if roofs is not None else []
    levels = found or [
        Level(name="DRAM", bytes_per_s=point.bytes_per_s, peak=point.peak_bytes_per_s, roof=point.peak_bytes_per_s)
    ]
    intensities = [flops / one.bytes_per_s for one in levels if one.bytes_per_s]
    ridges = [peak / one.roof for one in levels if one.roof]
    low, high = min(intensities + ridges) / 4, max([*intensities, *ridges, point.intensity * 5]) * 4
    for one in levels:
        colour = LEVELS.get(one.name, DIM)
        if one.roof:
            style = "--" if _as_accessed(one) else "-"
            axes.plot([low, peak / one.roof], [low * one.roof, peak], color=colour, linewidth=1.2, linestyle=style)
        size = 7 if one.name == "DRAM" else 5
        axes.plot([flops / one.bytes_per_s], [flops], "o", color=colour, markersize=size, label=_level(one))
    start = min(ridges) if ridges else low
    axes.plot([start, high], [peak, peak], color=INK, linewidth=1.2)
    roof = f"{_label(words.precision(point.precision))} {words.si(peak, 'FLOP/s')}"
    axes.annotate(roof, (high, peak), ha="right", va="bottom", fontsize=8, xytext=(0, 2),
                  textcoords="offset points")  # fmt: skip
    _moves(axes, first, point.intensity, flops, (point.peak_bytes_per_s, peak), (high / low) ** APART)
    _others(axes, kernels[1:KERNELS])
    axes.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP/byte)", ylabel="FLOP/s")
    axes.set_xlim(low, high)
    axes.set_ylim(_floor(flops, peak), peak * 2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: words.si(value, "").strip())
        axis.set_minor_formatter(lambda value, _: "")
    axes.grid(True, which="major", color="#dfe2e9", linewidth=0.6)
    axes.set_title(f"roofline, {_label(words.device(first))}", fontsize=9, loc="left", color=DIM)
    # Below the axes: dots and arrows may be anywhere in it.
    axes.legend(fontsize=7.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _as_accessed(level: Level) -> bool:
    """Whether the roof is that of the accesses as they are: bytes are not what fills the unit."""
    return bool(level.roof and level.peak and level.roof < 0.999 * level.peak)


def _floor(flops: float, peak: float) -> float:
    """Where the axis of FLOP/s begins."""
    return min(flops / 20, peak / 300)


def _level(level: Level) -> str:
    """`L1 88 % busy, 1.9 TB/s`: the busy share is the figure of every other chart and bar."""
    rate = words.si(level.bytes_per_s, "B/s")
    if level.busy:
        return f"{level.name} {words.percent(level.busy)} busy, {rate}{', as accessed' if _as_accessed(level) else ''}"
    return f"{level.name} {rate}" + (f" of {words.si(level.roof, 'B/s')}" if level.roof else "")


def _others(axes: Any, kernels: Sequence[KernelAnalysis]) -> None:
    for kernel in kernels:
        there = kernel.roofline
        if there is not None and there.intensity and there.flops_per_s:
            axes.plot([there.intensity], [there.flops_per_s], "o", color=DIM, markersize=4, alpha=0.7)


def _moves(
    axes: Any, kernel: KernelAnalysis, intensity: float, flops: float, roof: tuple[float | None, float], apart: float
) -> None:
    """Where each suggestion would move the kernel; past the roof at its intensity the bytes must have gone too. Marks
    stand at least a factor of `apart` from one another."""
    ranked = [f for f in kernel.findings if f.severity != "info"]
    (bandwidth, peak), taken = roof, list[tuple[float, float]]()
    tall = 1.5 * APART * math.log(2 * peak / _floor(flops, peak))  # the axis is less high than the other is wide
    for rank, finding in enumerate(ranked[:MOVES], 1):
        if finding.estimate is None or finding.estimate.speedup < 1.03:
            continue
        target = flops * finding.estimate.speedup
        x = max(intensity, target / bandwidth if bandwidth else 0.0)
        axes.annotate("", (x, target), (intensity, flops),
                      arrowprops={"arrowstyle": "->", "color": GAIN, "linestyle": "--", "linewidth": 1})  # fmt: skip
        below = target > 0.5 * peak  # above, the roof has its name
        mark = x * apart**0.6  # beside the arrow's end, and beside another mark that is there
        while any(
            abs(math.log(mark / a)) < 0.9 * math.log(apart) and abs(math.log(target / b)) < tall for a, b in taken
        ):
            mark *= apart
        taken.append((mark, target))
        axes.annotate(str(rank), (mark, target), fontsize=7, fontweight="bold", color=GAIN, ha="center",
                      va="top" if below else "bottom", xytext=(0, -4 if below else 4), textcoords="offset points",
                      bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": GAIN})  # fmt: skip
        label = f"{rank}  {one_line(finding.code)} {words.times(finding.estimate.speedup)}"
        axes.plot([], [], "o", markerfacecolor="white", markeredgecolor=GAIN, markersize=6, label=label)


def _bandwidth(axes: Any, kernel: KernelAnalysis, roofs: Roofs | None) -> None:
    """Kernels without arithmetic: how busy the memory levels are, and what they moved."""
    levels = [one for one in (roofs.levels if roofs is not None else []) if one.busy or one.peak]
    if not levels:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no roofline data in the report", ha="center", color=DIM)
        return
    names = [one.name for one in levels]
    shares = [100 * (one.busy or one.bytes_per_s / (one.peak or 1.0)) for one in levels]
    axes.barh(names, shares, color=[LEVELS.get(n, DIM) for n in names])
    for place, (one, share) in enumerate(zip(levels, shares, strict=True)):
        text = f"{share:.0f} %, {words.si(one.bytes_per_s, 'B/s')}"
        axes.annotate(text, (share, place), fontsize=8, va="center", color=INK, xytext=(5, 0),
                      textcoords="offset points")  # fmt: skip
    axes.set_xlim(0, 135)
    axes.axvline(100, color=DIM, linewidth=0.8, linestyle="--")
    axes.set_xticks([0, 20, 40, 60, 80, 100])
    axes.set_xlabel("busy, % of peak")
    title = f"memory, {_label(words.device(kernel))} (no floating-point work)"
    axes.set_title(title, fontsize=9, loc="left", color=DIM)


def _stalls(axes: Any, kernel: KernelAnalysis) -> None:
    told = [s for s in kernel.stalls if max(s.share_raw, s.share_adjusted) >= TOLD]
    rows = sorted(told, key=lambda s: -max(s.share_raw, s.share_adjusted))[:STALLS]
    if not rows:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no warp states in the report", ha="center", color=DIM)
        return
    names = [_label(s.reason).replace("_", " ") for s in reversed(rows)]
    raw = [100 * s.share_raw for s in reversed(rows)]
    adjusted = [100 * s.share_adjusted for s in reversed(rows)]
    if any(abs(a - b) > 0.05 for a, b in zip(raw, adjusted, strict=True)):
        low = [max(0.0, a - 100 * s.low) for a, s in zip(adjusted, reversed(rows), strict=True)]
        high = [max(0.0, 100 * s.high - a) for a, s in zip(adjusted, reversed(rows), strict=True)]
        places = range(len(rows))
        axes.barh([p + 0.2 for p in places], raw, 0.38, color=BARS, alpha=0.35, label="raw")
        axes.barh([p - 0.2 for p in places], adjusted, 0.38, color=BARS, label="adjusted", xerr=(low, high),
                  error_kw={"elinewidth": 0.8, "ecolor": INK})  # fmt: skip
        axes.set_yticks(list(places), names)
        axes.legend(fontsize=7.5, frameon=False, loc="lower right")
    else:
        axes.barh(names, raw, color=BARS)
    axes.set_ylim(min(-0.6, len(rows) - FEWEST - 0.6), len(rows) - 0.4)  # a few bars stay bars
    axes.set_xlabel("% of the time of all warps")
    axes.set_title("warp states", fontsize=9, loc="left", color=DIM)


def _timeline(timeline: TimelineAnalysis) -> Any:
    from matplotlib.figure import Figure

    from kscope.reports._reasons import CAUSES

    figure = Figure(figsize=(7, 2.8), layout="constrained")
    axes = figure.subplots()
    rows = [i for i in timeline.idle if i.pct >= 0.1]
    names = ["GPU busy", *(CAUSES.get(i.cause, _label(i.cause)) for i in rows)]
    values = [timeline.gpu_busy_pct, *(i.pct for i in rows)]
    axes.barh(names[::-1], values[::-1], color=([BARS] * len(rows) + [GAIN]))
    axes.set_xlabel(f"% of the window ({words.time(timeline.span_us)})")
    axes.set_title(_label(words.basename(timeline.input)), fontsize=10, fontweight="bold", loc="left")
    return figure
