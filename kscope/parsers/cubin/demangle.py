"""C++ names of functions, through the platform's own __cxa_demangle (no process, no dependency)."""

from __future__ import annotations

import ctypes
import re
from functools import cache, lru_cache
from typing import Any

_LOCAL = re.compile(r"^\$.*?\$(?=_Z)")  # nvcc's `$caller$_Z6helperf`: a device function behind its kernel


@lru_cache(maxsize=1 << 14)
def demangle(name: str) -> str:
    """The C++ name of a mangled one; the name itself where it is none, or where the platform has no demangler."""
    plain = _LOCAL.sub("", name)
    library = _library()
    if library is None or not plain.startswith("_Z"):
        return plain
    status = ctypes.c_int()
    found = library.__cxa_demangle(plain.encode("utf-8", "replace"), None, None, ctypes.byref(status))
    if not found:
        return plain
    try:
        return bytes(ctypes.cast(found, ctypes.c_char_p).value or b"").decode("utf-8", "replace")
    finally:
        library.free(ctypes.c_void_p(found))


@cache
def _library() -> Any:
    for name in ("libstdc++.so.6", "libc++.so.1", "libc++.1.dylib"):
        try:
            library = ctypes.CDLL(name)
            library.__cxa_demangle.restype = ctypes.c_void_p
            library.free.argtypes = [ctypes.c_void_p]
            return library
        except (OSError, AttributeError):
            continue
    return None
