"""`kscope trace` as people call it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.cli.diagnose.trace import HEADER
from tests.cli.running import CONFLICTS, kscope
from tests.support.dials import PROTON, dump, plain_dump

GEMM = dump("ws_gemm.k512")


def test_text_says_what_each_role_did() -> None:
    done = kscope("trace", GEMM)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "ws_gemm" in done.stdout and "8 of 132 blocks recorded" in done.stdout
    assert "tensor" in done.stdout and "producer" in done.stdout and "slot wait" in done.stdout


def test_json() -> None:
    done = kscope("trace", GEMM, "--format", "json")
    report = json.loads(done.stdout)
    assert report["schema"] == "kscope.trace/1"
    (one,) = report["traces"]
    assert {r["role"] for r in one["roles"]} == {"producer", "consumer"}
    assert one["unit"]["unit"] == "tensor"


def test_chrome_events_are_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = kscope("trace", GEMM, "--format", "chrome", "-o", out)
    assert (done.returncode, done.stdout) == (0, "")
    events = json.loads(out.read_text(encoding="utf-8"))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {"data wait", "mma", "tensor busy"} <= {e["name"] for e in spans}
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"} <= named
    assert kscope("trace", GEMM, "--format", "chrome", "-o", out).returncode == 2  # not overwritten unasked


def test_kinds_for_a_recorder_without_them() -> None:
    done = kscope("trace", PROTON, "--kind", "load=wait:memory", "--format", "json")
    (role,) = json.loads(done.stdout)["traces"][0]["roles"]
    assert 2 < role["priming"]["mean"] < 30  # up to the end of the first load
    assert "cycles" in kscope("trace", PROTON).stdout
    for wrong in ("nothing=wait", "load=sleep", "load"):
        done = kscope("trace", PROTON, "--kind", wrong)
        assert (done.returncode, done.stdout) == (2, "")


def test_header_is_there_and_copied(tmp_path: Path) -> None:
    done = kscope("trace", "--header")
    assert Path(done.stdout.strip()) == HEADER and HEADER.is_file()
    copy = tmp_path / "kscope_trace.cuh"
    assert kscope("trace", "--header", "-o", copy).returncode == 0
    assert copy.read_text(encoding="utf-8") == HEADER.read_text(encoding="utf-8")


@pytest.mark.parametrize("what", ["report", "cut", "missing"])
def test_bad_input_is_one_line(what: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.ktrace"
    cut.write_bytes(plain_dump("ws_gemm.k128")[:5000])
    path = {"report": CONFLICTS, "cut": cut, "missing": tmp_path / "none"}[what]
    done = kscope("trace", path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert str(path) in done.stderr
    assert json.loads(kscope("trace", path, "--format", "json").stderr)["error"]["hint"]


def test_no_file_is_usage() -> None:
    assert kscope("trace").returncode == 2


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_off_means_the_same_machine_code(tmp_path: Path) -> None:
    """With KSCOPE_TRACE undefined, a kernel full of marks compiles to what it is without them."""
    marks = """
#include "kscope_trace.cuh"
__global__ void k(float* x) {
  KSCOPE_TRACE_WARP(0, threadIdx.x == 0);
  KSCOPE_STAMP(t0); float v = x[threadIdx.x]; KSCOPE_STAMP(t1); KSCOPE_SPAN(0, t0, t1, 0);
  KSCOPE_BEGIN(1, 0); x[threadIdx.x] = v * 2; KSCOPE_END(1, 0); KSCOPE_MARK(2, 0); KSCOPE_TRACE_DONE();
}
"""
    plain = "__global__ void k(float* x) { float v = x[threadIdx.x]; x[threadIdx.x] = v * 2; }\n"
    images = {}
    for name, source, flags in (("off", marks, []), ("plain", plain, []), ("on", marks, ["-DKSCOPE_TRACE"])):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "k.cu").write_text(source)
        subprocess.run(
            ["nvcc", "-arch=sm_90", "-ptx", "-I", str(HEADER.parent), *flags, "k.cu", "-o", "k.ptx"],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        text = (folder / "k.ptx").read_text()
        images[name] = text[text.index(".visible .entry") :]
    assert images["off"] == images["plain"]
    assert "clock" in images["on"]
