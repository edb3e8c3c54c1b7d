"""Disassembly by content: the same answer with and without it, and never a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kscope.model.kernel import Kernel
from kscope.parsers.cubin import elf
from kscope.parsers.files import cachefiles, ncu_images
from kscope.parsers.ncu import sass_cache, worker
from kscope.parsers.ncu.kernels import read_kernels, to_kernel
from tests.cli.running import kscope, python
from tests.support import reports, thorough
from tests.support.thorough import often, some

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


def entry(file: Path) -> str:
    """The content of an entry, without its checksum."""
    content = cachefiles.read(file)
    assert content is not None
    return content.decode()


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
    content = entry(file)
    opcode = next(word for word in content.split() if word.startswith("LDG"))
    cachefiles.write(file, content.replace(opcode, "LDG.E.64").encode())
    assert opcode != "LDG.E.64"
    warm = read(report(CASE))
    assert {pc: (t.replace(opcode, "LDG.E.64"), *at) for pc, (t, *at) in cold.items()} == warm != cold


@pytest.mark.parametrize(
    "damage",
    some([
        b"", b"\0" * 500, os.urandom(3000), b"not a line\n", b"zz\tNOP\n", b"0\tNOP\n", b"\xff\xfe0\t\n",
        "half",
    ], 3),
    ids=some(["empty", "zeros", "noise", "no tab", "no number", "first line only", "no UTF-8", "half"], 3),
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
    cachefiles.write(first, entry(first).replace("LDG", "WRONG").encode())
    assert any("WRONG" in text for text, _, _ in read(report(CASE)).values())
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


NUMBER = b"\x08\x81\x80\x80\x80\xf0\x02"
"""Field 1 of the source of a capture, and what its result says of it."""


def test_each_launch_says_which_image_it_ran(report: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    """A function that was tuned: two images have one of its name, and both are kept, each for its own launches."""
    other = bytearray(reports.plain(CASE))
    table = next(b for b, _ in reports.parts(bytes(other))[1] if not b.results and b.end > b.payload)
    start = other.index(b"\x7fELF", table.payload)
    image = elf.read_image(bytes(other[start : table.end]))
    (function,) = [f for f in image.functions if f.name == next(read_kernels(str(report(CASE)))).mangled]
    at = start + bytes(other[start : table.end]).index(function.code)
    scaled = next(n for n in range(0, len(function.code), 16) if function.code[n : n + 2] == b"\x24\x78")
    other[at + scaled + 4] ^= 1  # the number that an IMAD multiplies by
    assert other.count(NUMBER) == 2
    second, joined = tmp_path / "second.ncu-rep", tmp_path / "joined.ncu-rep"
    second.write_bytes(other.replace(NUMBER, NUMBER.replace(b"\x81", b"\x82")))
    reports.join_reports([report(CASE), second, report(CASE)], joined)
    first, changed = read(report(CASE)), read(second)
    assert len(files(folder)) == 2
    assert [pc for pc, row in first.items() if row != changed[pc]] == [scaled]
    for file in files(folder):
        file.unlink()
    for _ in ("cold", "warm"):
        assert [rows(k) for k in read_kernels(str(joined))] == [first, changed, first]
        assert len(files(folder)) == 2


def test_same_report_twice_is_one_image(report: Callable[[str], Path], folder: Path, tmp_path: Path) -> None:
    joined = tmp_path / "joined.ncu-rep"
    reports.join_reports([report(CASE), report(CASE)], joined)
    assert len(ncu_images.embedded_images(str(joined))) == 1
    assert len(list(read_kernels(str(joined)))) == 2
    assert len(files(folder)) == 1


COUNTED = """
import io, sys
from kscope.parsers.ncu import native, worker
one, asked = native._instruction, []
def counted(*given):
    asked.append(given)
    return one(*given)
native._instruction = counted
worker.serve(sys.argv[1], 0, worker.Want(), io.BytesIO())
print(len(asked))
"""


def test_without_a_folder_each_function_is_disassembled_once(
    report: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers have read-only homes, and reports many launches of a function."""
    monkeypatch.setenv("KSCOPE_CACHE_DIR", "")
    joined = tmp_path / "joined.ncu-rep"
    reports.join_reports([report(CASE), report(CASE)], joined)
    done = python("-c", COUNTED, joined)
    lengths = [len(rows(k)) for k in read_kernels(str(joined))]
    assert [int(done.stdout)] * 2 == lengths, done.stderr


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


