"""What passes between the reader's process and its parent: the order, gaps, what comes late. Frames on the pipe are
marshal values, which carry data only: (tag, ...), behind their length."""

from __future__ import annotations

import marshal
import struct
from collections.abc import Mapping

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")


def sent(pipe: BinaryIO, *frame: Any) -> None:
    """Write a frame."""
    body = marshal.dumps(frame)
    pipe.write(_LENGTH.pack(len(body)))
    pipe.write(body)
    pipe.flush()


def received(read: Callable[[int], bytes]) -> tuple[Any, ...] | None:
    """The next frame; None at the end, and for what is none. read: so many bytes, fewer at the end."""
    head = read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    body = read(_LENGTH.unpack(head)[0])
    try:
        return tuple(marshal.loads(body))
    except (ValueError, EOFError, TypeError):
        return None


def widened(pipe: int) -> None:
    """Let the writer of a pipe run ahead by a kernel or two."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
    except (ImportError, AttributeError, OSError):  # not Linux, or above the user's limit
        return


class Want:
    """What to decode beside names, launch and whole-kernel metrics. `timelines`: PM-sampled series, which only kernels
    with asynchronous copies or products have read; `charts`: what only charts show (kscope.parsers.ncu.charts);
    `metrics`: every whole-kernel metric, not only those that kscope itself asks for; `described`: a regular expression
    of names to send with unit and description, with `by_instruction` also their values at instructions."""

    def __init__(
        self, *, counters: bool = True, sass: bool = True, sources: bool = True, nvidia: bool = True,
        timelines: bool = True, charts: bool = False, metrics: bool = False,
        described: str | None = None, by_instruction: bool = False,
    ) -> None:  # fmt: skip
        self.counters, self.sass, self.sources, self.nvidia = counters, sass, sources, nvidia
        self.timelines = timelines
        self.charts, self.metrics = charts, metrics
        self.described, self.by_instruction = described, by_instruction


class Skipped:
    """One kernel that could not be read, while others could."""

    def __init__(self, index: int, message: str) -> None:
        self.index, self.message = index, message


class LateSources(Mapping[str, str]):
    """Source texts of one kernel, which arrive behind it: read from the pipe when first asked for."""

    def __init__(self, receive: Callable[[], dict[str, str]]) -> None:
        self._receive = receive
        self._texts: dict[str, str] | None = None

    def texts(self) -> dict[str, str]:
        if self._texts is None:
            self._texts = self._receive()
        return self._texts

    def __enter__(self) -> LateSources:
        return self

    def __exit__(self, *_: object) -> None:
        self.texts()  # before the frames that follow

    def __getitem__(self, file: str) -> str:
        return self.texts()[file]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts())

    def __len__(self) -> int:
        return len(self.texts())
