"""The plain bytes of an input, piece by piece: for formats that are read from front to back, whatever their size."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kscope.model.errors import KscopeError
from kscope.parsers import compressed

PIECE = 1 << 20


class Stream:
    """Iterates over the plain bytes of one file, looking through one layer of gzip, xz or zstd. `cut` says afterwards
    why a compressed file ended early ("" if it did not): what came before is whole."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.cut = ""

    def __iter__(self) -> Iterator[bytes]:
        """Pieces of about PIECE bytes or less. Raises KscopeError (input) where the file cannot be opened."""
        compressed.regular(self.path)
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(compressed.opened(self.path))
            kind = compressed.sniff(file.read(compressed.HEAD))
            file.seek(0)
            if kind not in ("gzip", "xz", "zstd"):
                yield from iter(partial(file.read, PIECE), b"")
                return
            try:
                yield from compressed.pieces(file, kind)
            except EOFError:
                self.cut = f"the {kind} stream ends early"
            except compressed.stream_errors() as e:
                self.cut = f"the {kind} stream is damaged ({e})"
            except MemoryError:
                raise KscopeError("too-large", f"{self.path}: not enough memory to unpack it", "unpack it") from None