@pytest.mark.parametrize("change", ["edited", "renamed"])
def test_an_entry_that_is_not_as_it_was_written(change: str, report: Callable[[str], Path], folder: Path) -> None:
    """Its checksum tells: the verdict is about the code of the report, whatever stands in the cache."""
    cold = read(report(CASE))
    (file,) = files(folder)
    good = file.read_bytes()
    if change == "edited":
        file.write_bytes(good.replace(b"LDG.E", b"NOP", 1))
    else:
        other = folder / "sass-0.txt"
        cachefiles.write(other, good.partition(b"\n")[2].replace(b"LDG.E", b"NOP"))
        other.replace(file)
    assert file.read_bytes() != good
    assert read(report(CASE)) == cold and file.read_bytes() == good


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
@pytest.mark.parametrize("mode", some([0o777, 0o770, 0o1777], 1))
def test_a_folder_that_others_can_write_is_not_used(mode: int, report: Callable[[str], Path], folder: Path) -> None:
    cold = read(report(CASE))
    (file,) = files(folder)
    lie = entry(file).replace("LDG.E", "NOP").encode()
    cachefiles.write(file, lie)
    folder.chmod(mode)
    assert read(report(CASE)) == cold
    assert entry(file).encode() == lie, "nor is anything written there"
    assert "others can write to it; chmod go-w" in cachefiles.trouble(folder)
    for words in (("analyze", str(report(CASE))), ("diff", str(report(CASE)), str(report(CASE)))):
        done = kscope(*words)
        assert done.returncode == 0
        assert done.stderr == (
            f"kscope: the cache of disassembled code is not used: {folder}: others can write to it; chmod go-w it\n"
        )
    folder.chmod(0o700)
    assert read(report(CASE)) != cold and kscope("analyze", report(CASE)).stderr == ""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_used(report: Callable[[str], Path], folder: Path) -> None:
    read(report(CASE))
    os.chown(folder, 12345, 12345)
    assert "belongs to another user" in cachefiles.trouble(folder)
    (file,) = files(folder)
    file.unlink()
    read(report(CASE))
    assert files(folder) == []


def test_a_new_folder_is_ours_alone_whatever_the_umask(report: Callable[[str], Path], folder: Path) -> None:
    before = os.umask(0)
    try:
        read(report(CASE))
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700 and files(folder)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX files")
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "huge"])
def test_special_files_in_place_of_an_entry(kind: str, report: Callable[[str], Path], folder: Path) -> None:
    """Nothing waits for them, follows them or reads them; where that can be they give way to an entry."""
    cold = read(report(CASE))
    (file,) = files(folder)
    good = file.read_bytes()
    file.unlink()
    target = folder / "target"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        target.write_bytes(good)
        file.symlink_to(target)
    elif kind == "folder":
        file.mkdir()
    else:
        with file.open("wb") as opened:
            opened.truncate(1 << 40)
    assert read(report(CASE)) == cold
    if kind == "folder":
        assert file.is_dir() and files(folder) == []
    else:
        assert not file.is_symlink() and file.read_bytes() == good
        assert kind != "link" or target.read_bytes() == good


@pytest.mark.parametrize("way", ["_linked", "_renamed"])
def test_both_ways_to_write(way: str, tmp_path: Path) -> None:
    """Whole, over what is there, and with nothing else left in the folder; on a full disk as it was before."""
    file = tmp_path / "sass-1.txt"
    for content in (b"one", b"two" * 9999):
        if getattr(cachefiles, way)(file, content) is False:
            pytest.skip("no files without names here")
        assert file.read_bytes() == content and files(tmp_path) == [file]


FULL = """
import resource, sys
from pathlib import Path
from kscope.parsers.files import cachefiles
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for way in (cachefiles._linked, cachefiles._renamed):
    try:
        way(Path(sys.argv[1]), bytes(50_000))
    except OSError as error:
        print(error.strerror)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    file = tmp_path / "sass-1.txt"
    file.write_bytes(b"before")
    assert python("-c", FULL, file).stdout == "File too large\n" * 2
    assert files(tmp_path) == [file] and file.read_bytes() == b"before"


def test_what_killed_processes_left_goes(folder: Path) -> None:
    """Not what another one may be writing this moment, nor what is not ours."""
    folder.mkdir()
    old, new, other = (folder / name for name in ("sass-1.77.tmp", "sass-2.78.tmp", "notes.tmp"))
    for path in (old, new, other):
        path.write_bytes(b"")
        os.utime(path, (time.time() - (60 if path is new else 2 * cachefiles.STALE),) * 2)
    cachefiles.prune(folder, "sass-", 10)
    assert files(folder) == [other, new]


@thorough.only
def test_a_cold_cache_and_many_processes(report: Callable[[str], Path], folder: Path) -> None:
    """Many at once: all say the same, one whole entry, nothing else."""
    command = [sys.executable, "-m", "kscope", "analyze", str(report(CASE)), "--format", "json"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(often(12, 6))]
    done = [(*process.communicate(timeout=120), process.returncode) for process in started]
    assert {status for *_, status in done} == {0} and {errors for _, errors, _ in done} == {b""}
    assert len({out for out, *_ in done}) == 1
    (file,) = files(folder)
    warm = kscope("analyze", report(CASE), "--format", "json")
    assert warm.stdout.encode() == done[0][0] and cachefiles.read(file)


def test_parallel_writers(report: Callable[[str], Path], folder: Path) -> None:
    """Two processes that fill the cache at once: both right, one whole file."""
    readers = [worker.Reader(str(report(CASE)), worker.Want()) for _ in range(2)]
    kernels = [to_kernel(next(iter(r.kernels())), "x") for r in readers]  # type: ignore[arg-type]
    assert rows(kernels[0]) == rows(kernels[1]) == read(report(CASE))
    assert len(files(folder)) == 1
