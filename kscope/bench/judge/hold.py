"""A player's process held from our side: files that arrays go through, calls with a time limit, a clock around them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from kscope.bench.judge.starting import Died as Died
from kscope.bench.judge.starting import Nursery as Nursery
from kscope.bench.judge.starting import Process, joined, started
from kscope.bench.player import wire
from kscope.bench.player.loading import Unusable
from kscope.bench.values.numbers import dtype
from kscope.model.errors import KscopeError, one_line

PATIENCE = 120.0  # seconds for one answer: a first call may compile
AWAKE_S = 1.0  # without sleep; of what takes longer a wake-up is nothing
SAID = 2000  # characters of what a candidate printed that are looked at
STACKS = 100_000  # of them, where stacks of all threads are looked for


class Unfit(Exception):
    """The reference or the baseline died or raised: no fault of the candidate's."""


class Failed(Exception):
    """The candidate raised, or names nothing that can be called. kind: the exception's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message if kind == Unusable.__name__ else f"{kind}: {message}")
        self.kind = kind


class Array(Struct):
    """An output as it came: raw storage, its type's name, `odd` the class where it is no plain array."""

    raw: np.ndarray[Any, Any]
    dtype: str
    odd: str = ""


class Ran(Struct):
    """seconds: around the calls. outputs: of each kept call."""

    seconds: float
    outputs: list[list[Array]]


