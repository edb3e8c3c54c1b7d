"""`kscope init`: a folder to start a kernel from."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("task", metavar="TASK", type=click.Path(path_type=Path))
@click.option("--language", type=click.Choice(("cuda", "triton", "numpy")), default="cuda", show_default=True)
def init(task: Path, language: str) -> None:
    """Write a folder to start a kernel from: naive kernel, reference, task file.

    \b
    kscope init rowsum
    cd rowsum && kscope bench task.toml
    """
    from kscope.bench.task.scaffold import write
    from kscope.cli.shared._output import say

    for path in write(task, language):
        say(f"Wrote {path}")
