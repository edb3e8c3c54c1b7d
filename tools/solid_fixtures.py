"""Puts captures of fixtures/ together in archives (tests/support/solid.py says how they are packed).

    python tools/solid_fixtures.py [--check] [ARCHIVE ...]

Reports, dumps of warps, recordings and compiled code that are files of their own go into the archives named (default:
all), beside what is there already, and the files go; but those of STAY, which README.md names. It takes some minutes,
and writes the same archives from the same captures. First what nothing reads is taken out (tools/strip_unread.py); the
captures as they were taken stand in the history of this repository. `--check` unpacks everything, which compares each
with its checksum.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import strip_unread  # noqa: E402

from kscope.parsers.ncu import charts, worker  # noqa: E402
from tests.support import captures, dials, patches, reports, solid  # noqa: E402

TIME = re.compile(rb'("(?:ts|dur)":\d+\.)(\d{1,2})(?!\d)')
FOLDERS = ("h200", "sections", "dials")
"""Folders of fixtures/ with reports."""
STAY = (
    "h200/bank_conflict.slow/report", "dials/ws_gemm.produce_exposed/trace.ktrace", "traces/launch_bound.json.xz",
    "traces/app.json.xz", "sass/tiles.sm_90a.cubin.xz",
)  # fmt: skip
"""README.md names these files."""
WHOLE = ("h200/ws_gemm.best/report", "h200/gemm_f32.vector/report", "h200/row_stats.thread/report")
"""Reports with all that Nsight Compute wrote but PTX, as are those of sections/, which are about what was collected."""
CHARTED = tuple(
    f"{case}/report" for case in (
        "h200/sgemm.blocktile2d", f"h200/{reports.SEVERAL}", "h200/ws_gemm.epilogue_exposed", "dials/ws_gemm.tiles2",
        "dials/ws_gemm.epilogue_slow", "dials/ws_gemm.epilogue_exposed_k2048", "dials/tma_scale.stages2",
    )
)  # fmt: skip
"""Reports whose charts tests and tools/gallery.py draw: they keep the series for it."""

EXACT = ("dials/ws_gemm.one_group_stages2/report",)
"""Reports whose series keep every bit: a figure of its analysis ends between two digits."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("archives", nargs="*", metavar="ARCHIVE", help=", ".join(ARCHIVES))
    options = parser.parse_args()
    if set(options.archives) - set(ARCHIVES):
        parser.error(f"archives are {', '.join(ARCHIVES)}")
    if options.check:
        shutil.rmtree(patches.BUILD, ignore_errors=True)
        known = [name for folder in FOLDERS for name in patches.names(folder)]
        sizes = [len(patches.plain(name)) for name in known]
        sizes += [patches.built(name).stat().st_size for name in patches.archived() if patches.is_file(name)]
        print(f"{len(sizes)} captures, {sum(sizes) / 1e6:.0f} MB plain")
        return 0
    for archive in options.archives or ARCHIVES:
        keep(archive, ARCHIVES[archive]())
    captures.gather(patches.FIXTURES / "h200")
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


def all_reports() -> dict[str, bytes]:
    """The reports without what nothing reads."""
    every = [name for folder in FOLDERS for name in patches.names(folder) if name not in STAY]
    return prepared({name: partial(patches.plain, name) for name in every})


def prepared(every: Mapping[str, Callable[[], bytes]]) -> dict[str, bytes]:
    """every: name -> what gives the report's bytes."""
    images = strip_unread.Images()
    for name, data in every.items():
        if _is_stripped(name):
            images.seen(data())
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        names = list(every)
        read = dict(zip(names, pool.map(_series, names, [every[name] for name in names]), strict=True))

    def wanted(name: str, series: str) -> bool:
        return series in read[name] or (name in CHARTED and charts.wanted(series))

    return {
        name: strip_unread.stripped(data(), partial(wanted, name), images, 52 if name in EXACT else strip_unread.BITS)
        if _is_stripped(name) else strip_unread.without_ptx(data())
        for name, data in every.items()
    }


def _is_stripped(name: str) -> bool:
    return name not in WHOLE and not name.startswith("sections/")


def _series(name: str, data: Callable[[], bytes]) -> set[str]:
    """The series over time that the reader takes of a report: kernels with asynchronous work have some."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.ncu-rep")
        path.write_bytes(data())
        return {series for raw in worker.extract_all(str(path), worker.Want()) for series in raw["timelines"]}


def all_dumps() -> dict[str, bytes]:
    names = {case: f"dials/{case}/trace{patches.DUMP}" for case in dials.TRACED}
    return {name: dials.plain_dump(case) for case, name in names.items() if name not in STAY}


def all_recordings() -> dict[str, bytes]:
    """Their times with three digits behind the point, as all but one are written: columns are of whole nanoseconds."""
    return {name: TIME.sub(_three_digits, _file(name)) for name in _files("traces", ".json.xz")}


def _three_digits(time: re.Match[bytes]) -> bytes:
    return time[1] + time[2].ljust(3, b"0")


def all_code() -> dict[str, bytes]:
    return {name: strip_unread.without(_file(name)) for name in _files("sass", ".cubin.xz")}


def _files(folder: str, end: str) -> Sequence[str]:
    """Names of the files of a folder and of those in archives, without those of STAY."""
    files = {path.relative_to(patches.FIXTURES).as_posix() for path in (patches.FIXTURES / folder).rglob(f"*{end}")}
    kept = {name for name in patches.archived() if name.startswith(f"{folder}/") and name.endswith(end)}
    return sorted((files | kept) - set(STAY))


def _file(name: str) -> bytes:
    path = patches.FIXTURES / name
    return lzma.decompress((path if path.is_file() else patches.built(name)).read_bytes())


ARCHIVES: dict[str, Callable[[], dict[str, bytes]]] = {
    "reports": all_reports, "dumps": all_dumps, "recordings": all_recordings, "code": all_code,
}  # fmt: skip


def forget(every: Iterable[str]) -> None:
    """Remove the files of what is in an archive now."""
    gone = set(every)
    for name in gone:
        ends = ("", ".xz") if patches.is_file(name) else (patches.WHOLE, patches.PATCH, ".xz")
        for end in ends:
            (patches.FIXTURES / f"{name}{end}").unlink(missing_ok=True)
    left = {name: base for name, base in patches.bases().items() if name not in gone}
    lines = [f'"{name}" = "{base}"\n' for name, base in sorted(left.items())]
    if lines:
        patches.INDEX.write_text("".join(lines), encoding="utf-8")
    else:
        patches.INDEX.unlink(missing_ok=True)
    patches.bases.cache_clear()
    patches.archived.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
