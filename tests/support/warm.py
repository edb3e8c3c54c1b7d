"""Commands in processes of their own that need not import kscope again: a process that has imported it waits, and forks
one for each command, as the command line forks its readers. Half of what a short command takes is importing it and
opening NVIDIA's first kernel; how a process starts is what tests/cli/test_start.py and others test with real starts.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("cli", "engine", "features", "rules", "reports", "parsers", "fixes", "model", "arch")
"""What a command imports: not kscope.bench, which looks at what its process has imported."""
NOT = ("bench", "mcp", "fleet", "run")
"""Commands that start servers, clusters or other people's programs: always real starts."""


def can(words: tuple[str, ...], env: dict[str, str] | None) -> bool:
    """Whether a command may run in a fork. Variables of Python's own say how it starts."""
    usual = not any(name.startswith(("PYTHON", "LD_", "OPENBLAS")) for name in env or {})
    return hasattr(os, "fork") and usual and not set(words[:1]) & set(NOT)


def run(
    words: tuple[str, ...], env: dict[str, str], cwd: Path | None, seconds: float, limits: dict[int, int] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in a fork of the waiting process, which bounds what it takes (resource.RLIMIT_*: most). Both streams
    are pipes."""
    wanted = json.dumps(
        {"words": words, "env": env, "cwd": str(cwd or Path.cwd()), "limits": [*(limits or {}).items()]}
    ).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(_server())
        ours, theirs = zip(os.pipe(), os.pipe(), strict=True)
        socket.send_fds(line, [len(wanted).to_bytes(4, "big")], list(theirs))
        line.sendall(wanted)
        for number in theirs:
            os.close(number)
        read: list[bytes] = [b"", b""]
        threads = [threading.Thread(target=_drain, args=(ours[i], read, i), daemon=True) for i in (0, 1)]
        for thread in threads:
            thread.start()
        pid = int.from_bytes(line.recv(4), "big")
        line.settimeout(seconds)
        try:
            told = line.recv(4)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(words), seconds) from None
        for thread in threads:
            thread.join()
    status = int.from_bytes(told, "big", signed=True)
    out, err = (part.decode().replace("\r\n", "\n") for part in read)
    return subprocess.CompletedProcess([sys.executable, "-m", "kscope", *words], status, out, err)


def _drain(number: int, into: list[bytes], at: int) -> None:
    with os.fdopen(number, "rb") as stream:
        into[at] = stream.read()


@cache
def _server() -> str:
    """Its address: made at the first command of this process, ended with it."""
    address = f"\0kscope-tests-{os.getpid()}"
    ready, written = os.pipe()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.support.warm", address[1:], str(written)], env=env, cwd=ROOT,
        pass_fds=[written], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(written)
    atexit.register(process.kill)
    if os.read(ready, 1) != b"1":
        raise RuntimeError("the process that imports kscope for the tests' commands did not start")
    os.close(ready)
    return address


def _serve(name: str, ready: int) -> None:
    import importlib
    import pkgutil

    import ncu_report

    from tests.support.reports import plain

    for part in PARTS:
        package = importlib.import_module(f"kscope.{part}")
        for module in pkgutil.walk_packages(package.__path__, f"kscope.{part}."):
            importlib.import_module(module.name)
    opened = Path(os.environ["KSCOPE_CACHE_DIR"]).parent / f"warm.{os.getpid()}.ncu-rep"
    opened.write_bytes(plain("bank_conflict.slow"))
    ncu_report.load_report(str(opened))[0][0]
    opened.unlink()
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("a thread was started: forks would not be clean")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for a command
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("\0" + name)
        server.listen(8)
        os.write(ready, b"1")
        os.close(ready)
        while True:
            line, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _answer(line)
            line.close()


def _answer(line: socket.socket) -> None:
    """In a fork: start the command in another, tell its number, wait, tell its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, fds, _, _ = socket.recv_fds(line, 4, 2)
    body = b""
    while len(body) < int.from_bytes(head, "big"):
        body += line.recv(1 << 16)
    pid = os.fork()
    if pid == 0:
        line.close()
        _be(json.loads(body), fds)
    for number in fds:
        os.close(number)
    line.sendall(pid.to_bytes(4, "big"))
    _, status = os.waitpid(pid, 0)
    line.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    os._exit(0)


def _be(wanted: dict[str, object], fds: list[int]) -> None:
    """Become the command: its folder, variables, words, bounds and streams."""
    import resource

    from kscope.cli import start

    for which, most in wanted["limits"]:  # type: ignore[attr-defined]
        resource.setrlimit(which, (most, most))

    os.setpgid(0, 0)
    os.chdir(str(wanted["cwd"]))
    os.environ.clear()
    os.environ.update(wanted["env"])  # type: ignore[call-overload]
    for stream, number in zip((1, 2), fds, strict=True):
        os.dup2(number, stream)
        os.close(number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = [str(Path(start.__file__).parents[1] / "__main__.py"), *wanted["words"]]  # type: ignore[misc]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    start.main()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
