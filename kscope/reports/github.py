"""Annotations of GitHub Actions: one workflow command a finding, which the runner shows at the line of the source.

`::warning file=tiles.cu,line=16,title=MEM103 shared-bank-conflicts::...`; a critical finding is an error, a major one a
warning, a minor one a notice; those for information are left out. Files are those of the report: --source-root makes
them relative to the repository, without which the runner cannot place them. Nothing in a report can end a line or a
property, so no name becomes a command of its own (docs.github.com, workflow commands: %, CR and LF are escaped in
messages, colon and comma in properties, too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, Finding
    from kscope.reports import Options

LEVELS = {"critical": "error", "major": "warning", "minor": "notice"}


def render(analysis: Analysis, options: Options) -> str:
    """A line a finding, best first within each kernel; a line that says so where there is none."""
    groups = [(k.demangled or k.name, k.findings) for k in words.by_time(analysis.kernels)]
    groups += [(job.name, job.findings) for job in analysis.jobs]
    groups += [(t.input, t.findings) for t in analysis.timelines]
    groups += [(f.demangled or f.name, f.findings) for program in analysis.programs for f in program.functions]
    lines = [_line(name, f) for name, findings in groups for f in findings if f.severity in LEVELS]
    lines += [
        f"::warning title={_property('kscope could not read an input')}::{_data(f'{s.input}: {s.what}: {s.message}')}"
        for s in analysis.skipped
    ]
    return "\n".join(lines or ["kscope: no finding"]) + "\n"


def _line(name: str, finding: Finding) -> str:
    place = next((x for x in finding.locations if x.file and x.line), None)
    where = [f"file={_property(place.file or '')}", f"line={place.line}"] if place is not None else []
    title = _property(f"{finding.code} {finding.rule}")
    short = words.shorten(words.without_parameters(name), 80)
    parts = [f"{short}: {one_line(finding.why or finding.title)}", words.expectation(finding.estimate), finding.fix]
    message = _data(" | ".join(one_line(part) for part in parts if part))
    return f"::{LEVELS[finding.severity]} {','.join([*where, f'title={title}'])}::{message}"


def _data(text: str) -> str:
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
