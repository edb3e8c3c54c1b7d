"""From what people pass on the command line to plain files that a reader can open: folders are expanded, compressed
files (gzip, xz, zstd, told by their content) unpacked within a bound, and everything else refused in one line.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kscope.model.errors import KscopeError
from kscope.model.faults import fenced
from kscope.parsers.files import ncu_container
from kscope.parsers.files.decompress import AGAIN, cut, has_proc, pieces, stream_errors, unpack
from kscope.parsers.files.decompress import limit as unpack_limit
from kscope.parsers.files.regular_files import STDIN, opened, regular, stat_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD = 160 << 10
"""Bytes that tell the kind of a file: a first zstd block is up to 128 KB."""

_LAYERS = 3  # report.ncu-repz.xz is two
_PACKED = ("", ".gz", ".xz", ".zst")
_SUFFIXES = tuple(s + z for s in (".ncu-rep", ".ncu-repz") for z in _PACKED)
_TIMELINES = (*(s + z for s in (".sqlite", ".json") for z in _PACKED), ".nsys-rep", ".qdrep")
_CONTROL = re.compile("[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]")  # what no text holds: neither space nor an escape sequence
_PARQUET = ("StringIds.", "CUPTI_ACTIVITY_KIND_")
_READS = (
    "this version reads Nsight Compute reports (.ncu-rep, .ncu-repz), Nsight Systems exports (.sqlite, or a "
    "folder of .parquet) and torch profiler traces (.json), plain or as .gz, .xz or .zst"
)

_MAGICS = (
    (ncu_container.MAGIC, "ncu"),
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"SQLite format 3\0", "sqlite"),
    (b"\x7fELF", "elf"),
    (b"\x50\xed\x55\xba", "fatbin"),
    (b"%PDF", "pdf"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_UNSUPPORTED = {
    "elf": "machine code (ELF): `kscope sass` reads cubins, objects and executables",
    "fatbin": "a CUDA fat binary: `kscope sass` reads it",
    "pdf": "a PDF document",
    "zip": "a ZIP archive",
    "text": "text",
    "gzip": "a compressed file inside compressed files",
    "xz": "a compressed file inside compressed files",
    "zstd": "a compressed file inside compressed files",
}


def sniff(head: bytes) -> str:
    """What a file is by its first bytes: "ncu", "ncu-repz" (zstd of a report), "gzip", "xz", "zstd", "sqlite", "json",
    "elf", "fatbin", "pdf", "zip", "empty", "text" or "unknown"."""
    if not head:
        return "empty"
    kind = next((kind for magic, kind in _MAGICS if head.startswith(magic)), None)
    if kind == "zstd":
        return "ncu-repz" if _peel(head, kind)[:4] == ncu_container.MAGIC else kind
    if kind:
        return kind
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    try:
        text = head[: HEAD - 4].decode("utf-8")
    except UnicodeDecodeError as e:
        if e.start < len(head) - 4 and start not in (b"{", b"["):  # in JSON names may hold any bytes
            return "unknown"
        text = head.decode("utf-8", "replace")  # or the head ends within a character
    if _CONTROL.search(text):
        return "unknown"
    return "json" if start in (b"{", b"[") else "text"


def collect(
    paths: Iterable[str | Path], skipped: list[tuple[str, KscopeError]] | None = None
) -> list[tuple[Path, str]]:
    """The input files that `paths` name, with their kind (of `kind_of`); folders give the reports below them, sorted.

    A file that is named twice counts once. Raises KscopeError (status 3) for a path that is missing, unreadable, empty
    or of an unknown kind, and for a folder without reports. With `skipped`, faulty files found in a folder are
    appended to it as (path, fault) as long as the folder has a good one.
    """
    found: dict[tuple[int, int] | str, tuple[Path, str]] = {}
    for named in paths:
        path = Path(named)
        if not str(named):  # a path of its own, the folder that one stands in, would be a guess
            raise KscopeError("missing-file", "an empty path", "name a file or folder")
        if path == STDIN:
            found.setdefault("-", (path, kind_of(path)))
            continue
        if not stat.S_ISDIR(stat_of(path).st_mode):
            found.setdefault(_identity(path), (path, kind_of(path)))
            continue
        faults: list[tuple[str, KscopeError]] = []
        good = 0
        for member in reports_below(path):
            try:
                with fenced(member):
                    kind = kind_of(member)
            except KscopeError as e:
                if skipped is None:
                    raise
                faults.append((str(member), e))
                continue
            good += 1
            found.setdefault(_identity(member), (member, kind))
        if not good:
            if faults:
                raise faults[0][1]
            message = f"{path}: no Nsight Compute report and no timeline in this folder"
            hint = "name a .ncu-rep, .sqlite or trace .json file, or the folder that has them"
            raise KscopeError("no-reports", message, hint)
        if skipped is not None:
            skipped += faults
    return list(found.values())


def kind_of(path: Path) -> str:
    """The kind of one file, looking through compression: "ncu", "nsys" (its SQLite export), "nsys-rep",
    "nsys-parquet" (a folder that `reports_below` gives), "kineto". Raises KscopeError for anything else."""
    if path.is_dir() and _is_parquet(os.listdir(path)):
        return "nsys-parquet"
    regular(path)
    with opened(path) as file:
        head = file.read(HEAD)
    kind = sniff(head)
    for _ in range(_LAYERS):
        if kind not in ("gzip", "xz", "zstd", "ncu-repz"):
            break
        outer, head = kind, _peel(head, kind)
        if not head:
            raise cut(path, f"the {outer} stream in it is empty or broken")
        kind = sniff(head)
    if kind == "ncu":
        return kind
    if kind in ("sqlite", "json"):
        return "nsys" if kind == "sqlite" else "kineto"
    if kind == "empty":
        raise KscopeError("empty-file", f"{path}: the file is empty", AGAIN)
    if kind == "unknown" and path.name.endswith((".nsys-rep", ".qdrep")):
        return "nsys-rep"
    if kind == "unknown" and path.name.endswith(_SUFFIXES):
        raise KscopeError("corrupt", f"{path}: not an Nsight Compute report, whatever its name says", AGAIN)
    what = _UNSUPPORTED.get(kind)
    if what is None:
        raise KscopeError("unknown-kind", f"{path}: not a kind of file that kscope knows", _READS)
    code = "unsupported" if "kscope sass" in what else "unknown-kind"
    raise KscopeError(code, f"{path}: looks like {what}", _READS)


@contextlib.contextmanager
def open_input(path: Path | str, limit: int | None = None) -> Iterator[str]:
    """A path that gives the plain bytes of `path` for as long as the context lasts, in this process and its forks.

    A plain file is used in place. A compressed one is unpacked, to at most `limit` bytes, into a file without a name,
    so nothing is left behind however the process ends. An Nsight Compute report is checked for completeness, which
    NVIDIA's reader does not do. Raises KscopeError: "too-large", "truncated", "corrupt", and what `collect` raises.
    """
    path = Path(path)
    regular(path)
    bound = unpack_limit() if limit is None else limit
    with contextlib.ExitStack() as stack:
        plain: IO[bytes] = stack.enter_context(opened(path))
        name, kind = str(path), ""
        for _ in range(_LAYERS):
            kind = sniff(plain.read(HEAD))
            plain.seek(0)
            if kind not in ("gzip", "xz", "zstd", "ncu-repz"):
                break
            plain, name = unpack(stack, plain, kind, path, bound)
        if name == str(STDIN):
            name = f"/proc/self/fd/{plain.fileno()}" if has_proc(plain) else str(plain.name)
        if kind == "ncu":
            _check(plain, path)
            # The reader takes anything named .ncu-repz for compressed, and no name that is not UTF-8.
            if (name.lower().endswith(".ncu-repz") or not _utf8(name)) and has_proc(plain):
                name = f"/proc/self/fd/{plain.fileno()}"
        yield name


def _utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check(file: IO[bytes], path: Path) -> None:
    try:
        ncu_container.check(file, os.fstat(file.fileno()).st_size)
    except ncu_container.Damage as e:
        if e.cut:
            raise cut(path, str(e)) from None
        raise KscopeError("corrupt", f"{path}: the report is damaged: {e}", AGAIN) from None


def _peel(head: bytes, kind: str) -> bytes:
    """What the head of a compressed file unpacks to, as far as it goes; empty when it is damaged."""
    import io

    out = bytearray()
    try:
        for piece in pieces(io.BytesIO(head), kind):
            out += piece
            if len(out) >= HEAD:
                break
    except EOFError:
        pass  # the head of a longer stream
    except stream_errors():
        pass
    return bytes(out[:HEAD])


def reports_below(folder: Path) -> Iterator[Path]:
    """Reports below a folder, sorted; hidden folders and links to folders are left out. A Parquet export of Nsight
    Systems is a folder, maybe this one."""
    for root, folders, files in os.walk(folder):
        if _is_parquet(files):
            folders.clear()
            yield Path(root)
            continue
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(files):
            path = Path(root, name)
            if name.endswith(_SUFFIXES) or (name.endswith(_TIMELINES) and _is_timeline(path, files)):
                yield path


def _is_parquet(files: Iterable[str]) -> bool:
    """Whether these are the tables of an export of Nsight Systems."""
    return any(name.startswith(_PARQUET) and name.endswith(".parquet") for name in files)


def _is_timeline(path: Path, files: list[str]) -> bool:
    """Whether a file of a folder is worth reading: not every .json is a trace, and a report may lie by its export."""
    if path.suffix in (".nsys-rep", ".qdrep"):
        return not any(path.stem + ".sqlite" + z in files for z in _PACKED)
    if ".json" not in path.suffixes:
        return True
    try:
        with opened(path) as file:
            head = file.read(HEAD)
    except (KscopeError, OSError):
        return True  # whoever reads it says what is wrong
    kind = sniff(head)
    if kind not in ("gzip", "xz", "zstd"):
        return b'"traceEvents"' in head
    peeled = _peel(head, kind)
    return not peeled or b'"traceEvents"' in peeled


def _identity(path: Path) -> tuple[int, int] | str:
    about = path.stat()
    return (about.st_dev, about.st_ino) if about.st_ino else str(path.resolve())
