"""`kscope fix`: the change itself, in full, with its proof; and whether a new version has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared._options import check_regex

if TYPE_CHECKING:
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.fixes import Checked, Proposal
    from kscope.reports.terminal import Page

FORMATS = ("text", "json", "patch")
NOT_THERE = 1


@click.command()
@click.argument("path")
@click.argument("code", required=False)
@click.option("--function", metavar="REGEX", help="Only kernels whose name matches.")
@click.option("--number", metavar="N", type=click.IntRange(min=1), help="Only the Nth change of the list.")
@click.option("--check", "new", metavar="NEW", help="Say whether NEW (a report or a binary) has the changes.")
@click.option("--source-root", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Take the text of source lines from the files below DIR, where the report holds none.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True,
              help="patch: the lines alone, as a diff.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def fix(
    path: str, code: str | None, function: str | None, number: int | None, new: str | None, source_root: Path | None,
    format_: str, output: Path | None, force: bool, no_color: bool,
) -> int:  # fmt: skip
    """Print the change that a finding asks for: code, conditions, proof, worth.

    PATH is an .ncu-rep, or a binary with line information (then --source-root). CODE is a rule's, such as MEM103;
    without it all changes are listed, and the first one is printed. What cannot be proved is not printed as code.

    Exit status: 0 printed (also where there is nothing to change), 1 --check found that NEW has no change of some
    finding, 2 wrong usage, 3 unreadable input, 4 missing tool.
    """
    check_regex(function, "--function")
    output = None if str(output) == "-" else output

    from kscope.cli.shared import _output
    from kscope.engine.code.fixing import check, lacking, merged, proposals, subjects
    from kscope.rules.registry import rule

    if output:
        _output.check_target(output, [path, new] if new else [path], force=force)
    wanted = rule(code).code if code else None
    lines = _lines(source_root)
    before = subjects(path, function, lines)
    if new is not None:
        found = check(before, subjects(new, function, lines), wanted)
        text = _checked(found, format_, no_color=no_color, to_file=output is not None)
        _write(text, output, force=force)
        return NOT_THERE if lacking(found) else 0
    listed = proposals(before, wanted)
    if number is not None or format_ != "json":  # a program finds each finding's own in JSON
        listed = merged(listed)
    if number is not None:
        if number > len(listed):
            raise click.UsageError(f"There are {len(listed)} changes, no number {number}.")
        listed = [listed[number - 1]]
    text = _printed(listed, format_, every=wanted is not None, no_color=no_color, to_file=output is not None)
    _write(text, output, force=force)
    return 0


def _lines(root: Path | None) -> Lines | None:
    if root is None:
        return None
    from kscope.engine.code.programs import sources_below

    return sources_below(root)


def _printed(found: list[Proposal], format_: str, *, every: bool, no_color: bool, to_file: bool) -> str:
    from kscope.reports.text.fix import full, listed, patch

    if format_ == "json":
        return _json(found, [])
    if format_ == "patch":
        chosen = [one.fix for one in found if not one.fix.refused]
        return "".join(f"{line}\n" for fix in chosen[:1] for line in patch(fix))  # two would contradict
    page = _page(no_color=no_color, to_file=to_file)
    if not found:
        page.line("Nothing to change: no finding has a change that was computed.")
    if not every and len(found) > 1:
        listed(page, found)
        page.blank()
        found = sorted(found, key=lambda one: bool(one.fix.refused))[:1]
    for n, one in enumerate(found):
        if n:
            page.blank()
        full(page, one)
    return page.text()


def _checked(found: list[Checked], format_: str, *, no_color: bool, to_file: bool) -> str:
    from kscope.reports.text.fix import checked

    if format_ == "json":
        return _json([], found)
    page = _page(no_color=no_color, to_file=to_file)
    if not found:
        page.line("Nothing was proposed that could be looked for.")
    checked(page, found)
    return page.text()


def _json(proposals: list[Proposal], found: list[Checked]) -> str:
    import msgspec

    from kscope.model.contract.fixes import FixReport
    from kscope.reports.escape import json_line

    report = FixReport(proposals=proposals, checked=found)
    return json_line(msgspec.json.format(msgspec.json.encode(report), indent=1)).decode() + "\n"


def _page(*, no_color: bool, to_file: bool) -> Page:
    from kscope.cli.shared import _output
    from kscope.reports.terminal import Page

    return Page(
        width=_output.stdout_width(), color=not to_file and _output.stdout_color(no_color),
        unicode=to_file or _output.stdout_unicode(),
    )  # fmt: skip


def _write(text: str, output: Path | None, *, force: bool) -> None:
    from kscope.cli.shared import _output

    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)
