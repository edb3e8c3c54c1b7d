"""The ladder as people draw it (`kscope log plot -o FILE.png`): bars with the roof above the tree of versions, dead
ends kept. By matplotlib, which is imported only here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kscope.reports import words
from kscope.reports.plot import BARS, DIM, INK, check, prepare, save
from kscope.reports.worklog import phrases
from kscope.worklog.ladder import Rung

ASIDE = "#b9bfcc"
WIDEST = 100.0  # inches: past 400 at this resolution no picture is made


def draw(rungs: Sequence[Rung], path: Path) -> None:
    """Write the picture of one ladder. Raises KscopeError: a suffix that is none, no matplotlib, not to be written."""
    check(path)
    prepare()
    from matplotlib.figure import Figure

    deepest = max(r.depth for r in rungs)
    width = min(max(6.0, 0.9 * len(rungs) + 2), WIDEST)
    figure = Figure(figsize=(width, 4.6 + 0.3 * min(deepest, 20)), layout="constrained")
    bars, tree = figure.subplots(2, 1, height_ratios=(4, 0.7 + 0.4 * deepest), sharex=True)
    order = sorted(rungs, key=lambda r: r.entry.number)
    place = {r.entry.uid: i for i, r in enumerate(order)}
    _bars(bars, order)
    _tree(tree, order, place)
    tree.set_xticks(range(len(order)), [_label(r) for r in order], fontsize=7.5)
    name = words.shorten(words.without_parameters(rungs[0].entry.kernel), 60)
    figure.suptitle(f"{name}: {phrases.headline(rungs)}", fontsize=10, fontweight="bold")
    save(figure, path, "-o")


def _bars(axes: Any, order: Sequence[Rung]) -> None:
    shares, what = phrases.shares(order)
    heights = [100 * share for share in shares]
    colours = [ASIDE if r.entry.status == "set aside" else BARS for r in order]
    axes.bar(range(len(order)), heights, color=colours, width=0.7)
    for i, (rung, height) in enumerate(zip(order, heights, strict=True)):
        gain = f"\n{phrases.factor(rung.gain)}" if rung.gain else ""
        axes.annotate(f"{words.time(rung.entry.time_us)}{gain}", (i, height), ha="center", va="bottom", fontsize=7.5,
                      xytext=(0, 2), textcoords="offset points", color=INK)  # fmt: skip
    axes.axhline(100, color=DIM, linewidth=1, linestyle="--")
    axes.annotate(what, (len(order) - 0.55, 100), fontsize=8, color=DIM, ha="right", va="bottom")
    axes.set_ylim(0, max(118.0, max(heights) * 1.15))
    axes.set_ylabel(f"% of the {what}")


def _tree(axes: Any, order: Sequence[Rung], place: dict[str, int]) -> None:
    """Depth below the kept way; a dead end has a cross."""
    depth = {r.entry.uid: r.depth for r in order}
    for rung in order:
        x, y = place[rung.entry.uid], -rung.depth
        parent = rung.entry.parent
        if parent in place:
            axes.plot([place[parent], x], [-depth[parent], y], color=DIM, linewidth=1, zorder=1)
        aside = rung.entry.status == "set aside"
        axes.scatter([x], [y], marker="x" if aside else "o", color=ASIDE if aside else BARS, s=40, zorder=2)
    axes.set_ylim(-max(depth.values()) - 0.6, 0.6)
    axes.set_yticks([])
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)


def _label(rung: Rung) -> str:
    lines = textwrap.wrap(phrases.title(rung.entry), 15, max_lines=3, placeholder="...")
    return "\n".join([str(rung.entry.number), *lines])
