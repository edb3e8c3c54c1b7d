"""A reader that is started before its turn: it decodes while the command line itself is still being imported.

Imports next to nothing, on purpose: what is imported before the reader starts delays the answer.
"""

from __future__ import annotations

import os
import stat

from kscope.parsers.ncu.turns import turns
from kscope.parsers.ncu.worker import Reader, Want

_started: dict[tuple[int, int, bool], Reader] = {}
"""By device and inode, so that a path that is written differently finds its reader, and by what it reads."""


def start(path: str, *, charts: bool = False, jobs: int = 1) -> None:
    """Start reading a plain report, with what charts need or without; jobs: readers that will share it, where it is
    large. Never raises: whatever is wrong with the path is said in its turn."""
    try:
        about = os.stat(path)
        path.encode("utf-8")  # the native reader takes no other names: such files are opened in their turn
        if about.st_ino and stat.S_ISREG(about.st_mode):  # a pipe is not opened, what a device says never ends
            _started[about.st_dev, about.st_ino, charts] = Reader(
                path, Want(charts=charts), turns=turns(path, jobs)
            )
    except (OSError, ValueError):
        return


def take(path: str, *, charts: bool = False) -> Reader | None:
    """The started reader of a plain report, once; None where it was started for something else."""
    about = os.stat(path)
    return _started.pop((about.st_dev, about.st_ino, charts), None)


def close() -> None:
    """Stop the readers that nothing asked for, such as after a usage error."""
    while _started:
        _started.popitem()[1].close()
