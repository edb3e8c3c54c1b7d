"""Memory that was freed stays with the process: what is checked takes arrays of the same size over and over, and fresh
pages cost more than the arithmetic on them. Never in a process that is timed, where pages are part of the work."""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # mallopt's numbers (malloc.h of glibc)


def kept() -> None:
    """Nothing where the C library is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(MMAP_MAX, 0)
    mallopt(TRIM_THRESHOLD, 2**31 - 1)
