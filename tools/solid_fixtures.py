"""Make fixtures/ small: keep reports together in archives (tests/support/solid.py says how they are packed).

    python tools/solid_fixtures.py [--check]

All reports of an archive's folders but those of STAY go into it, also those that are there already, and lose the files
that they were; so do the dumps of warps. It takes some minutes, and writes the same archives from the same captures.
First the PM sampler's series that nothing reads are taken out of reports: all but those that the reader takes of
kernels with asynchronous work, and that the charts of the HTML report take of CHARTED. `--check` unpacks everything,
which compares each with its checksum.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from strip_sources import fields, framed, key, messages, replaced_payload, u32, varint  # noqa: E402

from kscope.parsers.ncu import charts, worker  # noqa: E402
from tests.support import dials, patches, reports, solid  # noqa: E402

FOLDERS = {"h200": ("h200", "sections"), "dials": ("dials",)}
"""Archive -> folders of fixtures/ whose reports it holds."""
DUMPS = "dumps"
"""The archive of what warps recorded."""
STAY_DUMP = "ws_gemm.produce_exposed"
"""README.md names it."""
STAY = ("h200/bank_conflict.slow/report", "h200/bank_conflict.fast/report", "h200/dram_bound.triad/report")
"""README.md and `make demo` name the first, tests of the command give it all of them as they are packed."""
CHARTED = tuple(
    f"{case}/report" for case in (
        "h200/sgemm.blocktile2d", f"h200/{reports.SEVERAL}", "h200/ws_gemm.epilogue_exposed", "dials/ws_gemm.tiles2",
        "dials/ws_gemm.epilogue_slow", "dials/ws_gemm.epilogue_exposed_k2048", "dials/tma_scale.stages2",
    )
)  # fmt: skip
"""Reports whose charts tests and tools/gallery.py draw."""
METRICS, NAME, INSTANCES = 13, 1, 3  # fields: of a result, and of each of its metrics
TABLE = 4  # field of a block's header: names of metrics
SAMPLED = re.compile(r"\w+\.TriageCompute\.|pmsampling:|warpsampling:")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        shutil.rmtree(patches.BUILD, ignore_errors=True)
        known = [name for folders in FOLDERS.values() for folder in folders for name in patches.names(folder)]
        known += [name for name in patches.archived() if name.endswith(patches.DUMP)]
        print(f"{len(known)} captures, {sum(len(patches.plain(name)) for name in known) / 1e6:.0f} MB plain")
        return 0
    for archive, folders in FOLDERS.items():
        every = [name for folder in folders for name in patches.names(folder) if name not in STAY]
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            found = dict(zip(every, pool.map(prepared, every), strict=True))
        keep(archive, found)
    keep(DUMPS, {f"dials/{case}/trace{patches.DUMP}": dials.plain_dump(case)
                 for case in dials.TRACED if case != STAY_DUMP})  # fmt: skip
    return 0


def keep(archive: str, files: Mapping[str, bytes]) -> None:
    """Write an archive in the place of its files."""
    data = solid.packed(files)
    if dict(solid.unpacked(data)) != files:
        raise SystemExit(f"{archive}: the archive does not give its files back")
    patches.ARCHIVES.mkdir(exist_ok=True)
    (patches.ARCHIVES / f"{archive}{patches.ARCHIVE}").write_bytes(data)
    forget(list(files))
    print(f"{archive}: {len(files)} in {len(data) / 1e6:.2f} MB")


def prepared(name: str) -> bytes:
    """The plain report without what nothing reads."""
    data = patches.plain(name)
    if name.startswith("sections/"):  # what was collected is what they are for
        return data
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.ncu-rep")
        path.write_bytes(data)
        read = {series for raw in worker.extract_all(str(path), worker.Want()) for series in raw["timelines"]}
    return without_series(data, lambda series: series in read or (name in CHARTED and charts.wanted(series)))


def forget(every: Sequence[str]) -> None:
    """Remove the files of reports that are in an archive now."""
    for name in every:
        for end in (patches.WHOLE, patches.PATCH, ".xz"):
            (patches.FIXTURES / f"{name}{end}").unlink(missing_ok=True)
    left = {name: base for name, base in patches.bases().items() if name not in set(every)}
    lines = [f'"{name}" = "{base}"\n' for name, base in sorted(left.items())]
    if lines:
        patches.INDEX.write_text("".join(lines), encoding="utf-8")
    else:
        patches.INDEX.unlink(missing_ok=True)
    patches.bases.cache_clear()
    patches.archived.cache_clear()


def without_series(data: bytes, keep: Callable[[str], bool]) -> bytes:
    """The report without values over time of what the PM sampler saw; the metrics keep their one value each."""
    head, blocks = reports.parts(data)
    out = [head]
    for block, raw in blocks:
        end = 4 + u32(raw, 0)
        header, payload = raw[4:end], raw[end:]
        if block.results:
            table = next(v for n, v, _ in fields(header) if n == TABLE and isinstance(v, bytes))
            names = [v for n, v, _ in fields(table) if n == 1 and isinstance(v, bytes)]
            series = {i for i, name in enumerate(names) if SAMPLED.match(name.decode()) and not keep(name.decode())}
            payload = b"".join(framed(_bare(message, series)) for message in messages(payload))
            header = replaced_payload(header, len(payload))
        out += [framed(header), payload]
    return b"".join(out)


def _bare(message: bytes, series: set[int]) -> bytes:
    parts = []
    for number, value, raw in fields(message):
        if number == METRICS and isinstance(value, bytes):
            inner = list(fields(value))
            if any(n == NAME and v in series for n, v, _ in inner):
                kept = b"".join(part for n, _, part in inner if n != INSTANCES)
                raw = key(METRICS, 2) + varint(len(kept)) + kept
        parts.append(raw)
    return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main())
