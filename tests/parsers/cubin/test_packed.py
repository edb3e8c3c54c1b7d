"""Machine code in folders, wheels and PTX: the same functions as in the cubins themselves."""

from __future__ import annotations

import lzma
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from kscope.model.errors import KscopeError
from kscope.parsers import toolchain
from kscope.parsers.cubin import packed
from kscope.parsers.cubin.programs import read_programs
from tests.support.patches import FIXTURES

CUBIN = FIXTURES / "sass" / "tiles.sm_90a.cubin.xz"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder as Triton leaves it: a folder a kernel, with the cubin among other files."""
    folder = tmp_path / "cache" / "HASH"
    folder.mkdir(parents=True)
    (folder / "kernel.cubin").write_bytes(lzma.decompress(CUBIN.read_bytes()))
    (folder / "kernel.json").write_text("{}")
    (folder / "kernel.ttir").write_text("module {}")
    return tmp_path / "cache"


def names(path: Path) -> list[tuple[str, list[str]]]:
    return [(image.member, [f.name for f in image.functions]) for image in read_programs(path)]


def test_a_folder_is_its_files(cache: Path) -> None:
    (alone,) = read_programs(CUBIN)
    assert names(cache) == [("HASH/kernel.cubin", [f.name for f in alone.functions])]


def test_a_wheel_is_its_files(cache: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(cache / "HASH" / "kernel.cubin", "package/kernels/kernel.cubin")
        archive.writestr("package/__init__.py", "")
    (alone,) = read_programs(CUBIN)
    assert names(wheel) == [("package/kernels/kernel.cubin", [f.name for f in alone.functions])]


def test_one_bad_file_does_not_cost_the_others(cache: Path) -> None:
    whole = (cache / "HASH" / "kernel.cubin").read_bytes()
    (cache / "broken.cubin").write_bytes(whole[: len(whole) // 2])
    assert [member for member, _ in names(cache)] == ["HASH/kernel.cubin"]
    (cache / "HASH" / "kernel.cubin").unlink()
    with pytest.raises(KscopeError, match="truncated"):
        read_programs(cache)


def test_links_are_not_followed(cache: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.cubin"
    (cache / "HASH" / "kernel.cubin").rename(elsewhere)
    (cache / "link.cubin").symlink_to(elsewhere)
    with pytest.raises(KscopeError, match="no machine code in any"):
        read_programs(cache)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.cubin", bytes(1 << 20))
    monkeypatch.setenv("KSCOPE_UNPACK_LIMIT", "100000")
    with pytest.raises(KscopeError, match="unpacks to more than 100000 bytes"):
        read_programs(path)


def test_a_cut_archive_is_damaged(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(cache / "HASH" / "kernel.cubin", "kernel.cubin")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(KscopeError, match="File is not a zip file"):
        read_programs(path)


@pytest.mark.skipif(toolchain.locate("ptxas") is None, reason="no ptxas here")
def test_ptx_is_assembled_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
    (image,) = read_programs(path)
    assert image.member.startswith("assembled by ptxas") and image.arch == "sm_90"
    assert [f.name for f in image.functions] == ["k"]
    (other,) = read_programs(path, arch="sm_100")
    assert other.arch == "sm_100"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { no; }\n")
    with pytest.raises(KscopeError, match="refuses it for sm_90"):
        read_programs(path)


def test_without_ptxas_the_reason_is_said(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
    code = (
        "import sys\nfrom kscope.parsers import toolchain\ntoolchain.candidates = lambda name: iter(())\n"
        "from kscope.cli.main import main\nmain(['sass', sys.argv[1]])"
    )
    done = subprocess.run(
        [os.sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(FIXTURES.parent)},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "ptxas decides what runs, and it is not here" in done.stderr and "nvidia-cuda-nvcc" in done.stderr


def test_too_many_files_are_a_fault(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MEMBERS", 2)
    with pytest.raises(KscopeError, match="more than 2 files"):
        read_programs(cache)
