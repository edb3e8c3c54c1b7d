"""`kscope fleet sql`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("dataset", metavar="DATASET", type=click.Path(path_type=Path))
@click.argument("query", metavar="SQL")
@click.option("--format", "format_", type=click.Choice(("text", "json", "csv")), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def sql(dataset: Path, query: str, format_: str, output: Path | None, force: bool) -> None:
    """Ask the dataset in SQL (DuckDB): the tables kernels, findings, timelines, gaps, programs, inputs and refused, and
    `recent`, each kernel as it was last seen. docs/fleet.md has their columns and examples.
    """
    import signal

    from kscope.cli.shared._output import put
    from kscope.fleet.base import Base
    from kscope.fleet.store import Dataset
    from kscope.fleet.tables import render

    base = Base(Dataset.opened(dataset))
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # DuckDB asks Python for Ctrl-C at times only; a question leaves nothing behind
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        names, rows = base.asked(query)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    put(render(names, rows, format_), output, force=force)
