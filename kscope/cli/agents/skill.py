"""`kscope skill`: how an agent works with kscope, as one Markdown page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def skill(output: Path | None, force: bool) -> None:
    """Print the page that tells an agent how to work with kscope.

    Measure, read, change one thing, check the promise, stop. It begins with the front matter (name, description) that
    agent tools expect of a skill. Save it where yours looks:

    \b
    kscope skill -o .claude/skills/kscope/SKILL.md
    kscope skill >> AGENTS.md
    """
    from kscope.cli.shared import _output
    from kscope.skill import text

    _output.put(text(), output, force=force)
