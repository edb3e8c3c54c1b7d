"""`kscope doctor`, with programs that are really run."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from kscope.cli.machine import _probe
from tests.cli.running import kscope


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_json_lists_every_check_and_what_a_missing_one_costs(tmp_path: Path) -> None:
    done = kscope("doctor", "--format", "json", env={"PATH": str(tmp_path), "CUDA_HOME": "", "CUDA_PATH": ""})
    assert (done.returncode, done.stderr) == (0, "")
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert {"kscope", "Python", "ncu-report", "GPU", *(tool.name for tool in _probe.TOOLS)} <= set(checks)
    assert checks["Python"]["version"] == platform.python_version()
    assert checks["ncu-report"]["status"] == "ok"
    assert all(check["costs"] and check["install"] for check in checks.values() if check["status"] != "ok")


def test_text_fits_and_names_the_remedy(tmp_path: Path) -> None:
    done = kscope("doctor", env={"PATH": str(tmp_path), "CUDA_HOME": "", "CUDA_PATH": ""})
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "nvidia-smi  missing" in done.stdout
    assert "get it  install the NVIDIA driver" in done.stdout


def test_programs_are_asked_for_their_version_and_not_trusted(tmp_path: Path) -> None:
    program(tmp_path, "ncu", "echo 'NVIDIA (R) Nsight Compute'; echo 'Version 2026.3.1.0 (build 1) (public-release)'")
    program(tmp_path, "nsys", "echo 'no license' >&2; exit 3")
    program(tmp_path, "nvdisasm", "echo 'Cuda compilation tools, release 13.0, V13.0.39'")
    program(
        tmp_path, "nvidia-smi",
        'case "$1" in --version) echo "NVIDIA-SMI version : 595.10.02";; *) echo "NVIDIA H200, 9.0, 595.10.02";; esac',
    )  # fmt: skip
    done = kscope("doctor", "--format", "json", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert (checks["ncu"]["status"], checks["ncu"]["version"]) == ("ok", "2026.3.1.0")
    assert checks["ncu"]["detail"] == str(tmp_path / "ncu")
    assert checks["nvdisasm"]["version"] == "13.0.39"
    assert checks["nsys"]["status"] == "limited"
    assert "exit status 3 no license" in checks["nsys"]["detail"]
    assert (checks["GPU"]["status"], checks["GPU"]["detail"]) == ("ok", "NVIDIA H200, 9.0, 595.10.02")
    assert "GPU counters" in checks


def test_a_program_that_hangs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe, "TIME_LIMIT_S", 0.2)
    path = program(tmp_path, "ncu", "exec sleep 30")
    assert _probe._ask(str(path), "--version") == ("", "no answer within 0.2 s")


def test_a_program_that_cannot_run(tmp_path: Path) -> None:
    path = tmp_path / "ncu"
    path.write_bytes(b"\x7fELF not really")
    path.chmod(0o755)
    output, fault = _probe._ask(str(path), "--version")
    assert output == ""
    assert fault.startswith("does not run: ")


@pytest.mark.parametrize(
    ("text", "uid", "status"),
    [
        ("RmProfilingAdminOnly: 1\n", 1000, "limited"), ("RmProfilingAdminOnly: 1\n", 0, "ok"),
        ("A: 3\nRmProfilingAdminOnly: 0\n", 1000, "ok"), ("other: 1\n", 1000, "limited"),
    ],
)  # fmt: skip
def test_counter_permission_is_read_from_the_driver(tmp_path: Path, text: str, uid: int, status: str) -> None:
    params = tmp_path / "params"
    params.write_text(text)
    check = _probe._permission(params, uid)
    assert check.status == status
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.install) == (status == "limited")


def test_counter_permission_without_the_file(tmp_path: Path) -> None:
    assert _probe._permission(tmp_path / "none", 0).status == "limited"


def test_disassemblers_say_what_they_read(tmp_path: Path) -> None:
    program(tmp_path, "nvdisasm", "echo 'Cuda compilation tools, release 11.8, V11.8.86'")
    program(tmp_path, "cuobjdump", "echo 'Cuda compilation tools, release 13.1, V13.1.4'")
    done = kscope("doctor", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    shown = {line.split()[0]: line for line in done.stdout.splitlines() if line and line[0] != " "}
    assert "reads sm_50 to sm_90" in shown["nvdisasm"]
    assert "reads sm_75 to sm_121" in shown["cuobjdump"]


def test_addresses_are_not_broken(tmp_path: Path) -> None:
    done = kscope("doctor", env={"PATH": str(tmp_path)})
    assert all(tool.install in done.stdout for tool in _probe.TOOLS if tool.install.startswith("https:"))
    assert "ncu-report excepted" not in done.stdout
