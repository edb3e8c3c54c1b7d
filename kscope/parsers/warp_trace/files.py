"""Files in which warps recorded what they did, of whichever recorder, to KernelTraces."""

from __future__ import annotations

from pathlib import Path

from kscope.model.errors import KscopeError
from kscope.model.faults import fenced
from kscope.model.trace import KernelTrace
from kscope.parsers.files.ncu_container import MAGIC as NCU
from kscope.parsers.files.stream import Stream
from kscope.parsers.warp_trace import ktrace, proton

LIMIT = 1 << 30


def read(path: Path | str) -> tuple[KernelTrace, ...]:
    """The traces in a file, plain or packed (gzip, xz, zstd), one a kernel. Raises KscopeError (input) where it is of
    another kind, damaged or not whole."""
    with fenced(path):
        return _read(path)


def _read(path: Path | str) -> tuple[KernelTrace, ...]:
    stream, data = Stream(path), bytearray()
    for piece in stream:
        data += piece
        if len(data) > LIMIT:
            raise KscopeError("too-large", f"{path}: more than 1 GB of records", "dump every n-th block")
    if stream.cut:
        raise KscopeError("truncated", f"{path}: {stream.cut}", "copy the file again")
    start = bytes(data[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")
    if data.startswith(ktrace.MAGIC):
        return (ktrace.parse(bytes(data), str(path)),)
    if start.startswith(b"{"):
        return proton.parse(bytes(data), str(path))
    if not data:
        raise KscopeError("empty", f"{path}: the file is empty", "record it again")
    if ktrace.MAGIC.startswith(bytes(data[:8])):
        raise KscopeError("truncated", f"{path}: the file ends early", "copy it again, or dump again")
    hint = "kscope analyze reads it" if data.startswith(NCU) else "see `kscope trace --help`"
    what = "a Nsight Compute report" if data.startswith(NCU) else "neither a dump of kscope_trace.cuh nor Proton's JSON"
    raise KscopeError("foreign", f"{path}: {what}", hint)
