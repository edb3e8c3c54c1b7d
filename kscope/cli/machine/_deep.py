"""`kscope run --deep`: after the timeline the counters of the launches that matter, one run of the program each."""

from __future__ import annotations

import itertools
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kscope.cli.machine import _record
from kscope.cli.shared._output import say, write_stdout
from kscope.features.timeline.operations.kernel_kinds import base_name
from kscope.model.contract.analysis import Analysis
from kscope.model.errors import KscopeError, one_line
from kscope.model.units import percent
from kscope.parsers import toolchain

if TYPE_CHECKING:
    from kscope.model.contract.detail import Detail

NOTHING = "kscope: no kernel is worth a profile: the time goes elsewhere, or no kernel takes a twentieth of it"


def plans(analysis: Analysis, plan: _record.Plan) -> list[_record.Plan]:
    """What to profile of the first timeline, each a launch in the steady state; nothing where kernels are not what the
    program's time goes into. plan: of the timeline, beside which the reports are written."""
    told = next(iter(analysis.timelines), None)
    if told is None or (told.verdict is not None and told.verdict.regime == "overhead"):
        return []
    stem = plan.out.name.partition(".")[0]
    return [
        replace(
            plan, out=plan.out.with_name(f"{stem}.{number}.ncu-rep"), kernel=f"^{base_name(one.name)}$",
            skip=one.skip, launches=1,
        )
        for number, one in enumerate(told.to_profile, start=1)
    ]  # fmt: skip


def commands(analysis: Analysis, command: list[str], plan: _record.Plan) -> list[str]:
    """The command lines that `profile` runs, for a shell; of any ncu where there is none here."""
    ncu = str(toolchain.locate("ncu") or "ncu")
    return [shlex.join(_record.ncu_command(ncu, command, one)) for one in plans(analysis, plan)]


def show(trace: Path, command: list[str], plan: _record.Plan, record: Path | None) -> int:
    """Print the commands that a recording asks for; the exit status. record: where the user wants the recording."""
    from kscope.engine.run import analyze_paths

    lines = commands(analyze_paths([trace]), command, replace(plan, out=record or Path(plan.out.name)))
    write_stdout("".join(f"{line}\n" for line in lines))
    if not lines:
        say(NOTHING)
    return 0


def deeper(analysis: Analysis, trace: Path, command: list[str], plan: _record.Plan, detail: Detail | None) -> Analysis:
    """The analysis joined with what `profile` adds. Reports that cannot be read here are kept, and said is what joins
    them where they can be."""
    from kscope.engine.run import analyze_paths

    reports = profile(analysis, command, plan)
    try:
        joined = analyze_paths([trace, *reports], detail=detail)
    except KscopeError:
        _keep(trace, reports)
        raise
    if reports and not joined.kernels:
        _keep(trace, reports)
    return joined


def _keep(trace: Path, reports: list[Path]) -> None:
    """Take files that would go with their temporary folder to the folder that the user is in, under names that are
    free, and say the command that joins them."""
    kept = []
    for path in [trace, *reports]:
        if path.parent.resolve().is_relative_to(Path(tempfile.gettempdir()).resolve()) and path.is_file():
            name, dot, rest = path.name.partition(".")
            free = (Path(f"{name}{f'-{n}' if n else ''}{dot}{rest}") for n in itertools.count())
            target = next(one for one in free if not one.exists())
            shutil.copyfile(path, target)
            kept.append(target)
        else:
            kept.append(path)
    command = shlex.join(["kscope", "analyze", *map(str, kept)])
    say(f"kscope: the profiles could not be read here; this joins them, here or on another machine: {command}")


def profile(analysis: Analysis, command: list[str], plan: _record.Plan) -> list[Path]:
    """Run the program under ncu once for each; the reports that came of it. What fails is said, and left out."""
    found = plans(analysis, plan)
    if not found:
        say(NOTHING)
    out = []
    for one, kernel in zip(found, analysis.timelines[0].to_profile if found else [], strict=True):
        name = one_line(base_name(kernel.name))[:80]
        say(f"kscope: profiling launch {one.skip + 1} of {name} ({percent(kernel.share)} of the time)")
        try:
            out.append(_record.record("ncu", command, one).path)
        except KscopeError as e:
            say(f"kscope: {name} was not profiled: {e}")
    return out
