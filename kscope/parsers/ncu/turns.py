"""Kernels of one large report, shared out among several readers of it: each takes the launches of one function at a
time, those of the largest function first, so that all are done at about the same time and code is worked on once.

The order is a pipe of group numbers, filled before anybody reads: taking four bytes from it is taking a turn, in
whichever process. Imports next to nothing, for the reader's process.
"""

from __future__ import annotations

import os
import struct

from kscope.parsers.files import forked
from kscope.parsers.files.ncu_images import results

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEAST_BYTES = 6 << 20
LEAST_KERNELS = 4
"""Of a report that is worth a second reader and a second analysis: they cost 60 ms to start, a kernel takes 50
(measured on captures of 1 to 4 MB)."""
PARTS = 4
"""Groups of a function that alone would keep a process busy: the last one to finish is late by a quarter at most."""


class Turns:
    """Groups of kernels (indices in file order), and whose turn it is. Several processes hold it after a fork."""

    MOST = 4096
    """Groups, so that all turns find room in a pipe of 16 KB."""

    def __init__(self, groups: Sequence[tuple[int, ...]], readers: int) -> None:
        """groups: at most MOST, the largest first; readers: how many share them."""
        self.groups, self.readers = groups, min(readers, len(groups))
        self._fd, write_end = os.pipe()
        with os.fdopen(write_end, "wb") as file:
            file.write(b"".join(struct.pack("<I", number) for number in range(len(groups))))

    def take(self) -> tuple[int, ...] | None:
        """The next group that nobody has taken; None at the end."""
        data = os.read(self._fd, 4)
        return self.groups[struct.unpack("<I", data)[0]] if len(data) == 4 else None

    def kernels(self, rest: Sequence[int] = ()) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(kernel, those of its group behind it): of `rest` first, then of each group that is taken."""
        group: tuple[int, ...] | None = tuple(rest)
        while group is not None:
            for at, index in enumerate(group):
                yield index, group[at + 1 :]
            group = self.take()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def turns(path: str, processes: int) -> Turns | None:
    """How the kernels of a plain report are shared out; None where that is not worth it, or the container does not
    tell which they are. processes: a reader and who analyses its kernels are two, for both work all the time."""
    readers = (processes + 1) // 2
    if readers < 2 or not forked.possible() or os.path.getsize(path) < LEAST_BYTES:
        return None
    found = results(path)
    if len(found) < LEAST_KERNELS:
        return None
    weights: dict[str, int] = {}
    members: dict[str, list[int]] = {}
    for index, (name, size, _) in enumerate(found):
        key = name or f"\0{index}"
        weights[key] = weights.get(key, 0) + size
        members.setdefault(key, []).append(index)
    if len(members) < 2:
        return None
    share = sum(weights.values()) / readers
    groups: list[tuple[int, tuple[int, ...]]] = []
    for key, indices in members.items():  # many launches of one function are several groups
        pieces = min(len(indices), max(1, round(PARTS * weights[key] / share)))
        step = -(-len(indices) // pieces)
        parts = [tuple(indices[at : at + step]) for at in range(0, len(indices), step)]
        groups += [(weights[key] * len(part) // len(indices), part) for part in parts]
    groups.sort(key=lambda group: (-group[0], group[1]))
    while len(groups) > Turns.MOST:
        groups = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(groups[::2], [*groups[1::2], (0, ())], strict=False)]
    return Turns([part for _, part in groups], readers)
