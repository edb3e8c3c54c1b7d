"""`kscope dev`: for people who work on kscope itself; not listed by `kscope --help`."""

from __future__ import annotations

from pathlib import Path

import click

from kscope.cli.shared import _output


@click.group()
def dev() -> None:
    """Work on kscope itself, in a checkout. See CONTRIBUTING.md."""


@dev.command("new-rule")
@click.argument("code")
@click.argument("slug")
@click.option("--counters", is_flag=True, help="The rule needs no machine code: it derives from CounterRule.")
@click.option(
    "--root", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="The checkout.  [default: here]"
)
def new_rule(code: str, slug: str, counters: bool, root: Path) -> None:
    """Write the file of a new rule and enter it where rules are listed.

    CODE is a family and a free number (MEM118), SLUG its name (streaming-stores); neither ever changes again.
    """
    from kscope.cli.dev._new_rule import plan, todo

    changes = plan(root, code, slug, counters=counters)  # all of it, before anything is written
    for path, text in changes.items():
        path.write_text(text, encoding="utf-8")
        _output.say(f"wrote {path}")
    _output.write_stdout(todo(code) + "\n")
