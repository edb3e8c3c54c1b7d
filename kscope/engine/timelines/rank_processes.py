"""The ranks of a job in processes of their own, as many as there are cores: each reads its recordings and keeps them
while the ranks are matched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kscope.model.errors import KscopeError
from kscope.model.faults import fault
from kscope.parsers.files import forked

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from kscope.engine.timelines.rank_session import Session
    from kscope.model.timeline import Timeline

Reader = Callable[[Path], "Timeline"]
ALONE = 8 << 20
"""Bytes of all recordings below which one process is as fast as several."""


class Ranks:
    """Sessions by place; `ask` calls a method of some of them, at the same time where they are in several processes."""

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """{place: arguments} to {place: result, or the KscopeError that it came to}."""
        raise NotImplementedError


class Here(Ranks):
    """All in this process."""

    def __init__(self, members: dict[int, tuple[Path, int, Reader]]) -> None:
        self.members = members
        self.sessions: dict[int, Session] = {}

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        out: dict[int, Any] = {}
        for place, some in arguments.items():
            path = self.members[place][0]
            try:
                out[place] = self._call(place, method, some)
            except Exception as e:
                out[place] = fault(path, e)
        return out

    def _call(self, place: int, method: str, some: tuple[Any, ...]) -> Any:
        from kscope.engine.timelines.rank_session import Session

        if place not in self.sessions:
            self.sessions[place] = Session(*self.members[place])
        return getattr(self.sessions[place], method)(*some)


class _Apart(Ranks):
    def __init__(self, workers: Sequence[Connection], at: dict[int, int], paths: dict[int, Path]) -> None:
        self.workers = workers
        self.at = at
        self.paths = paths

    def ask(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        orders: dict[int, dict[int, tuple[Any, ...]]] = {}
        for place, some in arguments.items():
            orders.setdefault(self.at[place], {})[place] = some
        for worker, order in orders.items():
            with contextlib.suppress(OSError):  # it is gone: said below
                self.workers[worker].send((method, order))
        out: dict[int, Any] = {}
        for worker, order in orders.items():
            try:
                out |= self.workers[worker].recv()
            except (EOFError, OSError):
                message = "the process that read it ended early (out of memory?)"
                hint = "analyse fewer ranks at a time"
                out |= {p: KscopeError("crashed", f"{self.paths[p]}: {message}", hint) for p in order}
        return out


@contextlib.contextmanager
def ranks(members: dict[int, tuple[Path, int, Reader]]) -> Iterator[Ranks]:
    """place -> (recording, rank, what reads it)."""
    size = sum(os.path.getsize(path) for path, _, _ in members.values())
    count = min(len(members), forked.cores())
    if count < 2 or size < ALONE or not hasattr(os, "fork"):
        yield Here(members)
        return
    import multiprocessing

    context = multiprocessing.get_context("fork")
    largest = sorted(members, key=lambda place: -os.path.getsize(members[place][0]))
    at = {place: i % count for i, place in enumerate(largest)}
    processes: list[Any] = []
    ends: list[Connection] = []
    try:
        for worker in range(count):
            mine, theirs = context.Pipe()
            part = {place: members[place] for place in largest if at[place] == worker}
            process = context.Process(target=_serve, args=(theirs, part, [*ends, mine]), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            ends.append(mine)
        yield _Apart(ends, at, {place: path for place, (path, _, _) in members.items()})
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(connection: Connection, members: dict[int, tuple[Path, int, Reader]], others: Sequence[Connection]) -> None:
    """The life of a worker: answers until the other end is closed."""
    for end in others:  # copies of the parent's: they would keep the pipes open
        end.close()
    here = Here(members)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            method, order = connection.recv()
            connection.send(here.ask(method, order))
