"""`kscope bench`: is it right, is it faster, does it cheat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kscope.cli.shared._options import Finite, by_suffix
from kscope.model.errors import EXIT_OK, EXIT_THRESHOLD, KscopeError

if TYPE_CHECKING:
    from kscope.bench.session.state import Options
    from kscope.bench.task.spec import Task
    from kscope.bench.values.result import Result

FORMATS = ("text", "json", "md", "html", "junit")
SUFFIXES = {".json": "json", ".md": "md", ".html": "html", ".xml": "junit", ".txt": "text"}
JOURNALS = Path(".kscope", "bench")


@click.command()
@click.argument("candidate", metavar="CANDIDATE|TASK.toml")
@click.option(
    "--reference", metavar="REF", help="What is right: module:function, file.py:function, a library's source."
)
@click.option("--baseline", metavar="CODE", help="What it is timed against; default: the reference.")
@click.option("--inputs", metavar="TEXT", help="'x[m,n] w[n]:int32 n alpha=0.5': arrays, dimensions, numbers.")
@click.option("--outputs", metavar="TEXT", help="Of a library or a Triton kernel, which writes them: 'y[m]'.")
@click.option("--shapes", metavar="M=1,N=2", multiple=True, help="Dimensions to check and time (repeatable).")
@click.option("--dtype", "dtypes", metavar="TYPES", help="float32,bfloat16 ...: of inputs without one of their own.")
@click.option(
    "--launch", metavar="TEXT", help="'rows<<<m, 256>>>(x, y, n)', 'rows(x, y, n, stream)', 'k[(m,)](x, y, n)'."
)
@click.option("-D", "--define", "defines", metavar="KEY=VALUE", multiple=True, help="A macro, or a keyword argument.")
@click.option(
    "--sweep",
    "swept",
    metavar="KEY=V1,V2",
    multiple=True,
    help="Values of a dimension, of dtype, of a macro or keyword (repeatable); goes on where it was stopped.",
)
@click.option(
    "--journal", metavar="FILE", type=click.Path(path_type=Path), help="Of a sweep; default: in .kscope/bench."
)
@click.option(
    "--own", is_flag=True, help="An own kernel is asked for: libraries' operators are not the candidate's work."
)
@click.option("--only-shapes", is_flag=True, help="Check no shapes and layouts beside those given.")
@click.option("--no-time", is_flag=True, help="Check alone.")
@click.option("--graph", is_flag=True, help="Time a CUDA graph of the calls: for kernels shorter than their launch.")
@click.option("--prove", is_flag=True, help="Count bytes and instructions of single calls by Nsight Compute, too.")
@click.option(
    "--seconds",
    metavar="S",
    type=Finite(0.1, 600),
    default=4.0,
    show_default=True,
    help="To look at the clock, for each shape and cache.",
)
@click.option("--framework", type=click.Choice(("numpy", "torch")), help="Default: what the candidate's file imports.")
@click.option("--device", type=click.Choice(("cpu", "cuda")), help="Default: the GPU where there is one.")
@click.option(
    "--fail-if-slower", metavar="PCT", type=Finite(0), help="Exit 1 where it is slower by more, or wrong."
)
@click.option(
    "--against", metavar="FILE", type=click.Path(path_type=Path), help="With --fail-if-slower: an earlier JSON."
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-worklog", is_flag=True, help="Add no note to the worklog.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def bench(**given: Any) -> int:
    """Check a kernel against a reference, look for cheats, time it beside a baseline.

    \b
    kscope bench fast.py:rms --reference ref.py:rms --inputs 'x[m,n] w[n]' --shapes m=4096,n=1024
    kscope bench rms.cu --reference ref.py:rms --inputs 'x[m,n] w[n]' --outputs 'y[m,n]' \\
        --launch 'rms<<<m, 256>>>(x, w, y, n)' --shapes m=4096,n=1024 --sweep BLOCK=128,256
    kscope bench task.toml

    The candidate runs in a process of its own; inputs, the reference and the clock are elsewhere. docs/bench.md says
    what that keeps out and what it does not. `kscope init` writes a task to start from.

    Exit status: 0 whatever was found, 1 a --fail-if-slower threshold was met, 2 wrong usage, 3 a task, reference or
    source that cannot be used, 4 no compiler.
    """
    from kscope.cli.shared import _output

    output: Path | None = None if str(given["output"]) == "-" else given["output"]
    format_ = given["format_"] or by_suffix(output, SUFFIXES)
    if output:
        _output.check_target(output, [given["candidate"]], force=given["force"])
    if given["against"] and given["fail_if_slower"] is None:
        raise click.UsageError("--against is for --fail-if-slower: say by how much.")
    before = None
    if given["against"]:
        from kscope.bench.session.kept import read

        before = read(given["against"])
    result = _run(given)
    text = _rendered(result, format_, output, given["no_color"])
    if output:
        _output.write_file(output, text, force=given["force"])
    else:
        _output.write_stdout(text)
    if not given["no_worklog"]:
        _noted(result)
    return _gate(result, before, given["fail_if_slower"])


def _run(given: dict[str, Any]) -> Result:
    from msgspec.structs import replace

    from kscope.bench.player import pages
    from kscope.bench.session.run import bench as run
    from kscope.bench.session.state import Options

    pages.kept()
    task, progress = _task(given), _Progress()
    options = Options(time=not given["no_time"], seconds=given["seconds"], graph=given["graph"],
                      prove=given["prove"], say=progress.say)  # fmt: skip
    try:
        if not given["swept"]:
            return run(task, options)
        variants, best = _swept(task, given, options, progress)
    finally:
        progress.clear()
    from kscope.bench.session.summary import of_variants

    told = of_variants(task, variants)
    return told if best is None else replace(best, variants=variants, verdict=told.verdict, sentence=told.sentence)


def _swept(task: Task, given: dict[str, Any], options: Options, progress: _Progress) -> Any:
    import hashlib

    from msgspec.structs import replace

    from kscope.bench.session.sweep import parse, sweep

    swept = [parse(one) for one in given["swept"]]
    name = hashlib.sha256(f"{task.candidate.text} {task.reference.text}".encode()).hexdigest()[:12]
    journal = given["journal"] or JOURNALS / f"{name}.jsonl"
    return sweep(task, swept, replace(options, caches=("cold",), say=None), journal, progress.say)


def _task(given: dict[str, Any]) -> Task:
    """Of a task file, or of the options; options count before the file."""
    from msgspec.structs import replace

    from kscope.bench.session.machine import placed
    from kscope.bench.task import file
    from kscope.bench.task.spec import Task, params, sizes, source
    from kscope.bench.values.numbers import dtype

    here = Path.cwd()
    if given["candidate"].endswith(".toml"):
        task = file.read(Path(given["candidate"]))
    else:
        if not given["reference"]:
            raise click.UsageError("Missing option '--reference': what is right?")
        task = Task(source(given["candidate"], here), source(given["reference"], here), modules=not given["inputs"])
        if not given["inputs"] and task.reference.language == "native":
            raise click.UsageError("Missing option '--inputs', such as 'x[m,n] w[n]'.")
    more: dict[str, Any] = {}
    if given["baseline"]:
        more["baseline"] = source(given["baseline"], here)
    for name, read in (("inputs", params), ("outputs", params)):
        if given[name]:
            more[name] = read(given[name])
    if given["shapes"]:
        more["cases"] = tuple(sizes(one) for one in given["shapes"])
    if given["dtypes"]:
        more["dtypes"] = tuple(dtype(one.strip()).name for one in given["dtypes"].split(","))
    if given["launch"]:
        more["launch"] = given["launch"]
    if given["defines"]:
        more["keywords"] = {**task.keywords, **dict(_pair(one) for one in given["defines"])}
    if given["own"]:
        more["own"] = True
    if given["only_shapes"]:
        more |= {"derived": False, "layouts": False}
    return placed(replace(task, **more), given["framework"] or "", given["device"] or "")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise click.BadParameter(f"{text!r}: write KEY=VALUE", param_hint="-D")
    return key, value


class _Progress:
    """One line on a terminal."""

    def __init__(self) -> None:
        import sys

        self.shown = sys.stderr.isatty()

    def say(self, text: str) -> None:
        if self.shown:
            from kscope.cli.shared._output import redraw

            redraw(text)

    def clear(self) -> None:
        self.say("")


def _rendered(result: Result, format_: str, output: Path | None, no_color: bool) -> str:
    from kscope.cli.shared import _output

    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return encode(result).decode()
    if format_ != "text":
        from kscope.reports.bench import pages

        return {"md": pages.markdown, "html": pages.html, "junit": pages.junit}[format_](result)
    from kscope.reports.bench.text import text

    return text(result, **_output.look(no_color, to_file=output is not None))


def _noted(result: Result) -> None:
    from kscope.bench.session.kept import note
    from kscope.cli.shared._output import say
    from kscope.worklog.place import default
    from kscope.worklog.store import Worklog

    number = note(Worklog(default()), result)
    if number is not None:
        say(f"Noted at version {number} of the worklog")


def _gate(result: Result, before: Result | None, percent: float | None) -> int:
    if percent is None:
        return EXIT_OK
    from kscope.bench.session.kept import slower
    from kscope.cli.shared._output import say

    broken, blind = slower(result, before, percent)
    for one in broken:
        say(one)
    if blind and not broken:
        raise KscopeError(
            "gate-blind", f"the gate could not look: {blind[0]}", "time it against a --baseline or --against"
        )
    return EXIT_THRESHOLD if broken else EXIT_OK
