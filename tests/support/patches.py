"""Captures that are kept as what they differ by from another one, and their plain bytes.

Most reports of fixtures/ hold what others hold too: the program with all its kernels, the layouts of NVIDIA's sections,
names. Such a report is FIXTURES/NAME.patch.zst: a Zstandard frame whose dictionary is the plain report of another
name, its base, which fixtures/bases.toml gives. `zstd -d --long=27 --patch-from=BASE.ncu-rep NAME.patch.zst` reads it
just so. A base may itself be a difference; where that ends lies a whole report, NAME.ncu-rep.xz.

Made by tools/patch_fixtures.py. The plain report is put into BUILD when it is first asked for (2 ms) and stays there.
"""

from __future__ import annotations

import lzma
import os
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
INDEX = FIXTURES / "bases.toml"
BUILD = ROOT / "build" / "fixtures"
"""Ignored by git; `make clean` takes it away."""
WHOLE, PATCH, PLAIN = ".ncu-rep.xz", ".patch.zst", ".ncu-rep"
WINDOW_LOG = 27
"""Bytes that a difference may look back, as a power of two: 128 MiB, more than any two reports together."""


@cache
def bases() -> dict[str, str]:
    """Name of each difference -> name of its base."""
    found: dict[str, str] = tomllib.loads(INDEX.read_text(encoding="utf-8")) if INDEX.is_file() else {}
    return found


def names(folder: str) -> tuple[str, ...]:
    """Names of the reports below a folder of fixtures/, sorted: `h200/bank_conflict.slow/report`."""
    return tuple(sorted(_name(path) for end in (WHOLE, PATCH) for path in (FIXTURES / folder).rglob(f"*{end}")))


def report(name: str) -> Path:
    """A file with the report that kscope reads: as it is packed, or, of a difference, the plain one in BUILD."""
    whole = FIXTURES / f"{name}{WHOLE}"
    return built(name) if name in bases() else whole


def built(name: str) -> Path:
    """The plain report in BUILD, put there unless it is. It has the time of the difference that it was made of."""
    out, source = BUILD / f"{name}{PLAIN}", FIXTURES / f"{name}{PATCH if name in bases() else WHOLE}"
    made = source.stat().st_mtime_ns
    if not out.is_file() or out.stat().st_mtime_ns != made:
        out.parent.mkdir(parents=True, exist_ok=True)
        data = _unpacked(name)
        with tempfile.NamedTemporaryFile(dir=out.parent, delete=False) as part:  # two may build it at the same time
            part.write(data)
        os.chmod(part.name, 0o644)
        os.utime(part.name, ns=(made, made))
        os.replace(part.name, out)
    return out


def plain(name: str) -> bytes:
    """The bytes of a report."""
    return built(name).read_bytes() if name in bases() else _unpacked(name)


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
