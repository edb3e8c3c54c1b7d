"""The HTML report: one file, no requests. The page is static; the data travels compressed in a script element that no
browser executes, and the front end (reports/frontend, built into assets/) makes elements of it as text only.

The content security policy inside the file names the hashes of its own script and style and allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kscope._version import __version__
from kscope.model.contract.analysis import Analysis, Input
from kscope.model.contract.detail import Detail
from kscope.model.contract.limiters import SHORT
from kscope.reports import next_step, words
from kscope.reports._reasons import CAUSES, REASONS
from kscope.reports.escape import html_text
from kscope.reports.jsonv1 import encodable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import Finding, JobAnalysis, KernelAnalysis, TimelineAnalysis
    from kscope.model.contract.comparison import Comparison, KernelPair, TimelinePair
    from kscope.model.contract.detail import ProgramDetail
    from kscope.model.contract.sass_diff import SassComparison
    from kscope.reports import Options

ASSETS = Path(__file__).parents[1] / "assets"
LISTED = 30
"""Kernels that the part for readers without JavaScript lists."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="kscope {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"><main class="static">
{static}
</main></div>
<script type="application/json" id="kscope-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def render(analysis: Analysis, options: Options) -> str:
    """The page. `options.detail` adds what is drawn beside the Analysis; without it charts and code are left out."""
    payload = {
        "analysis": analysis,
        "detail": options.detail,
        "pages": rule_pages(analysis),
        "words": {"limiters": SHORT, "causes": _causes(analysis), "reasons": REASONS},
        "said": {k.id: said(k) for k in analysis.kernels},
    }
    if payload["detail"] is None:
        payload["detail"] = {}
    return page(title(analysis), static(analysis), payload)


def render_diff(comparison: Comparison) -> str:
    """The page of `kscope diff`."""
    sides = [side[0].path for side in (comparison.before, comparison.after) if side]
    names = words.told_apart(*sides) if len(sides) == 2 else [words.basename(path) for path in sides]
    payload = {
        "comparison": comparison, "analysis": Analysis(kscope=comparison.kscope, inputs=comparison.after), "detail": {},
        "pages": {}, "words": {"limiters": SHORT, "causes": {}, "reasons": REASONS}, "names": names,
    }  # fmt: skip
    pairs: list[KernelPair | TimelinePair] = [*comparison.pairs, *comparison.timelines]
    said = [p.sentence for p in pairs] + [cost for p in comparison.pairs for cost in p.against]
    return page(f"{' and '.join(names)} - kscope", "\n".join(f"<p>{html_text(line)}</p>" for line in said), payload)


def render_programs(path: str, programs: Sequence[ProgramDetail]) -> str:
    """The page of `kscope sass`: listings without a profile (kscope.features.views.source.listing_detail)."""
    found = [f for program in programs for function in program.functions for f in function.findings]
    payload = {
        "analysis": Analysis(kscope=__version__, inputs=[Input(path=path, kind="cubin")]),
        "detail": Detail(programs=list(programs)), "pages": _pages({f.code for f in found}),
        "words": {"limiters": SHORT, "causes": {}, "reasons": REASONS},
    }  # fmt: skip
    names = [f"<li>{html_text(f.demangled or f.name)}</li>" for program in programs for f in program.functions]
    return page(f"{words.basename(path)} - kscope", f"<ul>{''.join(names)}</ul>", payload)


def render_sass_diff(comparison: SassComparison) -> str:
    """The page of `kscope sass A B --diff`."""
    named = {f.code for function in comparison.functions for f in function.new}
    names = words.told_apart(comparison.before.path, comparison.after.path)
    payload = {
        "sass": comparison, "analysis": Analysis(kscope=comparison.kscope, inputs=[comparison.after]), "detail": {},
        "pages": _pages(named), "names": names,
        "words": {"limiters": SHORT, "causes": {}, "reasons": REASONS},
    }  # fmt: skip
    shown = [
        f"<li>{html_text(f.demangled)}: {f.removed} removed, {f.added} added, {f.changed} changed, {f.same} the same"
        "</li>"
        for f in comparison.functions
    ]
    return page(f"{' and '.join(names)} - kscope", f"<ul>{''.join(shown)}</ul>", payload)


def page(heading: str, body: str, payload: Any) -> str:
    """One self-contained page. body: escaped HTML for readers without JavaScript; payload: what the front end reads
    (reports/frontend/src/types.ts, Data)."""
    style, script = _asset("report.css"), _asset("report.js")
    allowed = f"script-src {_hash(script)}; style-src {_hash(style)}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    return PAGE.format(
        policy=policy, version=html_text(__version__), title=html_text(heading), style=style, static=body,
        data=embed(payload), script=script,
    )  # fmt: skip


