"""Disassembly by content: the same answer with and without it, and never a wrong one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kscope.model.kernel import Kernel
from kscope.parsers.files import ncu_images
from kscope.parsers.ncu import sass_cache, worker
from kscope.parsers.ncu.kernels import read_kernels, to_kernel
from tests.support import reports

CASE = "bank_conflict.slow"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test."""
    path = tmp_path / "cache"
    monkeypatch.setenv("KSCOPE_CACHE_DIR", str(path))
    return path


Text = tuple[str, "str | None", "int | None"]


def rows(kernel: Kernel) -> dict[int, Text]:
    """Text, file and line of each instruction."""
    assert kernel.program is not None and kernel.notes == ()
    return {ins.pc: (ins.text, ins.file, ins.line) for ins in kernel.program.instructions}


def read(path: Path) -> dict[int, Text]:
    (kernel,) = read_kernels(str(path))
    return rows(kernel)


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("case", [CASE, "launch_bound.tiny", "sgemm.blocktile2d"])
def test_cold_equals_warm_equals_none(
    case: str, report: Callable[[str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = read(report(case))
    assert len(files(folder)) == 1, "one function, one file, nothing temporary left"
    stamp = files(folder)[0].stat().st_mtime_ns
    assert read(report(case)) == cold
    assert files(folder)[0].stat().st_mtime_ns == stamp, "a warm run writes nothing"
    monkeypatch.setenv("KSCOPE_CACHE_DIR", "")
    assert read(report(case)) == cold
    assert len(cold) > 5 and list(cold) == sorted(cold)
    assert all(text and file and line for text, file, line in cold.values())


def test_warm_does_not_disassemble(report: Callable[[str], Path], folder: Path) -> None:
    """What is in the file is what comes out: the disassembler was not asked."""
    cold = read(report(CASE))
    (file,) = files(folder)
    content = file.read_text()
    opcode = next(word for word in content.split() if word.startswith("LDG"))
    file.write_text(content.replace(opcode, "LDG.E.64"))
    assert opcode != "LDG.E.64"
    warm = read(report(CASE))
    assert {pc: (t.replace(opcode, "LDG.E.64"), *at) for pc, (t, *at) in cold.items()} == warm != cold


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"\0" * 500, os.urandom(3000), b"not a line\n", b"zz\tNOP\n", b"0\tNOP\n", b"\xff\xfe0\t\n",
        "half",
    ],
    ids=["empty", "zeros", "noise", "no tab", "no number", "first line only", "no UTF-8", "half"],
)  # fmt: skip
def test_damaged_file(damage: bytes | str, report: Callable[[str], Path], folder: Path) -> None:
    """Ignored, and replaced by a good one."""
    cold = read(report(CASE))
    (file,) = files(folder)
    good = file.read_bytes()
    file.write_bytes(damage if isinstance(damage, bytes) else good[: len(good) // 2])
    assert read(report(CASE)) == cold
    assert files(folder) == [file] and file.read_bytes() == good


def test_another_build_of_the_kernel(report: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    """One byte of the embedded image differs: another key, so the old text is not used."""
    read(report(CASE))
    (first,) = files(folder)
    first.write_text(first.read_text().replace("\t", "\tWRONG "))
    data = bytearray(reports.plain(CASE))
    table = next(b for b, _ in reports.parts(bytes(data))[1] if not b.results and b.end > b.payload)
    image = data.index(b"\x7fELF", table.payload)
    data[image + 0x34] ^= 1  # e_flags or e_ehsize: the disassembler does not mind, the hash does
    path = tmp_path / "rebuilt.ncu-rep"
    path.write_bytes(data)
    assert not any("WRONG" in text for text, _, _ in read(path).values())


def test_one_image_for_several_reports(report: Callable[[str], Path], folder: Path) -> None:
    """The captures come from one binary: the same function in another report is answered from the cache."""
    cases = ("bank_conflict.slow", "bank_conflict.fast")
    kernels = [next(iter(read_kernels(str(report(case))))) for case in cases]
    different = {k.mangled for k in kernels}
    assert len(files(folder)) == len(different)


@pytest.mark.parametrize("value", ["", None])
def test_off(value: str | None, report: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KSCOPE_CACHE_DIR= or no home at all: no cache anywhere."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if value is None:
        monkeypatch.delenv("KSCOPE_CACHE_DIR")
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("KSCOPE_CACHE_DIR", value)
    assert sass_cache.cache_dir() is None
    assert len(read(report(CASE))) > 5
    assert files(tmp_path) == []


def test_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSCOPE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sass_cache.cache_dir() == tmp_path / ".cache" / "kscope"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert sass_cache.cache_dir() == tmp_path / "x" / "kscope"
    monkeypatch.setenv("KSCOPE_CACHE_DIR", str(tmp_path / "y"))
    assert sass_cache.cache_dir() == tmp_path / "y"


@pytest.mark.parametrize("obstacle", ["a file is there", "no such device"])
def test_folder_that_cannot_be_written(
    obstacle: str, report: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Harmless: it only costs time. (A file in its place stops root too, which a read-only mode does not.)"""
    path = tmp_path / "taken" if obstacle == "a file is there" else Path("/proc/kscope-cache")
    if obstacle == "a file is there":
        path.write_text("mine")
    monkeypatch.setenv("KSCOPE_CACHE_DIR", str(path))
    assert len(read(report(CASE))) > 5
    assert not path.exists() or path.read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
def test_read_only_folder(report: Callable[[str], Path], folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o500)
    try:
        first = read(report(CASE))
        assert read(report(CASE)) == first
        assert os.geteuid() == 0 or files(folder) == []
    finally:
        folder.chmod(0o700)


def test_two_images_with_one_name(report: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    """Which image a launch ran cannot be told then: nothing is kept, and both kernels are right."""
    other = bytearray(reports.plain(CASE))
    table = next(b for b, _ in reports.parts(bytes(other))[1] if not b.results and b.end > b.payload)
    other[other.index(b"\x7fELF", table.payload) + 0x34] ^= 1
    second, joined = tmp_path / "second.ncu-rep", tmp_path / "joined.ncu-rep"
    second.write_bytes(other)
    reports.join_reports([report(CASE), second], joined)
    assert len(ncu_images.embedded_images(str(joined))) == 2
    kernels = [rows(k) for k in read_kernels(str(joined))]
    assert len(kernels) == 2 and kernels[0] == kernels[1]
    assert files(folder) == []


def test_same_report_twice_is_one_image(report: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    joined = tmp_path / "joined.ncu-rep"
    reports.join_reports([report(CASE), report(CASE)], joined)
    assert len(ncu_images.embedded_images(str(joined))) == 1
    assert len(list(read_kernels(str(joined)))) == 2
    assert len(files(folder)) == 1


def test_reads_no_images_from_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    for content in (b"", b"NVR\0", os.urandom(5000), reports.plain(CASE)[:400_000]):
        path.write_bytes(content)
        assert ncu_images.embedded_images(str(path)) == {}
    assert ncu_images.embedded_images(str(tmp_path / "none")) == {}


def test_store_and_load(report: Callable[[str], Path], folder: Path) -> None:
    """Round trip of everything that a row can be; functions that no image holds are not kept."""
    path = str(report(CASE))
    function = next(iter(read_kernels(path))).mangled
    given: dict[int, sass_cache.Row] = {
        0: ("MOV R1, c[0x0][0x28]", None, None),
        16: ("", "/a b/x\ty.cu", 7),
        32: ("LDG.E R2, desc[UR4][R2.64]  ", "/é.cuh", None),
        48: ("@!P0  BRA 0x20", "/a b/x\ty.cu", 1),
    }
    cache = sass_cache.SassCache(path)
    assert cache.load(function), "stored by the reader"
    assert cache.load("no_such_function") is None and cache.load("") is None
    cache.store("no_such_function", given)
    assert len(files(folder)) == 1
    cache.store(function, given)
    assert sass_cache.SassCache(path).load(function) == given


def test_pruning(report: Callable[[str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound the older half goes; what was just written stays, and so do files of others."""
    monkeypatch.setattr(sass_cache, "KEEP", 10)
    folder.mkdir()
    now = time.time()
    for age in range(10):
        path = folder / f"sass-{age:02}.txt"
        path.write_text("0\tNOP\n")
        os.utime(path, (now - 60 * (age + 1),) * 2)
    (folder / "notes.txt").write_text("mine")
    read(report(CASE))
    left = {p.name for p in files(folder)}
    assert {f"sass-{age:02}.txt" for age in range(5)} < left, "the younger half"
    assert not {f"sass-{age:02}.txt" for age in range(5, 10)} & left, "the older half"
    assert "notes.txt" in left and len(left) == 7


def test_parallel_writers(report: Callable[[str], Path], folder: Path) -> None:
    """Two processes that fill the cache at once: both right, one whole file."""
    readers = [worker.Reader(str(report(CASE)), worker.Want()) for _ in range(2)]
    kernels = [to_kernel(next(iter(r.kernels())), "x") for r in readers]  # type: ignore[arg-type]
    assert rows(kernels[0]) == rows(kernels[1]) == read(report(CASE))
    assert len(files(folder)) == 1
