"""One input through the command line, in a fork of a process that has everything imported: a session, folders and
limits of its own."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from tools.fuzz.inputs import Input

MEMORY = 4 << 30
SECONDS = 60.0
GRACE = 5.0  # until what the command left to end has ended, on a machine with other work


class Ended(Struct, frozen=True):
    """How a command ended. status: negative for a signal, as subprocess has it. cpu: seconds of it and its children.
    memory: the most KiB that one of its processes held."""

    status: int
    wall: float
    cpu: float
    memory: int
    out: bytes
    errors: bytes
    late: bool = False
    orphans: int = 0
    left: tuple[str, ...] = ()


def adopt() -> None:
    """Make this process the parent of what its children leave behind (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def lay_out(one: Input, folder: Path) -> None:
    """The files of an input below a folder."""
    for name, content in one.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(content.removeprefix("link "))


def run(one: Input, folder: Path, *, seconds: float = SECONDS, memory: int = MEMORY) -> Ended:
    """Run the command in a folder that is made for it and removed. `adopt` was called; no other child runs."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("in", "tmp", "cache"):
        (folder / name).mkdir(parents=True, mode=0o700)
    lay_out(one, folder / "in")
    before = _names(folder / "in")
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _command(one.words, folder, memory)
    late = not _ends(pid, seconds)
    if late:
        os.kill(pid, signal.SIGKILL)
    _, state, used = os.wait4(pid, 0)
    wall = time.monotonic() - begun
    orphans = 0 if late else _remaining(GRACE)
    _end_rest()
    left = [f"in/{name}" for name in sorted(_names(folder / "in") ^ before)]
    left += [f"tmp/{name}" for name in sorted(_names(folder / "tmp"))]
    left += [f"cache/{name}" for name in sorted(_names(folder / "cache")) if not name.endswith(".txt")]
    ended = Ended(
        os.waitstatus_to_exitcode(state), wall, used.ru_utime + used.ru_stime, used.ru_maxrss,
        (folder / "out").read_bytes(), (folder / "errors").read_bytes(), late, orphans, tuple(left),
    )  # fmt: skip
    shutil.rmtree(folder)
    return ended


def _command(words: list[str] | tuple[str, ...], folder: Path, memory: int) -> NoReturn:
    try:
        os.setsid()
        os.chdir(folder / "in")
        for name, flags, number in (
            (os.devnull, os.O_RDONLY, 0), (folder / "out", os.O_WRONLY | os.O_CREAT, 1),
            (folder / "errors", os.O_WRONLY | os.O_CREAT, 2),
        ):  # fmt: skip
            opened = os.open(name, flags, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin, sys.stdout = os.fdopen(0, "r", encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
        os.environ.update(TMPDIR=str(folder / "tmp"), KSCOPE_CACHE_DIR=str(folder / "cache"), NO_COLOR="1")
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        import tempfile

        tempfile.tempdir = None
        from kscope.cli import start

        sys.argv = ["kscope", *words]
        start.main()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(70)  # main has its own way out


def _ends(pid: int, seconds: float) -> bool:
    """Whether the process ends within the time."""
    watched = os.pidfd_open(pid)
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


def _remaining(seconds: float) -> int:
    """How many of our children, which are what the command left, still run after this time."""
    until = time.monotonic() + seconds
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid == 0:
            if time.monotonic() > until:
                return len(_children())
            time.sleep(0.005)


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _end_rest() -> None:
    while children := _children():
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
