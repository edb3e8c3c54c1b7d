"""Files that hold files with machine code: wheels and other zip archives, folders such as Triton's cache; and PTX,
which ptxas assembles first."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from kscope.model.errors import KscopeError
from kscope.parsers import scratch, toolchain
from kscope.parsers.files.decompress import limit as unpack_limit

SUFFIXES = (".cubin", ".fatbin", ".so", ".o", ".a", ".obj", ".dll", ".pyd", ".exe", ".xz", ".gz", ".zst")
MEMBERS = 100_000
"""Files of one folder or archive that are looked at; the next one is a fault, not a silent end."""
_TARGET = re.compile(rb"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)


def is_archive(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04")


def below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Files in a folder whose name says that they hold machine code, by relative name. Links are not followed. Raises
    KscopeError where there are too many."""
    for seen, file in enumerate(sorted(folder.rglob("*"))):
        _count(folder, seen)
        if file.suffix.lower() in SUFFIXES and file.is_file() and not file.is_symlink():
            yield file.relative_to(folder).as_posix(), file


def inside(path: Path, plain: Path) -> Iterator[tuple[str, Path]]:
    """Files of a zip archive, the same; each is unpacked for as long as it is looked at. Raises KscopeError: damaged,
    or unpacks to more than an input may."""
    left = unpack_limit()
    try:
        with zipfile.ZipFile(plain) as archive, scratch.folder() as folder:
            for seen, one in enumerate(archive.infolist()):
                _count(path, seen)
                suffix = Path(one.filename).suffix.lower()
                if one.is_dir() or (suffix not in SUFFIXES and ".so." not in one.filename):
                    continue
                left -= one.file_size
                if left < 0:
                    message = f"{path}: unpacks to more than {unpack_limit()} bytes"
                    raise KscopeError("too-large", message, "unpack it by hand, or raise KSCOPE_UNPACK_LIMIT (bytes)")
                target = Path(folder) / f"member{suffix}"
                with archive.open(one) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)  # zipfile stops at the size that the member states
                yield one.filename, target
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise KscopeError("damaged", f"{path}: {error}", "copy or download it again") from None


def assembled(path: Path, text: Path, arch: str | None, folder: Path) -> tuple[Path, str]:
    """PTX as a cubin in `folder`, and the words that say who made it. The target is the one asked for, else the PTX's
    own. Raises KscopeError: no ptxas, or it refuses the text."""
    target = arch
    if target is None:
        match = _TARGET.search(text.read_bytes())
        if match is None:
            raise KscopeError("ptx", f"{path}: PTX without a .target", "give --arch, such as sm_90")
        target = match[1].decode()
    try:
        tool = toolchain.find("ptxas")
    except KscopeError as error:
        message = f"{path}: PTX is not machine code: ptxas decides what runs, and it is not here"
        raise KscopeError("ptx", message, error.hint) from None
    out = folder / "kernel.cubin"
    done = toolchain.run(tool, ["-arch", target, str(text.absolute()), "-o", str(out)])
    if done.status != 0 or not out.is_file():
        message = f"{path}: {tool} refuses it for {target}: {done.fault}"
        raise KscopeError("ptx", message, "give --arch, or a newer ptxas")
    return out, f"assembled by {tool} for {target}"


def _count(path: Path, seen: int) -> None:
    if seen > MEMBERS:
        raise KscopeError("too-many", f"{path}: more than {MEMBERS} files", "name a folder below, or one file")
