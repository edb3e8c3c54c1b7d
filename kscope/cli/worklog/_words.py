"""`kscope log annotate`, `calibrate` and `merge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.worklog.entries import Entry


@click.command()
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@click.option("-m", "--message", metavar="TEXT", help="The hypothesis in other words.")
@click.option("--note", "notes", metavar="TEXT", multiple=True, help="Something more to remember (repeatable).")
@click.option("--set-aside", "aside", metavar="WHY", help="Do not go on from this version.")
@click.option("--keep", "kept", metavar="WHY", is_flag=False, flag_value="", help="Go on from this version after all.")
@click.pass_obj
def annotate(
    worklog: Path | None, number: int, message: str | None, notes: tuple[str, ...], aside: str | None, kept: str | None
) -> None:
    """Correct words of version N: what it was for, notes, whether it is kept. Numbers stay as measured.

    What was said before stays in the worklog, and the last word counts.
    """
    from kscope.cli.shared import _output
    from kscope.cli.worklog.log import opened

    if message is None and not notes and aside is None and kept is None:
        raise click.UsageError("Nothing to say: -m, --note, --set-aside or --keep.")
    if aside is not None and kept is not None:
        raise click.UsageError("--keep and --set-aside exclude each other.")
    log = opened(worklog)
    entry = log.entry(number)
    said = [("message", message), *(("note", note) for note in notes), ("set aside", aside), ("kept", kept)]
    for kind, text in said:
        if text is not None:
            log.say(entry, kind, text)
    _output.say(f"version {number}: {', '.join(kind for kind, text in said if text is not None)}")


@click.command()
@click.argument("paths", metavar="[WORKLOG...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--remember", is_flag=True, help="List the worklog here (or those named) in the folder of state, so that "
                                               "promises everywhere are judged by it.")  # fmt: skip
@click.option("--forget", is_flag=True, help="Take it off that list.")
@click.option("--format", "format_", type=click.Choice(("text", "json", "csv")),
              help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.pass_obj
def calibrate(
    worklog: Path | None, paths: tuple[Path, ...], remember: bool, forget: bool, format_: str | None,
    output: Path | None, force: bool,
) -> None:  # fmt: skip
    """Show how the promises of each rule held in your versions.

    Over the worklogs that are named (files, or folders with a .kscope in them); else over the one here and those that
    --remember listed. Of its promise: time saved over time promised to be saved, the median of the versions where
    nothing else shares the gain. `kscope checklist` says it beside the next promise.
    """
    from kscope.cli.shared import _output
    from kscope.cli.worklog.log import opened
    from kscope.worklog.place import FOLDER, NAME
    from kscope.worklog.place import remember as listing

    if remember and forget:
        raise click.UsageError("--remember and --forget exclude each other.")
    named = [path / FOLDER / NAME if path.is_dir() else path for path in paths]
    if output:
        _output.check_target(output, [str(one) for one in named], force=force)
    if remember or forget:
        for path in named or [opened(worklog).path]:
            if remember:
                opened(path).entries()  # whether it is one
            listing(path, forget=forget)
            _output.say(f"{'no longer listed' if forget else 'listed'}: {path}")
    if forget:
        return
    entries = _entries(named) if named else every(worklog)
    from kscope.cli.shared._options import by_suffix

    text = _calibrated(entries, format_ or by_suffix(output, {".txt": "text", ".json": "json", ".csv": "csv"}))
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


@click.command()
@click.argument("other", metavar="OTHER", type=click.Path(path_type=Path))
@click.option("--into", metavar="FILE", type=click.Path(path_type=Path),
              help="The worklog that takes; default: the one here. As a merge driver of git: "
                   "kscope log merge %B --into %A.")
@click.pass_obj
def merge(worklog: Path | None, other: Path, into: Path | None) -> None:
    """Take the versions, words and decisions of another worklog, with the reports beside it.

    Versions are known by an identity of their own, so merging twice changes nothing; those that come get the next
    numbers. guides/worklog.md says how git can do it when branches merge.
    """
    from kscope.cli.shared import _output
    from kscope.cli.worklog.log import opened
    from kscope.worklog.merge import merge as merged

    log = opened(into or worklog)
    found = merged(log, opened(other))
    numbers = ", ".join(str(one.number) for one in found.came)
    _output.say(f"{len(found.came)} versions came{f' ({numbers})' if numbers else ''}, {found.known} were known")
    if found.missing:
        where = log.objects.folder
        _output.say(f"kscope: {len(found.missing)} objects are not beside {other}; copy its objects folder to {where}")


def every(worklog: Path | None) -> list[Entry]:
    """Entries of the worklog here, where there is one, and of those listed in the folder of state."""
    from kscope.cli.worklog.log import opened
    from kscope.worklog.place import listed

    here = opened(worklog)
    others = [path for path in listed() if not (here.exists and path.exists() and path.samefile(here.path))]
    return [*(here.entries() if here.exists else []), *_entries(others, gone=True)]


def _entries(paths: Sequence[Path], *, gone: bool = False) -> list[Entry]:
    """gone: one that cannot be read is said and passed over."""
    from kscope.cli.shared import _output
    from kscope.cli.worklog.log import opened
    from kscope.model.errors import KscopeError

    found: list[Entry] = []
    for path in paths:
        try:
            found += opened(path).entries()
        except KscopeError as error:
            if not gone:
                raise
            _output.say(f"kscope: {error}; kscope log calibrate --forget {path}")
    return found


def _calibrated(entries: Sequence[Entry], format_: str) -> str:
    from kscope.worklog.calibrate import SCHEMA, Calibration
    from kscope.worklog.calibrate import calibrate as judged

    rows = judged(entries)
    versions = len({one.uid for one in entries})
    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return encode(Calibration(schema=SCHEMA, versions=versions, rules=rows)).decode()
    from kscope.reports.worklog.calibration import as_csv, text

    return as_csv(rows) if format_ == "csv" else text(rows, versions)
