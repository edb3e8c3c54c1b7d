"""The real command in a real process."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.support import warm
from tests.support.reports import FIXTURES, fixture

CONFLICTS = FIXTURES / "bank_conflict.slow" / "report.ncu-rep.xz"
TRIAD = fixture("dram_bound.triad")


Done = subprocess.CompletedProcess[str]


def kscope(
    *args: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None, seconds: float = 120,
    limits: dict[int, int] | None = None,
) -> Done:  # fmt: skip
    """Run the command in a process of its own; both streams are pipes. limits: resource.RLIMIT_* -> most."""
    words = tuple(map(str, args))
    if warm.can(words, env):
        return warm.run(words, environment(env), cwd, seconds, limits)
    assert limits is None
    return python("-m", "kscope", *args, env=env, cwd=cwd)


def python(*args: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
    return subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, encoding="utf-8", env=environment(env), cwd=cwd,
        timeout=120, check=False,
    )  # fmt: skip


def environment(extra: dict[str, str] | None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "KSCOPE_DEBUG", "TERM", "COLUMNS")}
    root = str(Path(__file__).resolve().parents[2])
    return {**kept, "PYTHONPATH": root, "PYTHONUTF8": "1", **(extra or {})}


def on_terminal(*args: str | Path, env: dict[str, str] | None = None, stream: str = "stdout") -> str:
    """One stream of the command on a pseudo-terminal of 80 columns, with the line ends of a file."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "kscope", *map(str, args)]
    variables = environment({"TERM": "xterm", **(env or {})})
    out, err = (theirs, subprocess.DEVNULL) if stream == "stdout" else (subprocess.DEVNULL, theirs)
    with subprocess.Popen(command, env=variables, stdout=out, stderr=err):
        os.close(theirs)
        read = b""
        while chunk := _read(ours):
            read += chunk
    os.close(ours)
    return read.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux reports the closed other side this way
        return b""
