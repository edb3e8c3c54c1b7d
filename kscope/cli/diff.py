"""`kscope diff`: what a change did, kernel by kernel, and whether the promise held."""

from __future__ import annotations

from pathlib import Path

import click

FORMATS = ("text", "json", "md", "html")


@click.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--kernel", metavar="REGEX", help="Only kernels whose name matches.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--fail-if-slower", metavar="PCT", type=click.FloatRange(min=0),
              help="Exit 1 when a kernel (or a recording's step) takes at least PCT % longer than before.")
@click.option("-v", "--verbose", is_flag=True, help="All pairs, all figures that moved.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False,
              callback=lambda ctx, _, on: _schema(ctx) if on else None,
              help="Print the JSON schema of --format json and exit.")
def diff(
    before: str, after: str, kernel: str | None, format_: str | None, output: Path | None, force: bool,
    fail_if_slower: float | None, verbose: bool, no_color: bool,
) -> int:  # fmt: skip
    """Compare two versions: what a change did, kernel by kernel, and whether the promise held.

    Time, regime, findings fixed and new, what was promised against what happened. BEFORE and AFTER are anything that
    `kscope analyze` reads: Nsight Compute reports, recordings, folders of them. Two binaries (.cubin, .o, .so, SASS
    listings) give a diff of their machine code, registers and addresses renamed.

    Exit status: 0 compared, 1 --fail-if-slower was met, 2 wrong usage, 3 unreadable input, 4 missing tool.
    """
    from kscope.cli import _output
    from kscope.cli.analyze import _check_regex, _format_of

    _check_regex(kernel)
    output = None if str(output) == "-" else output
    format_ = format_ or _format_of(output)
    if output:
        _output.check_target(output, [before, after], force=force)

    from kscope.cli._sass_diff import is_code

    if is_code(before) and is_code(after):
        return _machine_code(before, after, kernel, format_, output, force=force, verbose=verbose, no_color=no_color)

    from kscope.engine.compare import compare, slowest
    from kscope.engine.run import analyze_paths
    from kscope.model.faults import fenced

    sides = [analyze_paths([side], kernel=kernel) for side in (before, after)]
    with fenced(f"{before}, {after}"):
        comparison = compare(*sides)

    from kscope.reports import Options
    from kscope.reports.diff import render_md, render_text

    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        text = encode(comparison).decode()
    elif format_ == "html":
        from kscope.reports.html import render_diff

        text = render_diff(comparison)
    elif format_ == "md":
        text = render_md(comparison, Options(verbose=verbose))
    elif output:
        text = render_text(comparison, Options(width=_output.PIPE, verbose=verbose))
    else:
        options = Options(
            width=_output.stdout_width(), color=_output.stdout_color(no_color), unicode=_output.stdout_unicode(),
            verbose=verbose,
        )  # fmt: skip
        text = render_text(comparison, options)
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)
    slower = 1 / slowest(comparison) - 1
    return int(fail_if_slower is not None and slower > 0 and slower >= fail_if_slower / 100)


def _machine_code(
    before: str, after: str, kernel: str | None, format_: str, output: Path | None, *, force: bool, verbose: bool,
    no_color: bool,
) -> int:  # fmt: skip
    """Two binaries: nothing was measured, so the difference is the code's."""
    from kscope.cli import _output
    from kscope.cli._sass_diff import compared

    if format_ == "md":
        raise click.UsageError("A difference of machine code has no Markdown: --format text, json or html.")
    text, _ = compared(
        before, after, function=kernel, format_=format_, verbose=verbose,
        width=_output.PIPE if output else _output.stdout_width(),
        color=not output and _output.stdout_color(no_color), unicode=bool(output) or _output.stdout_unicode(),
    )  # fmt: skip
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)
    return 0


def _schema(ctx: click.Context) -> None:
    import json

    from kscope.cli._output import write_stdout
    from kscope.model.comparison import comparison_schema

    write_stdout(json.dumps(comparison_schema(), indent=1) + "\n")
    ctx.exit()
