"""Forks of this process that share its work: what each finds comes back over a file without a name, so that nobody
waits for a reader, and the results of ten thousand reports need not stay in memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from kscope.model.faults import show_traceback
from kscope.parsers.files import forked

Put = Callable[[Any], None]
POLL = 0.03  # seconds between two looks at helpers, where somebody watches the progress


class Helpers:
    """`count` processes that each run `work(put, step)`: `put` hands a result over, `step` counts one more kernel."""

    def __init__(self, count: int, work: Callable[[Put, Callable[[], None]], None]) -> None:
        self._steps = mmap.mmap(-1, 8 * max(count, 1))
        self._open = contextlib.ExitStack()
        self._files: list[IO[bytes]] = []
        self._pids: list[int] = []
        self.died = False
        parent = os.getpid()
        for number in range(count):
            self._files.append(file := self._open.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115
            pid = forked.fork(parent=True)
            if pid == 0:
                self._run(number, file, parent, work)
            self._pids.append(pid)

    def _run(self, number: int, file: IO[bytes], parent: int, work: Callable[[Put, Callable[[], None]], None]) -> None:
        """The life of a helper: never returns."""
        status = 1

        def put(result: Any) -> None:
            body = pickle.dumps(result, protocol=5)
            file.write(struct.pack("<Q", len(body)))
            file.write(body)
            file.flush()

        def step() -> None:
            if os.getppid() != parent:  # nobody waits for the answer any more
                forked.end_all()
                os._exit(1)
            self._steps[8 * number : 8 * number + 8] = struct.pack("<Q", self._count(number) + 1)

        try:
            forked.tell()
            work(put, step)
            status = 0
        except BaseException as error:  # what it has put is kept, the rest is done again
            show_traceback(error)
        finally:
            forked.end_all()
            os._exit(status)

    def _count(self, number: int) -> int:
        return int(struct.unpack("<Q", self._steps[8 * number : 8 * number + 8])[0])

    @property
    def steps(self) -> int:
        """Kernels that the helpers are done with."""
        return sum(self._count(number) for number in range(len(self._pids)))

    def wait(self, watch: Callable[[], None] | None = None) -> None:
        """Until all have ended; `watch` is called now and then. `died` says whether one of them failed."""
        for pid in list(self._pids):
            while True:
                ended, status = os.waitpid(pid, os.WNOHANG if watch else 0)
                if ended:
                    break
                time.sleep(POLL)
                if watch is not None:
                    watch()
            forked.reaped(pid)
            self._pids.remove(pid)
            self.died = self.died or status != 0

    def places(self) -> Iterator[tuple[IO[bytes], int]]:
        """Where each whole result lies, of helpers that have ended: for `load`."""
        for file in self._files:
            at, end = 0, os.fstat(file.fileno()).st_size
            while at + 8 <= end:
                file.seek(at)
                size = struct.unpack("<Q", file.read(8))[0]
                if at + 8 + size > end:  # it ended while it wrote
                    break
                yield file, at
                at += 8 + size

    def results(self) -> Iterator[Any]:
        """All results, helper by helper."""
        for file, at in self.places():
            yield load(file, at)

    def close(self) -> None:
        """End those that still run, and let go of their results."""
        if self._pids:
            forked.end_all()
            self._pids.clear()
        self._open.close()
        self._files.clear()


def load(file: IO[bytes], at: int) -> Any:
    """A result, pickled by a fork of this very process into a file without a name: nobody else can have written it."""
    file.seek(at)
    size = struct.unpack("<Q", file.read(8))[0]
    return pickle.loads(file.read(size))
