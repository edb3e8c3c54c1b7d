"""Tile programs as binaries: a product of tiles written in cuTile, compiled by NVIDIA's tileiras (fixtures/cubins)."""

from __future__ import annotations

import msgspec
import pytest

from kscope.arch import table
from kscope.engine.code.lint import lint
from kscope.features.sass.listing import Listing
from kscope.model.program import Program
from kscope.parsers.cubin.programs import read_programs
from tests.support import reports, sass

FOLDER = reports.FIXTURES.parent / "cubins"
TARGETS = ["sm_90", "sm_100"]


def tile_gemm(target: str) -> Program:
    (image,) = read_programs(FOLDER / f"tile_gemm.{target}.cubin.xz")
    (program,) = image.functions
    return program


@pytest.mark.parametrize("target", TARGETS)
def test_recognised_with_lines_of_its_source(target: str) -> None:
    program = tile_gemm(target)
    assert program.tile and program.entry and program.name == "tile_gemm"
    lines = {(ins.file, ins.line) for ins in program.instructions if ins.line}
    assert {file for file, _ in lines} == {"/corpus/tile/tile_gemm.py"}
    assert {17, 18, 19, 20, 21} & {line for _, line in lines}, "the loop over K"


def test_others_are_none() -> None:
    assert not any(p.tile for p in sass.functions("clusters.cu", "sm_100a").values())


@pytest.mark.parametrize("target", TARGETS)
def test_lints_on_threads_are_withheld(target: str) -> None:
    program = tile_gemm(target)
    withheld = set(table("advice")["tile"]["codes"])
    said = lint(Listing(program))
    assert not {f.code for f in said.findings} & withheld and said.errors == []
    simt = lint(Listing(msgspec.structs.replace(program, tile=False)))
    assert {f.code for f in simt.findings} & withheld == ({"MEM103"} if target == "sm_90" else set())
