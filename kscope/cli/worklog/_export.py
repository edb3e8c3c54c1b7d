"""`kscope log export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.worklog.entries import Entry
    from kscope.worklog.store import Worklog

FORMATS = ("md", "csv", "json", "html", "parquet")


@click.command()
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else md.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--version", "number", metavar="N", type=click.IntRange(min=1),
              help="Only the ladder of version N; default: all.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.pass_obj
def export(worklog: Path | None, format_: str | None, output: Path | None, number: int | None, force: bool) -> None:
    """Write the worklog: a page one could publish (md, html), rows (csv, parquet), or everything (json).

    Of each version: the hypothesis, the code that changed, the profile in a sentence, one bold number, what was
    promised and what came, the bridge to the next.
    """
    from kscope.cli.shared import _output
    from kscope.cli.worklog.log import opened
    from kscope.model.errors import EXIT_USAGE, KscopeError

    output = None if str(output) == "-" else output
    kind = format_ or _kind(output)
    if kind == "parquet" and output is None:
        raise click.UsageError("--format parquet needs -o FILE.")
    if output:
        _output.check_target(output, [], force=force)
    log = opened(worklog)
    entries = log.entries()
    if number is not None:
        from kscope.worklog.ladder import lineage

        entries = lineage(entries, log.entry(number))
    if not entries:
        raise KscopeError("no-entry", f"{log.path}: no entries", "kscope log add REPORT", EXIT_USAGE)
    if kind == "parquet" and output is not None:
        from kscope.reports.worklog.tables import write_parquet
        from kscope.worklog.ladder import ladders

        write_parquet(ladders(entries), output)
        return _output.say(f"Wrote {output}")
    text = rendered(log, entries, kind)
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


def rendered(log: Worklog, entries: Sequence[Entry], kind: str) -> str:
    """The worklog as text of one of FORMATS but parquet."""
    from kscope.worklog import changes
    from kscope.worklog.ladder import ladders

    found = ladders(entries)
    if kind == "json":
        return as_json(log, entries)
    if kind == "csv":
        from kscope.reports.worklog.tables import as_csv

        return as_csv(found)
    if kind == "html":
        from kscope.reports.worklog.html import render as page

        return page(found, lambda entry: changes.of(log.objects, entry))
    from kscope.reports.worklog.markdown import render
    from kscope.worklog.calibrate import calibrate

    return render(found, lambda entry: changes.of(log.objects, entry), calibrate(entries), log.ideas())


def as_json(log: Worklog, entries: Sequence[Entry]) -> str:
    from kscope._version import __version__
    from kscope.reports.jsonv1 import encode
    from kscope.worklog.entries import SCHEMA, Export

    known = {one.uid for one in entries}
    ideas = [idea for idea in log.ideas() if idea.entry in known]
    return encode(Export(schema=SCHEMA, kscope=__version__, entries=list(entries), ideas=ideas)).decode()


def _kind(output: Path | None) -> str:
    if output is None:
        return "md"
    known = {f".{name}": name for name in FORMATS}
    if (found := known.get(output.suffix.lower())) is None:
        raise click.UsageError(f"Cannot tell the format from '{output}' ({', '.join(known)} are known): give --format.")
    return found
