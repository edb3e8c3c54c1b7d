"""`kscope diff`: what a change did, kernel by kernel, and whether the promise held."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared._options import Finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.engine.comparing.pairing import Rule
    from kscope.model.contract.comparison import Comparison

FORMATS = ("text", "json", "md", "html")


@click.command()
@click.argument("paths", metavar="BEFORE AFTER [LATER]...", nargs=-1)
@click.option("--kernel", metavar="REGEX", help="Only kernels whose name matches.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--match", "rules", metavar="OLD=NEW", multiple=True,
              help="The kernel that OLD names before is the one that NEW names after: regular expressions, NEW may "
                   "quote groups (\\1). Repeatable.")
@click.option("--fail-if-slower", metavar="PCT", type=Finite(min=0),
              help="Exit 1 when a kernel (or a recording's step) takes at least PCT % longer than before; each is one "
                   "line on standard error. Exit 3 where a kernel of BEFORE was not compared: no partner, a guess.")
@click.option("--allow-unmatched", is_flag=True, help="--fail-if-slower lets pass what it could not compare.")
@click.option("-v", "--verbose", is_flag=True, help="All pairs, all figures that moved.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False,
              callback=lambda ctx, _, on: _schema(ctx) if on else None,
              help="Print the JSON schema of --format json and exit.")
def diff(
    paths: tuple[str, ...], kernel: str | None, format_: str | None, output: Path | None, force: bool,
    rules: tuple[str, ...], fail_if_slower: float | None, allow_unmatched: bool, verbose: bool, no_color: bool,
) -> int:  # fmt: skip
    """Compare versions: what a change did, kernel by kernel, and whether the promise held.

    Time, regime, findings fixed and new, what was promised against what happened. BEFORE and AFTER are anything that
    `kscope analyze` reads: Nsight Compute reports, recordings, folders of them. Two binaries (.cubin, .o, .so, SASS
    listings) give a diff of their machine code, registers and addresses renamed. More than two, oldest first, give a
    table by kernel, each version against the first and the one before; --fail-if-slower then judges the last against
    both.

    Kernels are paired by --match, by name and signature, by the likeness of their code, and at last by their place,
    which is a guess and called one. A gate prints one line a violation on standard error:
    FAIL SLOWER transpose_plain 143.6 us -> 327.7 us, 128.2 % more

    Exit status: 0 compared, 1 --fail-if-slower was met, 2 wrong usage (also a --match that pairs nothing), 3 unreadable
    input, or a --fail-if-slower that could not look, 4 missing tool.
    """
    from kscope.cli.shared import _gate, _output
    from kscope.cli.shared._options import check_regex, format_of

    check_regex(kernel, "--kernel")
    by_hand = _gate.rules(rules)
    if allow_unmatched and fail_if_slower is None:
        raise click.UsageError("--allow-unmatched is for --fail-if-slower.")
    if len(paths) < 2:
        raise click.UsageError("Missing argument 'AFTER'." if paths else "Missing argument 'BEFORE'.")
    output = None if str(output) == "-" else output
    format_ = format_ or format_of(output, FORMATS)
    if output:
        _output.check_target(output, list(paths), force=force)
    if len(paths) > 2:
        return _several(
            paths, kernel, format_, output, by_hand, fail_if_slower, force=force, verbose=verbose, no_color=no_color,
            allow_unmatched=allow_unmatched,
        )  # fmt: skip
    before, after = paths

    from kscope.cli.diagnose._sass_diff import is_code
    from kscope.model.faults import fenced

    if is_code(before) and is_code(after):
        _machine_code(
            before, after, kernel, format_, output, by_hand, force=force, verbose=verbose, no_color=no_color
        )
        untimed = [] if allow_unmatched else ["machine code has no times"]
        return 0 if fail_if_slower is None else _gate.conclude([], untimed, "compare reports of Nsight Compute")

    comparison = _compared(before, after, kernel, by_hand)

    with fenced(f"{before}, {after}"):
        text = _rendered(comparison, format_, to_file=output is not None, verbose=verbose, no_color=no_color)
    _written(text, output, force=force)
    return 0 if fail_if_slower is None else _judged([comparison], fail_if_slower, allow_unmatched=allow_unmatched)


def _several(
    paths: Sequence[str], kernel: str | None, format_: str | None, output: Path | None, rules: Sequence[Rule],
    fail_if_slower: float | None, *, force: bool, verbose: bool, no_color: bool, allow_unmatched: bool,
) -> int:  # fmt: skip
    """More than two versions; the last is judged against the one before and against the first."""
    from kscope.cli.diagnose import _versions

    found, last, whole = _versions.compared(paths, kernel, rules)
    text = _versions.rendered(found, format_, to_file=output is not None, verbose=verbose, no_color=no_color)
    _written(text, output, force=force)
    if fail_if_slower is None:
        return 0
    return _judged([last, whole], fail_if_slower, allow_unmatched=allow_unmatched)


def _written(text: str, output: Path | None, *, force: bool) -> None:
    from kscope.cli.shared import _output

    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


def _compared(before: str, after: str, kernel: str | None, rules: Sequence[Rule]) -> Comparison:
    from kscope.cli.shared import _cache
    from kscope.engine.comparing.compare import compare
    from kscope.engine.run import analyze_paths
    from kscope.features.views.footprint import Footprints, quoted
    from kscope.model.faults import fenced

    old = Footprints()
    first = analyze_paths([before], kernel=kernel, footprints=old)
    new = Footprints(wanted=quoted([f for k in first.kernels for f in k.findings]))
    second = analyze_paths([after], kernel=kernel, footprints=new)
    _cache.warn(first, second)
    with fenced(f"{before}, {after}"):
        return compare(first, second, rules, (old, new))


def _rendered(comparison: Comparison, format_: str, *, to_file: bool, verbose: bool, no_color: bool) -> str:
    from kscope.cli.shared import _output
    from kscope.reports import Options
    from kscope.reports.markdown.diff import render as render_md
    from kscope.reports.text.diff import render as render_text

    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return encode(comparison).decode()
    if format_ == "html":
        from kscope.reports.html.page import render_diff

        return render_diff(comparison)
    if format_ == "md":
        return render_md(comparison, Options(verbose=verbose))
    look = _output.look(no_color, to_file=to_file, in_file=_output.PIPE)
    return render_text(comparison, Options(**look, verbose=verbose))


def _judged(comparisons: Sequence[Comparison], percent: float, *, allow_unmatched: bool) -> int:
    """The status of --fail-if-slower. Raises KscopeError (status 3) where it could not look."""
    from kscope.cli.shared import _gate, _output
    from kscope.engine.comparing.compare import devices_differ
    from kscope.engine.comparing.gate import not_compared, slower
    from kscope.reports.gate import blind

    reasons = list(dict.fromkeys(reason for one in comparisons for reason in not_compared(one)))
    for note in dict.fromkeys(filter(None, map(devices_differ, comparisons))):
        _output.say(f"kscope: {note}: times of two GPUs are compared")
    if reasons and allow_unmatched:
        _output.say(f"kscope: {blind(reasons)}; let pass (--allow-unmatched)")
        reasons = []
    hint = "--match OLD=NEW pairs kernels, --allow-unmatched lets them pass"
    broken = dict.fromkeys(violation for one in comparisons for violation in slower(one, percent / 100))
    return _gate.conclude(list(broken), reasons, hint)


def _machine_code(
    before: str, after: str, kernel: str | None, format_: str, output: Path | None, rules: Sequence[Rule], *,
    force: bool, verbose: bool, no_color: bool,
) -> None:  # fmt: skip
    """Two binaries: nothing was measured, so the difference is the code's."""
    from kscope.cli.diagnose._sass_diff import compared
    from kscope.cli.shared import _output

    if format_ == "md":
        raise click.UsageError("A difference of machine code has no Markdown: --format text, json or html.")
    text, _ = compared(
        before, after, function=kernel, format_=format_, verbose=verbose, rules=rules,
        **_output.look(no_color, to_file=output is not None, in_file=_output.PIPE),
    )  # fmt: skip
    _written(text, output, force=force)


def _schema(ctx: click.Context) -> None:
    import json

    from kscope.cli.shared._output import write_stdout
    from kscope.model.contract.comparison import comparison_schema

    write_stdout(json.dumps(comparison_schema(), indent=1) + "\n")
    ctx.exit()
