"""How a player's process comes to be: started anew, or forked by one that has imported a framework."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kscope.bench.player import wire

IMPORTS_S = 120.0  # seconds for a framework to be imported, and for a fork


class Died(Exception):
    """The process ended, hung or spoke out of turn. kind: died, hung, garbled."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Process(Protocol):
    """What is asked of a player's process."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Nursery:
    """A process that has imported `modules` and forks players. environment: theirs, over our own."""

    def __init__(self, modules: str, environment: Mapping[str, str] | None = None) -> None:
        self.link, theirs = socket.socketpair()
        self.link.settimeout(IMPORTS_S)
        code = f"from kscope.bench.player.nursery import main; main({theirs.fileno()}, {modules!r})"
        self.process = started(code, theirs, subprocess.DEVNULL, environment)
        theirs.close()
        self.lock = threading.Lock()
        self.ready = False

    def fork(self, player: socket.socket, said: int) -> Forked:
        """Raises Died where the modules cannot be imported."""
        try:
            with self.lock:
                if not self.ready:
                    self.ready = bool(wire.receive(self.link).get("ready"))
                wire.send(self.link, {"fork": True})
                socket.send_fds(self.link, [b"f"], [player.fileno(), said])
                return Forked(self, int(wire.receive(self.link)["pid"]))
        except (wire.Broken, TimeoutError):
            raise Died("died", "the framework cannot be imported") from None

    def status(self, pid: int) -> int | None:
        try:
            with self.lock:
                wire.send(self.link, {"status": pid})
                found: int | None = wire.receive(self.link)["status"]
                return found
        except (wire.Broken, TimeoutError):
            return 0

    def close(self) -> None:
        self.link.close()
        self.process.kill()
        self.process.wait()


class Forked:
    """A player that a nursery forked."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.nursery, self.pid = nursery, pid
        self.ended: int | None = None

    def poll(self) -> int | None:
        if self.ended is None:
            self.ended = self.nursery.status(self.pid)
        return self.ended

    def wait(self, timeout: float | None = None) -> int:
        until = time.monotonic() + (timeout if timeout is not None else 5.0)
        while self.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        if self.ended is None:
            raise subprocess.TimeoutExpired("player", timeout or 5.0)
        return self.ended


def joined(
    tool: Sequence[str], path: Path, said: Any, environment: Mapping[str, str] | None, patience: float
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A player under a tool, and the link that it came to. Raises Died where it does not come."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen(1)
        door.settimeout(0.2)
        code = f"from kscope.bench.player.joining import connect; connect({str(path)!r})"
        process = started(code, None, said, environment, tool)
        until = time.monotonic() + patience
        while time.monotonic() < until and process.poll() is None:
            with contextlib.suppress(TimeoutError):
                link, _ = door.accept()
                link.settimeout(patience)
                return process, link
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    raise Died("died", f"{Path(tool[0]).name} did not start it (status {process.returncode})")


def started(
    code: str, link: socket.socket | None, said: Any, environment: Mapping[str, str] | None, tool: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """faulthandler: where a player hung or crashed is in what it printed."""
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    return subprocess.Popen(
        [*tool, sys.executable, "-X", "faulthandler", "-c", code], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        start_new_session=True, pass_fds=(link.fileno(),) if link is not None else (),
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
    )  # fmt: skip
