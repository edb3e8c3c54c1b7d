"""A result as Markdown, as one HTML page without scripts, and as JUnit for CI."""

from __future__ import annotations

from kscope.bench.values.result import Result, Variant
from kscope.bench.values.variants import label
from kscope.bench.values.words import dims_of
from kscope.reports.bench.text import row, words
from kscope.reports.bench.variants import best, cells, chart
from kscope.reports.escape import code, html_text, prose

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "svg{width:100%;height:auto}figure{margin:1rem 0}"
    "td,th{padding:.25rem .75rem;border-bottom:1px solid #ddd;text-align:left}"
    "h1{font-size:1.4rem}.caught{color:#a40000;font-weight:600}small{color:#555}"
)


def markdown(result: Result) -> str:
    lines = [
        f"# {prose(result.sentence)}",
        "",
        f"{code(result.candidate)} against {code(result.baseline)} on {prose(result.device)}",
        "",
    ]
    for one in result.findings:
        number = f"cheat {one.cheat}, " if one.cheat else ""
        lines.append(
            f"- **{one.standing}** {number}{prose(one.name)}: {prose(one.evidence)}. Seen by: {prose(one.how)}"
        )
    if result.timings:
        lines += ["", "| shape | cache | candidate | baseline | ratio | verdict |", "|---|---|---|---|---|---|"]
        lines += ["| " + " | ".join(prose(cell) for cell in row(one)) + " |" for one in result.timings]
    if result.variants:
        lines += ["", "| variant | shape | time | ratio | verdict |", "|---|---|---|---|---|"]
        lines += ["| " + " | ".join(prose(cell) for cell in cells(one)) + " |" for one in result.variants]
        fastest = best(result.variants)
        lines += ["", *(f"- fastest at {prose(dims_of(one.dims))}: {prose(label(one))}" for one in fastest)]
    failed = [one for one in result.checks if not one.ok]
    lines += ["", f"{len(result.checks) - len(failed)} of {len(result.checks)} checks pass."]
    lines += [f"- wrong: {prose(words(one))}" for one in failed]
    lines += [f"- note: {prose(one)}" for one in result.notes]
    return "\n".join(lines) + "\n"


def html(result: Result) -> str:
    """No script, no link: what is in it is text."""
    fastest = best(result.variants)
    body = [
        f"<h1>{html_text(result.sentence)}</h1>",
        f"<p>{html_text(result.candidate)} against {html_text(result.baseline)} on {html_text(result.device)}</p>",
    ]
    if result.findings:
        items = "".join(
            f"<li><span class={one.standing}>{one.standing}</span> {one.cheat or ''} {html_text(one.name)}: "
            f"{html_text(one.evidence)} <small>{html_text(one.how)}</small></li>" for one in result.findings
        )  # fmt: skip
        body.append(f"<ul>{items}</ul>")
    if result.timings:
        heads = "".join(f"<th>{one}</th>" for one in ("shape", "cache", "candidate", "baseline", "ratio", "verdict"))
        rows = "".join(
            "<tr>" + "".join(f"<td>{html_text(cell)}</td>" for cell in row(one)) + "</tr>" for one in result.timings
        )
        body.append(f"<table><tr>{heads}</tr>{rows}</table>")
    if result.variants:
        heads = "".join(f"<th>{one}</th>" for one in ("variant", "shape", "time", "ratio", "verdict"))
        rows = "".join(_row(one, one in fastest) for one in result.variants)
        body.append(f"{chart(result.variants)}<table><tr>{heads}</tr>{rows}</table>")
    failed = [one for one in result.checks if not one.ok]
    body.append(f"<p>{len(result.checks) - len(failed)} of {len(result.checks)} checks pass</p>")
    if failed or result.notes:
        lines = [f"wrong: {words(one)}" for one in failed] + [f"note: {one}" for one in result.notes]
        body.append("<ul>" + "".join(f"<li>{html_text(one)}</li>" for one in lines) + "</ul>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><title>{html_text(result.sentence)}</title><style>{STYLE}</style></head>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def _row(one: Variant, fastest: bool) -> str:
    tag = "th" if fastest else "td"
    return "<tr>" + "".join(f"<{tag}>{html_text(cell)}</{tag}>" for cell in cells(one)) + "</tr>"


def junit(result: Result) -> str:
    """One test a check, one a timing, one for cheats."""
    cases = []
    for check in result.checks:
        fault = "" if check.ok else f'<failure message="{html_text(words(check))}"/>'
        cases.append((f"{dims_of(check.dims)} {check.dtype} {check.inputs}", "check", fault))
    for one in result.timings:
        fault = (
            f'<failure message="{html_text(" ".join(row(one)))}"/>' if one.verdict in ("slower", "incorrect") else ""
        )
        cases.append((f"{dims_of(one.dims)} {one.dtype} {one.cache}", "time", fault))
    caught = [one for one in result.findings if one.standing == "caught"]
    fault = "".join(f'<failure message="{html_text(f"cheat {one.cheat}: {one.evidence}")}"/>' for one in caught[:1])
    cases.append(("comparable", "cheats", fault))
    failures = sum(bool(fault) for _, _, fault in cases)
    body = "".join(
        f'<testcase classname="kscope.{kind}" name="{html_text(name)}">{fault}</testcase>'
        for name, kind, fault in cases
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="{html_text(result.candidate)}" tests="{len(cases)}" '
        f'failures="{failures}" time="{result.seconds:.3f}">{body}</testsuite>\n'
    )
