"""`kscope checklist`: what can be tried on a kernel, from easiest to hardest; nothing is scratched off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kscope.cli.shared._options import by_suffix

if TYPE_CHECKING:
    from kscope.worklog.checklist import Checklist
    from kscope.worklog.entries import Entry
    from kscope.worklog.store import Worklog

FORMATS = ("text", "json", "md")
SUFFIXES = {".json": "json", ".md": "md", ".txt": "text"}


@click.command()
@click.argument("report", metavar="[REPORT]", required=False)
@click.option("--kernel", metavar="REGEX", help="Which kernel of the report, or of the worklog.")
@click.option("--version", "number", metavar="N", type=click.IntRange(min=1),
              help="Of this version; default: the last one kept.")
@click.option("--worklog", metavar="FILE", type=click.Path(path_type=Path),
              help="The worklog; default: KSCOPE_WORKLOG, else .kscope/worklog.db of this repository.")
@click.option("--set-aside", "aside", metavar="ID", multiple=True, help="Set an opportunity aside (repeatable).")
@click.option("--tried", metavar="ID", multiple=True, help="Say that it was tried.")
@click.option("--reopen", metavar="ID", multiple=True, help="Take it up again.")
@click.option("--why", metavar="TEXT", default="", help="The reason, for the options above.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("--export", "export_", type=click.Choice(("md", "json")), help="The same as --format.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("-v", "--verbose", is_flag=True, help="All of every item: the effort's reason too.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def checklist(
    report: str | None, kernel: str | None, number: int | None, worklog: Path | None, aside: tuple[str, ...],
    tried: tuple[str, ...], reopen: tuple[str, ...], why: str, format_: str | None, export_: str | None,
    output: Path | None, force: bool, verbose: bool, no_color: bool,
) -> None:  # fmt: skip
    """Show what can be tried on a kernel, from easiest to hardest, with its state.

    Back (set aside under another limit, and applicable again), applicable now with the expected gain, tried with the
    result, set aside with the reason, not applicable yet. Of the version of the worklog that work goes on from, or of
    REPORT, a version that is not in it yet.

    \b
    kscope checklist
    kscope checklist --set-aside vector-access --why "rows are 12 bytes"
    """
    from kscope.cli.shared import _output
    from kscope.cli.shared._options import check_regex

    check_regex(kernel, "--kernel")
    if format_ and export_ and format_ != export_:
        raise click.UsageError("--export and --format name two formats.")
    if report is not None and (number is not None or aside or tried or reopen):
        raise click.UsageError("A REPORT is not in the worklog: kscope log add REPORT first.")
    output = None if str(output) == "-" else output
    kind = format_ or export_ or by_suffix(output, SUFFIXES)
    if output:
        _output.check_target(output, [report] if report else [], force=force)
    from kscope.cli.worklog.log import opened

    log = opened(worklog)
    if report is None:
        current = _version(log, number, kernel)
        _decide(log, current, aside, tried, reopen, why)
        found = _of_version(log, current, worklog)
    else:
        found = _of_report(log, report, kernel, worklog)
    text = _rendered(found, kind, to_file=output is not None, verbose=verbose, no_color=no_color)
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


def _version(log: Worklog, number: int | None, kernel: str | None) -> Entry:
    import re

    from kscope.model.errors import EXIT_USAGE, KscopeError
    from kscope.worklog.ladder import current

    if number is not None:
        return log.entry(number)
    entries = log.entries()
    wanted = [one for one in entries if re.search(kernel or "", one.kernel)]
    found = current(entries, wanted[-1]) if wanted else None
    if found is None:
        what = f"no version whose kernel matches {kernel!r}" if entries else "no entries"
        raise KscopeError("no-entry", f"{log.path}: {what}", "kscope log add REPORT, or name a REPORT", EXIT_USAGE)
    return found


def _decide(
    log: Worklog, at: Entry, aside: tuple[str, ...], tried: tuple[str, ...], reopen: tuple[str, ...], why: str
) -> None:
    from kscope.worklog.entries import Idea
    from kscope.worklog.opportunities import find
    from kscope.worklog.store import new_uid, now

    said: list[tuple[Literal["set aside", "tried", "reopened"], tuple[str, ...]]] = [
        ("set aside", aside), ("tried", tried), ("reopened", reopen),
    ]  # fmt: skip
    rows = [(what, find(name)) for what, names in said for name in names]
    for what, row in rows:
        log.decide(Idea(uid=new_uid(), at=now(), entry=at.uid, opportunity=row.id, what=what, why=why,
                        regime=at.regime, limiter=at.limiter))  # fmt: skip


def _of_version(log: Worklog, entry: Entry, worklog: Path | None) -> Checklist:
    from kscope.model.contract.analysis import from_json
    from kscope.worklog.checklist import Now
    from kscope.worklog.checklist import checklist as made
    from kscope.worklog.ladder import lineage

    (kernel,) = from_json(log.objects.get(entry.analysis)).kernels
    mine = lineage(log.entries(), entry)
    return made(Now(kernel, entry.marks, entry.number), mine, log.ideas(), _held(worklog))


def _of_report(log: Worklog, report: str, kernel: str | None, worklog: Path | None) -> Checklist:
    """What the worklog knows of the ladder that its kernel, or the last version, is on counts too."""
    from kscope.worklog.adding import read
    from kscope.worklog.checklist import Now
    from kscope.worklog.checklist import checklist as made
    from kscope.worklog.ladder import current, lineage

    entries = log.entries() if log.exists else []
    last = current(entries)
    one = read(report, kernel, last.kernel if last is not None else "")
    mine = lineage(entries, last) if last is not None else []
    return made(Now(one.kernel, one.marks), mine, log.ideas() if log.exists else [], _held(worklog))


def _held(worklog: Path | None) -> dict[str, str]:
    from kscope.cli.worklog._words import every
    from kscope.worklog.calibrate import calibrate, words

    return dict(words(calibrate(every(worklog))))


def _rendered(found: Checklist, kind: str, *, to_file: bool, verbose: bool, no_color: bool) -> str:
    from kscope.cli.shared import _output
    from kscope.reports.terminal import Page
    from kscope.reports.worklog import checklist as report

    if kind == "json":
        from kscope.reports.jsonv1 import encode

        return encode(found).decode()
    if kind == "md":
        return report.markdown(found)
    page = Page(**_output.look(no_color, to_file=to_file))
    report.text(page, found, verbose=verbose)
    return page.text()
