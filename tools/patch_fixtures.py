"""Make fixtures/ small: keep reports as differences from one another (tests/support/patches.py says how they are read).

    python tools/patch_fixtures.py [--check]

Every report of FOLDERS but those of STAY becomes a difference, anew if it is one already. The base is the smallest
report with the same modules; for that one the best of STAY, the same program's first report, and the same case's. First
the PM sampler's series that nothing reads are taken out: all but those that the reader takes of kernels with
asynchronous work, and that the charts of the HTML report take of CHARTED. `--check` rebuilds all reports, which
compares each with the checksum in its difference.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from strip_sources import fields, framed, key, messages, replaced_payload, u32, varint  # noqa: E402

from kscope.parsers.ncu import charts, worker  # noqa: E402
from tests.support import patches, reports  # noqa: E402

FOLDERS = ("h200", "dials")
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
MODULE = 4  # field of a block of sources
TABLE = 4  # field of a block's header: names of metrics
SAMPLED = re.compile(r"\w+\.TriageCompute\.|pmsampling:|warpsampling:")
LEVEL = 19


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        shutil.rmtree(patches.BUILD, ignore_errors=True)
        known = [name for folder in FOLDERS for name in patches.names(folder)]
        print(f"{len(known)} reports, {sum(len(patches.plain(name)) for name in known) / 1e6:.0f} MB plain")
        return 0
    whole = [name for folder in FOLDERS for name in patches.names(folder)]
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [(name, Path(folder)) for name in sorted(whole)]
        sets = dict(zip(sorted(whole), pool.map(prepared, *zip(*jobs, strict=True)), strict=True))
        sizes = {name: flat(Path(folder), name).stat().st_size for name in whole}
        tries = [(name, tried, Path(folder)) for name, tried in candidates(sets, sizes).items()]
        for (name, _, _), (base, patch) in zip(tries, pool.map(best, *zip(*tries, strict=True)), strict=True):
            write(name, base, patch)
    return 0


def flat(folder: Path, name: str) -> Path:
    return folder / name.replace("/", "+")


def prepared(name: str, folder: Path) -> tuple[str, ...]:
    """Put the plain report without what nothing reads into a folder; returns the hashes of its modules."""
    data = patches.plain(name)
    out = flat(folder, name)
    out.write_bytes(data)
    if name not in STAY:
        read = {series for raw in worker.extract_all(str(out), worker.Want()) for series in raw["timelines"]}
        data = without_series(data, lambda series: series in read or (name in CHARTED and charts.wanted(series)))
        out.write_bytes(data)
    _, blocks = reports.parts(data)
    found = [v for block, raw in blocks if not block.results and block.end > block.payload
             for message in messages(raw[4 + u32(raw, 0) :])
             for number, v, _ in fields(message) if number == MODULE and isinstance(v, bytes)]  # fmt: skip
    return tuple(sorted(hashlib.sha256(module).hexdigest() for module in found))


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


def candidates(sets: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Name of each report that shall be a difference -> bases to try. No base is, over others, one of itself."""
    order = sorted(sets, key=lambda name: (name not in STAY, sizes[name], name))
    leads: dict[tuple[str, ...], str] = {}
    programs: dict[str, str] = {}
    out: dict[str, list[str]] = {}
    for name in order:
        program = name.split("/")[1].partition(".")[0]
        lead, first = leads.setdefault(sets[name], name), programs.setdefault(program, name)
        plain = f"{name.rpartition('/')[0]}/report"
        if name in STAY:
            continue
        others = [*STAY, *(n for n in (first, plain) if n in sets and order.index(n) < order.index(name))]
        out[name] = [lead] if lead != name else list(dict.fromkeys(others))
    return out


def best(name: str, tried: Iterable[str], folder: Path) -> tuple[str, bytes]:
    """The base of the smallest difference, and that difference."""
    data = flat(folder, name).read_bytes()
    done = {base: difference(data, flat(folder, base).read_bytes()) for base in tried}
    base = min(done, key=lambda n: len(done[n]))
    return base, done[base]


def difference(data: bytes, base: bytes) -> bytes:
    """A Zstandard frame of `data` with `base` as its dictionary, checked to give `data` back."""
    import zstandard

    how = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=len(data), window_log=patches.WINDOW_LOG, enable_ldm=True, write_checksum=True
    )
    known = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    patch = zstandard.ZstdCompressor(dict_data=known, compression_params=how).compress(data)
    if patches.applied(patch, base) != data:
        raise SystemExit("a difference does not give its report back")
    return patch


def write(name: str, base: str, patch: bytes) -> None:
    """Put a difference in the place of a whole report, and into the index."""
    (patches.FIXTURES / f"{name}{patches.PATCH}").write_bytes(patch)
    (patches.FIXTURES / f"{name}{patches.WHOLE}").unlink(missing_ok=True)
    known = {**patches.bases(), name: base}
    lines = [f'"{one}" = "{of}"' for one, of in sorted(known.items())]
    head = "# Reports that are kept as what they differ by from another one, and that one: tests/support/patches.py.\n"
    patches.INDEX.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    patches.bases.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
