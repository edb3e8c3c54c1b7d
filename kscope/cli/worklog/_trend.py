"""`kscope log trend`."""

from __future__ import annotations

from pathlib import Path

import click

FORMATS = ("text", "json", "csv", "html")


@click.command()
@click.option("--version", "number", metavar="N", type=click.IntRange(min=1),
              help="The ladder of version N; default: of the one added to last.")
@click.option("--all", "every", is_flag=True, help="With the versions that were set aside, by number.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("-v", "--verbose", is_flag=True, help="Figures that did not move, too.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.pass_obj
def trend(
    worklog: Path | None, number: int | None, every: bool, format_: str | None, output: Path | None, force: bool,
    verbose: bool, no_color: bool,
) -> None:  # fmt: skip
    """Show how each figure went over the versions: time, share of the roof, units, occupancy, hit rates, traffic.

    The versions are those that work went through, from the start to the one it goes on from.
    """
    from kscope._version import __version__
    from kscope.cli.shared import _output
    from kscope.cli.shared._options import format_of
    from kscope.cli.worklog.log import opened
    from kscope.model.errors import EXIT_USAGE, KscopeError
    from kscope.worklog.trend import followed
    from kscope.worklog.trend import trend as figures

    output = None if str(output) == "-" else output
    format_ = format_ or format_of(output, FORMATS)
    if output:
        _output.check_target(output, [], force=force)
    log = opened(worklog)
    entries = log.entries()
    if not entries:
        raise KscopeError("no-entry", f"{log.path}: no entries", "kscope log add REPORT", EXIT_USAGE)
    member = log.entry(number) if number is not None else entries[-1]
    found = figures(followed(entries, member, every=every), __version__)
    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        text = encode(found).decode()
    elif format_ in ("csv", "html"):
        from kscope.reports.versions import trend as reporter

        text = reporter.as_csv(found) if format_ == "csv" else reporter.as_page(found)
    else:
        from kscope.cli.worklog._show import _page
        from kscope.reports.versions.trend import render

        page = _page(no_color=no_color, to_file=output is not None)
        render(page, found, verbose=verbose)
        text = page.text()
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)
