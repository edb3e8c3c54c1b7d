"""Temporary folders that go with the process, at whatever moment it is told to end.

tempfile.TemporaryDirectory knows its folder only after it is there, and removes it in steps: an exception that a
signal's handler raises in between leaves the folder behind. Here the name is known before the folder is made, and
forgotten after it is gone; `clear` removes what is left.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False  # the typing module itself takes 9 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_made: dict[str, int] = {}
"""The process that made each folder: a child that was forked does not remove its parent's."""


@contextlib.contextmanager
def folder(prefix: str = "kscope-") -> Iterator[Path]:
    """An empty folder that only its owner may open, removed with all that it holds. OSError where none can be made."""
    import tempfile
    from pathlib import Path

    path = os.path.join(tempfile.gettempdir(), prefix + os.urandom(8).hex())
    _made[path] = os.getpid()
    try:
        os.mkdir(path, 0o700)
    except OSError:  # nothing is there, or what somebody else made
        del _made[path]
        raise
    try:
        yield Path(path)
    finally:
        _remove(path)


def clear() -> None:
    """Remove the folders of this process that are still there: it is about to end."""
    for path, owner in list(_made.items()):
        if owner == os.getpid():
            _remove(path)


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    _made.pop(path, None)
