"""Compressed streams (gzip, xz, zstd) unpacked within a bound, into a file without a name."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kscope.model.errors import KscopeError
from kscope.model.faults import ROOM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNPACK_LIMIT = 4 << 30
"""Bytes that one input may unpack to; the environment variable KSCOPE_UNPACK_LIMIT overrides it."""
AGAIN = "copy it again, or record it again"

_MEMORY = 512 << 20  # up to here unpacked bytes stay in memory
_WINDOW = 512 << 20  # bytes of history that a compressed stream may ask for


def unpack(
    stack: contextlib.ExitStack, packed: IO[bytes], kind: str, path: Path, bound: int
) -> tuple[IO[bytes], str]:
    """Unpack into memory, beyond _MEMORY into a temporary file; both live as long as `stack`."""
    kind = "zstd" if kind == "ncu-repz" else kind
    out: IO[bytes] = stack.enter_context(memory_file())
    total = 0
    try:
        for piece in pieces(packed, kind):
            total += len(piece)
            if total > bound:
                message = f"{path}: unpacks to more than {bound:,} bytes"
                raise KscopeError("too-large", message, "unpack it by hand, or raise KSCOPE_UNPACK_LIMIT (bytes)")
            if total > _MEMORY and total - len(piece) <= _MEMORY:
                out = _spill(stack, out)
            out.write(piece)
        out.flush()
    except EOFError:
        raise cut(path, f"the {kind} stream in it ends early") from None
    except stream_errors() as e:
        raise KscopeError("corrupt", f"{path}: the {kind} stream in it is damaged ({e})", AGAIN) from None
    except OSError as e:
        with contextlib.suppress(OSError):
            out.close()  # now: at the end of the stack what is left in its buffer would fail again
        raise KscopeError("too-large", f"{path}: cannot be unpacked ({e.strerror})", ROOM) from None
    except MemoryError:
        raise KscopeError("too-large", f"{path}: not enough memory to unpack it", "unpack it by hand") from None
    out.seek(0)
    name = f"/proc/self/fd/{out.fileno()}" if has_proc(out) else str(out.name)
    return out, name


def pieces(packed: IO[bytes], kind: str) -> Iterator[bytes]:
    """The unpacked bytes, in pieces of bounded size: the decoders get little at a time, since a hostile byte of zstd
    can stand for 32 KB, one of xz for 7 and one of gzip for 1."""
    if kind == "gzip":
        import zlib

        yield from _frames(packed, partial(zlib.decompressobj, wbits=31), 16384)
    elif kind == "xz":
        import lzma

        yield from _frames(packed, partial(lzma.LZMADecompressor, memlimit=_WINDOW), 4096)
    else:
        yield from _frames(packed, _zstd_decoder, 2048)


def _frames(packed: IO[bytes], start: Callable[[], Any], size: int) -> Iterator[bytes]:
    """Decode streams that follow one another. Raises EOFError where the last one is not whole."""
    decoder = start()
    for data in iter(partial(packed.read, size), b""):
        while data:
            if decoder.eof:
                data = data.lstrip(b"\0")  # padding between and after streams
                if not data:
                    break
                decoder = start()
            yield decoder.decompress(data)
            data = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise EOFError


def _zstd_decoder() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: 29})
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()


def stream_errors() -> tuple[type[Exception], ...]:
    """What the decoders raise on damaged bytes, of those that are loaded."""
    names = {"lzma": "LZMAError", "zlib": "error", "zstandard": "ZstdError", "compression.zstd": "ZstdError"}
    return tuple(getattr(sys.modules[module], name) for module, name in names.items() if module in sys.modules)


def memory_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            file = os.fdopen(os.memfd_create("kscope"), "w+b")
            if has_proc(file):
                return file
            file.close()
    return _disk_file()


def _disk_file() -> IO[bytes]:
    import tempfile

    if os.path.isdir("/proc/self/fd"):
        return tempfile.TemporaryFile(prefix="kscope-")  # without a name: gone with the process, whatever happens
    return tempfile.NamedTemporaryFile(prefix="kscope-", suffix=".ncu-rep")


def _spill(stack: contextlib.ExitStack, memory: IO[bytes]) -> IO[bytes]:
    """Move what was unpacked so far to disk."""
    import shutil

    disk = stack.enter_context(_disk_file())
    memory.seek(0)
    shutil.copyfileobj(memory, disk, 1 << 20)
    memory.close()
    return disk


def has_proc(file: IO[bytes]) -> bool:
    return os.path.exists(f"/proc/self/fd/{file.fileno()}")


def limit() -> int:
    value = os.environ.get("KSCOPE_UNPACK_LIMIT", "")
    return int(value) if value.isdecimal() else UNPACK_LIMIT


def cut(path: Path, what: str) -> KscopeError:
    return KscopeError("truncated", f"{path}: the file is cut short: {what}", AGAIN)
