"""Changes kept between runs: they are computed from the code, its profile and its source alone, by playing texts on
numbers, which takes longer than all the rest of a diagnosis.

The key is a hash of all that makers see, and of kscope's own files, so that a new version never answers with the
changes of an old one. An entry says which source files were read, and is good only while they read the same. Where it
lies, who may write there and how it is turned off: `kscope.parsers.ncu.sass_cache`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from kscope.features.sass.listing import Structure, once_per_code
from kscope.model.contract.fixes import Fix
from kscope.parsers.files import cachefiles
from kscope.parsers.ncu.sass_cache import cache_dir

if TYPE_CHECKING:
    from kscope.features.profile.code import Code
    from kscope.fixes.given.setting import Setting
    from kscope.model.contract.findings import Finding

KEEP = 4096  # files; the older half goes when there are more
DIGEST = 20  # bytes


class Entry(msgspec.Struct, array_like=True):
    """The changes of each finding, in their order; digests of the source files that were read for them."""

    read: dict[str, bytes]
    fixes: list[list[Fix]]


def proposed(setting: Setting, code: Code, findings: list[Finding]) -> list[Finding]:
    """Findings with the changes that mend them: those of an earlier run on the same, or computed now and kept."""
    folder = cache_dir()
    key = _key(setting, code, findings) if folder is not None and not cachefiles.trouble(folder) else ""
    if folder is None or not key:
        return _computed(setting, findings)
    file = folder / f"fixes-{key}.txt"
    if (entry := _stored(file, len(findings), setting.lines)) is not None:
        return [structs.replace(f, fixes=x) if x else f for f, x in zip(findings, entry.fixes, strict=True)]
    read: dict[str, bytes] = {}

    def lines(name: str) -> Sequence[str]:
        text = setting.lines(name)
        read[name] = _digest("\n".join(text).encode("utf-8", "surrogatepass"))
        return text

    made = _computed(structs.replace(setting, lines=lines), findings)
    _store(file, Entry(read, [list(f.fixes) for f in made]))
    return made


def _computed(setting: Setting, findings: list[Finding]) -> list[Finding]:
    from kscope.fixes import propose

    return propose.proposed(setting, findings)


def _stored(file: Path, count: int, lines: Callable[[str], Sequence[str]]) -> Entry | None:
    content = cachefiles.read(file)
    if content is None:
        return None
    try:
        entry = msgspec.json.decode(content, type=Entry)
    except msgspec.DecodeError:
        return None
    same = all(_digest("\n".join(lines(n)).encode("utf-8", "surrogatepass")) == d for n, d in entry.read.items())
    return entry if same and len(entry.fixes) == count else None


def _store(file: Path, entry: Entry) -> None:
    """Best effort: a read-only home or a full disk costs only time."""
    try:
        cachefiles.write(file, msgspec.json.encode(entry))
        cachefiles.prune(file.parent, "fixes-", KEEP)
    except (OSError, UnicodeEncodeError):
        return


def _key(setting: Setting, code: Code, findings: list[Finding]) -> str:
    """The name of an entry; "" where a report's text or numbers cannot be written (half a surrogate pair, more than
    64 bits), and nothing is kept."""
    counters = code.kernel.counters
    offsets = counters.offsets if counters is not None else ()
    columns = counters.by_name if counters is not None else {}
    seen = (
        setting.name, setting.instance, setting.sms, setting.us, setting.launch, findings, dict(code.kernel.metrics),
        offsets, list(columns),
    )  # fmt: skip
    try:
        digest = blake2b(_own_files() + _of_code(code.structure) + msgspec.msgpack.encode(seen), digest_size=DIGEST)
        for column in columns.values():
            digest.update(array("d", column).tobytes())
        return digest.hexdigest()
    except (UnicodeEncodeError, OverflowError):
        return ""


@once_per_code
def _of_code(code: Structure) -> bytes:
    return _digest(msgspec.msgpack.encode(code.program))


@cache
def _own_files() -> bytes:
    return digest_of(Path(__file__).parents[2])


def digest_of(root: Path) -> bytes:
    """Digest of the names, sizes and times of all files below a folder, but for what Python compiles."""
    rows: list[str] = []
    folders = [str(root)]
    for folder in folders:
        with os.scandir(folder) as found:
            for entry in found:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                else:
                    about = entry.stat()
                    rows.append(f"{entry.path} {about.st_size} {about.st_mtime_ns}")
    return _digest("\n".join(sorted(rows)).encode("utf-8", "surrogateescape"))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST).digest()
