"""`kscope analyze`: reports in, one diagnosis out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared import _gate
from kscope.cli.shared._complete import codes, files
from kscope.cli.shared._options import check_regex, format_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.fixes.given.source import Lines
    from kscope.model.contract.analysis import Analysis, SkippedInput
    from kscope.model.contract.detail import Detail
    from kscope.napkin.problem import Problem

FORMATS = ("text", "json", "md", "llm", "html", "sarif", "junit", "github")


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, shell_complete=files)
@click.option("--kernel", metavar="REGEX", help="Only kernels whose name matches.")
@click.option("--select", metavar="CODE", multiple=True, shell_complete=codes,
              help="Only these rules: code, slug or prefix (MEM), commas.")
@click.option("--ignore", metavar="CODE", multiple=True, shell_complete=codes, help="Not these rules.")
@click.option("--top", metavar="N", type=click.IntRange(min=1), help="Only the N kernels that take the most time.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--plot", metavar="FILE", type=click.Path(path_type=Path),
              help="Draw roofline and warp states into FILE (.png, .svg, .pdf) too; needs matplotlib.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--fail-on", metavar="RULE|SEVERITY|GAIN", multiple=True, shell_complete=codes, help=_gate.FAIL_ON)
@click.option("--baseline", metavar="FILE", type=click.Path(path_type=Path), help=_gate.BASELINE)
@click.option("--budget", metavar="TOKENS", type=click.IntRange(min=100), default=2000, show_default=True,
              help="Size of the llm format in tokens.")
@click.option("--source-root", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Name places relative to DIR where their files are below it, and take sources from there where the "
                   "report holds none: for lines, and for changes to them.")
@click.option("--problem", metavar="PROBLEM",
              help="What the kernel was to solve, as in `kscope napkin`, such as \"gemm 4096 4096 4096 bf16\": compares"
                   " bytes and FLOP done with those needed.")
@click.option("--time", metavar="TIME", help="Of machine code, without a report: what a run of it took, as 41us.")
@click.option("--grid", metavar="N[xN[xN]]", help="With --time: blocks of that run.")
@click.option("--block", metavar="N[xN[xN]]", help="With --time: threads of a block.")
@click.option("--dynamic-shared", metavar="BYTES", type=click.IntRange(min=0, max=1 << 20), default=0,
              help="With --time: dynamic shared memory of a block.")
@click.option("--chip", metavar="CHIP", help="With --time: where it ran, of `kscope arch`.")
@click.option("--jobs", metavar="N", type=click.IntRange(1, 256), help="Processes; default: one for each core.")
@click.option("-v", "--verbose", is_flag=True, help="All kernels, all evidence, what passed, what was not applicable.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.option("--schema", is_flag=True, help="Print the JSON schema of --format json and exit.")
def analyze(
    paths: tuple[str, ...], kernel: str | None, select: tuple[str, ...], ignore: tuple[str, ...], top: int | None,
    format_: str | None, output: Path | None, plot: Path | None, force: bool, fail_on: tuple[str, ...],
    baseline: Path | None, budget: int, source_root: Path | None, problem: str | None, time: str | None,
    grid: str | None, block: str | None, dynamic_shared: int, chip: str | None, jobs: int | None, verbose: bool,
    no_color: bool, schema: bool,
) -> int:  # fmt: skip
    """Diagnose profiler reports: what is slow, which instruction, what to change.

    PATH is an .ncu-rep or .ncu-repz, an Nsight Systems .sqlite (a .nsys-rep where nsys is installed), a torch profiler
    trace .json (all also as .gz, .xz, .zst), or a folder of them. Where counters are not permitted: machine code and
    what a run of it took (--time, --grid, --block), for what can be proved of that.

    A gate prints one line a violation on standard error: FAIL MEM103 transpose_plain tiles.cu:16 0x0290

    Exit status: 0 analysed, 1 --fail-on was met, 2 wrong usage (also a --kernel that matches nothing), 3 unreadable
    input, or a --fail-on that could not look, 4 missing tool."""
    if schema:
        return _print_schema()
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    check_regex(kernel, "--kernel")
    output = None if str(output) == "-" else output
    format_ = format_ or format_of(output, FORMATS)

    from kscope.cli.diagnose import _bounded
    from kscope.cli.shared import _cache, _output

    given = click.get_current_context().params
    _bounded.check(given, format_)
    if output:
        _output.check_target(output, paths, force=force)
    if plot:
        _check_plot(plot, paths, force=force)
    gate = _gate.Gate(fail_on, baseline)
    selected, ignored = _codes(select), _codes(ignore)
    asked = _problem(problem)
    if time is not None:
        return _bounded.answer(given, format_, output, asked)

    from kscope.cli.shared._progress import progress_bar
    from kscope.engine.run import analyze_paths
    from kscope.parsers.files.forked import cores

    detail = _detail(draws=format_ in ("html", "llm") or plot is not None)
    with progress_bar() or nullcontext() as report:
        analysis = analyze_paths(
            paths, select=selected, ignore=ignored, kernel=kernel, top=top, progress=report, detail=detail,
            problem=asked, lines=_below(source_root), jobs=jobs or cores(),
        )  # fmt: skip
    _cache.warn(analysis)
    if source_root is not None:
        analysis = _relocated(analysis, source_root, detail)
    if plot:
        _draw(analysis, detail, plot, paths)
    analysis = _put(
        analysis, detail, format_, output, force=force, verbose=verbose, budget=budget, no_color=no_color,
    )  # fmt: skip
    return gate.of(analysis)


def _below(source_root: Path | None) -> Lines | None:
    """Text of the sources below a folder, for changes to them."""
    if source_root is None:
        return None
    from kscope.engine.sources import Checkout

    return Checkout(source_root).lines


def _relocated(analysis: Analysis, source_root: Path, detail: Detail | None) -> Analysis:
    from kscope.engine.sources import relocated

    return relocated(analysis, source_root, detail)


def _draw(analysis: Analysis, detail: Detail | None, plot: Path, paths: Sequence[str]) -> None:
    from kscope.cli.shared import _output
    from kscope.model.faults import fenced
    from kscope.reports.plot import draw

    with fenced(", ".join(paths)):
        draw(analysis, detail, plot)
    _output.say(f"Wrote {plot}")


def _put(
    analysis: Analysis, detail: Detail | None, format_: str, output: Path | None, *, force: bool, verbose: bool,
    budget: int, no_color: bool,
) -> Analysis:  # fmt: skip
    """Write the report into a file or to standard output; returns what of the analysis it shows."""
    from kscope.cli.shared import _output
    from kscope.reports import Options
    from kscope.reports.fence import render_sound

    if output:
        options = Options(verbose=verbose, budget=budget, detail=detail, cuts=False)
        text, analysis = render_sound(format_, analysis, options)
        for skip in analysis.skipped:  # in the report as well, which may not be read before it is passed on
            _output.say(f"kscope: skipped {left_out(skip)}")
        _output.write_file(output, text, force=force)
    else:
        options = Options(
            **_output.look(no_color), verbose=verbose, budget=budget, detail=detail, cuts=_output.stdout_cuts(),
        )  # fmt: skip
        text, analysis = render_sound(format_, analysis, options)
        _output.write_stdout(text)
    return analysis


def _problem(words: str | None) -> Problem | None:
    """Raises KscopeError (status 2) for what is no problem."""
    if words is None:
        return None
    from kscope.napkin.asked import build

    return build(words)


def left_out(skip: SkippedInput) -> str:
    """What was skipped, and why, as the rest of a line on standard error."""
    from kscope.model.errors import one_line

    name, message = one_line(skip.input), one_line(skip.message)
    part = "" if skip.what == "report" else f"{one_line(skip.what)}: "
    return f"{name}: {part}{message.removeprefix(f'{name}: ')}"


def _check_plot(plot: Path, paths: Sequence[str], *, force: bool) -> None:
    """Whatever is wrong with the picture is said before the work is done. Raises KscopeError."""
    from kscope.cli.shared import _output
    from kscope.reports.plot import check

    check(plot)
    _output.check_target(plot, paths, force=force, option="--plot")


def _detail(*, draws: bool) -> Detail | None:
    """What charts show is computed only where something is drawn."""
    if not draws:
        return None
    from kscope.model.contract.detail import Detail

    return Detail()


def _print_schema() -> int:
    import json

    from kscope.cli.shared._output import write_stdout
    from kscope.model.contract.analysis import json_schema

    write_stdout(json.dumps(json_schema(), indent=1) + "\n")
    return 0


def _codes(names: tuple[str, ...]) -> list[str]:
    """Codes of a repeatable, comma-separated option; `MEM` is the whole family. Raises KscopeError for an unknown."""
    words = [part.strip() for value in names for part in value.split(",") if part.strip()]
    if not words:
        return []
    from kscope.rules.registry import matching

    return sorted(frozenset().union(*(matching(word) for word in words)))
