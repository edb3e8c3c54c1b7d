"""Reports made from reports, by their container alone: several kernels joined, none at all, cut anywhere."""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

from kscope.parsers.files.ncu_container import Block, blocks, header_end
from tests.support import patches

FIXTURES = patches.FIXTURES / "h200"


def fixture(case: str, folder: Path = FIXTURES, which: str = "report") -> Path:
    """A case's report, e.g. of `bank_conflict.slow`: as it is packed, or plain where it is kept as a difference."""
    return patches.report(f"{folder.name}/{case}/{which}")


def plain(case: str) -> bytes:
    """The bytes of a case's report, unpacked."""
    return patches.plain(f"{FIXTURES.name}/{case}/report")


def parts(data: bytes) -> tuple[bytes, list[tuple[Block, bytes]]]:
    """File header, and the blocks with their bytes."""
    file = io.BytesIO(data)
    header = data[: header_end(file, len(data))]
    return header, [(block, data[block.start : block.end]) for block in blocks(file, len(data))]


def without_kernels(data: bytes) -> bytes:
    """The report without its results: a valid report of zero kernels."""
    header, all_blocks = parts(data)
    return header + b"".join(part for block, part in all_blocks if not block.results)


def join_reports(paths: Sequence[Path], out: Path) -> int:
    """Write one report with the kernels of all `paths` (plain or .xz), in order; returns the bytes written.

    All of the first report, and of the others the blocks that carry something: sessions need not be repeated.
    """
    written = 0
    with out.open("wb") as file:
        for part in _joined(paths):
            written += file.write(part)
    return written


def _joined(paths: Sequence[Path]) -> Iterator[bytes]:
    for number, path in enumerate(paths):
        data = path.read_bytes()
        header, all_blocks = parts(lzma.decompress(data) if path.suffix == ".xz" else data)
        if number == 0:
            yield header
        yield from (part for block, part in all_blocks if number == 0 or block.end > block.payload)


SEVERAL = "multi_kernels"
"""The one capture of more than one kernel."""


def every_case() -> tuple[str, ...]:
    """Names of all captures."""
    return tuple(sorted(path.parent.name for path in FIXTURES.glob("*/CAPTURE.toml")))


def cases() -> tuple[str, ...]:
    """Names of the captures of one kernel."""
    return tuple(case for case in every_case() if case != SEVERAL)
