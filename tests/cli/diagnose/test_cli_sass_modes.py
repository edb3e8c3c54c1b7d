"""`kscope sass --survey` and `--tune-registers`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kscope.engine.code import registers
from kscope.engine.code.registers import Rung, best
from kscope.model.errors import KscopeError
from tests.cli.running import kscope
from tests.support.patches import FIXTURES

SPILLS = """
__global__ void __launch_bounds__(256) wide(const float* in, float* out) {
  float s[80];
#pragma unroll
  for (int k = 0; k < 80; k++) s[k] = in[threadIdx.x + k * 256];
  for (int r = 0; r < 16; r++) {
#pragma unroll
    for (int k = 0; k < 80; k++) s[k] = s[k] * s[(k + 37) % 80] + s[(k + 11) % 80];
  }
  float t = 0;
#pragma unroll
  for (int k = 0; k < 80; k++) t += s[k];
  out[threadIdx.x] = t;
}
"""


def test_a_survey_has_the_worst_first() -> None:
    done = kscope("sass", FIXTURES / "fixes" / "layouts.sm_90.cubin.xz", "--survey", "--top", "4", "--width", "100")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  tile_")]
    assert len(rows) == 4 and all(row[-1] == "MEM103" and int(row[3]) >= 1 for row in rows)
    assert "12 kernels: MEM103 shared-bank-conflicts in" in done.stdout


def test_a_survey_of_a_folder_names_its_files(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "sass" / "tiles.sm_90a.cubin.xz", tmp_path / "tiles.cubin.xz")
    done = kscope("sass", tmp_path, "--survey")
    assert done.returncode == 0, done.stderr
    assert "tiles.cubin.xz" in done.stdout and "MEM103" in done.stdout


def test_rungs_that_another_one_beats_are_no_choice() -> None:
    rungs = [Rung("k", cap, regs, warps, spills, 1) for cap, regs, warps, spills in (
        (None, 90, 20, 0), (40, 40, 48, 60), (64, 64, 32, 9), (80, 80, 24, 9), (255, 90, 20, 0),
    )]  # fmt: skip
    assert [(r.warps, r.spills) for r in best(rungs)] == [(48, 60), (32, 9), (20, 0)]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
def test_fewer_registers_are_more_warps_and_more_spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "wide.cu"
    source.write_text(SPILLS)
    monkeypatch.setattr(registers, "LADDER", (40,))
    free, capped = registers.frontier(source, "sm_90", None)
    assert free.spills == 0 and capped.spills > 0
    assert capped.warps > free.warps and capped.registers <= 40 < free.registers
    assert set(best([free, capped])) == {free, capped}
    source.write_text("no code")
    with pytest.raises(KscopeError, match="refuses it"):
        registers.frontier(source, "sm_90", None)


def test_a_source_that_is_not_there() -> None:
    done = kscope("sass", "/nonexistent.cu", "--tune-registers")
    assert done.returncode == 3 and "no such file" in done.stderr
