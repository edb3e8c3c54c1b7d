"""The dumps of fixtures/dials and fixtures/traces_kernel."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

from kscope.model.trace import KernelTrace
from kscope.parsers.warp_trace import files
from tests.support.reports import FIXTURES

DIALS = FIXTURES.parent / "dials"
PROTON = FIXTURES.parent / "traces_kernel" / "proton_rows.chrome_trace.xz"
TRACED = tuple(sorted(path.parent.name for path in DIALS.glob("*/trace.ktrace.xz")))


def dump(case: str) -> Path:
    return DIALS / case / "trace.ktrace.xz"


def plain_dump(case: str) -> bytes:
    return lzma.decompress(dump(case).read_bytes())


@cache
def trace(case: str) -> KernelTrace:
    (one,) = files.read(dump(case))
    return one
