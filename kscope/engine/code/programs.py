"""Machine code to `programs` of an Analysis: binaries as they are, reports joined with what the profiler counted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from kscope._version import __version__
from kscope.engine.code.lint import lint
from kscope.engine.findings.mended import of_code
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.lanes.bank_conflicts import conflicts
from kscope.features.profile.code import Code
from kscope.features.profile.measured import Profile
from kscope.features.sass.accesses import accesses
from kscope.features.sass.listing import Listing
from kscope.features.views.program import access_table, listing, loops, mix, occupancy_view, spill_counts
from kscope.model.contract.analysis import (
    Analysis,
    Finding,
    FunctionAnalysis,
    Input,
    KernelAnalysis,
    ProgramAnalysis,
    SkippedInput,
)
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import AGAIN, fenced, in_words, show_traceback
from kscope.model.kernel import Kernel, source_lines
from kscope.model.program import Cubin
from kscope.model.quoted import quoted
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.worker import Reader, Skipped, Want

Lines = Callable[[str], Sequence[str]]
"""Text of a source file by its name in line information, as lines; empty where there is none."""
_SPILLING = "sass__inst_executed_register_spilling"


def binary_analysis(path: str, cubins: Sequence[Cubin], *, annotate: bool, lines: Lines | None = None) -> Analysis:
    """What can be said about functions that nobody ran. Without `annotate`, counts and loops alone. A function that
    cannot be analysed is in `skipped`; raises KscopeError where none can."""
    programs: list[ProgramAnalysis] = []
    skipped: list[SkippedInput] = []
    for cubin in cubins:
        functions = []
        for program in cubin.functions:
            try:
                functions.append(_function(Listing(program), annotate=annotate, lines=lines))
            except Exception as error:
                show_traceback(error)
                what = f"function {quoted(program.name)}"
                skipped.append(SkippedInput(input=path, what=what, message=in_words(error)))
        programs.append(
            ProgramAnalysis(
                input=path, arch=cubin.arch, member=cubin.member, toolkit=cubin.toolkit, functions=functions
            )
        )
    if skipped and not any(program.functions for program in programs):
        first = f"{skipped[0].what}: {skipped[0].message}"
        raise KscopeError("unanalysable", f"{path}: none of its functions can be analysed ({first})", AGAIN)
    return Analysis(kscope=__version__, inputs=[Input(path=path, kind="cubin")], programs=programs, skipped=skipped)


def _function(code: Listing, *, annotate: bool, lines: Lines | None) -> FunctionAnalysis:
    program, cfg, classes = code.program, code.cfg, code.classes
    touched = accesses(program, classes)
    live = code.liveness.counts() if annotate else None
    stores, loads = spill_counts(touched)
    resources = program.resources
    known = {i: (float(c.wavefronts), float(c.ideal)) for i, c in conflicts(code).items()} if annotate else {}
    linted = lint(code)
    return FunctionAnalysis(
        name=program.name,
        demangled=program.demangled or program.name,
        registers=resources.registers if resources is not None else None,
        stack=resources.stack if resources is not None else None,
        shared=resources.shared if resources is not None else None,
        spill_stores=stores,
        spill_loads=loads,
        instructions=len(program),
        loops=loops(program, cfg, classes, wavefronts={i: taken for i, (taken, _) in known.items()}),
        findings=of_code(code, linted.findings, lines),
        passed=linted.passed,
        not_applicable=linted.not_applicable,
        errors=linted.errors,
        entry=program.entry,
        mix=mix(program, cfg, classes),
        accesses=access_table(program, cfg, touched),
        occupancy=occupancy_view(program, live, registers=None, threads=None, shared=None),
        listing=listing(
            program, cfg, classes, live=live, findings=_marks(linted.findings), conflicts=known,
        ) if annotate else [],
        sources=_sources(code, lines) if annotate else {},
    )  # fmt: skip


def report_analysis(
    path: str, *, arch: str | None = None, function: str | None = None, annotate: bool, lines: Lines | None = None
) -> Analysis:
    """The kernels of a Nsight Compute report whose (mangled or C++) name matches `function`, joined with their
    counters; of several launches of one kernel the longest. Longest kernel first.

    Raises KscopeError: the report is unreadable, holds no machine code, or no kernel matches, or none is for `arch`.
    """
    wanted = re.compile(function or "")
    others: set[str] = set()
    best: dict[str, tuple[float, int, KernelAnalysis, FunctionAnalysis, str]] = {}
    launches: dict[str, int] = {}
    skipped: list[SkippedInput] = []
    version, sound = None, 0
    with fenced(path), open_input(path) as real, contextlib.closing(Reader(real, Want(), path)) as reader:
        from kscope.parsers.ncu.embedded_code import with_image
        from kscope.parsers.ncu.kernels import to_kernel

        for raw in reader.kernels():
            if isinstance(raw, Skipped):
                skipped.append(SkippedInput(input=path, what=f"kernel {raw.index}", message=raw.message))
                continue
            version = raw.get("tool_version") or version
            try:
                kernel = to_kernel(raw, path)
                sound += 1
                if not any(wanted.search(n) for n in (kernel.demangled, kernel.name, kernel.mangled)):
                    continue
                if not for_target(kernel.device.sm, arch):
                    others.add(f"sm_{kernel.device.sm}")
                    continue
                key = kernel.mangled or kernel.demangled
                launches[key] = launches.get(key, 0) + 1
                took = kernel.duration_ns or 0.0
                if kernel.program is None or (key in best and best[key][0] >= took):
                    continue
                program = with_image(kernel.program, real)
                kernel = structs.replace(kernel, program=program)
                analysis = analyze_kernel(kernel, f"0.{kernel.index}")
                joined = _joined(kernel, analysis, annotate=annotate, lines=lines)
                best[key] = (took, kernel.index, analysis, joined, program.arch or f"sm_{kernel.device.sm}")
            except KscopeError:
                raise
            except Exception as error:
                show_traceback(error)
                sound -= 1
                skipped.append(SkippedInput(input=path, what=f"kernel {raw['index']}", message=in_words(error)))
    if not best:
        raise _nothing(path, arch, function, others, skipped if sound <= 0 else [], launched=bool(launches))
    ranked = sorted(best.items(), key=lambda kv: (-kv[1][0], kv[1][1]))
    functions = [_counted(joined, launches[key]) for key, (_, _, _, joined, _) in ranked]
    return Analysis(
        kscope=__version__,
        inputs=[Input(path=path, kind="ncu", tool_version=version)],
        kernels=[analysis for _, (_, _, analysis, _, _) in ranked],
        programs=[ProgramAnalysis(input=path, arch=ranked[0][1][4], functions=functions)],
        skipped=skipped,
    )


def for_target(sm: int, arch: str | None) -> bool:
    """Whether code that ran on a device of capability `sm` (90) is for the target asked for (sm_90, 90a). Raises
    KscopeError (status 2) for a word that is no target."""
    from kscope.parsers.cubin.programs import target_of

    wanted = target_of(arch)
    return wanted is None or wanted.removeprefix("sm_").rstrip("af") == str(sm)


def _nothing(
    path: str, arch: str | None, function: str | None, others: set[str], faulty: Sequence[SkippedInput], *,
    launched: bool,
) -> KscopeError:  # fmt: skip
    """Why a report has no code to show. faulty: its kernels, where none can be analysed."""
    if others:
        return KscopeError("no-arch", f"{path}: no code for {arch}", f"it has {', '.join(sorted(others))}")
    if faulty:
        first = f"{faulty[0].what}: {faulty[0].message}"
        return KscopeError("unanalysable", f"{path}: none of its kernels can be analysed ({first})", AGAIN)
    if launched:
        hint = "profile again with ncu --import-source yes, or with a section that reads SASS (SourceCounters)"
        return KscopeError("no-sass", f"{path}: the report holds no machine code of its kernels", hint)
    if function:
        hint = "run without --function to see their names"
        return KscopeError("no-match", f"{path}: no kernel matches {function!r}", hint, EXIT_USAGE)
    return KscopeError("no-kernels", f"{path}: the report holds no kernel", "profile one that launches any")


def _counted(joined: FunctionAnalysis, launches: int) -> FunctionAnalysis:
    if launches < 2:
        return joined
    return structs.replace(joined, notes=[f"the longest of {launches} launches in the report", *joined.notes])


def _joined(kernel: Kernel, analysis: KernelAnalysis, *, annotate: bool, lines: Lines | None) -> FunctionAnalysis:
    """One kernel's code with its counters. The listing is there in any case: the hot lines are what was asked for."""
    program = kernel.program
    assert program is not None
    code = Code(kernel, program)
    cfg, classes, launch = code.cfg, code.classes, kernel.launch
    profile = Profile(code)
    spills = kernel.metrics.get(_SPILLING)
    spilling = None if spills is None else spills > 0
    touched = accesses(program, classes, spilling=spilling)
    live = code.liveness.counts()
    stores, loads = spill_counts(touched)
    resources = program.resources
    return FunctionAnalysis(
        name=kernel.mangled or kernel.name,
        demangled=kernel.demangled,
        registers=launch.registers,
        stack=resources.stack if resources is not None else None,
        shared=launch.shared_static,
        spill_stores=stores,
        spill_loads=loads,
        instructions=len(program),
        loops=loops(program, cfg, classes, profile, profile.wavefronts()),
        findings=analysis.findings,
        passed=analysis.passed,
        not_applicable=analysis.not_applicable,
        errors=analysis.errors,
        mix=mix(program, cfg, classes, profile),
        accesses=access_table(program, cfg, touched, profile),
        occupancy=occupancy_view(
            program, live, registers=launch.registers, threads=launch.threads,
            shared=launch.shared_static + launch.shared_dynamic,
        ),
        listing=listing(
            program, cfg, classes, live=live, spilling=spilling, profile=profile, findings=_marks(analysis.findings),
        ) if annotate or profile.all_samples else [],
        kernel=analysis.id,
        launch=f"{'x'.join(map(str, launch.grid))} blocks of {'x'.join(map(str, launch.block))}",
        duration_us=analysis.duration_us,
        samples=int(profile.all_samples),
        sources=_sources(code, lines or _embedded(kernel)) if annotate else {},
    )  # fmt: skip


