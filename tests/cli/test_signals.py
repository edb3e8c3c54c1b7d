"""Told to end at any moment: no process and no file is left behind, and the exit status says why."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.running import environment
from tests.support.sass import SOURCES as FOLDER
from tests.support.thorough import often

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
MOMENTS = often(3, 1)
LIBRARY = FOLDER / "twins" / "libtwins.a.xz"  # whose images are taken out one by one, by a tool each


def members(session: int) -> list[int]:
    """Processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


class Started:
    """A command in a session of its own, with its own folders for what is temporary and cached."""

    def __init__(self, folder: Path, *words: str | Path, prepare: Callable[[], None] | None = None) -> None:
        self.folder = folder
        for name in ("tmp", "cache"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kscope", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment({"TMPDIR": str(folder / "tmp"), "KSCOPE_CACHE_DIR": str(folder / "cache")}),
            start_new_session=True, preexec_fn=prepare,
        )  # fmt: skip

    def end(self, number: int) -> tuple[int, bytes, bytes]:
        """(exit status, both streams) after a signal to the one process; asserts that nothing is left."""
        os.kill(self.process.pid, number)
        out, errors = self.process.communicate(timeout=60)
        left = members(self.process.pid)
        assert left == [], [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
        assert list((self.folder / "tmp").iterdir()) == []
        assert [p.name for p in (self.folder / "cache").iterdir() if p.suffix != ".txt"] == []
        return self.process.returncode, out, errors


@pytest.fixture(scope="module")
def usual(report: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """How long each command takes here and now, so that the moments fall on all of it."""
    times = {}
    for words in commands(report):
        begin = time.monotonic()
        started = Started(tmp_path_factory.mktemp("usual"), *words)
        started.process.communicate(timeout=120)
        times[str(words[0])] = time.monotonic() - begin
    return times


def commands(report: Callable[[str], Path]) -> Iterator[tuple[str | Path, ...]]:
    yield "analyze", report("bank_conflict.slow")
    yield "sass", LIBRARY


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("place", [0, 1], ids=["analyze", "sass"])
def test_at_random_moments(
    place: int, number: signal.Signals, report: Callable[[str], Path], usual: dict[str, float], tmp_path: Path
) -> None:
    words = list(commands(report))[place]
    moments = random.Random(place * 100 + number)
    known = {0, -number, 128 + number}  # done before, before our handler was there, told to end
    for index in range(MOMENTS):
        started = Started(tmp_path / str(index), *words)
        time.sleep(moments.uniform(0.02, usual[str(words[0])]))
        status, _, errors = started.end(number)
        assert status in known and (status or not errors), (status, errors)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_while_a_tool_works(number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool ends with us, and the status names the signal."""
    tool, begun = tmp_path / "cuobjdump", tmp_path / "begun"
    tool.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo V13.0.1; exit; }}\ntouch {begun}; exec sleep 60\n')
    tool.chmod(0o755)
    monkeypatch.setenv("KSCOPE_CUOBJDUMP", str(tool))
    # whoever runs the tests may ignore SIGHUP (nohup), and children inherit that
    started = Started(tmp_path / "run", "sass", LIBRARY, prepare=lambda: signal.signal(number, signal.SIG_DFL))
    until = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert started.end(number) == (128 + number, b"", b"")


def test_hung_up_without_minding(report: Callable[[str], Path], tmp_path: Path) -> None:
    """nohup: whoever starts us with SIGHUP ignored wants the answer nevertheless."""
    started = Started(
        tmp_path, "analyze", report("bank_conflict.slow"), prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    time.sleep(0.3)
    status, out, errors = started.end(signal.SIGHUP)
    assert status == 0 and out and not errors


DURING = """
import os, signal, sys
from kscope.cli import start
from kscope.parsers import toolchain
import subprocess
begin = subprocess.Popen._execute_child
def signalled(self, *given):
    begin(self, *given)  # the program runs, and its Popen is not yet anyone's
    os.kill(os.getpid(), signal.SIGTERM)
subprocess.Popen._execute_child = signalled
sys.argv = ["kscope", "sass", sys.argv[1]]
start.main()
"""


def test_between_the_start_of_a_tool_and_its_name_being_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "cuobjdump"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-c", DURING, str(LIBRARY)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment({"KSCOPE_CUOBJDUMP": str(tool), "TMPDIR": str(tmp_path)}), start_new_session=True,
    )  # fmt: skip
    out, errors = process.communicate(timeout=50)
    assert (process.returncode, out, errors) == (143, b"", b"")
    assert members(process.pid) == [] and list(tmp_path.iterdir()) == [tool]


FORKED = """
import os, signal, sys
from kscope.cli import start
fork = os.fork
def signalled():
    pid = fork()
    if pid:
        os.kill(os.getpid(), signal.SIGTERM)
    return pid
os.fork = signalled
sys.argv = ["kscope", "analyze", sys.argv[1]]
start.main()
"""


def test_between_the_fork_of_a_reader_and_its_number_being_known(report: Callable[[str], Path]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKED, str(report("bank_conflict.slow"))], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment(None), start_new_session=True,
    )  # fmt: skip
    out, errors = process.communicate(timeout=50)
    assert (process.returncode, out, errors) == (143, b"", b"")
    assert members(process.pid) == []


MADE = """
import os, shutil, signal, sys
from kscope.cli import start
make, remove = os.mkdir, shutil.rmtree
library, when, number = sys.argv[1:]
told = []
def signalled(now, path):
    if now == when and "kscope-" in str(path) and not told:
        told.append(path)
        os.kill(os.getpid(), int(number))
def making(path, *given, **named):
    make(path, *given, **named)
    signalled("made", path)
def removing(path, *given, **named):
    signalled("removed", path)
    remove(path, *given, **named)
os.mkdir, shutil.rmtree = making, removing
sys.argv = ["kscope", "sass", library]
start.main()
"""


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("when", ["made", "removed"])
def test_between_a_folder_and_its_name_being_known(when: str, number: signal.Signals, tmp_path: Path) -> None:
    """As in the middle of its removal: no moment at which what is temporary is nobody's."""
    process = subprocess.Popen(
        [sys.executable, "-c", MADE, str(LIBRARY), when, str(int(number))], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment({"TMPDIR": str(tmp_path)}), start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )  # fmt: skip
    out, errors = process.communicate(timeout=50)
    assert (process.returncode, out) == (128 + number, b""), errors
    assert list(tmp_path.iterdir()) == []
