"""A disk that is full at any byte: the answer, or one line with the remedy, and nothing is left behind."""

from __future__ import annotations

import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import CONFLICTS, environment
from tests.support import traces
from tests.support.sass import FOLDER, SOURCES
from tests.support.thorough import some

LIMITED = """
import os, resource, sys
room = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
os.execv(sys.executable, [sys.executable, "-m", "kscope", *sys.argv[2:]])
"""
CUBIN = FOLDER / "banks.sm_80.cubin.xz"
LIBRARY = SOURCES / "twins" / "libtwins.a.xz"
EXPORT = next(traces.path(name) for name in traces.LABELS if ".sqlite" in traces.path(name).name)
ROOMS = (0, 700, 8_192, 20_000)
"""Bytes that a file may have: nothing, a part of a buffer, a whole one, and more than some of what is unpacked."""


def on_full_disk(room: int, folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """The command where no file may grow beyond `room` bytes; both streams are pipes, which have no such limit."""
    for name in ("tmp", "cache"):
        (folder / name).mkdir(mode=0o700, parents=True)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(room), *map(str, words)], capture_output=True, text=True, timeout=120,
        env=environment({"TMPDIR": str(folder / "tmp"), "KSCOPE_CACHE_DIR": str(folder / "cache")}), check=False,
    )  # fmt: skip
    assert list((folder / "tmp").iterdir()) == []
    return done


def answered(done: subprocess.CompletedProcess[str]) -> None:
    """An answer without a word, or one line that says what to do."""
    if done.returncode == 0:
        assert done.stdout and not done.stderr
    else:
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
        assert "File too large" in done.stderr or "no folder can be written" in done.stderr
        assert done.stderr.endswith("; make room, or set TMPDIR\n")


@pytest.mark.parametrize("room", some(ROOMS, 2))
def test_no_room_to_unpack_or_to_disassemble(room: int, tmp_path: Path) -> None:
    plain = tmp_path / "banks.cubin"
    plain.write_bytes(lzma.decompress(CUBIN.read_bytes()))
    library = tmp_path / "twins.a"
    library.write_bytes(lzma.decompress(LIBRARY.read_bytes()))
    commands = (
        ("analyze", CONFLICTS), ("analyze", EXPORT), ("sass", CUBIN), ("sass", LIBRARY), ("sass", plain),
        ("sass", library),
    )  # fmt: skip
    for number, words in enumerate(commands):
        answered(on_full_disk(room, tmp_path / str(number), *words))


@pytest.mark.parametrize("room", some([0, 700, 4_096], 1))
def test_no_room_in_the_cache(room: int, report: Callable[[str], Path], tmp_path: Path) -> None:
    """The answer is there nevertheless, and what stands in the cache afterwards is whole: the next run says so too."""
    path = report("bank_conflict.slow")
    done = on_full_disk(room, tmp_path / "full", "analyze", path)
    assert done.returncode == 0 and done.stderr == ""
    cache = tmp_path / "full" / "cache"
    assert all(file.suffix == ".txt" and file.stat().st_size <= room for file in cache.iterdir())
    again = subprocess.run(
        [sys.executable, "-m", "kscope", "analyze", str(path)], capture_output=True, text=True, timeout=120,
        env=environment({"KSCOPE_CACHE_DIR": str(cache)}), check=False,
    )  # fmt: skip
    assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")


def test_no_room_for_one_of_several(tmp_path: Path) -> None:
    """What needs no room is analysed."""
    trace = traces.trace(tmp_path, traces.launch(1, 0, 3, 4))
    done = on_full_disk(8_192, tmp_path / "full", "analyze", trace, EXPORT)
    assert done.returncode == 0 and not done.stderr
    said = " ".join(done.stdout.split())
    assert "File too large" in said and "make room" in said
