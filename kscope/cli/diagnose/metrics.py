"""`kscope metrics`: what the profiler itself counted, by name, with its units and descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared._complete import files
from kscope.cli.shared._options import by_suffix, check_regex

if TYPE_CHECKING:
    from kscope.model.raw_metrics import KernelMetrics

FORMATS = ("text", "csv", "json")
SUFFIXES = {".txt": "text", ".csv": "csv", ".json": "json"}


@click.command()
@click.argument("path", metavar="REPORT", shell_complete=files)
@click.argument("regex", metavar="[REGEX]", required=False, default="")
@click.option("--kernel", metavar="REGEX", help="Only kernels whose name matches.")
@click.option("--instructions", "-i", is_flag=True, help="Also the values at single instructions, where there are any.")
@click.option("--csv", "csv_", is_flag=True, help="The same as --format csv.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def metrics(
    path: str, regex: str, kernel: str | None, instructions: bool, csv_: bool, format_: str | None,
    output: Path | None, force: bool, no_color: bool,
) -> int:  # fmt: skip
    """Show the raw metrics of a report: values, units, what they count, per instruction too.

    REPORT is an .ncu-rep or .ncu-repz (also as .gz, .xz, .zst); REGEX chooses names (lts__t_sectors, dram.*sum$),
    without regard to case. A metric that is not shown was not collected: that is not zero.

    Exit status: 0 shown, 2 wrong usage (also a REGEX or --kernel that matches nothing), 3 unreadable input.
    """
    check_regex(regex, "REGEX")
    check_regex(kernel, "--kernel")
    if csv_ and format_ not in (None, "csv"):
        raise click.UsageError(f"--csv and --format {format_} exclude each other.")
    output = None if str(output) == "-" else output
    format_ = format_ or ("csv" if csv_ else by_suffix(output, SUFFIXES))

    from kscope.cli.shared import _output
    from kscope.model.faults import fenced

    if output:
        _output.check_target(output, [path], force=force)
    found = _read(path, regex, kernel, instructions=instructions)
    with fenced(path):
        text = _shown(found, path, format_, to_file=output is not None, no_color=no_color, instructions=instructions)
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)
    return 0


def _read(path: str, regex: str, kernel: str | None, *, instructions: bool) -> list[KernelMetrics]:
    import re

    from kscope.model.errors import EXIT_USAGE, KscopeError
    from kscope.model.faults import fenced
    from kscope.parsers.files.inputs import kind_of, open_input
    from kscope.parsers.ncu.read_metrics import read

    if kind_of(Path(path)) != "ncu":
        message = f"{path}: is no report of Nsight Compute"
        raise KscopeError("unsupported", message, "ncu --set full -o FILE records one")
    with fenced(path), open_input(Path(path)) as real:
        found = list(read(path, str(real), regex, instructions=instructions))
    if kernel is not None:
        found = [one for one in found if re.search(kernel, one.name)]
        if not found:
            what = f"{path}: no kernel matches {kernel!r}"
            raise KscopeError("no-kernels", what, "choose another --kernel", EXIT_USAGE)
    if found and not any(one.metrics for one in found):
        what = f"{path}: none of its {found[0].counted:,} metrics matches {regex!r}"
        hint = "what was not collected is not there: ncu --set full, or --metrics NAME (ncu --query-metrics lists them)"
        raise KscopeError("no-metrics", what, hint, EXIT_USAGE)
    return found


def _shown(
    found: list[KernelMetrics], path: str, format_: str, *, to_file: bool, no_color: bool, instructions: bool
) -> str:
    from kscope.reports import metrics as report

    if format_ == "json":
        return report.to_json(found, path, instructions=instructions)
    if format_ == "csv":
        return report.to_csv(found, instructions=instructions)

    from kscope.cli.shared import _output
    from kscope.reports import Options

    options = Options(**_output.look(no_color, to_file=to_file))
    return report.to_text(found, options, instructions=instructions)
