"""Several versions as one page of HTML: bars of the times of each kernel, with a table. No script; the style is allowed
by its hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import html_text
from kscope.reports.versions.phrases import headline, labels, limit, moved, ratio

if TYPE_CHECKING:
    from kscope.model.contract.versions import Line, Versions

STYLE = """
:root { color-scheme: light; --ink: #171a21; --dim: #5a6172; --line: #dfe2e9; --page: #f5f6f8; --card: #fff;
  --bar: #7c8594; --best: #1b7a3d; --good: #1b7a3d; --bad: #b3161d; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --dim: #a3aabb; --line: #313644;
  --page: #12141a; --card: #1a1d25; color-scheme: dark; --bar: #8c95a6;
  --best: #74cf92; --good: #74cf92; --bad: #ff8a8a; } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 1180px;
  margin: 0 auto; padding: 12px 20px 24px; }
h1 { font-size: 19px; } h2 { font: 600 15px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; margin: 0 0 8px; }
section, .versions { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px;
  margin-bottom: 16px; break-inside: avoid; }
.versions { padding-left: 40px; overflow-wrap: anywhere; } .dim, figcaption, thead th { color: var(--dim); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; font-weight: 400; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); }
.num { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); } figure { margin: 0 0 10px; }
svg { display: block; width: 100%; max-width: 900px; height: auto; } text { font: 12px system-ui, sans-serif;
  fill: var(--ink); } .bar { fill: var(--bar); } .bar.best { fill: var(--best); } .first { stroke: var(--dim);
  stroke-dasharray: 4 3; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)); gap: 12px 24px; }
.figures svg { max-width: 330px; }
.trend { fill: none; stroke: var(--bar); stroke-width: 2; } .dot { fill: var(--bar); }
footer { color: var(--dim); font-size: 12px; }
@media (max-width: 640px) { body { padding: 8px 12px; } section { padding: 14px; } table { min-width: 600px; }
  figure:has(.bar) { overflow-x: auto; } figure:has(.bar) svg { min-width: 480px; } }
"""
_LEFT, _ROOM, _ROW = 40, 700, 22


def render(found: Versions) -> str:
    """The page."""
    names = labels(found)
    listed = "".join(f"<li>{html_text(name)}</li>" for name in names)
    body = [f"<h1>{html_text(headline(found))}</h1>", f'<ol class="versions">{listed}</ol>']
    body += [_line(line) for line in found.lines]
    rest = [*found.notes, *(f"not read: {s.input}: {s.what}: {s.message}" for s in found.skipped)]
    if rest:
        body.append(f"<section><ul>{''.join(f'<li>{html_text(text)}</li>' for text in rest)}</ul></section>")
    return whole(f"{names[0]} to {names[-1]} - kscope", "\n".join(body), found.kscope)


def whole(title: str, body: str, version: str) -> str:
    """A page with this style and nothing else. title, version: plain; body: escaped."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{html_text(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<footer>kscope {html_text(version)}. This file makes no requests.</footer>\n</body>\n</html>\n"
    )


def _line(line: Line) -> str:
    each = "" if line.kind == "kernel" else f' <span class="dim">a {line.per}</span>'
    rows = []
    for s in line.standings:
        sure = f"<td>{html_text(moved(s))}</td><td>{html_text(s.next or '')}</td>"
        rows.append(
            f'<tr><th scope="row" class="num">{s.version}</th><td class="num">{html_text(words.time(s.time_us))}</td>'
            f"{_ratio(s.on_first)}{_ratio(s.on_before)}<td>{html_text(limit(s))}</td>{sure}</tr>"
        )
    head = "".join(
        f'<th scope="col"{" class=num" if i < 4 else ""}>{text}</th>'
        for i, text in enumerate(("version", "time", "on the first", "on the one before", "limit", "changed", "next"))
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="version by version">{table}</div>'
    name = html_text(words.without_parameters(line.name) or line.name)
    return f"<section><h2>{name}{each}</h2>{_bars(line)}{scroll}</section>"


def _ratio(speedup: float | None) -> str:
    tone = " good" if (speedup or 1) > 1.02 else " bad" if (speedup or 1) < 0.98 else ""
    return f'<td class="num{tone}">{ratio(speedup)}</td>'


def _bars(line: Line) -> str:
    """Times from nothing on; the dashed line is the first version's."""
    times = [s.time_us for s in line.standings]
    top = max((t for t in times if t), default=0.0)
    if not top:
        return ""
    best, parts = min(t for t in times if t), []
    for i, (s, t) in enumerate(zip(line.standings, times, strict=True)):
        y, kind = i * _ROW, "bar best" if t == best else "bar"
        width = (t or 0) / top * _ROOM
        parts.append(
            f'<text x="4" y="{y + 15}">{s.version}</text>'
            f'<rect class="{kind}" x="{_LEFT}" y="{y + 3}" width="{max(width, 1):.1f}" height="16" rx="3"/>'
            f'<text x="{_LEFT + width + 8:.1f}" y="{y + 15}">{html_text(words.time(t))}</text>'
        )
    tall = len(times) * _ROW + 2
    x = _LEFT + (times[0] or 0) / top * _ROOM
    parts.append(f'<line class="first" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{tall}"/>')
    said = html_text("times by version: " + ", ".join(words.time(t) for t in times))
    box = f'viewBox="0 0 {_LEFT + _ROOM + 110} {tall}" role="img" aria-label="{said}"'
    return f'<figure tabindex="0"><svg {box}>{"".join(parts)}</svg></figure>'


def small(name: str, values: Sequence[float | None], said: Sequence[str]) -> str:
    """One figure over the versions: a line from nothing to the largest. said: the values in words."""
    top = max((abs(v) for v in values if v is not None), default=0.0) or 1.0
    step = 300 / max(len(values) - 1, 1)
    points = [(10 + i * step, 62 - 52 * max(v, 0) / top) for i, v in enumerate(values) if v is not None]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
    label = html_text(f"{name}: {', '.join(said)}")
    ends = f"{said[0]} \N{RIGHTWARDS ARROW} {said[-1]}"
    return (
        f'<figure><figcaption>{html_text(name)}: {html_text(ends)}</figcaption><svg viewBox="0 0 320 70" role="img" '
        f'aria-label="{label}"><polyline class="trend" points="{drawn}"/>{dots}</svg></figure>'
    )
