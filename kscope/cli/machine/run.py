"""`kscope run`: record a program with what the rules need, then diagnose it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.diagnose.analyze import FORMATS, _detail
from kscope.cli.shared import _gate
from kscope.cli.shared._options import Finite, check_regex, format_of
from kscope.parsers import scratch

if TYPE_CHECKING:
    from kscope.cli.machine._record import Plan, Recorded
    from kscope.model.contract.analysis import Analysis
    from kscope.model.contract.detail import Detail

TOOLS = ("torch", "nsys", "ncu")


def _recorded(
    tool: str, command: list[str], plan: Plan, trace: Path | None, kept: Path | None, deep: bool
) -> Recorded:
    """A new recording, or the one that is there."""
    from kscope.cli.machine import _record
    from kscope.cli.shared import _output

    if trace is not None:
        return _record.Recorded(trace, 0, "recorded before")
    if deep:
        _record.ncu_here()  # or nobody need wait for the timeline
    found = _record.record(tool, command, plan)
    said = f"recorded to {kept}" if kept else "recorded (--record FILE keeps it)"
    _output.say(f"kscope: {said} with {tool}: {found.what}")
    return found


def _check_deep(deep: bool, trace: Path | None, dry_run: bool, tool: str | None) -> None:
    """Raises click.UsageError."""
    if (trace is not None or dry_run) and not deep:
        raise click.UsageError("--trace and --dry-run are for --deep.")
    if dry_run and trace is None:
        raise click.UsageError("--dry-run needs --trace FILE: what is worth a profile is seen in a recording.")
    if deep and tool == "ncu":
        raise click.UsageError("--deep begins with a timeline: --tool torch or --tool nsys.")


def _check_record(record: Path | None, tool: str, *, force: bool) -> None:
    """Raises click.BadParameter for a recording that the tool does not write."""
    from kscope.cli.machine import _record
    from kscope.cli.shared import _output

    if record is None:
        return
    if not record.name.endswith(_record.SUFFIXES[tool]):
        raise click.BadParameter(f"{tool} writes {' or '.join(_record.SUFFIXES[tool])}", param_hint="--record")
    _output.check_target(record, (), force=force, option="--record")


def _words(options: str) -> tuple[str, ...]:
    """The words of an option's text. Raises click.BadParameter."""
    import shlex

    try:
        return tuple(shlex.split(options))
    except ValueError as e:
        raise click.BadParameter(str(e), param_hint="--options") from None


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--tool", type=click.Choice(TOOLS),
              help="torch: timeline of a Python program; nsys: of any program; ncu: counters of its kernels. "
                   "Default: torch for Python, else nsys where it is installed, else ncu.")
