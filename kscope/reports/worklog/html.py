"""A worklog as one page of HTML: the ladder as bars and a table, then version by version. No script; the style is
allowed by its hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from kscope.reports import words
from kscope.reports.escape import html_text
from kscope.reports.worklog import phrases
from kscope.reports.worklog.markdown import Change
from kscope.worklog.entries import Entry
from kscope.worklog.ladder import Rung

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #171a21; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .25rem .6rem; border-bottom: 1px solid #dfe2e9;
  text-align: right; white-space: nowrap; } .left { text-align: left; }
  td.left:last-child { white-space: normal; } .aside, .dim { color: #5a6172; }
pre { background: #f4f5f8; padding: .6rem; overflow-x: auto; font-size: 13px; line-height: 1.35; }
.plus { color: #1b7a3d; } .minus { color: #b3261e; } .number { font-size: 1.6rem; font-weight: 700; }
svg { width: 100%; height: auto; } text { font: 13px system-ui, sans-serif; fill: #171a21; }
@media screen and (prefers-color-scheme: dark) { body { color: #e7e9ee; background: #14161b; }
  pre { background: #1e2128; }
  .aside, .dim { color: #a3a9b8; } .plus { color: #66c98a; } .minus { color: #ff8a80; } text { fill: #e7e9ee; }
  th, td { border-color: #333845; } }
"""
_BAR, _ROW, _LEFT, _WIDTH = 16, 24, 150, 900


def render(ladders: Sequence[Sequence[Rung]], change: Change) -> str:
    """The page."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    first = ladders[0][0].entry if ladders else None
    title = f"Worklog of {html_text(_name(first))}" if first is not None else "Worklog"
    body = "\n".join(_ladder(rungs, change) for rungs in ladders)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _name(entry: Entry) -> str:
    return words.without_parameters(entry.kernel).removeprefix("void ")


def _ladder(rungs: Sequence[Rung], change: Change) -> str:
    first = rungs[0].entry
    known = {r.entry.uid: r.entry for r in rungs}
    head = f"<h1>Worklog of <code>{html_text(_name(first))}</code></h1>\n<p>{html_text(phrases.headline(rungs))} on " \
           f"{html_text(first.device.name)}</p>"  # fmt: skip
    rows = "\n".join(_row(rung) for rung in rungs)
    table = (
        '<table><thead><tr><th scope="col">version</th><th scope="col">time</th><th scope="col">step</th>'
        '<th scope="col">since the start</th><th scope="col">of the roof</th><th scope="col" class="left">limit</th>'
        f'<th scope="col" class="left">what changed</th></tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    )
    versions = "\n".join(_version(rung, known.get(rung.entry.parent or ""), change) for rung in rungs)
    return f"{head}\n{_bars(rungs)}\n{table}\n{versions}"


def _bars(rungs: Sequence[Rung]) -> str:
    """Of the roof, whose line is the right end; of the best speed where a report has no roof."""
    shares, what = phrases.shares(rungs)
    room = _WIDTH - _LEFT - 60
    parts = []
    for i, (rung, whole) in enumerate(zip(rungs, shares, strict=True)):
        e, y, share = rung.entry, i * _ROW, min(whole, 1.0)
        colour = "#9aa1b1" if e.status == "set aside" else "#d9730d"
        parts.append(
            f'<text x="{8 + 14 * min(rung.depth, 3)}" y="{y + 15}">{e.number} {html_text(words.time(e.time_us))}</text>'
            f'<rect x="{_LEFT}" y="{y + 3}" width="{max(share * room, 1):.1f}" height="{_BAR}" fill="{colour}"/>'
            f'<text x="{_LEFT + share * room + 6:.1f}" y="{y + 15}">{whole * 100:.0f} %</text>'
        )
    height = len(rungs) * _ROW + 4
    parts.append(f'<text x="{_LEFT + room + 6}" y="15">{what}</text>')
    label = f"Bars of the share of the {what} that each version reaches"
    x = _LEFT + room
    line = f'<line x1="{x}" y1="0" x2="{x}" y2="{height}" stroke="#5a6172" stroke-dasharray="4 3"/>'
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}{line}</svg>'


def _row(rung: Rung) -> str:
    e = rung.entry
    aside = e.status == "set aside"
    return (
        f'<tr{" class=aside" if aside else ""}><td>{e.number}</td><td>{html_text(words.time(e.time_us))}</td>'
        f"<td>{phrases.factor(rung.gain)}</td><td>{phrases.factor(rung.whole)}</td><td>{phrases.roof(e)}</td>"
        f'<td class="left">{html_text(words.limiter(e.limiter))}</td>'
        f'<td class="left">{html_text(phrases.title(e))}{" (set aside)" if aside else ""}</td></tr>'
    )


def _version(rung: Rung, parent: Entry | None, change: Change) -> str:
    e = rung.entry
    parts = [f"<h2>{e.number}. {html_text(phrases.title(e))}</h2>"]
    rest = e.message.strip().partition("\n")[2].strip()
    parts += [f"<p>{html_text(p)}</p>" for p in filter(None, rest.split("\n\n"))]
    if difference := change(e):
        parts.append(_code(difference))
    gain = f", {phrases.factor(rung.gain)} of version {parent.number}" if parent is not None and rung.gain else ""
    parts.append(f'<p><span class="number">{html_text(words.time(e.time_us))}</span>'
                 f"{html_text(phrases.spread(e) + gain)}</p>")  # fmt: skip
    parts.append(f"<p>{html_text(phrases.verdict(e.regime, e.limiter, e.sentence))}</p>")
    promises = [phrases.promise(one) for one in (e.step.delivered if e.step else [])]
    tried = [f"tried {a.opportunity}: {a.how}" for a in e.attempts]
    if promises or tried:
        parts.append(f"<ul>{''.join(f'<li>{html_text(one)}</li>' for one in [*promises, *tried])}</ul>")
    parts += [f"<p>{html_text(note)}</p>" for note in e.notes]
    if e.status == "set aside":
        parts.append(f'<p class="aside">Set aside{": " + html_text(e.why) if e.why else ""}.</p>')
    if at := phrases.where(e):
        parts.append(f'<p class="dim">{html_text(at)}</p>')
    return f"<section>{''.join(parts)}</section>"


def _code(difference: str) -> str:
    lines = difference.splitlines()
    shown = lines[: phrases.PATCH_LINES]
    out = []
    for line in shown:
        kind = "plus" if line.startswith("+") else "minus" if line.startswith("-") else ""
        text = " " * (len(line) - len(line.lstrip(" "))) + html_text(line)
        out.append(f'<span class="{kind}">{text}</span>' if kind else text)
    if len(lines) > len(shown):
        out.append(f"... {len(lines) - len(shown)} more lines")
    return '<pre tabindex="0">' + "\n".join(out) + "</pre>"
