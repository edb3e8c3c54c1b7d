"""`kscope doctor`: what is here, what is not, what each missing thing costs and how to get it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kscope.cli.machine._probe import Check

STYLES = {"ok": "good", "missing": "overhead", "limited": "overhead"}


@click.command()
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def doctor(format_: str, output: Path | None, force: bool, no_color: bool) -> None:
    """Show which tools, versions and permissions are here, and what each missing one costs."""
    from kscope.cli.machine._probe import checks
    from kscope.cli.shared import _output

    found = checks()
    if format_ == "json":
        import json

        from msgspec.structs import asdict

        return _output.put(json.dumps([asdict(check) for check in found]) + "\n", output, force=force)
    return _output.put(table(found, **_output.look(no_color, to_file=output is not None)), output, force=force)


def table(found: list[Check], width: int, *, color: bool, unicode: bool) -> str:
    """A line or two a check; under a missing one, what it costs and the command that gets it."""
    from kscope.model.errors import one_line
    from kscope.reports.terminal import Page, Segment

    page = Page(width, color=color, unicode=unicode)
    name = max(len(check.name) for check in found)
    for check in found:
        detail = one_line(check.detail)
        left: list[Segment] = [(f"{check.name:{name}}  ", ""), (f"{check.status:8} ", STYLES[check.status])]
        left.append((f"{one_line(check.version):10}  ", ""))
        if check.limits:
            left.append((f"{check.limits}  ", ""))
        if sum(len(text) for text, _ in left) + len(detail) <= width:
            page.line(*left, (detail, "dim"))
        else:
            page.line(*left)
            page.paragraph(detail, lead=("    ", ""), indent=4, style="dim")
        if check.status != "ok":
            page.paragraph(check.costs, lead=("    costs   ", "dim"), indent=12)
            page.paragraph(check.install, lead=("    get it  ", "dim"), indent=12, style="code")
    missing = {check.name for check in found if check.status != "ok"}
    page.blank()
    if "ncu-report" in missing:
        page.line("kscope analyze reads timelines without ncu-report, but no report of Nsight Compute.")
    elif missing:
        page.line("kscope analyze needs none of what is missing.")
    else:
        page.line("Everything is here.")
    return page.text()
