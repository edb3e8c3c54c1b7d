"""Places and kernels that the user did not write: his own line, and what a caller can do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from kscope.engine.findings.library_code import for_the_caller
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.sass.library_code import in_library, inside_advice, own_place
from kscope.features.sass.listing import Listing
from kscope.model.contract.analysis import Finding, Location
from kscope.model.contract.findings import OwnPlace
from kscope.model.kernel import Kernel
from kscope.model.program import Site
from kscope.reports.phrases.places import where
from tests.features.listings import program

TOOLKIT = "/usr/local/cuda/targets/x86_64-linux/include/"


@pytest.mark.parametrize("file", [TOOLKIT + "cuda_fp16.hpp", TOOLKIT + "curand_kernel.h", "/opt/x/include/cub/a.cuh"])
def test_headers_of_toolkits(file: str) -> None:
    assert in_library(file)


@pytest.mark.parametrize("file", ["/corpus/r7.cu", "/home/me/include/tile.cuh", None, "kernels.h"])
def test_the_users_own_files(file: str | None) -> None:
    assert not in_library(file) and inside_advice(file) is None


def test_the_users_line_through_the_inlined_calls_or_beside() -> None:
    text = "S2R R0, SR_TID.X\nLDG.E R2, desc[UR4][R2.64]\nFADD R3, R2, R2\nEXIT"
    bare = program(text)
    code = list(bare.instructions)
    code[0] = structs.replace(code[0], file="/corpus/a.cu", line=7)
    code[1] = structs.replace(code[1], file=TOOLKIT + "curand_kernel.h", line=900)
    listing = Listing(structs.replace(bare, instructions=tuple(code)), "f")
    assert own_place(listing, 0) is None and own_place(listing, 1) == OwnPlace("/corpus/a.cu", 7, near=True)
    sites = (Site(TOOLKIT + "curand_uniform.h", 80), Site("/corpus/a.cu", 12))
    code[1] = structs.replace(code[1], inlined=sites)
    listing = Listing(structs.replace(bare, instructions=tuple(code)), "f")
    assert own_place(listing, 1) == OwnPlace("/corpus/a.cu", 12, near=False)
    header = listing.location(1)
    assert where(header) == "curand_kernel.h:900"
    assert where(structs.replace(header, own=own_place(listing, 1))) == "curand_kernel.h:900 (a.cu:12)"


def test_a_librarys_kernel_is_told_from_its_callers_side(kernel: Callable[[str], Kernel]) -> None:
    theirs = structs.replace(kernel("gemm_f32.naive"), name="ampere_sgemm_32x32_nn", demangled="ampere_sgemm_32x32_nn")
    found = analyze_kernel(theirs, "0.0")
    told = {f.code: f.fix for f in found.findings}
    assert told.pop("CMP201").startswith("as its caller: TF32 where its ten bits of mantissa do")
    assert told and all(fix.startswith("as its caller: sizes and leading") for fix in told.values())
    assert any(n.startswith("a kernel of cuBLAS") for n in found.notes)


def test_time_in_a_librarys_header_is_told_from_its_callers_side() -> None:
    place = Location(function="f", pc=0, opcode="LDG", file=TOOLKIT + "curand_kernel.h", line=900)
    finding = Finding(rule="x", code="MEM101", title="t", regime="memory", locations=[place], fix="coalesce")
    (told,) = for_the_caller([finding], None)
    assert told.fix.startswith("Philox4_32_10") and told.fix.endswith("; else coalesce")
    own = structs.replace(finding, locations=[structs.replace(place, file="/corpus/a.cu")])
    assert for_the_caller([own], None) == [own]
