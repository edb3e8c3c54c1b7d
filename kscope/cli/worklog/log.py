"""`kscope log`: the worklog of this repository. Its commands are in modules of their own, imported when one is
called."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

COMMANDS = {
    "add": ("_add", "Add the version that a report shows."),
    "annotate": ("_words", "Correct words of an entry, never its numbers."),
    "calibrate": ("_words", "Show how the promises of each rule held in your versions."),
    "diff": ("_show", "Compare two versions, as kscope diff compares reports."),
    "export": ("_export", "Write the worklog as Markdown, CSV, JSON, HTML or Parquet."),
    "import": ("_add", "Add the reports of a folder, oldest first."),
    "merge": ("_words", "Take what another worklog has and this one lacks."),
    "plot": ("_show", "Draw the ladder: bars with the roof, branches, dead ends."),
    "show": ("_show", "Show the ladder, or everything about one version."),
    "trend": ("_trend", "Show how each figure went over the versions."),
}
"""Command -> module of kscope.cli.worklog with the function of that name (`import_` for `import`), short help."""


class LogGroup(click.Group):
    """Knows its commands by name; `kscope log` alone is `kscope log show`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kscope.cli.worklog.{COMMANDS[cmd_name][0]}")
        command = getattr(module, "import_" if cmd_name == "import" else cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=LogGroup, invoke_without_command=True)
@click.option("--worklog", metavar="FILE", type=click.Path(path_type=Path),
              help="The worklog; default: KSCOPE_WORKLOG, else .kscope/worklog.db of this repository.")
@click.option("--git-notes", "git_notes", is_flag=True,
              help="Write every entry into the note of its commit (refs/notes/kscope), after the command if there is "
                   "one.")
@click.pass_context
def log(ctx: click.Context, worklog: Path | None, git_notes: bool) -> None:
    """Keep the versions of a kernel: time, verdict, promises, the code, beside the report itself.

    \b
    kscope log add v2.ncu-rep -m "lanes along a row of B"
    kscope log show
    kscope checklist

    A version is measured against its parent: the last one that was kept, or --parent. What is slower is set aside, and
    stays. Everything is in .kscope/ (worklog.db, and the packed reports in objects/).

    Exit status: 0 done, 2 wrong usage, 3 unreadable report or worklog, 4 missing tool.
    """
    ctx.obj = worklog
    if ctx.invoked_subcommand is None and not git_notes:
        ctx.invoke(LogGroup.get_command(ctx.command, ctx, "show"))  # type: ignore[arg-type]


@log.result_callback()
def _noted(status: int | None, worklog: Path | None, git_notes: bool) -> int | None:
    """After a command that went well."""
    if git_notes:
        _to_notes(worklog)
    return status


def opened(worklog: Path | None):  # type: ignore[no-untyped-def]
    """The worklog that the options name."""
    from kscope.worklog.place import default
    from kscope.worklog.store import Worklog

    return Worklog(worklog or default())


def _to_notes(worklog: Path | None) -> None:
    from kscope.cli.shared._output import say
    from kscope.worklog.notes import REF, write

    found = write(Path.cwd(), opened(worklog).entries())
    without = f", {found.without} entries have no commit here" if found.without else ""
    say(f"Wrote {found.written} notes to refs/notes/{REF}{without}")
