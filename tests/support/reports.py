"""Reports made from reports, by their container alone: several kernels joined, none at all, cut anywhere."""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kscope.parsers.files.ncu_container import Block, blocks, header_end
from kscope.rules.registry import rule
from tests.support import captures, patches
from tests.support.thorough import ALL, SAID

FIXTURES = patches.FIXTURES / "h200"
DIALS = patches.FIXTURES / "dials"


def folder_of(case: str) -> Path:
    """Captures of one kernel lie in h200; those of a pipeline with a dial turned, whose names are others, in dials."""
    dial = (DIALS / case).exists() or f"dials/{case}/report" in patches.archived()
    return DIALS if dial and case not in _tables() else FIXTURES


def fixture(case: str, folder: Path | None = None, which: str = "report") -> Path:
    """A case's report, e.g. of `bank_conflict.slow`: as it is packed, or plain where it is kept as a difference."""
    return patches.report(f"{(folder or folder_of(case)).name}/{case}/{which}")


def plain(case: str) -> bytes:
    """The bytes of a case's report, unpacked."""
    return patches.plain(f"{folder_of(case).name}/{case}/report")


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


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return captures.tables(FIXTURES)


@cache
def programs() -> dict[str, str]:
    """Capture -> the program that it is of."""
    return captures.programs(FIXTURES)


SEVERAL = "multi_kernels"
"""The one capture of more than one kernel."""


def every_case() -> tuple[str, ...]:
    """Names of all captures."""
    return tuple(_tables())


def cases() -> tuple[str, ...]:
    """Names of the captures of one kernel."""
    return tuple(case for case in every_case() if case != SEVERAL)


STRATUM = 16
"""Captures of a stratum, of which one more is chosen each."""


def stratum(case: str) -> tuple[str, str, str]:
    """What kind a capture is: family of the rule that names its cause (MEM, CMP, ...), regime, and whether the fault is
    planted in it, fixed, or nothing is to be gained (level). Empty words for captures beside all labels."""
    labels, fixes = _labels()
    of = case if case in labels else fixes.get(case, "")
    if not of:
        return ("", "", "")
    accept, regimes = labels[of]["accept"], labels[of]["regime"]
    mode = "fixed" if case not in labels else "level" if labels[case].get("no_gain") else "planted"
    return (rule(accept[0]).code[:3], regimes[0], mode)


@cache
def chosen() -> tuple[str, ...]:
    """The captures that tests over captures look at: all with KSCOPE_TEST_ALL=1, else about 40 that have some of every
    kind: of each stratum one, and one more for every STRATUM captures in it, spread over their names; and the report of
    several kernels. A test of a certain capture names it and asks nobody."""
    if ALL:
        return every_case()
    strata: dict[tuple[str, str, str], list[str]] = {}
    for case in cases():
        strata.setdefault(stratum(case), []).append(case)
    picked = [SEVERAL]
    for names in strata.values():
        count = 1 + len(names) // STRATUM
        picked += [names[(2 * i + 1) * len(names) // (2 * count)] for i in range(count)]
    return tuple(sorted(picked))


def said_of() -> tuple[str, ...]:
    """The captures that tests of what is said look at."""
    return every_case() if SAID else chosen()


def chosen_cases() -> tuple[str, ...]:
    """Those of `chosen` that hold one kernel."""
    return tuple(case for case in chosen() if case != SEVERAL)


@cache
def _labels() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The labels, and of each fixed version a case whose fault it lacks."""
    labels = captures.labels(_tables())
    return labels, {label["fixed"]: case for case, label in labels.items() if "fixed" in label}
