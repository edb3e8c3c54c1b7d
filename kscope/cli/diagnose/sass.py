"""`kscope sass`: the machine code of a binary or a report, read as an expert would."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared import _gate
from kscope.cli.shared._complete import codes, files
from kscope.cli.shared._options import check_regex, format_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kscope.model.contract.analysis import Analysis

FORMATS = ("text", "json", "html", "sarif", "junit", "github")
WIDTH_IN_PIPE = 120


@click.command()
@click.argument("path", shell_complete=files)
@click.argument("other", required=False, shell_complete=files)
@click.option("--arch", metavar="SM", help="Only the code for one target, such as sm_90.")
@click.option("--function", metavar="REGEX", help="Only functions whose name (mangled or C++) matches.")
@click.option("--annotate", is_flag=True,
              help="Beside each instruction what it does and waits for; loops with their bounds; a summary.")
@click.option("--control", is_flag=True, help="Show the scheduling fields, in words where nothing else is annotated.")
@click.option("--source", is_flag=True, help="Show source lines between the instructions (always with --annotate).")
@click.option("--source-root", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Take the text of source lines from the files below DIR.")
@click.option("--top", metavar="N", type=click.IntRange(min=0), default=10, show_default=True,
              help="How many of a report's hottest instructions come first.")
@click.option("--survey", is_flag=True, help="One line a kernel, what is wrong with it first, instead of code.")
@click.option("--tune-registers", "tune", is_flag=True,
              help="PATH is a .cu file: compile it under caps, show registers against warps against spills.")
@click.option("--diff", "differ", is_flag=True, help="Compare PATH with OTHER, registers and addresses renamed.")
@click.option("--fail-on", metavar="RULE|SEVERITY|GAIN", multiple=True, shell_complete=codes,
              help=f"{_gate.FAIL_ON} With --diff: findings that only OTHER has.")
@click.option("--baseline", metavar="FILE", type=click.Path(path_type=Path), help=_gate.BASELINE)
@click.option("--match", "rules", metavar="OLD=NEW", multiple=True, help="With --diff: as in kscope diff.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--width", metavar="COLUMNS", type=click.IntRange(min=60, max=400), help="Width of the text.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def sass(
    path: str, other: str | None, arch: str | None, function: str | None, annotate: bool, control: bool, source: bool,
    source_root: Path | None, top: int, survey: bool, tune: bool, differ: bool, fail_on: tuple[str, ...],
    baseline: Path | None, rules: tuple[str, ...], format_: str | None, output: Path | None, force: bool,
    width: int | None, no_color: bool,
) -> int:  # fmt: skip
    """Show the machine code of a binary: listing, loops, resources, what each instruction waits for.

    PATH is a .cubin, an .o, .a, .so or executable with device code, the text of nvdisasm or cuobjdump -sass, or an
    .ncu-rep: its code is joined with what the profiler counted at each instruction, the hottest first.

    A gate prints one line a violation on standard error: FAIL MEM103 transpose_plain tiles.cu:16 0x0290

    Exit status: 0 shown, 1 --fail-on was met, 2 wrong usage (also a --function that matches nothing), 3 unreadable
    input, or a --fail-on that could not look, 4 missing tool.
    """
    check_regex(function, "--function")
    output = None if str(output) == "-" else output
    format_ = format_ or format_of(output, FORMATS)

    from kscope.cli.shared import _output
    from kscope.model.faults import fenced

    _check_pair(other, differ=differ, rules=rules)
    if output:
        _output.check_target(output, [path, other] if other else [path], force=force)
    to_file = output is not None
    special = _special(path, survey, tune, arch, function, source_root, top, width, no_color=no_color, to_file=to_file)
    if special is not None:
        _put(special, output, force=force)
        return 0
    gate = _gate.Gate(fail_on, baseline)
    failing: Callable[[], int] = int  # nothing that a gate looks at
    lines = annotate or source or source_root is not None
    if other is not None:
        from kscope.cli.diagnose._sass_diff import compared

        text, comparison = compared(
            path, other, arch=arch, function=function, format_=format_, width=width or _width(),
            color=not output and _output.stdout_color(no_color), unicode=bool(output) or _output.stdout_unicode(),
            rules=_gate.rules(rules),
        )  # fmt: skip
        failing = partial(gate.of_new, comparison)
    elif format_ == "html":
        text, analysis = _page(path, arch, function, source_root)
        failing = partial(gate.of, analysis)
    elif not fail_on and not annotate and format_ == "text" and not _is_report(path):
        text = _plain(path, arch, function, control=control, source=lines)
    else:
        analysis = _analysis(path, arch, function, annotate=annotate, source_root=source_root)
        with fenced(path):
            text = _rendered(
                analysis, format_, to_file=to_file, control=control, source=lines, top=top, annotate=annotate,
                width=width, no_color=no_color,
            )  # fmt: skip
        failing = partial(gate.of, analysis)
        if not annotate and format_ == "text" and not analysis.kernels:
            text = _plain(path, arch, function, control=control, source=lines)
    _put(text, output, force=force)
    return failing()


def _put(text: str, output: Path | None, *, force: bool) -> None:
    from kscope.cli.shared import _output

    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


def _special(
    path: str, survey: bool, tune: bool, arch: str | None, function: str | None, source_root: Path | None, top: int,
    width: int | None, *, no_color: bool, to_file: bool,
) -> str | None:  # fmt: skip
    """The text of a view that is no listing, if one was asked for."""
    if not survey and not tune:
        return None
    from kscope.cli.diagnose._sass_modes import special
    from kscope.cli.shared import _output
    from kscope.reports.terminal import Page

    page = Page(
        width=width or (WIDTH_IN_PIPE if to_file else _width()), color=not to_file and _output.stdout_color(no_color),
        unicode=to_file or _output.stdout_unicode(),
    )  # fmt: skip
    return special(
        path, survey=survey, tune=tune, arch=arch, function=function, source_root=source_root, top=top, page=page,
    )


def _check_pair(other: str | None, *, differ: bool, rules: tuple[str, ...]) -> None:
    if differ and other is None:
        raise click.UsageError("--diff compares two files: kscope sass BEFORE AFTER --diff")
    if rules and other is None:
        raise click.UsageError("--match is for --diff: it pairs functions of two files.")


def _is_report(path: str) -> bool:
    """Whether the input is a Nsight Compute report, compressed or not. Raises KscopeError where it cannot be read."""
    from kscope.parsers.files.inputs import HEAD, open_input, sniff

    if path == "-" or Path(path).is_dir():
        return False  # read once only; the readers of binaries see what it is
    with open_input(path) as plain, open(plain, "rb") as file:
        return sniff(file.read(HEAD)) == "ncu"


def _page(path: str, arch: str | None, function: str | None, source_root: Path | None) -> tuple[str, Analysis]:
    from kscope.cli.diagnose._sass_html import page

    return page(path, is_report=_is_report(path), arch=arch, function=function, source_root=source_root)


def _plain(path: str, arch: str | None, function: str | None, *, control: bool, source: bool) -> str:
    from kscope.model.faults import fenced
    from kscope.parsers.cubin.programs import read_programs
    from kscope.reports.text.listing import render

    with fenced(path):
        return render(read_programs(path, arch, function), control=control, source=source)


def _analysis(
    path: str, arch: str | None, function: str | None, *, annotate: bool, source_root: Path | None
) -> Analysis:
    from kscope.engine.code.programs import binary_analysis, report_analysis, sources_below

    lines = sources_below(source_root) if source_root is not None else None
    if _is_report(path):
        found = report_analysis(path, arch=arch, function=function, annotate=annotate, lines=lines)
    else:
        from kscope.parsers.cubin.programs import read_programs

        found = binary_analysis(path, read_programs(path, arch, function), annotate=annotate, lines=lines)
    if source_root is None:
        return found
    from kscope.engine.sources import relocated

    return relocated(found, source_root)


def _rendered(
    analysis: Analysis, format_: str, *, to_file: bool, control: bool, source: bool, top: int, annotate: bool,
    width: int | None, no_color: bool,
) -> str:  # fmt: skip
    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return encode(analysis).decode()
    if format_ != "text":
        from kscope.reports import render as as_format

        return as_format(format_, analysis)
    from kscope.cli.shared import _output
    from kscope.reports.text.machine import MachineOptions, render

    options = MachineOptions(
        width=width or (WIDTH_IN_PIPE if to_file else _width()),
        color=not to_file and _output.stdout_color(no_color),
        unicode=to_file or _output.stdout_unicode(),
        control=control, source=source, top=top, annotate=annotate,
    )  # fmt: skip
    return render(analysis, options)


def _width() -> int:
    """Columns of the terminal, or COLUMNS; a pipe gets 120, which most listings fit."""
    from kscope.cli.shared._output import columns

    return columns(WIDTH_IN_PIPE)
