"""`kscope napkin` as text, Markdown and JSON: three functions of an Answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kscope.reports import words
from kscope.reports.terminal import Page, cells, pad

if TYPE_CHECKING:
    from kscope.napkin.answer import Answer
    from kscope.napkin.estimate import Estimate, Level
    from kscope.napkin.measured import Measured
    from kscope.napkin.sweep import Sweep
    from kscope.napkin.tiles import Tile

SCHEMA = "kscope.napkin/1"
PLOT_ROWS = 12
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def text(answer: Answer, *, width: int, color: bool, unicode: bool) -> str:
    """At most `width` columns, the answer first."""
    page = Page(max(width, 50), color=color, unicode=unicode)
    found = answer.estimate
    page.paragraph(title(found), style="bold", indent=2)
    page.blank()
    page.paragraph(sentence(found), lead=(f"  {found.regime.upper()}-BOUND ", found.regime), indent=2)
    page.paragraph(ratio(found), lead=("  ", ""), indent=2)
    page.paragraph(needs(found), lead=("  needs  ", "dim"), indent=9)
    page.blank()
    _columns(page, levels(found))
    if answer.tiles:
        page.blank()
        _columns(page, tile_table(answer.tiles, stages=page.width >= 90))
    if answer.measured is not None:
        page.blank()
        _measured(page, answer.measured)
    if answer.sweep is not None:
        page.blank()
        _columns(page, sweep_table(answer.sweep))
        for line in crossings(answer.sweep):
            page.paragraph(line, lead=("  ", ""), indent=2)
        page.blank()
        for line in plot(answer.sweep, page.width - 4):
            page.line(f"  {line}")
    page.blank()
    for note in found.notes:
        page.paragraph(note, lead=("  note  ", "dim"), indent=8)
    for level in found.levels:
        page.paragraph(f"{level.name}: {level.source}", lead=("  attained  ", "dim"), indent=12, style="dim")
    return page.text()


def as_json(answer: Answer) -> str:
    import json

    found = answer.estimate
    value: dict[str, Any] = {"schema": SCHEMA, **_estimate(found)}
    value["tiles"] = [_fields(tile) for tile in answer.tiles]
    if answer.measured is not None:
        value["measured"] = _fields(answer.measured)
    if answer.sweep is not None:
        value["sweep"] = {
            "size": answer.sweep.name,
            "points": [{"value": v, **_estimate(e)} for v, e in
                       zip(answer.sweep.values, answer.sweep.estimates, strict=True)],
            "crossovers": [_fields(c) for c in answer.sweep.crossovers],
        }  # fmt: skip
    return json.dumps(value, indent=1) + "\n"


def _estimate(found: Estimate) -> dict[str, Any]:
    return {
        "problem": found.problem.text, "op": found.problem.op, "dtype": found.problem.dtype,
        "sizes": dict(found.problem.dims), "chip": found.roofs.chip.key, "flop": found.problem.flop,
        "bytes": found.problem.bytes, "operands": [_fields(o) for o in found.problem.operands],
        "intensity": found.intensity, "ridge": found.ridge, "regime": found.regime, "limiter": found.limiter,
        "floor_us": found.floor_us, "attained_us": found.attained_us, "warm_us": found.warm_us,
        "levels": [_fields(level) for level in found.levels], "notes": list(found.notes),
    }  # fmt: skip


def _fields(value: object) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def title(found: Estimate) -> str:
    chip = found.roofs.chip
    return f"{found.problem.text} on {chip.name} (sm_{chip.cc}, {chip.sms} SMs)"


def sentence(found: Estimate) -> str:
    if found.limiter == "launch":
        return f"on its own launch: the work takes {words.time(found.attained_us)}, a launch about 2 us."
    return (
        f"on {found.limiter}: nothing is faster than {words.time(found.floor_us)}; the best kernels' rates give "
        f"{words.time(found.attained_us)}."
    )


def ratio(found: Estimate) -> str:
    problem = found.problem
    moved = words.si(problem.bytes, "B")
    if not problem.flop:
        return f"{moved} move, nothing is computed."
    at = f"{words.si(problem.flop, 'FLOP')} over {moved}"
    if found.intensity is None:
        return f"{at}."
    ridge = f" against a ridge of {plain(found.ridge)}" if found.ridge else ""
    return f"{at}: {plain(found.intensity)} FLOP/B{ridge}."


def needs(found: Estimate) -> str:
    return ", ".join(f"{o.name} {words.si(o.bytes, 'B')}{' written' if o.written else ''}"
                     for o in found.problem.operands)  # fmt: skip


def levels(found: Estimate) -> Table:
    head = ("alone", "amount", "peak", "floor", "attained", "time")

    def row(level: Level) -> tuple[str, ...]:
        return (level.name, words.si(level.amount, level.unit), words.si(level.peak_per_s, f"{level.unit}/s"),
                words.time(level.peak_us), words.si(level.attained_per_s, f"{level.unit}/s"),
                words.time(level.attained_us))  # fmt: skip

    return head, [row(level) for level in found.levels]


def tile_table(found: Sequence[Tile], *, stages: bool = True) -> Table:
    """stages: with the shared memory of one step of the inner loop."""
    head = ("tile", "blocks", "waves", "used", "from L2", "FLOP/B", "DRAM", "a stage", "time", "by")
    rows = [
        (f"{t.m}x{t.n}", f"{t.blocks:,}", f"{t.waves:.2f}", words.percent(t.used), words.si(t.l2_bytes, "B"),
         plain(t.intensity), words.si(t.dram_bytes, "B"), f"{t.step_bytes / 1024:.0f} KiB", words.time(t.us), t.limiter)
        for t in found
    ]  # fmt: skip
    if stages:
        return head, rows
    return tuple(h for h in head if h != "a stage"), [(*row[:7], *row[8:]) for row in rows]


def plain(value: float) -> str:
    """Three digits without an exponent: 0.25, 63, 1,370."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def told(seen: Measured) -> str:
    rates = [words.si(seen.flop_per_s, "FLOP/s")] if seen.flop_per_s else []
    rates += [words.si(seen.bytes_per_s, "B/s of the bytes needed")] if seen.bytes_per_s else []
    return f"{words.time(seen.us)} ({', '.join(rates)}): {seen.verdict}."


