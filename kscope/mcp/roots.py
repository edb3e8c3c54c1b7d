"""Which files may be read: regular ones below the folders that were named on the command line, wherever links lead."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.quoted import quoted

LARGEST = 4 << 30
"""Bytes of an input. Judged: NVIDIA's reports of whole programs stay below one GB."""
SCANNED = 20_000  # entries of all folders that a listing looks at; judged: about a second on a network disk


class Roots:
    """The folders, resolved once."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders: list[Path] = []
        for folder in folders:
            try:
                real = folder.resolve(strict=True)
            except (OSError, RuntimeError, ValueError):
                raise KscopeError("missing-file", f"{folder}: no such folder", "name one", EXIT_USAGE) from None
            if not real.is_dir():
                raise KscopeError("not-a-folder", f"{folder}: not a folder", "name the folder it is in", EXIT_USAGE)
            self.folders.append(real)

    def file(self, name: str) -> Path:
        """The real path of a file that may be read. Raises KscopeError (usage), of what lies outside in the same words
        whether it exists or not."""
        real = self._real(name)
        try:
            about = real.stat()
        except (OSError, ValueError):
            raise _refused(name, "no such file", "list_inputs names what is there") from None
        if stat.S_ISDIR(about.st_mode):
            raise _refused(name, "a folder, not a file", "list_inputs names the files in it")
        if not stat.S_ISREG(about.st_mode):
            raise _refused(name, "a pipe, socket or device, not a file", "save the report to a file")
        if about.st_size > LARGEST:
            raise _refused(name, f"{about.st_size:,} bytes, over {LARGEST:,}", "record fewer kernels")
        return real

    def _real(self, name: str) -> Path:
        try:
            named = Path(name)
            for folder in self.folders:
                real = (folder / named).resolve()
                if self._inside(real) and (real.exists() or folder is self.folders[-1]):
                    return real
        except (OSError, RuntimeError, ValueError):  # a loop of links, a null byte, a name that is too long
            pass
        raise _refused(name, "outside the folders of this server", "list_inputs names what can be read")

    def _inside(self, real: Path) -> bool:
        return any(real.is_relative_to(folder) for folder in self.folders)

    def files(self) -> Iterator[Path]:
        """Regular files below the folders, sorted folder by folder; hidden folders and links that lead out are left
        out. At most SCANNED entries are looked at."""
        seen = 0
        for root in self.folders:
            for here, below, names in os.walk(root):
                below[:] = sorted(b for b in below if not b.startswith("."))
                for name in sorted(names):
                    seen += 1
                    if seen > SCANNED:
                        return
                    path = Path(here, name)
                    try:
                        real = path.resolve()
                        if self._inside(real) and stat.S_ISREG(real.stat().st_mode):
                            yield path
                    except (OSError, RuntimeError):
                        continue


def _refused(name: str, why: str, hint: str) -> KscopeError:
    return KscopeError("refused", f"{quoted(name, 300)}: {why}", hint, EXIT_USAGE)
