"""Captures that are kept in archives, or as what they differ by from another one, and their plain bytes.

Most reports of fixtures/ hold what others hold too: the program with all its kernels, the layouts of NVIDIA's sections,
names; recordings and compiled code likewise. So they stand together in archives, fixtures/solid/*.solid
(tests/support/solid.py), of which the first that is asked for is unpacked whole into BUILD (seconds, once) and stays
there. What README.md names is a file of its own, as people have them: NAME.ncu-rep.xz, NAME.json.xz, NAME.cubin.xz.

A report that came after an archive was made may be NAME.patch.zst until tools/solid_fixtures.py is run: a Zstandard
frame whose dictionary is the plain report of another name, its base, which fixtures/bases.toml gives.
`zstd -d --long=27 --patch-from=BASE.ncu-rep NAME.patch.zst` reads it just so.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import solid

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
INDEX = FIXTURES / "bases.toml"
ARCHIVES = FIXTURES / "solid"
BUILD = ROOT / "build" / "fixtures"
"""Ignored by git; `make clean` takes it away."""
WHOLE, PATCH, PLAIN, ARCHIVE = ".ncu-rep.xz", ".patch.zst", ".ncu-rep", ".solid"
DUMP, PACKED = ".ktrace", ".xz"
"""Ends of names in archives that are no reports, as `dials/ws_gemm.k128/trace.ktrace`, `traces/rnn.json.xz`; names of
reports end plain. What ends in .xz is put so into BUILD, packed in haste."""
WINDOW_LOG = 27
"""Bytes that a difference may look back, as a power of two: 128 MiB, more than any two reports together."""


@cache
def bases() -> dict[str, str]:
    """Name of each difference -> name of its base."""
    found: dict[str, str] = tomllib.loads(INDEX.read_text(encoding="utf-8")) if INDEX.is_file() else {}
    return found


@cache
def archived() -> dict[str, Path]:
    """Name of each report or dump in an archive -> the archive. What lies beside it as a file of its own is newer."""
    found = {name: path for path in sorted(ARCHIVES.glob(f"*{ARCHIVE}")) for name in solid.names(path.read_bytes())}
    return {name: path for name, path in found.items() if not _file(name).is_file()}


def names(folder: str) -> tuple[str, ...]:
    """Names of the reports below a folder of fixtures/, sorted: `h200/bank_conflict.slow/report`."""
    files = {_name(path) for end in (WHOLE, PATCH) for path in (FIXTURES / folder).rglob(f"*{end}")}
    return tuple(sorted(files | {name for name in archived() if name.startswith(f"{folder}/") and not is_file(name)}))


def report(name: str) -> Path:
    """A file with the report that kscope reads: as it is packed, or, of one that is not a file of its own, the plain
    one in BUILD."""
    return built(name) if name in bases() or name in archived() else FIXTURES / f"{name}{WHOLE}"


def built(name: str) -> Path:
    """The plain report in BUILD, put there unless it is. It has the time of what it was made of."""
    out, archive = _place(name), archived().get(name)
    made = (archive or _file(name)).stat().st_mtime_ns
    if _is_made(out, made):
        return out
    if archive is None:
        put(out, _unpacked(name), made)
        return out
    with _alone(BUILD / f"{archive.stem}.lock"):  # of several that ask at the same time one unpacks it
        if not _is_made(out, made):
            for one, data in solid.unpacked(archive.read_bytes()):
                if not _is_made(_place(one), made):
                    put(_place(one), data, made)
    return out


def plain(name: str) -> bytes:
    """The bytes of a report."""
    return built(name).read_bytes() if name in bases() or name in archived() else _unpacked(name)


def is_file(name: str) -> bool:
    return name.endswith((DUMP, PACKED))


def _place(name: str) -> Path:
    return BUILD / (name if is_file(name) else f"{name}{PLAIN}")


def _file(name: str) -> Path:
    if is_file(name):
        return FIXTURES / f"{name.removesuffix(PACKED)}{PACKED}"
    return FIXTURES / f"{name}{PATCH if name in bases() else WHOLE}"


def _is_made(out: Path, made: int) -> bool:
    return out.is_file() and out.stat().st_mtime_ns == made


def put(out: Path, data: bytes, made: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    data = lzma.compress(data, preset=0) if out.suffix == PACKED else data
    with tempfile.NamedTemporaryFile(dir=out.parent, delete=False) as part:  # two may build it at the same time
        part.write(data)
    os.chmod(part.name, 0o644)
    os.utime(part.name, ns=(made, made))
    os.replace(part.name, out)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except ImportError:  # several do the same work then
            pass
        yield


def _unpacked(name: str) -> bytes:
    base = bases().get(name)
    if base is None:
        return lzma.decompress((FIXTURES / f"{name}{WHOLE}").read_bytes())
    return applied((FIXTURES / f"{name}{PATCH}").read_bytes(), built(base).read_bytes())


def applied(patch: bytes, base: bytes) -> bytes:
    """The report that a difference stands for. Raises the zstd library's error where it is of another base."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        options = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        return zstd.decompress(patch, zstd_dict=zstd.ZstdDict(base, is_raw=True).as_prefix, options=options)
    import zstandard

    known = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdDecompressor(dict_data=known, max_window_size=1 << WINDOW_LOG).decompress(patch)


def _name(path: Path) -> str:
    relative = path.relative_to(FIXTURES).as_posix()
    return relative.removesuffix(WHOLE).removesuffix(PATCH)
