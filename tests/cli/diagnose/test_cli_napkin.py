"""`kscope napkin` and `kscope arch` as commands."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.arch.chips import chips
from tests.cli.running import TRIAD, kscope
from tests.support.thorough import some

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "kscope" / "cli" / "machine" / "_roofs.cu"
NOWHERE = {"KSCOPE_STATE_DIR": ""}


def test_the_answer_comes_first() -> None:
    done = kscope("napkin", "gemm", "4092", "4092", "4092", "--dtype", "fp32", "beta", "--chip", "h100",
                  "--measured", "5.1ms", env=NOWHERE)  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "gemm 4092x4092x4092 fp32 on H100 SXM5 80 GB (sm_90, 132 SMs)"
    assert lines[2].startswith("  COMPUTE-BOUND on fp32 CUDA cores: nothing is faster than 2.05 ms")
    assert "137 GFLOP over 268 MB: 512 FLOP/B against a ridge of 20." in done.stdout
    assert "2.49 times the floor" in " ".join(done.stdout.split())
    assert all(len(line) <= 80 for line in lines)
    assert "…" not in done.stdout


def test_formats_agree(tmp_path: Path) -> None:
    words = ["napkin", "attention", "2", "32", "4096", "128", "--causal", "--kv-heads", "8", "--chip", "b200",
             "--sweep", "length=512..8192"]  # fmt: skip
    done = kscope(*words, "--format", "json", env=NOWHERE)
    value = json.loads(done.stdout)
    assert value["schema"] == "kscope.napkin/1"
    assert value["flop"] == 4 * 2 * 32 * (4096 * 4097 / 2) * 128
    assert [p["value"] for p in value["sweep"]["points"]] == [512, 1024, 2048, 4096, 8192]
    out = tmp_path / "page.md"
    assert kscope(*words, "-o", out, env=NOWHERE).returncode == 0
    page = out.read_text(encoding="utf-8")
    assert "## Over length" in page
    assert f"{value['attained_us']:.1f} us" in page
    assert kscope(*words, "-o", out, env=NOWHERE).returncode == 2  # nothing is overwritten
    assert kscope(*words, "-o", tmp_path / "page.xyz", env=NOWHERE).returncode == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument"),
        (["nothing", "1"], "no operation 'nothing'"),
        (["gemm", "1", "2"], "gemm takes 3 sizes"),
        (["gemm", "1", "2", "3", "--chip", "z80"], "no chip 'z80' in the table"),
        (["gemm", "1", "2", "3", "--chip", ""], "no chip '' in the table"),
        (["gemm", "1", "2", "3", "--dtype", "fp7"], "no data type 'fp7'"),
        (["gemm", "1", "2", "3", "--measured", "soon"], "'soon' is no time"),
        (["gemm", "1", "2", "3", "--sweep", "m"], "'m' is no sweep"),
        (["gemm", "1", "2", "3", "--sweep", "q=1,2"], "gemm has no size 'q'"),
        (["gemm", "1", "2", "3", "--tile", "8"], "'8' is no tile"),
        (["softmax", "8", "8", "--causal"], "'causal' is no size"),
        (["attention", "2", "32", "64", "128", "--kv-heads", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], message: str) -> None:
    done = kscope("napkin", *words, env=NOWHERE)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    as_json = kscope("napkin", *words, "--format", "json", env=NOWHERE)
    assert message in json.loads(as_json.stderr)["error"]["message"]


def test_operations_are_listed() -> None:
    done = kscope("napkin", "--list")
    for name in ("gemm", "attention-bwd", "moe", "qgemm", "scan", "custom"):
        assert f"\n{name} " in f"\n{done.stdout}"


def test_the_list_and_the_sheet() -> None:
    done = kscope("arch", env=NOWHERE)
    assert done.returncode == 0
    for key in chips():
        assert f"\n{key} " in f"\n{done.stdout}"
    sheet = kscope("arch", "NVIDIA H200", "-v", env=NOWHERE)
    assert "989 TFLOP/s" in sheet.stdout
    assert "wgmma" in sheet.stdout
    assert "Maximum Achievable Matmul FLOPS" in " ".join(sheet.stdout.split())
    assert "new since A100" in kscope("arch", "h100", env=NOWHERE).stdout
    assert "gone since H200" in kscope("arch", "b200", env=NOWHERE).stdout


def test_comparison_says_the_ratio() -> None:
    done = kscope("arch", "--compare", "h100", "b200", env=NOWHERE)
    (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith("device memory ")][:1]
    assert line.split()[-1] == "2.39x"
    assert kscope("arch", "--compare", "h100", "z80", env=NOWHERE).returncode == 2
    assert kscope("arch", "h100", "--compare", "h100", "b200", env=NOWHERE).returncode == 2
    assert kscope("arch", "", env=NOWHERE).returncode == 2


def test_spreadsheet() -> None:
    rows = list(csv.DictReader(io.StringIO(kscope("arch", "--csv", env=NOWHERE).stdout)))
    assert {row["chip"] for row in rows} == set(chips())
    assert all(row["source"] for row in rows)
    dram = {row["chip"]: float(row["value"]) for row in rows
            if row["section"] == "bandwidths" and row["name"] == "device memory"}  # fmt: skip
    assert dram["h100"] == 3.35e12
    value = json.loads(kscope("arch", "gh200", "--json", env=NOWHERE).stdout)
    borrowed = {f["name"] for f in value["chips"][0]["facts"] if f["borrowed"]}
    assert {"SMs", "highest clock"} <= borrowed


def measurement(**rates: float) -> str:
    return json.dumps({"schema": "kscope.roofs/1", "device": "NVIDIA H100 80GB HBM3", "cc": 90, "day": "2026-01-02",
                       "rates": rates})  # fmt: skip


def test_measured_roofs_are_used(tmp_path: Path) -> None:
    """The newest measurement is what `napkin` takes without a chip, and what the sheet of that chip shows."""
    folder = tmp_path / "roofs"
    folder.mkdir()
    (folder / "mine.json").write_text(measurement(dram_bytes_per_s=3.0e12, dram_copy_bytes_per_s=2.5e12, bf16=7e14))
    (folder / "broken.json").write_text('{"schema": "kscope.roofs/1", "rates": []')
    (folder / "other.json").write_text('{"rates": {"fp32": "fast"}}')
    mine = {"KSCOPE_STATE_DIR": str(tmp_path)}
    value = json.loads(kscope("napkin", "reduce", "256M", "fp32", "--format", "json", env=mine).stdout)
    assert value["chip"] == "h100"
    assert value["attained_us"] == pytest.approx(2**28 * 4 / 3.0e12 * 1e6, rel=1e-4)
    assert "measured here on 2026-01-02" in str(value["notes"])
    copied = json.loads(kscope("napkin", "scan", "256M", "fp32", "--format", "json", env=mine).stdout)
    assert copied["attained_us"] == pytest.approx(2**31 / 2.5e12 * 1e6, rel=1e-4)
    plain = json.loads(kscope("napkin", "reduce", "256M", "--published", "--format", "json", env=mine).stdout)
    assert plain["attained_us"] != value["attained_us"]
    assert "700 TFLOP/s" in kscope("arch", "h100", env=mine).stdout
    fit = kscope("analyze", TRIAD, "--problem", "elementwise 64M inputs=2 fp32", env=mine)
    text = " ".join(fit.stdout.split())  # another chip's measurement says nothing of it
    assert "of H200 SXM 141 GB: at least" in text


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have a GPU")
def test_without_a_gpu_measuring_says_what_is_missing(tmp_path: Path) -> None:
    done = kscope("arch", "--measure", env={"KSCOPE_STATE_DIR": str(tmp_path)})
    assert done.returncode == 4
    last = done.stderr.splitlines()[-1]
    assert last.startswith("kscope: driver cannot be loaded; run on a machine with an NVIDIA GPU") or "no GPU" in last
    assert not list(tmp_path.iterdir())
    no_python = kscope("arch", "--measure", "--python", str(tmp_path / "python"))
    assert no_python.returncode == 4
    assert "no such interpreter" in no_python.stderr


def nvcc() -> str | None:
    return shutil.which("nvcc") or next((str(p) for p in sorted(Path("/usr/local").glob("cuda*/bin/nvcc"))), None)


@pytest.mark.skipif(nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize("target", some(["sm_75", "sm_80", "sm_90", "sm_120"], 1))
def test_the_measuring_kernels_compile_and_are_what_they_say(target: str, tmp_path: Path) -> None:
    """No spills; the multiply-add loops are nearly all multiply-adds, the shared one loads 16 bytes a lane."""
    cubin = tmp_path / "roofs.cubin"
    command = [str(nvcc()), f"-arch={target}", "-std=c++17", "-cubin", "-o", str(cubin), str(KERNELS)]
    subprocess.run(command, check=True, capture_output=True)
    value = json.loads(kscope("sass", cubin, "--format", "json").stdout)
    functions = {f["name"]: f for f in value["programs"][0]["functions"]}
    wanted = {"read_all", "copy_all", "read_l2", "read_shared", "fma_fp32", "fma_fp64", "make_chain", "chase"}
    assert wanted <= set(functions)
    assert ("mma_bf16" in functions) == (target != "sm_75")
    assert all(not f["spill_stores"] and not f["spill_loads"] for f in functions.values())
    assert kscope("sass", cubin, "--function", "^fma_fp32$").stdout.count("FFMA") >= 512
    assert kscope("sass", cubin, "--function", "^fma_fp64$").stdout.count("DFMA") >= 512
    assert len(re.findall(r"LDS(?:\.U)?\.128", kscope("sass", cubin, "--function", "^read_shared$").stdout)) >= 16
    assert len(re.findall(r"LDG\.E(?:\.NA)?\.128", kscope("sass", cubin, "--function", "^read_all$").stdout)) >= 5
