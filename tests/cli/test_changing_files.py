"""Files that another process cuts short and writes again while they are read: an answer or one line, never a crash."""

from __future__ import annotations

import lzma
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.running import kscope
from tests.support import traces
from tests.support.sass import SOURCES

TIMES = 3


@contextmanager
def changing(path: Path) -> Iterator[None]:
    whole, stop = path.read_bytes(), threading.Event()

    def change() -> None:
        while not stop.wait(0.004):
            os.truncate(path, len(whole) // 3)
            stop.wait(0.004)
            path.write_bytes(whole)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("kind", ["ncu", "code of a report", "nsys", "library"])
def test_files_that_change(kind: str, report: Callable[[str], Path], tmp_path: Path) -> None:
    words, name = {
        "ncu": ("analyze", "r.ncu-rep"), "code of a report": ("sass", "r.ncu-rep"), "nsys": ("analyze", "t.sqlite"),
        "library": ("sass", "lib.a"),
    }[kind]  # fmt: skip
    path = tmp_path / name
    if kind in ("ncu", "code of a report"):
        path.write_bytes(report("bank_conflict.slow").read_bytes())
    elif kind == "nsys":
        export = next(traces.path(n) for n in traces.LABELS if ".sqlite" in traces.path(n).name)
        path.write_bytes(lzma.decompress(export.read_bytes()))
    else:
        path.write_bytes(lzma.decompress((SOURCES / "twins" / "libtwins.a.xz").read_bytes()))
    with changing(path):
        for _ in range(TIMES):
            done = kscope(words, path)
            assert done.returncode in (0, 3), (done.returncode, done.stderr)
            assert done.stderr.count("\n") == (done.returncode == 3), done.stderr
