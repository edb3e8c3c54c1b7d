"""`kscope analyze kernel.cubin --time 41us --grid 4096 --block 256`: machine code that no profiler looked at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from kscope.model.errors import EXIT_USAGE, KscopeError

if TYPE_CHECKING:
    from pathlib import Path

    from kscope.engine.code.bounded import Ran
    from kscope.model.contract.analysis import Analysis
    from kscope.model.program import Cubin, Program
    from kscope.napkin.problem import Problem

FORMATS = ("text", "json", "llm")
LARGEST = 2**31 - 1  # of a grid in x (CUDA C++ Programming Guide, technical specifications)
Three = tuple[int, int, int]


def check(given: dict[str, Any], format_: str) -> None:
    """Whether the options of the command (its parameters by name) go together."""

    def used(*options: str) -> list[str]:
        return [one for one in options if given[one.removeprefix("--").replace("-", "_")]]

    if given["time"] is None:
        if alone := used("--grid", "--block", "--dynamic-shared", "--chip"):
            raise click.UsageError(f"{alone[0]} describes a run that was timed: give --time too.")
        return
    if len(there := used("--grid", "--block")) < 2:
        missing = [one for one in ("--grid", "--block") if one not in there]
        raise click.UsageError(f"--time needs the launch: give {' and '.join(missing)}.")
    if other := used("--plot", "--fail-on", "--baseline", "--select", "--ignore"):
        raise click.UsageError(f"{other[0]} is for reports: --time bounds machine code alone.")
    if len(given["paths"]) != 1:
        raise click.UsageError("--time is of one kernel: name one file of machine code.")
    if format_ not in FORMATS:
        raise click.UsageError(f"--time has the formats {', '.join(FORMATS)}.")


def answer(given: dict[str, Any], format_: str, output: Path | None, problem: Problem | None) -> int:
    """Print or write the bounds; the exit status. given: parameters of the command. Raises KscopeError."""
    from kscope.cli.shared import _output
    from kscope.reports import Options, bounded, render

    found = analysis(given["paths"][0], given["kernel"], given["time"], given["grid"], given["block"],
                     given["dynamic_shared"], given["chip"], problem, annotate=format_ == "llm")  # fmt: skip
    if format_ == "llm":
        from kscope.reports.llm import bounded as pack

        text = pack.render(found, Options(budget=given["budget"]))
        return _written(text, output, given)
    look = _output.look(given["no_color"], to_file=output is not None, in_file=_output.PIPE)
    options = Options(**look, verbose=given["verbose"])
    text = render("json", found) if format_ == "json" else bounded.render(found, options)
    return _written(text, output, given)


def _written(text: str, output: Path | None, given: dict[str, Any]) -> int:
    from kscope.cli.shared import _output

    if output:
        _output.write_file(output, text, force=given["force"])
    else:
        _output.write_stdout(text)
    return 0


def analysis(
    path: str, kernel: str | None, time: str, grid: str, block: str, shared: int, chip: str | None,
    problem: Problem | None, *, annotate: bool = False,
) -> Analysis:  # fmt: skip
    """One function of the file with its `bounded`; annotate: and with its listing. Raises KscopeError."""
    from kscope.engine.code.bounded import bounded
    from kscope.engine.code.programs import binary_analysis
    from kscope.parsers.cubin.programs import read_programs

    cubin, program = _only(path, read_programs(path, None, kernel), kernel)
    ran = _ran(program, _time(time), _three("--grid", grid), _three("--block", block), shared, chip, problem)
    found = binary_analysis(path, [structs.replace(cubin, functions=(program,))], annotate=annotate)
    image = found.programs[0]
    function = image.functions[0]
    bounds = bounded(program, ran, function.findings)
    return structs.replace(
        found, programs=[structs.replace(image, functions=[structs.replace(function, bounded=bounds)])]
    )


def _only(path: str, cubins: list[Cubin], kernel: str | None) -> tuple[Cubin, Program]:
    """The one kernel, of one target. Raises KscopeError (usage) where there are several."""
    from kscope.model.quoted import quoted

    entries = [(cubin, p) for cubin in cubins for p in cubin.functions if p.entry]
    if len(entries) == 1:
        return entries[0]
    if not entries:
        raise KscopeError("no-kernel", f"{path}: no kernel in its machine code", "name a cubin that has one")
    names = ", ".join(f"{quoted(p.demangled or p.name)} ({c.arch})" for c, p in entries[:5])
    hint = f"--kernel REGEX takes one of {names}" + (f" and {len(entries) - 5} more" if len(entries) > 5 else "")
    if kernel and len({p.name for _, p in entries}) == 1:
        hint = "take one target out of it: cuobjdump -xelf sm_90 FILE"
    raise KscopeError("several-kernels", f"{path}: {len(entries)} kernels, and one was timed", hint, EXIT_USAGE)


def _ran(
    program: Program, time_us: float, grid: Three, block: Three, shared: int, name: str | None, problem: Problem | None
) -> Ran:
    from kscope.arch.chips import chips, find
    from kscope.arch.user import latest, measured
    from kscope.engine.code.bounded import Ran
    from kscope.napkin.roofs import roofs

    mine = latest() if name is None else None
    if mine is not None and find(mine.chip).cc != program.sm:
        mine = None
    if name is not None or mine is not None:
        chip, how = find(name or mine.chip), "--chip" if name else "measured here"  # type: ignore[union-attr]
    else:
        alike = [c for c in chips().values() if c.cc == program.sm]
        if not alike:
            raise KscopeError("unknown-chip", f"no chip of sm_{program.sm} is in the table",
                              "name one: --chip (kscope arch lists them)", EXIT_USAGE)  # fmt: skip
        chip, how = alike[0], f"assumed from sm_{program.sm}"
    if chip.cc // 10 != program.sm // 10 or chip.cc < program.sm:
        raise KscopeError("usage", f"code for sm_{program.sm} does not run on {chip.name} (sm_{chip.cc})",
                          "name the chip that it ran on: --chip", EXIT_USAGE)  # fmt: skip
    own = mine or measured(chip.key)
    rates = roofs(chip, own.rates, f"measured here on {own.day}") if own is not None else roofs(chip)
    return Ran(time_us=time_us, grid=grid, block=block, shared_dynamic=shared, roofs=rates, chip_from=how,
               problem=problem)  # fmt: skip


def _three(option: str, text: str) -> Three:
    """4096, 256x256 or 64,64,2."""
    parts = text.lower().replace(",", "x").split("x")
    if len(parts) > 3 or not all(p.strip().isascii() and p.strip().isdigit() and int(p) > 0 for p in parts):
        raise click.BadParameter(f"{text!r} is no launch: write 4096, 256x256 or 64x64x2", param_hint=option)
    sizes = [int(p) for p in parts] + [1, 1]
    if math.prod(sizes[:3]) > LARGEST:
        raise click.BadParameter(f"{text!r} is more than {LARGEST:,}", param_hint=option)
    return sizes[0], sizes[1], sizes[2]


def _time(text: str) -> float:
    from kscope.napkin.measured import parse_time

    try:
        return parse_time(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time: write 41us or 5.1ms", param_hint="--time") from None
