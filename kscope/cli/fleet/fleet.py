"""`kscope fleet`: thousands of reports. Its commands are in modules of their own, imported when one is called."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "ingest": ("_ingest", "Add reports, traces, exports and binaries to a dataset, each once."),
    "report": ("_report", "What costs most, what got slower since when and why, what was left out."),
    "sql": ("_sql", "Ask the dataset in SQL."),
}
"""Command -> module of kscope.cli.fleet with the function of that name, short help."""


class FleetGroup(click.Group):
    """Knows its commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"kscope.cli.fleet.{COMMANDS[cmd_name][0]}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=FleetGroup)
def fleet() -> None:
    """Keep thousands of reports as one dataset of causes: what costs most, what got slower, why.

    \b
    kscope fleet ingest nightly/ --into fleet
    kscope fleet report fleet -o fleet.html
    kscope fleet sql fleet "select cause, sum(total_us) from kernels group by 1"

    Needs pip install 'kscope-gpu[fleet]'. The dataset is a folder of Parquet files (docs/fleet.md).

    Exit status: 0 done, 2 wrong usage, 3 unreadable dataset or no input, 4 a library is missing.
    """
