"""Forks of this process, each known from its first moment on: a process that is told to end leaves none behind.

Imports next to nothing: the reader of a report is forked before the command line is imported.
"""

from __future__ import annotations

import os
import signal

_running: set[int] = set()


def fork() -> int:
    """os.fork, without a moment in which the handler of a signal could raise and the child be forgotten. The child ends
    at a signal as if there were no handler: what the parent has to clear up is not its own."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        pid = os.fork()
        if pid:
            _running.add(pid)
            return pid
        _running.clear()
        for number in numbers:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        return 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def reaped(pid: int) -> None:
    """This child has ended and was waited for: its number may be another process's by now."""
    _running.discard(pid)


def end_all() -> None:
    """End the children that still run, and wait until they have."""
    while _running:
        pid = _running.pop()
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except OSError:  # gone already
            continue
