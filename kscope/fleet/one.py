"""One input to rows: the one function that every process, on this machine or another, maps over inputs."""

from __future__ import annotations

import contextlib
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import IO, Any

from msgspec import Struct

from kscope._version import __version__
from kscope.fleet.missing import needed
from kscope.fleet.rows import Row, Rows, function_key, rows_of
from kscope.fleet.sources import Source, files_of
from kscope.model.contract.analysis import Analysis
from kscope.model.errors import KscopeError
from kscope.model.faults import fault
from kscope.parsers import scratch
from kscope.parsers.files.decompress import limit as unpack_limit

PIECE = 1 << 20


class Outcome(Struct):
    """What an input came to. rows: of each table; content: hash of its bytes, "" where they could not be read."""

    content: str
    rows: Rows


def look(source: Source) -> Outcome:
    """Read and analyse one input. Never raises but for what ends the process: what fails is a row of `refused`."""
    content = ""
    try:
        with local(source) as path:
            content = hash_of(path)
            analysis, seen = _analysed(path)
            when, said_by = _recorded(path, source, analysis)
            common: Row = {
                "input": content, "recorded_at": when,
                **{name: source.labels.get(name) for name in ("job", "model", "commit")},
            }  # fmt: skip
            rows = rows_of(analysis, seen, common)
            rows["inputs"] = [{**input_row(source, "ingested"), **common, **_tool(analysis), "recorded_by": said_by}]
            rows["refused"] = [
                _refusal(source, content, s.what, KscopeError("skipped", s.message.replace(path, source.url)))
                for s in analysis.skipped
            ]
            return Outcome(content, rows)
    except Exception as error:
        return refused(source, content, fault(source.url, error))


def refused(source: Source, content: str, error: KscopeError) -> Outcome:
    """An input that could not be analysed."""
    about = {**input_row(source, "refused"), "input": content or None}
    return Outcome(content, {"inputs": [about], "refused": [_refusal(source, content, "input", error)]})


def copied(source: Source, content: str) -> Outcome:
    """An input whose bytes are in the dataset already."""
    return Outcome(content, {"inputs": [{**input_row(source, "copy"), "input": content}]})


def input_row(source: Source, state: str) -> Row:
    labels = dict(source.labels)
    return {
        "url": source.url, "state": state, "bytes": source.size, "fingerprint": source.fingerprint,
        "kscope": __version__, "labels": sorted(labels.items()),
        **{name: labels.get(name) for name in ("job", "model", "commit")},
    }  # fmt: skip


def _refusal(source: Source, content: str, what: str, error: KscopeError) -> Row:
    message = error.message.removeprefix(f"{source.url}: ")
    return {"url": source.url, "input": content or None, "what": what, "code": error.code, "message": message,
            "hint": error.hint}  # fmt: skip


@contextlib.contextmanager
def local(source: Source) -> Iterator[str]:
    """A file of this machine with the input's bytes, or the folder that it is, for as long as the context lasts."""
    remote = "://" in source.path
    if not remote and not source.member:
        yield source.path
        return
    suffix = "".join(PurePosixPath(source.member or source.path).suffixes[-2:])
    with scratch.folder() as folder:
        path = os.path.join(folder, f"input{suffix if suffix.isascii() and '/' not in suffix else ''}")
        with _opened(source) as data, open(path, "wb") as file:
            left = unpack_limit()
            while piece := data.read(PIECE):
                left -= len(piece)
                if left < 0:
                    raise KscopeError("too-large", f"{source.url}: larger than {unpack_limit():,} bytes",
                                      "set KSCOPE_UNPACK_LIMIT")  # fmt: skip
                file.write(piece)
        try:
            yield path
        except KscopeError as error:  # where it lay meanwhile helps nobody
            raise KscopeError(error.code, error.message.replace(path, source.url), error.hint, error.status) from None


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[IO[bytes]]:
    if not source.member:
        with needed("fsspec").open(source.path, "rb") as file:
            yield file
    elif source.path.endswith(".zip"):
        with zipfile.ZipFile(source.path) as names, names.open(source.member) as file:
            yield file
    else:
        with tarfile.open(source.path) as members:
            found = members.extractfile(source.member)
            if found is None:
                raise KscopeError("not-a-file", f"{source.url}: not a file", "name a file")
            with found:
                yield found


def hash_of(path: str) -> str:
    """Of a file's bytes; of a folder of tables over their names and bytes."""
    digest = blake2b(digest_size=20)
    whole = os.path.isdir(path)
    for one in files_of(path) if whole else [path]:
        if whole:
            about = os.stat(one)
            digest.update(f"{os.path.basename(one)}\0{about.st_size}\0".encode(errors="surrogateescape"))
        with open(one, "rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    return digest.hexdigest()


def _analysed(path: str) -> tuple[Analysis, Mapping[str, Any]]:
    from kscope.fleet.seen import Seen
    from kscope.parsers.files.inputs import sniff

    head = b""
    if not os.path.isdir(path):
        with open(path, "rb") as file:
            head = file.read(PIECE)
    if sniff(head) in ("elf", "fatbin"):
        from kscope.engine.code.programs import binary_analysis
        from kscope.features.sass.code_identity import code_identity
        from kscope.fleet.seen import Code
        from kscope.parsers.cubin.programs import read_programs

        cubins = read_programs(path)
        codes = {
            function_key(cubin.member, program.name): Code(code_identity(program), len(program), None, None)
            for cubin in cubins for program in cubin.functions
        }  # fmt: skip
        return binary_analysis(path, cubins, annotate=False), codes
    from kscope.engine.run import analyze_paths

    seen = Seen()
    return analyze_paths([path], footprints=seen), seen.codes


def _recorded(path: str, source: Source, analysis: Analysis) -> tuple[datetime | None, str | None]:
    """When it was recorded, in UTC without saying so, and what says it: a label (`date` or `time`), the report itself,
    or the file."""
    for name in ("time", "date"):
        if text := source.labels.get(name):
            try:
                when = datetime.fromisoformat(text)
            except ValueError:
                raise KscopeError("label", f"{source.url}: label {name} is no date: {text!r}",
                                  "write 2026-11-22, or 2026-11-22T17:30") from None  # fmt: skip
            return _utc(when if when.tzinfo else when.replace(tzinfo=UTC)), "label"
    if analysis.inputs and analysis.inputs[0].kind == "ncu":
        from kscope.parsers.files import ncu_container
        from kscope.parsers.files.inputs import open_input

        with contextlib.suppress(ncu_container.Damage), open_input(path) as plain, open(plain, "rb") as file:
            seconds = ncu_container.recorded_at(file, os.fstat(file.fileno()).st_size)
            if seconds is not None:
                return _utc(datetime.fromtimestamp(seconds, UTC)), "report"
    if source.changed is None:
        return None, None
    return _utc(datetime.fromtimestamp(source.changed, UTC)), "file"


def _utc(when: datetime) -> datetime:
    """As the dataset's columns have it: DuckDB needs another library for times with a zone."""
    return when.astimezone(UTC).replace(tzinfo=None)


def _tool(analysis: Analysis) -> Row:
    first = analysis.inputs[0] if analysis.inputs else None
    return {"kind": first.kind if first else None, "tool_version": first.tool_version if first else None}