def stories(seen: Measured) -> list[str]:
    return [f"{words.time(story.us)}: {story.what} (measured {story.ratio:.2f} of it)" for story in seen.stories]


def _measured(page: Page, seen: Measured) -> None:
    page.paragraph(told(seen), lead=("  measured  ", "dim"), indent=12)
    for n, line in enumerate(stories(seen)):
        page.paragraph(line, lead=("  would take  " if n == 0 else " " * 14, "dim"), indent=14)
    for note in seen.notes:
        page.paragraph(note, lead=("  ", ""), indent=2)


def sweep_table(swept: Sweep) -> Table:
    head = (swept.name, "FLOP/B", "floor", "time", "FLOP/s", "limit")
    rows = []
    for value, found in zip(swept.values, swept.estimates, strict=True):
        rate = 1e6 * found.problem.flop / found.attained_us if found.attained_us else 0.0
        speed = words.si(rate, "FLOP/s") if rate else "-"
        rows.append((f"{value:,}", plain(found.intensity or 0.0), words.time(found.floor_us),
                     words.time(found.attained_us), speed, found.limiter))  # fmt: skip
    return head, rows


def crossings(swept: Sweep) -> list[str]:
    if not swept.crossovers:
        return [f"one limit over all of them: {swept.estimates[0].limiter}."]
    return [f"from {swept.name} = {c.value:,} on: {c.after} instead of {c.before}." for c in swept.crossovers]


def plot(swept: Sweep, width: int) -> list[str]:
    """Time over the swept size, both logarithmic: `o` the floor at attained rates, letters the limit there."""
    times = [max(found.attained_us, 1e-6) for found in swept.estimates]
    low, high = math.log(min(times)), math.log(max(times))
    left, right = math.log(swept.values[0]), math.log(swept.values[-1])
    columns = max(20, min(width - 12, 72))
    grid = [[" "] * columns for _ in range(PLOT_ROWS)]
    for value, found, time in zip(swept.values, swept.estimates, times, strict=True):
        x = round((math.log(value) - left) / (right - left) * (columns - 1)) if right > left else 0
        y = round((math.log(time) - low) / (high - low) * (PLOT_ROWS - 1)) if high > low else 0
        grid[PLOT_ROWS - 1 - y][x] = {"memory": "m", "compute": "c", "overhead": "o"}[found.regime]
    for crossing in swept.crossovers:
        x = round((math.log(crossing.value) - left) / (right - left) * (columns - 1)) if right > left else 0
        for row in grid:
            row[x] = "|" if row[x] == " " else row[x]
    lines = []
    for number, row in enumerate(grid):
        label = words.time(max(times)) if number == 0 else words.time(min(times)) if number == PLOT_ROWS - 1 else ""
        lines.append(f"{label:>10} {''.join(row)}".rstrip())
    scale = f"{swept.values[0]:,}"
    lines.append(" " * 11 + scale + f"{swept.values[-1]:,}".rjust(columns - len(scale)))
    return [*lines, f"{'':11}{swept.name}; m memory, c compute, o overhead, | where the limit changes"]


def _columns(page: Page, table: Table) -> None:
    """First column left, the others right-aligned, the last one left where it is words."""
    head, rows = table
    widths = [max(cells(row[i]) for row in [head, *rows]) for i in range(len(head))]
    wordy = head[-1] in ("by", "limit")

    def line(row: Sequence[str]) -> str:
        last = len(row) - 1
        parts = [pad(row[0], widths[0])]
        for i in range(1, len(row)):
            parts.append(row[i] if wordy and i == last else " " * (widths[i] - cells(row[i])) + row[i])
        return "  " + "  ".join(parts)

    page.line((line(head), "dim"))
    for row in rows:
        page.line(line(row))
