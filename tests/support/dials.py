"""The dumps of fixtures/dials and fixtures/traces_kernel."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

from kscope.model.trace import KernelTrace
from kscope.parsers.warp_trace import files
from tests.support import patches
from tests.support.reports import FIXTURES

DIALS = FIXTURES.parent / "dials"
PROTON = FIXTURES.parent / "traces_kernel" / "proton_rows.chrome_trace.xz"


def _name(case: str) -> str:
    return f"dials/{case}/trace{patches.DUMP}"


def _traced() -> tuple[str, ...]:
    files = {path.parent.name for path in DIALS.glob("*/trace.ktrace.xz")}
    return tuple(sorted(files | {name.split("/")[1] for name in patches.archived() if name.endswith(patches.DUMP)}))


TRACED = _traced()


def dump(case: str) -> Path:
    """As it is packed, or plain where it is kept in an archive."""
    whole = DIALS / case / "trace.ktrace.xz"
    return whole if whole.is_file() else patches.built(_name(case))


def plain_dump(case: str) -> bytes:
    path = dump(case)
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


@cache
def trace(case: str) -> KernelTrace:
    (one,) = files.read(dump(case))
    return one