def _embedded(kernel: Kernel) -> Lines:
    return lambda name: source_lines(kernel.sources.get(name, ""))


def _sources(code: Listing, lines: Lines | None) -> dict[str, dict[int, str]]:
    """The source lines that instructions came from, of the files whose text there is."""
    if lines is None:
        return {}
    wanted: dict[str, set[int]] = {}
    for ins in code.program.instructions:
        if ins.file is not None and ins.line is not None:
            wanted.setdefault(ins.file, set()).add(ins.line)
    out: dict[str, dict[int, str]] = {}
    for name, numbers in wanted.items():
        text = lines(name)
        found = {n: text[n - 1].strip()[:200] for n in sorted(numbers) if 0 < n <= len(text)}
        if found:
            out[name] = found
    return out


def _marks(findings: Sequence[Finding]) -> Mapping[int, Sequence[str]]:
    """Codes of findings by the pcs that they name."""
    out: dict[int, list[str]] = {}
    for finding in findings:
        for place in finding.locations:
            codes = out.setdefault(place.pc, [])
            if finding.code not in codes:
                codes.append(finding.code)
    return out


def sources_below(root: Path) -> Lines:
    """Source text from files below `root`. A report's or binary's line information is untrusted: only the end of the
    path that it names is looked for, and nothing outside `root` is opened."""
    base = root.resolve()

    def lines(name: str) -> Sequence[str]:
        parts = [p for p in re.split(r"[\\/]+", name) if p not in ("", ".", "..")]
        for start in range(len(parts)):
            file = base.joinpath(*parts[start:])
            try:
                if file.resolve().is_relative_to(base) and file.is_file():
                    return source_lines(file.read_text("utf-8", "replace"))
            except OSError:
                continue
        return ()

    return lines
