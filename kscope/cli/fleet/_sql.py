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
    from kscope.cli.shared._output import put
    from kscope.fleet.base import Base
    from kscope.fleet.store import Dataset
    from kscope.fleet.tables import render

    names, rows = Base(Dataset.opened(dataset)).asked(query)
    put(render(names, rows, format_), output, force=force)
