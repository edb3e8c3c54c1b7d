"""`kscope trace`: what the warps of a kernel recorded of themselves, as a breakdown by role or for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kscope.cli.shared._options import by_suffix

if TYPE_CHECKING:
    from kscope.model.trace import KernelTrace

FORMATS = ("text", "json", "chrome")
SUFFIXES = {".txt": "text", ".json": "json"}
HEADER = Path(__file__).resolve().parents[2] / "trace" / "kscope_trace.cuh"


@click.command()
@click.argument("path", metavar="FILE", required=False)
@click.option("--format", "format_", type=click.Choice(FORMATS),
              help="Default: by the suffix of -o, else text; chrome: trace events for Perfetto.")
@click.option("--kind", "kinds", metavar="SCOPE=KIND[:UNIT]", multiple=True,
              help="What a scope is, where the recorder does not say: wait, issue, work, epilogue, spin; the unit that "
              "a wait is for or an issue goes to: tensor, memory, role, barrier.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--header", is_flag=True, help="Print the path of kscope_trace.cuh (with -o: copy it) and exit.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def trace(
    path: str | None, format_: str | None, kinds: tuple[str, ...], output: Path | None, force: bool, header: bool,
    no_color: bool,
) -> int:  # fmt: skip
    """Show what each role of a kernel did with its time, from what its warps recorded.

    FILE is a dump of kscope_trace.cuh (`kscope trace --header` says where that is; its comment how to use it) or the
    chrome_trace that Triton Proton writes with data="trace", backend="instrumentation"; also as .gz, .xz, .zst.

    Exit status: 0 shown, 2 wrong usage, 3 unreadable input.
    """
    output = None if str(output) == "-" else output

    from kscope.cli.shared import _output

    if output:
        _output.check_target(output, [path] if path else [], force=force)
    if header:
        text = HEADER.read_text(encoding="utf-8") if output else f"{HEADER}\n"
    elif path is None:
        raise click.UsageError("Missing argument 'FILE'.")
    else:
        kind = format_ or by_suffix(output, SUFFIXES)
        text = _shown(path, kind, kinds, to_file=output is not None, no_color=no_color)
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)
    return 0


def _shown(path: str, format_: str, kinds: tuple[str, ...], *, to_file: bool, no_color: bool) -> str:
    from kscope.model.faults import fenced
    from kscope.parsers.warp_trace import files

    traces = [_with_kinds(one, kinds) for one in files.read(path)]
    with fenced(path):
        return _formatted(traces, path, format_, to_file=to_file, no_color=no_color)


def _formatted(traces: list[KernelTrace], path: str, format_: str, *, to_file: bool, no_color: bool) -> str:
    from kscope.reports import trace as report

    if format_ == "json":
        return report.to_json(traces, path)
    if format_ == "chrome":
        return report.to_chrome(traces)

    from kscope.cli.shared import _output
    from kscope.reports import Options

    return report.to_text(traces, Options(**_output.look(no_color, to_file=to_file)))


def _with_kinds(trace: KernelTrace, kinds: tuple[str, ...]) -> KernelTrace:
    import msgspec

    from kscope.model.quoted import quoted
    from kscope.model.trace import KINDS, UNITS

    scopes = {scope.name: scope for scope in trace.scopes}
    for text in kinds:
        name, _, what = text.rpartition("=")
        kind, _, unit = what.partition(":")
        if name not in scopes:
            known = ", ".join(map(quoted, scopes))
            raise click.BadParameter(f"no scope {name!r}; there are: {known}", param_hint="--kind")
        if kind not in KINDS or unit not in UNITS:
            raise click.BadParameter(f"{what!r} is no KIND[:UNIT]", param_hint="--kind")
        scopes[name] = msgspec.structs.replace(scopes[name], kind=kind, on=unit)
    return msgspec.structs.replace(trace, scopes=tuple(scopes[scope.name] for scope in trace.scopes))
