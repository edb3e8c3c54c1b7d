"""From what people name to inputs: files, folders, archives, and whatever fsspec opens (s3://, gs://, abfs://). Each
with what tells it again without being read, and with its labels."""

from __future__ import annotations

import os
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from msgspec import Struct

from kscope.fleet.missing import needed
from kscope.model.errors import KscopeError
from kscope.model.faults import fault
from kscope.parsers.files.inputs import reports_below
from kscope.parsers.files.regular_files import regular, stat_of

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_BINARIES = (".cubin", ".fatbin")
_PACKED = ("", ".gz", ".xz", ".zst")
_REPORTS = (*(s + z for s in (".ncu-rep", ".ncu-repz", ".sqlite", ".json") for z in _PACKED), ".nsys-rep")
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz")
_LABEL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)")


class Source(Struct, frozen=True):
    """One input. path: a local file, a folder of tables, or a URL of fsspec; member: name inside the archive at `path`.
    fingerprint: of size and time of change. changed: time of change, seconds since 1970 UTC, None where nobody says."""

    url: str
    path: str
    fingerprint: str
    size: int
    member: str = ""
    labels: Mapping[str, str] = {}
    changed: float | None = None


Faults = list[tuple[str, KscopeError]]


def find(paths: Iterable[str], labels: Mapping[str, str], faults: Faults) -> list[Source]:
    """The inputs of all paths, sorted by URL, none twice; what cannot be looked at is added to `faults`, once."""
    found: dict[str, Source] = {}
    seen: Faults = []
    for path in paths:
        try:
            for one in _remote(path) if _REMOTE.match(path) else _local(Path(path), seen):
                known = {**_of_folders(one.url), **labels}
                found.setdefault(one.url, Source(**{f: getattr(one, f) for f in one.__struct_fields__ if f != "labels"},
                                                 labels=known))  # fmt: skip
        except Exception as error:
            seen.append((path, fault(path, error)))
    faults += {path: (path, error) for path, error in seen}.values()
    return [found[url] for url in sorted(found)]


def _of_folders(url: str) -> dict[str, str]:
    """Labels that folders called NAME=VALUE give, as partitions of a data set are called."""
    parts = url.replace("\\", "/").replace("!", "/").split("/")[:-1]
    return {m[1]: m[2] for part in parts if (m := _LABEL.fullmatch(part))}


def _local(path: Path, faults: Faults) -> Iterator[Source]:
    stat_of(path)
    path = Path(os.path.abspath(path))  # one input, whichever way it was named and from where
    if not path.is_dir():
        yield from _file(path, faults)
        return
    below = {member for member in reports_below(path) if member.is_file() or member.is_dir()}
    for root, folders, files in os.walk(path):
        if Path(root) in below:  # the tables of one export
            folders.clear()
            continue
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        below |= {Path(root, n) for n in files if n.endswith((*_BINARIES, *_TARS, ".zip")) and not n.startswith(".")}
    for member in sorted(below):
        yield from _file(member, faults)


def _file(path: Path, faults: Faults) -> Iterator[Source]:
    """A file; of an archive its members; of an export of Nsight Systems in Parquet files the folder, one input."""
    try:
        if path.is_dir():
            yield _tables(path)
            return
        regular(path)
        about = path.stat()
        mark = f"{about.st_size}-{about.st_mtime_ns}"
        one = Source(str(path), str(path), mark, about.st_size, changed=about.st_mtime)
        if path.name.endswith((*_TARS, ".zip")):
            yield from _members(one)
        else:
            yield one
    except Exception as error:
        faults.append((str(path), fault(path, error)))


def _tables(folder: Path) -> Source:
    """A folder of Parquet files. It is known by the size and time of change of each of them."""
    about = [(file.name, file.stat()) for file in files_of(folder)]
    mark = blake2b(repr([(name, s.st_size, s.st_mtime_ns) for name, s in about]).encode(), digest_size=16).hexdigest()
    size = sum(s.st_size for _, s in about)
    return Source(str(folder), str(folder), f"{size}-{mark}", size, changed=max(s.st_mtime for _, s in about))


def files_of(folder: Path | str) -> list[Path]:
    """The files that make a folder one input, sorted: its tables."""
    return sorted(file for file in Path(folder).iterdir() if file.suffix == ".parquet" and file.is_file())


def _members(archive: Source) -> list[Source]:
    """Reports and binaries in an archive."""
    found: list[tuple[str, int]] = []
    try:
        if archive.path.endswith(".zip"):
            with zipfile.ZipFile(archive.path) as names:
                found = [(i.filename, i.file_size) for i in names.infolist() if not i.is_dir()]
        else:
            with tarfile.open(archive.path) as members:
                found = [(m.name, m.size) for m in members if m.isfile()]
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise KscopeError("corrupt", f"{archive.path}: not a whole archive ({error})", "copy it again") from None
    return [
        Source(f"{archive.url}!{name}", archive.path, f"{archive.fingerprint}!{size}", size, name,
               changed=archive.changed)
        for name, size in sorted(found)
        if name.endswith((*_REPORTS, *_BINARIES)) and not PurePosixPath(name).name.startswith(".")
    ]  # fmt: skip


def _remote(url: str) -> Iterator[Source]:
    """Objects at or below a URL."""
    fsspec = needed("fsspec")
    files, root = fsspec.core.url_to_fs(url)
    found = {root: files.info(root)} if files.isfile(root) else files.find(root, detail=True)
    if not found:
        raise KscopeError("no-reports", f"{url}: nothing there", "check the URL and the permissions")
    for path in sorted(found):
        about = found[path]
        if len(found) > 1 and not path.endswith((*_REPORTS, *_BINARIES)):
            continue
        version = next((str(about[k]) for k in ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified",
                                                "last_modified", "created") if about.get(k)), "")  # fmt: skip
        size = int(about.get("size") or 0)
        full = files.unstrip_protocol(path)
        yield Source(full, full, f"{size}-{version}", size)
