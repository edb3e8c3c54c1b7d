"""`kscope arch` as text, CSV and JSON: the list of chips, the sheet of one, two side by side."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.arch.chips import Chip
from kscope.reports import words
from kscope.reports.terminal import Page, cells, pad

if TYPE_CHECKING:
    from kscope.arch.sheet import Row

SCHEMA = "kscope.arch/1"
BORROWED = "*"


def listing(chips: Sequence[Chip], page: Page) -> str:
    """One line a chip."""
    head = ("chip", "sm", "SMs", "clock", "fp32", "bf16", "fp8", "memory", "at", "L2")
    rows = [head]
    for c in chips:
        half = c.peak.get("bf16", c.peak.get("fp16"))
        rows.append((
            c.key, str(c.cc), str(c.sms), f"{c.clock_hz / 1e9:.2f}" if c.clock_hz else "-",
            _tera(c.peak.get("fp32")), _tera(half), _tera(c.peak.get("fp8")), f"{c.memory_bytes / 1e9:.0f}",
            f"{c.dram_bytes_per_s / 1e12:.2f}", f"{c.l2_bytes / 2**20:.0f}" if c.l2_bytes else "-",
        ))  # fmt: skip
    widths = [max(cells(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        line = pad(row[0], widths[0]) + "".join(f"  {text:>{w}}" for text, w in zip(row[1:], widths[1:], strict=True))
        page.line((line, "dim" if row is head else ""))
    page.blank()
    page.paragraph("Clock in GHz, peaks dense in TFLOP/s (fp16 where a chip has no bf16), memory in GB at TB/s, L2 in "
                   "MiB. `kscope arch CHIP` is the sheet, with sources.")  # fmt: skip
    return page.text()


def text(chip: Chip, rows: Sequence[Row], page: Page, *, sources: bool) -> str:
    """sources: with the document of each number."""
    page.line((f"{chip.name}, {chip.family}, sm_{chip.cc}", "bold"))
    named = [row for row in rows if row.source != "instructions.toml"]
    width = min(max((cells(row.name) for row in named), default=0), max(page.width - 34, 24))
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            page.blank()
            page.line((f"  {section}", "dim"))
        value = value_of(row) + (f" {BORROWED}" if row.borrowed else "")
        if cells(row.name) > width:  # an instruction's title
            page.paragraph(row.name if value == "yes" else f"{row.name}: {value}", lead=("  ", ""), indent=4)
        else:
            page.paragraph(value, lead=(f"  {pad(row.name, width)}  ", ""), indent=width + 4)
        if sources:
            page.paragraph(row.source, lead=(" " * 6, ""), indent=6, style="dim")
    page.blank()
    if any(row.borrowed for row in rows):
        page.line((f"  {BORROWED} borrowed from a chip like it, or a default", "dim"))
    if not sources:
        page.line(("  -v names the source of every number", "dim"))
    return page.text()


def compared(one: Chip, other: Chip, first: Sequence[Row], second: Sequence[Row], page: Page) -> str:
    """Two sheets side by side; the ratio where both are numbers."""
    mine, theirs = ({(r.section, r.name): r for r in _sections(rows)} for rows in (first, second))
    names = [*mine, *(key for key in theirs if key not in mine)]
    order = {section: n for n, section in enumerate(dict.fromkeys(section for section, _ in names))}
    names.sort(key=lambda key: order[key[0]])
    room = max(min(max(cells(name) for _, name in names), page.width - 45), 20)
    page.line((f"  {pad('', room)}  {pad(one.key, 14)}  {pad(other.key, 14)}", "bold"))
    section = ""
    for key in names:
        a, b = mine.get(key), theirs.get(key)
        if key[0] != section:
            section = key[0]
            page.blank()
            page.line((f"  {section}", "dim"))
        ratio = ""
        if a is not None and b is not None and isinstance(a.value, (int, float)) and isinstance(b.value, (int, float)):
            ratio = f"{b.value / a.value:.2f}x" if a.value and b.value != a.value else ""
        shown = [pad(value_of(r) if r is not None else "-", 14) for r in (a, b)]
        page.line(f"  {pad(key[1], room)}  {shown[0]}  {shown[1]}  {ratio}")
    return page.text()


def as_csv(chips: Sequence[tuple[Chip, Sequence[Row]]]) -> str:
    """A row a number: chip, section, name, value, unit, borrowed, source."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["chip", "section", "name", "value", "unit", "borrowed", "source"])
    for chip, rows in chips:
        writer.writerows([chip.key, r.section, r.name, r.value, r.unit, int(r.borrowed), r.source] for r in rows)
    return out.getvalue()


def as_json(chips: Sequence[tuple[Chip, Sequence[Row]]]) -> str:
    value = {
        "schema": SCHEMA,
        "chips": [
            {"chip": chip.key, "name": chip.name, "family": chip.family, "cc": chip.cc,
             "facts": [{"section": r.section, "name": r.name, "value": r.value, "unit": r.unit, "borrowed": r.borrowed,
                        "source": r.source} for r in rows]}
            for chip, rows in chips
        ],
    }  # fmt: skip
    return json.dumps(value, indent=1) + "\n"


def value_of(row: Row) -> str:
    """As people read it: 989 TFLOP/s, 50 MiB, 1.98 GHz."""
    value = row.value
    if isinstance(value, str):
        return value
    if row.unit == "B":
        if row.name in ("memory size",):
            return f"{value / 1e9:.0f} GB"
        return f"{value / 2**20:.3g} MiB" if value >= 2**20 else f"{value / 1024:g} KiB" if value else "0"
    if row.unit in ("FLOP/s", "op/s", "B/s"):
        return words.si(value, row.unit)
    if row.unit == "Hz":
        return f"{value / 1e9:.3f} GHz"
    if row.unit == "FLOP/B":
        return f"{value:.3g} FLOP/B" if value < 100 else f"{value:.0f} FLOP/B"
    unit = "cycle" if row.unit == "cycles" and value == 1 else row.unit
    return f"{value:,g} {unit}".rstrip()


def _sections(rows: Sequence[Row]) -> list[Row]:
    """What is new or gone is an instruction of the chip, whoever came before it."""
    from msgspec.structs import replace

    return [replace(r, section="instructions") if r.section.startswith("new since") else r
            for r in rows if not r.section.startswith("gone since")]  # fmt: skip


def _tera(value: float | None) -> str:
    return f"{value / 1e12:,.4g}" if value else "-"
