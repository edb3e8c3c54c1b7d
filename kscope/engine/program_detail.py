"""Functions of a binary as the HTML report draws them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kscope.engine.programs import Lines
from kscope.features.sass.listing import Listing
from kscope.features.views.source import listing_detail
from kscope.model.analysis import Analysis, FunctionAnalysis
from kscope.model.detail import CodeDetail, FunctionDetail, ProgramDetail
from kscope.model.program import Cubin


def program_details(cubins: Sequence[Cubin], analysis: Analysis, lines: Lines | None = None) -> list[ProgramDetail]:
    """analysis: `binary_analysis` of the same images, for its findings and figures. lines: text of source files."""
    out = []
    for cubin, program in zip(cubins, analysis.programs, strict=True):
        functions = []
        for code, about in zip(cubin.functions, program.functions, strict=True):
            detail = listing_detail(Listing(code))
            functions.append(
                FunctionDetail(
                    name=about.name, demangled=about.demangled, facts=_facts(about), findings=about.findings,
                    code=_with_sources(detail, lines),
                )
            )  # fmt: skip
        out.append(ProgramDetail(input=program.input, arch=program.arch, functions=functions))
    return out


def _with_sources(code: CodeDetail, lines: Lines | None) -> CodeDetail:
    if lines is None:
        return code
    texts = {name: "\n".join(text) for name in code.files if (text := lines(name))}
    return msgspec.structs.replace(code, sources=texts)


def _facts(about: FunctionAnalysis) -> list[tuple[str, str]]:
    """The figures of the function that are known, as words."""
    figures = [
        ("instructions", about.instructions, ""), ("registers", about.registers, ""), ("stack", about.stack, " B"),
        ("shared", about.shared, " B"), ("spill stores", about.spill_stores, ""),
        ("spill loads", about.spill_loads, ""),
    ]  # fmt: skip
    out = [(name, f"{value:,}{unit}") for name, value, unit in figures if value]
    if about.occupancy is not None:
        out.append(("warps an SM", f"{about.occupancy.warps} of {about.occupancy.warps_max}"))
    return out
