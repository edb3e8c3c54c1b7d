"""`kscope diff` of more than two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.engine.comparing.pairing import Rule
    from kscope.model.contract.analysis import Analysis
    from kscope.model.contract.comparison import Comparison
    from kscope.model.contract.versions import Versions


def compared(
    paths: Sequence[str], kernel: str | None, rules: Sequence[Rule]
) -> tuple[Versions, Comparison, Comparison]:
    """(the versions, the last against the one before, the last against the first). Raises KscopeError."""
    from kscope.cli.diagnose._sass_diff import is_code
    from kscope.cli.shared import _cache
    from kscope.engine.comparing.compare import compare
    from kscope.engine.comparing.versions import versions
    from kscope.engine.run import analyze_paths
    from kscope.features.views.footprint import Footprints, quoted
    from kscope.model.faults import fenced

    if any(is_code(path) for path in paths):
        raise click.UsageError("Machine code is compared two by two: kscope diff A.cubin B.cubin.")
    analyses: list[Analysis] = []
    prints: list[Footprints] = []
    wanted: set[str] = set()
    for path in paths:
        prints.append(Footprints(wanted=set(wanted)))
        analyses.append(analyze_paths([path], kernel=kernel, footprints=prints[-1]))
        wanted |= quoted([f for k in analyses[-1].kernels for f in k.findings])
    _cache.warn(*analyses)
    with fenced(", ".join(paths)):
        found, steps = versions(analyses, rules, prints)
        whole = compare(analyses[0], analyses[-1], (), (prints[0], prints[-1]))
    return found, steps[-1], whole


def rendered(found: Versions, format_: str | None, *, to_file: bool, verbose: bool, no_color: bool) -> str:
    from kscope.cli.shared import _output
    from kscope.reports import Options

    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return encode(found).decode()
    if format_ == "html":
        from kscope.reports.versions.page import render

        return render(found)
    if format_ == "md":
        from kscope.reports.versions.markdown import render

        return render(found)
    from kscope.reports.versions.text import render as render_text

    look = _output.look(no_color, to_file=to_file, in_file=_output.PIPE)
    return render_text(found, Options(**look, verbose=verbose))
