"""The plain bytes of an input, piece by piece: for formats that are read from front to back, whatever their size."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

from kscope.model.errors import KscopeError
from kscope.parsers.files import decompress, inputs
from kscope.parsers.files.regular_files import opened

PIECE = 1 << 20
LAYERS = 3


class Stream:
    """Iterates over the plain bytes of one file, looking through gzip, xz and zstd. `cut` says afterwards why a
    compressed file ended early ("" if it did not): what came before is whole."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.cut = ""

    def __iter__(self) -> Iterator[bytes]:
        """Pieces of about PIECE bytes or less. Raises KscopeError (input) where the file cannot be opened."""
        with contextlib.ExitStack() as stack:
            file: _Source = _Source(iter(partial(stack.enter_context(opened(self.path)).read, PIECE), b""))
            for _ in range(LAYERS):
                kind = inputs.sniff(file.peek(inputs.HEAD))
                if kind not in ("gzip", "xz", "zstd"):
                    break
                file = _Source(self._unpacked(file, kind))
            yield from iter(partial(file.read, PIECE), b"")

    def _unpacked(self, packed: _Source, kind: str) -> Iterator[bytes]:
        try:
            yield from decompress.pieces(cast("IO[bytes]", packed), kind)
        except EOFError:
            self.cut = self.cut or f"the {kind} stream ends early"
        except decompress.stream_errors() as e:
            self.cut = self.cut or f"the {kind} stream is damaged ({e})"
        except MemoryError:
            raise KscopeError("too-large", f"{self.path}: not enough memory to unpack it", "unpack it") from None


class _Source:
    """Reads from an iterator of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = bytearray()

    def peek(self, size: int) -> bytes:
        """Up to `size` bytes, which stay to be read."""
        while len(self._buffer) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._buffer += piece
        return bytes(self._buffer[:size])

    def read(self, size: int) -> bytes:
        """At most `size` bytes, b"" at the end."""
        data = self.peek(size)
        del self._buffer[: len(data)]
        return data
