"""`kscope log show`, `diff` and `plot`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kscope.reports.terminal import Page


@click.command()
@click.argument("number", metavar="[N]", type=click.IntRange(min=1), required=False)
@click.option("--format", "format_", type=click.Choice(("text", "json")), help="Default: by -o, or text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("-v", "--verbose", is_flag=True, help="What each version tried, its notes, its commit.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.pass_obj
def show(
    worklog: Path | None, number: int | None, format_: str | None, output: Path | None, force: bool, verbose: bool,
    no_color: bool,
) -> None:  # fmt: skip
    """Show the ladder: time, gain on the parent and on the start, % of the roof, limit, promised against delivered.

    * is the best version, x one that was set aside. With N everything that is kept of version N.
    """
    from kscope.cli.shared import _output
    from kscope.cli.worklog.log import opened
    from kscope.reports.worklog import text
    from kscope.worklog.ladder import ladders

    output = None if str(output) == "-" else output
    if output:
        _output.check_target(output, [], force=force)
    log = opened(worklog)
    entries = log.entries() if number is None else [log.entry(number)]
    if (format_ or ("json" if output and output.suffix.lower() == ".json" else "text")) == "json":
        from kscope.cli.worklog._export import as_json

        written = as_json(log, entries)
    else:
        page = _page(no_color=no_color, to_file=output is not None)
        if number is not None:
            one = entries[0]
            parent = next((e for e in log.entries() if e.uid == one.parent), None)
            text.version(page, one, parent, str(log.objects.path(one.report)))
        elif not entries:
            page.line("The worklog is empty: kscope log add REPORT -m TEXT")
        else:
            text.ladder(page, ladders(entries), verbose=verbose)
        written = page.text()
    if output:
        _output.write_file(output, written, force=force)
    else:
        _output.write_stdout(written)


@click.command()
@click.argument("before", metavar="A", type=click.IntRange(min=1))
@click.argument("after", metavar="B", type=click.IntRange(min=1))
@click.option("--format", "format_", type=click.Choice(("text", "json", "md", "html")), help="Default: by -o or text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--code", is_flag=True, help="Show the difference of the code instead: B's own change, where A is its "
                                           "parent, else of the lines that the reports embed.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="All figures that moved.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.pass_obj
def diff(
    worklog: Path | None, before: int, after: int, format_: str | None, output: Path | None, force: bool, code: bool,
    verbose: bool, no_color: bool,
) -> None:  # fmt: skip
    """Compare two versions: their packed reports are analysed again, by this kscope."""
    from kscope.cli.diagnose.diff import FORMATS, _rendered
    from kscope.cli.shared import _output
    from kscope.cli.shared._options import format_of
    from kscope.cli.worklog.log import opened

    log = opened(worklog)
    a, b = log.entry(before), log.entry(after)
    if output:
        _output.check_target(output, [], force=force)
    if code:
        from kscope.worklog.changes import between

        text = between(log, a, b) or "no code is known of one of them, or nothing changed\n"
    else:
        from kscope.worklog.adding import again

        format_ = format_ or format_of(output, FORMATS)
        text = _rendered(again(log, a, b), format_, to_file=output is not None, verbose=verbose, no_color=no_color)
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


@click.command()
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
              help="A picture (.png, .svg, .pdf; needs matplotlib); default: bars in the terminal.")
@click.option("--version", "number", metavar="N", type=click.IntRange(min=1),
              help="The ladder of this version; default: the picture shows the one added to last, the terminal all.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.pass_obj
def plot(worklog: Path | None, output: Path | None, number: int | None, force: bool, no_color: bool) -> None:
    """Draw the ladder: how much of the roof each version reaches, branches, dead ends kept."""
    from kscope.cli.shared import _output
    from kscope.cli.worklog.log import opened
    from kscope.model.errors import EXIT_USAGE, KscopeError
    from kscope.worklog.ladder import ladders

    log = opened(worklog)
    if output:
        from kscope.reports.plot import check

        check(output)
        _output.check_target(output, [], force=force)
    entries = log.entries()
    if not entries:
        raise KscopeError("no-entry", f"{log.path}: no entries", "kscope log add REPORT", EXIT_USAGE)
    found = ladders(entries)
    wanted = log.entry(number) if number is not None else entries[-1]
    mine = [rungs for rungs in found if any(r.entry.uid == wanted.uid for r in rungs)]
    if output:
        from kscope.reports.worklog.picture import draw

        draw(mine[0], output)
        return _output.say(f"Wrote {output}")
    from kscope.reports.worklog.text import plot as drawn

    page = _page(no_color=no_color)
    drawn(page, mine if number is not None else found)
    _output.write_stdout(page.text())


def _page(*, no_color: bool, to_file: bool = False) -> Page:
    from kscope.cli.shared import _output
    from kscope.reports.terminal import Page

    return Page(**_output.look(no_color, to_file=to_file))