@click.option("--record", metavar="FILE", type=click.Path(path_type=Path),
              help="Keep the recording: .json, .json.gz (torch), .nsys-rep, .ncu-rep.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
              help="Write the diagnosis to FILE; - is standard output, behind the program's. Default: standard error.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("--force", is_flag=True, help="Overwrite FILEs.")
@click.option("--warmup", metavar="N", type=click.IntRange(min=0), default=3, show_default=True,
              help="torch: optimizer steps before the recording.")
@click.option("--steps", metavar="N", type=click.IntRange(min=1), default=5, show_default=True,
              help="torch: optimizer steps to record.")
@click.option("--after", metavar="S", type=Finite(min=0), default=3.0, show_default=True,
              help="torch, no optimizer: record so long after the GPU's first use (and again at 3, 9, ... times it).")
@click.option("--seconds", metavar="S", type=Finite(min=0.01), default=2.0, show_default=True,
              help="torch, no optimizer: length of a recording.")
@click.option("--whole", is_flag=True, help="torch: record from the GPU's first use to the end.")
@click.option("--stop", is_flag=True, help="torch: end the program once the recording is complete.")
@click.option("--kernel", metavar="REGEX", help="ncu: only kernels whose name matches.")
@click.option("--skip", metavar="N", type=click.IntRange(min=0), default=0, show_default=True,
              help="ncu: launches before the first one to profile.")
@click.option("--launches", metavar="N", type=click.IntRange(min=1), default=50, show_default=True,
              help="ncu: launches to profile.")
@click.option("--deep", is_flag=True,
              help="Then profile the few launches that matter with ncu, one run of the program each, and join them.")
@click.option("--trace", metavar="FILE", type=click.Path(path_type=Path),
              help="--deep: take this recording of the program instead of a new one.")
@click.option("--dry-run", is_flag=True, help="--deep --trace: print the commands that would run, and run nothing.")
@click.option("--options", metavar="TEXT", default="", help="More options for nsys or ncu, as one word.")
@click.option("--fail-on", metavar="RULE|SEVERITY|GAIN", multiple=True, help="As in kscope analyze.")
@click.option("--baseline", metavar="FILE", type=click.Path(path_type=Path), help="As in kscope analyze.")
@click.option("-v", "--verbose", is_flag=True, help="As in kscope analyze.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def run(
    command: tuple[str, ...], tool: str | None, record: Path | None, output: Path | None, format_: str | None,
    force: bool, warmup: int, steps: int, after: float, seconds: float, whole: bool, stop: bool, kernel: str | None,
    skip: int, launches: int, deep: bool, trace: Path | None, dry_run: bool, options: str, fail_on: tuple[str, ...],
    baseline: Path | None, verbose: bool, no_color: bool,
) -> int:  # fmt: skip
    """Record a program with what the rules need, then diagnose it.

    The program keeps its standard input, output and error; the diagnosis goes to standard error, or where -o says.

    \b
    kscope run -- python train.py --epochs 1       # steps 4 to 8, by its optimizer
    kscope run --tool ncu --kernel gemm -- ./app   # counters of up to 50 launches
    kscope run --deep -- python train.py           # timeline first, then the kernels that matter

    Exit status: 0 recorded and analysed, 1 --fail-on was met, 2 wrong usage, 3 nothing was recorded or the program
    failed (what it did until then is analysed) or --fail-on could not look, 4 a tool, a GPU or a permission is missing.
    """
    check_regex(kernel, "--kernel")
    _check_deep(deep, trace, dry_run, tool)
    stdout = str(output) == "-"
    output = None if stdout else output
    format_ = format_ or format_of(output, FORMATS)
    if format_ != "text" and output is None and not stdout:
        raise click.UsageError(f"--format {format_} needs -o FILE (or -o -): standard output is the program's.")
    gate = _gate.Gate(fail_on, baseline)

    from kscope.cli.machine import _deep, _record
    from kscope.cli.shared import _output

    if output:
        _output.check_target(output, (), force=force)
    tool = tool or _record.default_tool(list(command))
    _check_record(record, tool, force=force)
    extra = _words(options)

    with scratch.folder() as folder:
        program = Path(next((w for w in command[1:] if w.endswith(".py")), command[0])).stem or "program"
        target = record or Path(folder, program + _record.SUFFIXES[tool][0])
        plan = _record.Plan(
            out=target, force=force, extra=extra, kernel=kernel, launches=launches, skip=skip, warmup=warmup,
            steps=steps, after=after, seconds=seconds, whole=whole, stop=stop,
        )  # fmt: skip
        if dry_run and trace is not None:
            return _deep.show(trace, list(command), plan, record)
        found = _recorded(tool, list(command), plan, trace, record, deep)
        detail = _detail(draws=format_ == "html")
        analysis = _analysed(found, list(command), plan, detail, deep=deep)
    _put(analysis, detail, format_, output, force=force, stdout=stdout, verbose=verbose, no_color=no_color)
    return _left(found) or gate.of(analysis)


def _analysed(found: Recorded, command: list[str], plan: Plan, detail: Detail | None, *, deep: bool) -> Analysis:
    """Of the recording, and with `deep` of the kernels that it names. Raises KscopeError."""
    from kscope.cli.machine import _deep, _record
    from kscope.cli.shared import _output
    from kscope.engine.run import analyze_paths
    from kscope.model.errors import KscopeError

    try:
        analysis = analyze_paths([found.path], detail=None if deep else detail)
        return _deep.deeper(analysis, found.path, command, plan, detail) if deep else analysis
    except KscopeError:
        if found.status:
            _output.say(f"kscope: the program ended with {_record.ending(found.status)}")
        raise


def _put(
    analysis: Analysis, detail: Detail | None, format_: str, output: Path | None, *, force: bool, stdout: bool,
    verbose: bool, no_color: bool,
) -> None:  # fmt: skip
    """Into a file, or beside what the program itself prints."""
    from kscope.cli.shared import _output
    from kscope.reports import Options, render

    if output:
        text = render(format_, analysis, Options(verbose=verbose, detail=detail))
        _output.write_file(output, text, force=force)
        return
    stream = sys.stdout if stdout else sys.stderr
    shown = Options(
        width=_output.stdout_width(stream), color=_output.stdout_color(no_color, stream),
        unicode=_output.stdout_unicode(stream), verbose=verbose, detail=detail, cuts=_output.stdout_cuts(stream),
    )  # fmt: skip
    _output.write_stdout(render(format_, analysis, shown), stream)


def _left(found: Recorded) -> int:
    """Exit status of a program that failed; 0 where it did not."""
    from kscope.cli.machine import _record
    from kscope.cli.shared import _output
    from kscope.model.errors import EXIT_INPUT

    if not found.status:
        return 0
    ended = f"the program ended with {_record.ending(found.status)}: what it did until then is analysed"
    _output.say(f"kscope: {ended}")
    return EXIT_INPUT
