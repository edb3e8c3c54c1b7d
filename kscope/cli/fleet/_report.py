"""`kscope fleet report`."""

from __future__ import annotations

from pathlib import Path

import click

FORMATS = ("text", "json", "html")


@click.command()
@click.argument("dataset", metavar="DATASET", type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("-v", "--verbose", is_flag=True, help="All rows.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def report(
    dataset: Path, format_: str | None, output: Path | None, force: bool, verbose: bool, no_color: bool
) -> None:
    """What costs most, what got slower since when and why, what was left out.

    Where the GPU time goes by cause, the kernels that matter most with the next step, changes of level of each kernel,
    shape and chip with the finding and the code change that came with them, promises kept, refusals.
    """
    from kscope.cli.shared import _output
    from kscope.cli.shared._options import format_of

    output = None if str(output) == "-" else output
    format_ = format_ or format_of(output, FORMATS)
    if output:
        _output.check_target(output, [str(dataset)], force=force)

    from kscope.fleet.summary import report as ask

    found = ask(dataset)
    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        text = encode(found).decode()
    elif format_ == "html":
        from kscope.fleet.page import render as page

        text = page(found)
    else:
        from kscope.fleet.text import render

        text = render(found, **_output.look(no_color, to_file=output is not None), verbose=verbose)
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)
