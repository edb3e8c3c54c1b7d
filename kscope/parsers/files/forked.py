"""Forks of this process, each known from its first moment on: a process that is told to end leaves none behind.

Imports next to nothing: the reader of a report is forked before the command line is imported.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from kscope.parsers import scratch

_running: set[int] = set()
_parents: set[int] = set()
"""Those of them that have children of their own, which they end when they are told to."""
PATIENCE = 1.0  # seconds that these get for it


def cores() -> int:
    """Processors that this process may use: those it is bound to, and no more than its container's share of time."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        return max(1, min(count, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return count


def possible() -> bool:
    """Whether a fork of this process could read reports: the system has forks, and NVIDIA's library has not
    disassembled here. It keeps a lock and a thread of its own then; a fork of its caller would wait
    for that lock for ever."""
    if not hasattr(os, "fork"):
        return False
    if "ncu_report" not in sys.modules:
        return True
    import threading

    try:
        return len(os.listdir("/proc/self/task")) <= threading.active_count()
    except OSError:  # not Linux: nothing tells whether it has
        return False


def fork(*, parent: bool = False) -> int:
    """os.fork, without a moment in which the handler of a signal could raise and the child be forgotten. The child ends
    at a signal as if there were no handler: what the parent has to clear up is not its own. parent: the child will fork
    too, and calls `tell` first."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        pid = os.fork()
        if pid:
            _running.add(pid)
            if parent:
                _parents.add(pid)
            return pid
        _running.clear()
        _parents.clear()
        for number in numbers:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        return 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def reaped(pid: int) -> None:
    """This child has ended and was waited for: its number may be another process's by now."""
    _running.discard(pid)
    _parents.discard(pid)


def tell() -> None:
    """In a child that forks too: what ends it ends its children first."""
    signal.signal(signal.SIGTERM, _told)


def _told(number: int, _: object) -> None:
    stop = getattr(sys.modules.get("kscope.parsers.toolchain"), "stop", None)  # it may be half imported
    if stop is not None:
        stop(128 + number)
    end_all()
    scratch.clear()
    os._exit(128 + number)


def end_all() -> None:
    """End the children that still run, and wait until they have."""
    for pid in _parents:
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:  # gone already
            continue
    until = time.monotonic() + PATIENCE
    while _parents and time.monotonic() < until:
        for pid in list(_parents):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0]
            except OSError:
                ended = pid
            if ended:
                reaped(pid)
        time.sleep(0.002 if _parents else 0)
    _parents.clear()
    while _running:
        pid = _running.pop()
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except OSError:  # gone already
            continue
