"""`kscope log add` and `kscope log import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kscope.worklog.entries import Entry, Status
    from kscope.worklog.store import Worklog


@click.command()
@click.argument("report", metavar="REPORT")
@click.option("-m", "--message", metavar="TEXT", default="", help="The hypothesis: what you changed, and why.")
@click.option("--kernel", metavar="REGEX", help="Which kernel of the report; default: that of the parent's name.")
@click.option("--parent", metavar="N", type=click.IntRange(min=0),
              help="The version it came from; default: the last one kept. 0 starts a ladder.")
@click.option("--try", "tries", metavar="ID", multiple=True,
              help="An opportunity of `kscope checklist` that this version tries (repeatable); what the machine code "
                   "shows is recognised without it.")
@click.option("--flags", metavar="TEXT", help="How it was compiled.")
@click.option("--keep", is_flag=True, help="Go on from this version although it is slower.")
@click.option("--set-aside", "aside", metavar="WHY", help="Do not go on from this version.")
@click.option("--no-git", is_flag=True, help="Ask git nothing.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.pass_obj
def add(
    worklog: Path | None, report: str, message: str, kernel: str | None, parent: int | None, tries: tuple[str, ...],
    flags: str | None, keep: bool, aside: str | None, no_git: bool, format_: str, no_color: bool,
) -> None:  # fmt: skip
    """Add the version that a report shows: an Nsight Compute report, packed or not.

    Kept are: the report itself, its analysis, time with spread, the same figures for every version, findings with their
    promises, and from git commit, branch and uncommitted changes. The promises of the parent are held against what
    came.
    """
    from kscope.cli.shared import _output
    from kscope.cli.shared._options import check_regex
    from kscope.worklog.adding import Given
    from kscope.worklog.adding import add as append
    from kscope.worklog.opportunities import find

    check_regex(kernel, "--kernel")
    if keep and aside is not None:
        raise click.UsageError("--keep and --set-aside exclude each other.")
    from kscope.cli.worklog.log import opened

    log = opened(worklog)
    status: Status | None = "kept" if keep else "set aside" if aside is not None else None
    given = Given(message=message, kernel=kernel, tries=tuple(find(name).id for name in tries), flags=flags,
                  status=status, why=aside or "", repository=None if no_git else Path.cwd())  # fmt: skip
    entry = append(log, report, given, _parent(log, parent, kernel))
    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return _output.write_stdout(encode(entry).decode())
    _output.write_stdout(_shown(log, entry, no_color=no_color))


@click.command("import")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path), required=False)
@click.option("--kernel", metavar="REGEX", help="Which kernel of the reports.")
@click.option("--git-notes", "git_notes", is_flag=True,
              help="Take the entries in the git notes of this repository instead of a folder.")
@click.pass_obj
def import_(worklog: Path | None, folder: Path | None, kernel: str | None, git_notes: bool) -> None:
    """Add the reports of a folder, oldest first: the name of each is its message, its parent the one before.

    A report that the worklog has already, and one that cannot be read, is passed over and said so.
    """
    from kscope.cli.shared._options import check_regex
    from kscope.cli.worklog.log import opened

    check_regex(kernel, "--kernel")
    log = opened(worklog)
    if git_notes == (folder is not None):
        raise click.UsageError("Name a FOLDER, or --git-notes.")
    if folder is None:
        return _from_notes(log)
    _from_folder(log, folder, kernel)


def _from_folder(log: Worklog, folder: Path, kernel: str | None) -> None:
    from datetime import UTC, datetime

    from kscope.cli.shared import _output
    from kscope.model.errors import KscopeError
    from kscope.parsers.files.inputs import collect
    from kscope.worklog.adding import Given
    from kscope.worklog.adding import add as append

    faults: list[tuple[str, KscopeError]] = []
    found = [path for path, kind in collect([folder], faults) if kind == "ncu"]
    if not found:
        raise faults[0][1] if faults else KscopeError("no-reports", f"{folder}: no report of Nsight Compute in it",
                                                      "name a folder with .ncu-rep files")  # fmt: skip
    parent: Entry | None = _parent(log, None, kernel) if log.exists else None
    known = {one.report: one for one in log.entries()} if log.exists else {}
    count = had = 0
    for path in sorted(found, key=lambda one: (one.stat().st_mtime, str(one))):
        try:
            made = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="microseconds")
            if (name := _content(path)) in known:
                parent, had = known[name], had + 1
                _output.say(f"kscope: {path}: is version {parent.number} already")
                continue
            given = Given(message=_label(folder, path), kernel=kernel, added=made)
            entry = append(log, path, given, parent)
            known[entry.report] = entry
            parent = entry if entry.status == "kept" else parent
            count += 1
            _output.say(f"version {entry.number}: {path}")
        except KscopeError as error:
            faults.append((str(path), error))
    for name, fault in faults:
        _output.say(f"kscope: skipped {name}: {str(fault).removeprefix(f'{name}: ')}")
    if faults and not count and not had:
        raise faults[-1][1]
    _output.write_stdout(f"{count} versions added\n")


def _content(path: Path) -> str:
    """The name that the report's object has or would have."""
    import hashlib

    from kscope.parsers.files.inputs import open_input

    with open_input(path) as plain, open(plain, "rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}.ncu-rep"


def _label(folder: Path, path: Path) -> str:
    """The file's name without its suffixes, below the folder."""
    inside = path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)
    return str(inside.with_name(inside.name.partition(".ncu-rep")[0] or inside.name))


def _from_notes(log: Worklog) -> None:
    from kscope.cli.shared import _output
    from kscope.worklog.notes import read

    came = log.take(read(Path.cwd()), [], [])
    _output.write_stdout(f"{len(came)} versions taken from git notes, without their reports\n")


def _parent(log: Worklog, number: int | None, kernel: str | None) -> Entry | None:
    """The named version; without a name the last kept one of the ladder that the pattern's kernel is on, or that was
    added to last."""
    import re

    from kscope.worklog.ladder import current

    if number == 0 or (number is None and not log.exists):
        return None
    if number is not None:
        return log.entry(number)
    entries = log.entries()
    wanted = [one for one in entries if kernel and re.search(kernel, one.kernel)]
    return current(entries, wanted[-1] if wanted else None)


def _shown(log: Worklog, entry: Entry, *, no_color: bool) -> str:
    from kscope.cli.shared import _output
    from kscope.reports.terminal import Page
    from kscope.reports.worklog.text import ladder
    from kscope.worklog.ladder import ladders

    page = Page(**_output.look(no_color))
    mine = [r for r in ladders(log.entries()) if any(rung.entry.uid == entry.uid for rung in r)]
    ladder(page, mine, verbose=False)
    return page.text()
