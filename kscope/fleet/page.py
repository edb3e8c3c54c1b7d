"""The fleet as one page: what costs most in words, then tables that are searched and sorted. One file, no requests: its
own script and style are allowed by their hashes, names are the text of elements. Without the script the first rows of
each table stand there."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kscope.fleet.text import headline, scope
from kscope.fleet.view import FleetReport
from kscope.reports import words
from kscope.reports.escape import html_text
from kscope.reports.jsonv1 import encodable

FIRST = 15  # rows of each table that stand in the page itself
LONGEST = 300  # characters of a name or sentence in a table
ASSETS = Path(__file__).parent / "assets"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
<script type="text/plain" id="fleet-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


class Table(msgspec.Struct):
    """columns: (name, type), the types are those that fleet.js shows: text, time (us), count, times, code."""

    id: str
    title: str
    about: str
    columns: list[tuple[str, str]]
    rows: list[list[Any]]
    signed: bool = False


def render(report: FleetReport) -> str:
    """The page."""
    tables = [table for table in _tables(report) if table.rows]
    style, script = ((ASSETS / name).read_text(encoding="utf-8") for name in ("fleet.css", "fleet.js"))
    raw = msgspec.json.encode(encodable(msgspec.to_builtins(tables)))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    body = [f"<h1>{html_text(headline(report))}</h1>", f'<p class="dim">{html_text(scope(report))}</p>']
    for table in tables:
        body += [f"<h2>{html_text(table.title)}</h2>", f'<p class="dim">{html_text(table.about)}</p>',
                 f'<div id="{table.id}">{_static(table)}</div>']  # fmt: skip
    body.append(f"<h2>What this stands on</h2><p>{html_text(_stands(report))}</p>")
    return PAGE.format(
        policy=policy, title=html_text(f"Fleet of {report.totals.inputs:,} inputs - kscope"), style=style,
        body="\n".join(body), data=base64.b64encode(zlib.compress(raw, 9)).decode(), script=script,
    )  # fmt: skip


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _tables(report: FleetReport) -> list[Table]:
    moved = [("since", "text"), ("commit", "code"), ("times", "times"), ("before", "time"), ("after", "time"),
             ("kernel", "code"), ("grid", "text"), ("chip", "text"), ("job", "text"), ("model", "text"),
             ("what came with it", "text"), ("still", "text")]  # fmt: skip
    changes = [
        [m.since, m.commit, m.ratio, m.before_us, m.after_us, _cut(m.name), m.grid, m.chip, m.job, m.model,
         _cut(m.cause), "yes" if m.lasts else "no"]
        for m in (*report.slower, *report.faster)
    ]  # fmt: skip
    kernels = [
        [k.saved_us, k.gpu_us, k.gain, k.cause, _cut(", ".join(k.names)), k.shapes, k.chip, words.limiter(k.limiter),
         _cut(k.next), _cut(k.sentence), k.seen, k.code[:12] if k.code else None]
        for k in report.kernels
    ]  # fmt: skip
    return [
        Table("causes", "Where the GPU time goes", "Each kernel counts once, for its best finding.",
              [("would save", "time"), ("of GPU time", "time"), ("kernels", "count"), ("code", "code"),
               ("cause", "text")],
              [[c.saved_us if c.code else None, c.gpu_us, c.kernels, c.code, c.title] for c in report.causes]),
        Table("moved", "What got slower, and faster",
              "Changes of level of a kernel, shape and chip that stayed for three runs or more.", moved, changes, True),
        Table("kernels", "Kernels that matter", "One row a machine code and chip, under all its names and shapes.",
              [("would save", "time"), ("GPU time", "time"), ("gain", "times"), ("cause", "code"), ("kernel", "code"),
               ("shapes", "count"), ("chip", "text"), ("limit", "text"), ("next step", "text"), ("verdict", "text"),
               ("seen", "text"), ("machine code", "code")], kernels),
        Table("delivered", "Promises", "Of findings that went when their kernel got faster.",
              [("promised", "times"), ("low", "times"), ("high", "times"), ("got", "times"), ("held", "text"),
               ("finding", "code"), ("kernel", "code"), ("since", "text")],
              [[d.promised, d.low, d.high, d.got, "yes" if d.held else "no", d.code, _cut(d.name), d.since]
               for d in report.delivered]),
        Table("clusters", "Kernels with the same cause", "Worth one change for several.",
              [("kernels", "count"), ("would save", "time"), ("cause", "code"), ("limit", "text"), ("names", "code")],
              [[c.kernels, c.saved_us, c.code, words.limiter(c.limiter), _cut(", ".join(c.names))]
               for c in report.clusters]),
        Table("renamed", "One machine code under several names", "Renamed, or instantiated twice.",
              [("machine code", "code"), ("names", "code")],
              [[r.code[:12], _cut(", ".join(r.names))] for r in report.renamed]),
        Table("shares", "By chip, model and job", "GPU time of kernels as last seen.",
              [("by", "text"), ("name", "text"), ("GPU time", "time"), ("would save", "time"), ("kernels", "count")],
              [[by, _cut(s.name), s.gpu_us, s.saved_us, s.kernels] for by, shares in
               (("chip", report.chips), ("model", report.models), ("job", report.jobs)) for s in shares]),
        Table("idle", "Idle GPU time in recordings of programs", "By cause.",
              [("idle", "time"), ("cause", "text"), ("recordings", "count")],
              [[i.idle_us, i.cause.replace("_", " "), i.timelines] for i in report.idle]),
        Table("refused", "Refused inputs", "By reason, with an example.",
              [("inputs", "count"), ("reason", "code"), ("message", "text"), ("example", "code")],
              [[r.count, r.code, _cut(r.message), _cut(r.example)] for r in report.coverage.refusals]),
    ]  # fmt: skip


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _static(table: Table) -> str:
    """The first rows, for readers without a script."""
    head = "".join(f'<th scope="col">{html_text(name)}</th>' for name, _ in table.columns)
    lines = []
    for row in table.rows[:FIRST]:
        cells = (f"<td>{html_text(_shown(v, kind))}</td>" for v, (_, kind) in zip(row, table.columns, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    left = len(table.rows) - FIRST
    more = f'<p class="dim">and {left:,} more, with the script of this page</p>' if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"


def _shown(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind == "time":
        return words.time(value)
    return f"{value:.2f}x" if kind == "times" else str(value)


def _stands(report: FleetReport) -> str:
    c = report.coverage
    kinds: Sequence[str] = [f"{n:,} {kind}" for kind, n in c.by_kind.items()]
    return (
        f"{', '.join(kinds) or 'no inputs'}; {c.series:,} series of kernel, shape, chip, job and model, of which "
        f"{c.short_series:,} have too few runs to tell a change; {c.without_code:,} kernels without machine code, "
        f"{c.without_time:,} without a time; {c.parts_left_out:,} parts of inputs left out."
    )
