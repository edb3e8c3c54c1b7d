"""Rendering with a fence around every part: a kernel or recording that a format falls over is left out and named, and
the report shows the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from kscope.model.contract.analysis import SkippedInput
from kscope.model.errors import KscopeError
from kscope.model.faults import AGAIN, in_words, show_traceback
from kscope.model.quoted import quoted
from kscope.reports import Options, render

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, KernelAnalysis, ProgramAnalysis, TimelineAnalysis

    _One = TypeVar("_One", KernelAnalysis, ProgramAnalysis, TimelineAnalysis)


def render_sound(format: str, analysis: Analysis, options: Options) -> tuple[str, Analysis]:
    """The report, and what it shows: the analysis, less what could not be rendered, which is in `skipped`. Raises
    KscopeError (status 3) where nothing of it can."""
    try:
        return render(format, analysis, options), analysis
    except Exception as error:
        show_traceback(error)
        first = error
    skipped: list[SkippedInput] = []

    def sound(parts: Sequence[_One], alone: Callable[[_One], Analysis], name: Callable[[_One], str]) -> list[_One]:
        kept = []
        for part in parts:
            try:
                render(format, alone(part), _drawing(options, analysis, alone(part)))
                kept.append(part)
            except Exception as error:
                skipped.append(SkippedInput(input=part.input, what=name(part), message=in_words(error)))
        return kept

    bare = structs.replace(analysis, kernels=[], timelines=[], joined=[], programs=[])
    rest = structs.replace(
        bare,
        kernels=sound(analysis.kernels, lambda k: structs.replace(bare, kernels=[k]), _kernel_part),
        timelines=sound(analysis.timelines, lambda t: structs.replace(bare, timelines=[t]), lambda _: "report"),
        programs=sound(analysis.programs, lambda p: structs.replace(bare, programs=[p]), lambda _: "code"),
        skipped=[*analysis.skipped, *skipped],
    )
    if analysis.joined:
        what = SkippedInput(input=analysis.joined[0].input, what="join", message=in_words(first))
        rest = structs.replace(rest, skipped=[*rest.skipped, what])
    try:
        if not (rest.kernels or rest.timelines or rest.programs):
            raise first
        return render(format, rest, _drawing(options, analysis, rest)), rest
    except Exception as error:
        paths = ", ".join(one.path for one in analysis.inputs)
        message = f"{paths}: cannot be shown as {format} ({in_words(error)})"
        raise KscopeError("unanalysable", message, AGAIN) from error


def _kernel_part(kernel: KernelAnalysis) -> str:
    return f"kernel {quoted(kernel.demangled or kernel.name)}"


def _drawing(options: Options, whole: Analysis, analysis: Analysis) -> Options:
    """The same, drawing only what the analysis has of the whole one."""
    detail = options.detail
    if detail is None:
        return options
    kernels, places = {k.id for k in analysis.kernels}, {t.input: i for i, t in enumerate(analysis.timelines)}
    inputs = [t.input for t in whole.timelines]
    return structs.replace(
        options,
        detail=structs.replace(
            detail, kernels=[d for d in detail.kernels if d.id in kernels],
            timelines=[
                structs.replace(d, index=places[inputs[d.index]])
                for d in detail.timelines if inputs[d.index] in places
            ],
            programs=detail.programs if analysis.programs else [],
        ),
    )  # fmt: skip
