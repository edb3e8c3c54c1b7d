"""Finding and running NVIDIA's tools, with programs that are really run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kscope.model.errors import KscopeError
from kscope.parsers import toolchain
from kscope.parsers.cubin.programs import read_programs
from tests.support.sass import FOLDER, SOURCES

VARIABLES = ("KSCOPE_NVDISASM", "NVDISASM_PATH", "CUDA_HOME", "CUDA_PATH", "KSCOPE_TOOL_TIMEOUT")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def program(folder: Path, name: str, body: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_wheel_that_kscope_depends_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for name in ("nvdisasm", "cuobjdump"):
        tool = toolchain.find(name, 90)
        assert tool.version >= (13,)
        assert tool.path.is_file()


def test_the_environment_comes_first_then_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(tmp_path / "a", "nvdisasm", "echo V13.0.1")
    named = program(tmp_path / "b", "nvdisasm", "echo V13.1.2")
    monkeypatch.setenv("PATH", f"{on_path.parent}:/bin")
    assert toolchain.find("nvdisasm").path == on_path
    monkeypatch.setenv("KSCOPE_NVDISASM", str(named))
    assert str(toolchain.find("nvdisasm")) == "nvdisasm 13.1.2"
    monkeypatch.delenv("KSCOPE_NVDISASM")
    monkeypatch.setenv("NVDISASM_PATH", str(named.parent))
    assert toolchain.find("nvdisasm").path == named


def test_a_copy_too_old_for_the_target_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = program(tmp_path / "a", "nvdisasm", "echo V12.4.99")
    monkeypatch.setenv("PATH", f"{old.parent}:/bin")
    assert toolchain.find("nvdisasm", 90).path == old
    assert toolchain.find("nvdisasm", 120).path != old


def test_no_copy_that_reads_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = program(tmp_path, "nvdisasm", "echo V13.5.37")
    monkeypatch.setattr(toolchain, "candidates", lambda name: iter([new]))
    with pytest.raises(KscopeError, match=r"does not read sm_70 \(CUDA 13.0 and earlier do\)") as caught:
        toolchain.find("nvdisasm", 70)
    assert (caught.value.status, "KSCOPE_NVDISASM" in caught.value.hint) == (4, True)


def test_a_missing_tool_is_status_4_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "candidates", lambda name: iter([]))
    with pytest.raises(KscopeError, match="pip install nvidia-cuda-nvdisasm") as caught:
        toolchain.find("nvdisasm", 90)
    assert caught.value.status == 4


def test_a_tool_that_hangs_ends_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = toolchain.Tool("nvdisasm", program(tmp_path, "nvdisasm", "exec sleep 30"))
    with pytest.raises(KscopeError, match=r"took more than 0\.2 s"):
        toolchain.run(slow, [], seconds=0.2)


def test_output_status_and_fault(tmp_path: Path) -> None:
    body = "echo out; echo 'nvdisasm warning : noise' >&2; echo 'nvdisasm fatal   : no good' >&2; exit 2"
    tool = toolchain.Tool("nvdisasm", program(tmp_path, "nvdisasm", body))
    assert toolchain.run(tool, []) == toolchain.Output(2, b"out\n", "no good")
    crash = toolchain.Tool("nvdisasm", program(tmp_path, "crash", "kill -SEGV $$"))
    assert toolchain.run(crash, []).status == -11


def test_tools_run_in_an_empty_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    tool = toolchain.Tool("x", program(tmp_path, "x", "pwd; ls -A; touch left; echo $LC_ALL"))
    folder, locale = toolchain.run(tool, []).stdout.decode().split()
    assert locale == "C"
    assert not os.path.exists(folder)


@pytest.mark.parametrize("entry", ["", ".", "bin"])
def test_the_current_folder_is_never_searched(entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither through an empty nor through a relative entry of PATH, nor as a package of the name of NVIDIA's."""
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "bin", tmp_path / "nvidia" / "cu99" / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        program(folder, "nvdisasm", "echo V99.0.0")
    monkeypatch.setenv("PATH", f"{entry}{os.pathsep}/bin")
    monkeypatch.setenv("CUDA_HOME", entry)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = list(toolchain.candidates("nvdisasm"))
    assert found and all(path.is_absolute() and tmp_path not in path.parents for path in found)
    named = program(tmp_path / "named", "nvdisasm", "echo V13.1.2")
    monkeypatch.setenv("PATH", f"{entry}{os.pathsep}{named.parent}")
    assert toolchain.locate("nvdisasm") == named, "a folder that is named is searched"


def test_a_tool_that_the_environment_names_relatively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, although tools run in a folder of their own: whoever named it meant it."""
    monkeypatch.chdir(tmp_path)
    program(tmp_path, "nvdisasm", "echo V13.1.2")
    monkeypatch.setenv("KSCOPE_NVDISASM", "./nvdisasm")
    assert str(toolchain.find("nvdisasm")) == "nvdisasm 13.1.2"


HANGS = "[ $1 = --version ] && { echo V13.0.1; exit; }; exec sleep 60"


@pytest.mark.parametrize(
    ("name", "fixture"), [("nvdisasm", "banks.sm_80.cubin.xz"), ("cuobjdump", "twins/libtwins.a.xz")]
)
def test_a_tool_that_hangs_on_a_small_file_is_ended_soon(
    name: str, fixture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvdisasm 13 runs for ever on some damaged cubins: 13 KB of them cost ten minutes."""
    monkeypatch.setenv(f"KSCOPE_{name.upper()}", str(program(tmp_path, name, HANGS)))
    assert 20 < toolchain.Patience(50_000).left < 30 and toolchain.Patience(100 << 20).left > toolchain.SECONDS
    monkeypatch.setattr(toolchain, "_AT_LEAST", 0.3)
    monkeypatch.setattr(toolchain, "_BYTES_A_SECOND", 1 << 20)
    begun = time.monotonic()
    with pytest.raises(KscopeError, match=r"took more than .*KSCOPE_TOOL_TIMEOUT") as caught:
        read_programs((SOURCES if "/" in fixture else FOLDER) / fixture)
    assert caught.value.status == 3 and time.monotonic() - begun < 20


def test_the_tools_of_one_input_share_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = toolchain.Tool("cuobjdump", program(tmp_path, "cuobjdump", "sleep 0.2"))
    patience = toolchain.Patience(0)
    patience.left = 1.0
    with pytest.raises(KscopeError, match="took more than"):
        for _ in range(8):  # one by one none of them is slow
            toolchain.run(slow, [], patience=patience)
    assert patience.left < 0.2
    monkeypatch.setenv("KSCOPE_TOOL_TIMEOUT", "30")
    assert toolchain.run(slow, [], patience=patience).status == 0
