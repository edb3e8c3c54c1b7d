"""`kscope arch`: the sheet of a chip, and what the GPU here attains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared._options import by_suffix

if TYPE_CHECKING:
    from kscope.arch.chips import Chip
    from kscope.arch.sheet import Row
SUFFIXES = {".csv": "csv", ".json": "json", ".txt": "text"}


@click.command()
@click.argument("chip", required=False)
@click.option("--compare", metavar="A B", nargs=2, type=str, help="Two chips side by side.")
@click.option("--csv", "form", flag_value="csv", help="A row a number, for a spreadsheet (of all chips without CHIP).")
@click.option("--json", "form", flag_value="json", help="The same as JSON.")
@click.option("--format", "format_", type=click.Choice(["text", "csv", "json"]), help="As --csv and --json.")
@click.option("--measure", is_flag=True,
              help="Measure what the GPU here attains, and keep it (needs the driver and NVRTC).")
@click.option("--device", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help="GPU to measure.")
@click.option("--python", "interpreter", metavar="PYTHON",
              help="Interpreter with torch, for the peaks of cuBLAS (--measure).")
@click.option("-v", "--verbose", is_flag=True, help="The source of every number.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def arch(
    chip: str | None, compare: tuple[str, str] | None, form: str | None, format_: str | None, measure: bool,
    device: int, interpreter: str | None, verbose: bool, output: Path | None, force: bool, no_color: bool,
) -> None:  # fmt: skip
    """Show a chip: peaks, bandwidths, limits, latencies, instructions, each with its source.

    Without CHIP, all chips that are known, a line each. CHIP may be written as its device calls itself. Numbers that
    `--measure` found on this machine are shown beside the published ones, and used by `kscope napkin`.

    Exit status: 0 shown, 2 wrong usage, 3 a measurement failed, 4 no GPU, driver or NVRTC.
    """
    from kscope.arch.chips import chips, find
    from kscope.cli.shared import _output

    output = None if str(output) == "-" else output
    kind = form or format_ or by_suffix(output, SUFFIXES)
    if sum((measure, bool(compare), chip is not None)) > 1:
        raise click.UsageError("CHIP, --compare and --measure exclude each other.")
    if output:
        _output.check_target(output, [], force=force)
    if measure:
        from kscope.cli.machine._measured import measure_here

        chip = measure_here(device, interpreter)
        if chip is None:
            return
    named = compare or ((chip,) if chip is not None else ())
    chosen = [find(name) for name in named] or list(chips().values())
    text = _text(chosen, kind, several=chip is None, side_by_side=bool(compare), verbose=verbose,
                 to_file=output is not None, no_color=no_color)  # fmt: skip
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


def _rows(chip: Chip) -> list[Row]:
    from kscope.arch.sheet import sheet
    from kscope.arch.user import measured

    mine = measured(chip.key)
    return sheet(chip, mine.rates, f"measured here on {mine.day}") if mine is not None else sheet(chip)


def _text(
    chosen: list[Chip], kind: str, *, several: bool, side_by_side: bool, verbose: bool, to_file: bool, no_color: bool
) -> str:
    from kscope.cli.shared import _output
    from kscope.reports import arch as report
    from kscope.reports.terminal import Page

    if kind != "text":
        every = [(chip, _rows(chip)) for chip in chosen]
        return report.as_csv(every) if kind == "csv" else report.as_json(every)
    page = Page(**_output.look(no_color, to_file=to_file))
    if side_by_side:
        one, other = chosen
        return report.compared(one, other, _rows(one), _rows(other), page)
    if several:
        return report.listing(chosen, page)
    return report.text(chosen[0], _rows(chosen[0]), page, sources=verbose)
