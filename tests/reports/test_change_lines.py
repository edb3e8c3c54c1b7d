"""A change as a diff: a line that stays is context, and the patch is one that `patch` takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.model.contract.fixes import Edit, Fix
from kscope.reports.phrases.fixes import signed
from kscope.reports.text.fix import patch

SOURCE = """__global__ void scale(float* x, int n) {
\tint i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] *= 2;
  done(x, n);
}
"""
EDITS = [
    Edit(file="scale.cu", line=2, was="\tint i = blockIdx.x * blockDim.x + threadIdx.x;",
         becomes="\tint i = blockIdx.x * blockDim.x + threadIdx.x;\n  float two = 2;\n  // twice"),
    Edit(file="scale.cu", line=3, was="  if (i < n)", becomes="  i *= 4;\n  if (i < n)"),
    Edit(file="scale.cu", line=4, was="    x[i] *= 2;", becomes="    x[i] *= two;"),
    Edit(file="scale.cu", line=5, was="  done(x, n);", becomes=""),
]  # fmt: skip
AFTER = """__global__ void scale(float* x, int n) {
\tint i = blockIdx.x * blockDim.x + threadIdx.x;
  float two = 2;
  // twice
  i *= 4;
  if (i < n)
    x[i] *= two;
}
"""


def test_what_stays_is_context() -> None:
    assert ["".join(sign for sign, _ in signed(edit)) for edit in EDITS] == [" ++", "+ ", "-+", "-"]
    kept = [text for edit in EDITS for sign, text in signed(edit) if sign != "+"]
    assert kept == [edit.was for edit in EDITS]


def test_of_equal_lines_one_stays() -> None:
    twice = Edit(file="a", line=1, was="  sum += x;", becomes="  sum += x;\n  sum += x;")
    assert [sign for sign, _ in signed(twice)] == [" ", "+"]


def test_the_patch_applies(tmp_path: Path) -> None:
    if shutil.which("patch") is None:
        pytest.skip("no patch here")
    (tmp_path / "scale.cu").write_text(SOURCE)
    fix = Fix(kind="register", title="twice", edits=EDITS)
    text = "\n".join(patch(fix)) + "\n"
    subprocess.run(["patch", "-p0"], input=text, text=True, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "scale.cu").read_text() == AFTER