def embed(payload: Any) -> str:
    """JSON for a script element: the payload deflated as base64, and whatever could end the element escaped."""
    try:
        raw = msgspec.json.encode(payload)
    except UnicodeEncodeError:  # a file name that is not UTF-8 arrives with lone surrogates
        raw = msgspec.json.encode(encodable(msgspec.to_builtins(payload)))
    packed = base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
    text = msgspec.json.encode({"encoding": "deflate", "data": packed}).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def title(analysis: Analysis) -> str:
    kernels = words.by_time(analysis.kernels)
    if len(kernels) == 1 and not analysis.timelines:
        return f"{words.shorten(kernels[0].demangled or kernels[0].name, 60)} - kscope"
    if analysis.inputs:
        return f"{words.basename(analysis.inputs[0].path)} - kscope"
    return "kscope"


def static(analysis: Analysis) -> str:
    """The sentences, for readers without JavaScript and until it runs."""
    out = ["<h1>kscope</h1>", "<noscript><p>Charts and code need JavaScript; nothing is loaded.</p></noscript>"]
    for job in analysis.jobs:
        text = job.verdict.sentence if job.verdict is not None else job.abstained
        out += [f"<h2>{html_text(job.name)}, {len(job.ranks)} ranks</h2>", f"<p>{html_text(text)}</p>"]
        out.append(_findings(job.findings))
    for timeline in analysis.timelines:
        text = timeline.verdict.sentence if timeline.verdict is not None else timeline.abstained
        out += [f"<h2>{html_text(words.basename(timeline.input))}</h2>", f"<p>{html_text(text)}</p>"]
        out.append(_findings(timeline.findings))
    kernels = words.by_time(analysis.kernels)
    for kernel in kernels[:LISTED]:
        name = html_text(words.without_parameters(kernel.demangled or kernel.name))
        out += [f"<h2>{name}</h2>", f"<p>{html_text(kernel.verdict.sentence)}</p>", _findings(kernel.findings)]
    if left := len(kernels) - LISTED:
        out.append(f"<p>and {left} more</p>" if left > 0 else "")
    return "\n".join(line for line in out if line)


def _findings(findings: list[Finding]) -> str:
    items = [
        f"<li>{html_text(f.code)} {html_text(f.title)}: {html_text(words.expectation(f.estimate))}. {html_text(f.fix)}"
        "</li>"
        for f in findings
        if f.severity != "info"
    ]
    return f"<ol>{''.join(items)}</ol>" if items else ""


def said(kernel: KernelAnalysis) -> dict[str, Any]:
    """What the page says of a kernel in the very words of the other formats."""
    from kscope.reports.phrases import hot, order, pipeline, silence

    ws = kernel.warp_specialization
    return {
        "headroom": words.headroom(kernel.headroom) if kernel.headroom else "",
        "next": next_step.short(kernel.next_step) if kernel.next_step else "",
        "nothing": silence.nothing(kernel),
        "order": order.order(kernel.findings),
        "expect": {f.code: words.expectation(f.estimate) for f in kernel.findings},
        "further": {f.code: words.further(f, len(f.locations)) for f in kernel.findings},
        "hot": [{"why": hot.why(one), "codes": hot.covering(kernel, one.pc)} for one in kernel.hot],
        "repeats": words.repeats(kernel),
        "precision": words.precision(kernel.roofline.precision) if kernel.roofline else "",
        **({"ring": pipeline.ring(ws), "source": pipeline.source(ws), "sampling": pipeline.sampling(ws),
            "losses": pipeline.LOSSES} if ws is not None else {}),
    }  # fmt: skip


def rule_pages(analysis: Analysis) -> dict[str, str]:
    """The page of every rule that the analysis names, as Markdown."""
    named: set[str] = set()
    subjects: list[KernelAnalysis | TimelineAnalysis | JobAnalysis] = [
        *analysis.kernels, *analysis.timelines, *analysis.jobs
    ]  # fmt: skip
    for subject in subjects:
        named |= {f.code for f in subject.findings} | set(subject.passed) | {n.code for n in subject.not_applicable}
    return _pages(named)


def _pages(named: set[str]) -> dict[str, str]:
    from kscope.rules.registry import all_rules, page

    return {rule.code: page(rule) for rule in all_rules() if rule.code in named}


def _causes(analysis: Analysis) -> dict[str, str]:
    if not analysis.timelines:
        return {}
    return CAUSES


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
