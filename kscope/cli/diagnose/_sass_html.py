"""`kscope sass --format html`: a listing to browse, of a binary as it is or of a report with what was counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, SkippedInput


def page(
    path: str, *, is_report: bool, arch: str | None, function: str | None, source_root: Path | None
) -> tuple[str, Analysis]:
    """(the page, what it shows). Raises KscopeError where the input cannot be read."""
    from kscope.cli.shared import _output
    from kscope.model.contract.detail import Detail
    from kscope.reports import Options
    from kscope.reports.fence import render_sound

    if is_report:
        from kscope.engine.code.programs import for_target
        from kscope.engine.run import analyze_paths
        from kscope.model.errors import KscopeError

        detail = Detail()
        analysis = analyze_paths([path], kernel=function, detail=detail)
        there = sorted({k.device.cc.replace(".", "") for k in analysis.kernels})
        if there and not any(for_target(int(sm), arch) for sm in there):
            has = ", ".join(f"sm_{sm}" for sm in there)
            raise KscopeError("no-arch", f"{path}: no code for {arch}", f"it has {has}")
        _output.say("kscope: of a report this is the page of kscope analyze; its listing is the view Source and SASS")
        return render_sound("html", analysis, Options(detail=detail))

    from msgspec import structs

    from kscope.cli.diagnose.analyze import left_out
    from kscope.engine.code.program_detail import program_details
    from kscope.engine.code.programs import binary_analysis, sources_below
    from kscope.model.faults import fenced
    from kscope.parsers.cubin.programs import read_programs
    from kscope.reports.html.page import render_programs

    lines = sources_below(source_root) if source_root is not None else None
    cubins = read_programs(path, arch, function)
    analysis = binary_analysis(path, cubins, annotate=False)
    skipped: list[SkippedInput] = []
    details = program_details(cubins, analysis, lines, skipped)
    for skip in [*analysis.skipped, *skipped]:  # the page has no place for them
        _output.say(f"kscope: skipped {left_out(skip)}")
    with fenced(path):
        text = render_programs(path, details)
    return text, structs.replace(analysis, skipped=[*analysis.skipped, *skipped])