class Hold:
    """A process with one candidate. environment: over our own; nursery: forks it, with its environment; tool: the
    command that starts it."""

    def __init__(self, environment: Mapping[str, str] | None = None, patience: float | None = None,
                 nursery: Nursery | None = None, tool: Sequence[str] = ()) -> None:  # fmt: skip
        shared = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="kscope-bench-", dir=shared))
        self.patience = patience = PATIENCE if patience is None else patience
        (self.folder / "out").touch()
        self.said = self.folder / "said"
        self.process: Process
        self.room = 0
        self.awake = False  # whether our side waits without sleep: never where the player computes on processors, too
        with self.said.open("wb") as said:
            if tool:
                self.process, self.link = joined(tool, self.folder / "link", said, environment, patience)
                return
            self.link, theirs = socket.socketpair()
            self.link.settimeout(patience)
            if nursery is not None:
                self.process = nursery.fork(theirs, said.fileno())
            else:
                code = f"from kscope.bench.player.worker import main; main({theirs.fileno()})"
                self.process = started(code, theirs, said, environment)
        theirs.close()

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Raises Died, Failed."""
        self._send({"do": what, **more})
        return self._answer()

    def place(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[int]:
        """Write arrays where the player reads them; their offsets."""
        offsets, at = [], 0
        with (self.folder / "in").open("r+b" if self.room else "w+b") as file:
            for one in arrays:
                offsets.append(at)
                file.seek(at)
                if one.size:
                    file.write(np.ascontiguousarray(one).reshape(-1).view(np.uint8).data)
                at += -(-one.nbytes // 64) * 64
            if at > self.room:
                raise KscopeError("internal", "an arena was too small")
        return offsets

    def arena(self, count: int) -> int:
        """Room for so many bytes of inputs."""
        path = self.folder / "in"
        path.touch()
        self.room = max(count, 4096)
        os.truncate(path, self.room)
        return self.room

    def run(self, order: Sequence[int], keep: Sequence[int] = (), **more: Any) -> Ran:
        """Calls in order, timed by our clock; with untimed=True in one message. Raises Died, Failed."""
        if more.get("untimed"):
            return Ran(0.0, self._outputs(self.ask("run", order=list(order), keep=list(keep), **more)))
        self._send({"do": "run", "order": list(order), "keep": list(keep), **more})
        if not self._answer().get("ready"):
            raise Died("garbled", "an answer out of turn")
        clock = time.perf_counter
        begun = clock()
        self._send({"go": True})
        if self.awake:
            wire.awaited(self.link, AWAKE_S)
        done = self._answer()
        ended = clock()
        if not done.get("done"):
            raise Died("garbled", "an answer out of turn")
        self._send({"take": True})
        answer = self._answer()
        return Ran(ended - begun, self._outputs(answer))

    def retake(self) -> list[list[Array]]:
        return self._outputs(self.ask("retake"))

    def dump(self, slot: int) -> list[Array]:
        return self._outputs(self.ask("dump", slot=slot))[0]

    def printed(self, count: int = SAID) -> str:
        """The end of what the candidate wrote to standard output and error."""
        try:
            with self.said.open("rb") as file:
                file.seek(max(os.path.getsize(self.said) - count, 0))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def waited(self) -> float | None:
        """Seconds for which its main thread was ready and had no processor; None where the system does not say."""
        try:
            return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    def children(self) -> int:
        """Processes in the player's session beside it."""
        found = 0
        with contextlib.suppress(OSError):
            for entry in os.scandir("/proc"):
                if entry.name.isdigit() and int(entry.name) != self.process.pid:
                    with contextlib.suppress(OSError, ValueError, IndexError):
                        fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                        found += int(fields[3]) == self.process.pid
        return found

    def close(self, seconds: float = 0.5) -> None:
        """seconds: for it to end by itself; a tool around it writes what it has seen."""
        with contextlib.suppress(OSError, wire.Broken):
            wire.send(self.link, {"do": "quit"})
        self.link.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what it started, too
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            wire.send(self.link, message)
        except wire.Broken:
            raise self._died() from None

    def _answer(self) -> dict[str, Any]:
        try:
            answer = wire.receive(self.link)
        except TimeoutError:
            raise Died("hung", f"no answer within {self.patience:.0f} s{self._stopped()}") from None
        except wire.Broken as error:
            if str(error) == "a message that is none":
                raise Died("garbled", "it wrote into the channel of results") from None
            raise self._died() from None
        if not answer.get("ok"):
            raise Failed(one_line(str(answer.get("kind", "error")))[:60], one_line(str(answer.get("error", "")))[:300])
        return answer

    def _stopped(self) -> str:
        """End a player that does not answer: where it was, as its fault handler tells, "" where it does not."""
        for number, seconds in ((signal.SIGABRT, 2.0), (signal.SIGKILL, 2.0)):
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        _, here, rest = self.printed(STACKS).rpartition("Current thread")
        found = [one.strip() for one in rest.splitlines() if one.lstrip().startswith('File "')]
        return f"; it was in {one_line(found[0])[:200]}" if here and found else ""

    def _died(self) -> Died:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2.0)
        status = self.process.poll()
        if status is not None and status < 0:
            with contextlib.suppress(ValueError):
                return Died("died", f"killed by {signal.Signals(-status).name}")
        last = [line for line in self.printed().splitlines() if line.strip()]
        return Died("died", f"ended with status {status}" + (f": {one_line(last[-1])[:200]}" if last else ""))

    def _outputs(self, answer: Mapping[str, Any]) -> list[list[Array]]:
        """Raises Died where what it says is no description of arrays."""
        try:
            return [[self._array(one) for one in row] for row in answer["outputs"]]
        except (KeyError, TypeError, ValueError, OSError, KscopeError):
            raise Died("garbled", "outputs are not as they are described") from None

    def _array(self, one: Mapping[str, Any]) -> Array:
        name = str(one["dtype"])
        if name == "none":
            return Array(np.zeros(0), "none", str(one["type"]))
        kind = np.dtype("uint16" if name == "bfloat16" else name)
        if one["bytes"] != int(np.prod(one["shape"], dtype=np.int64)) * kind.itemsize:
            raise ValueError
        dtype(name)
        with (self.folder / "out").open("rb") as file:
            file.seek(one["offset"])
            raw = np.fromfile(file, kind, one["bytes"] // kind.itemsize).reshape(one["shape"])
        return Array(raw, name, str(one.get("type", "")))
