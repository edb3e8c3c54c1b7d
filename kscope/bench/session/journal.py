"""Variants of a sweep as they are done: a line of JSON each, on disk before the next begins.

A process that is killed leaves whole lines and at most a part of one, which is not read: what it was running is run
again, nothing else is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from kscope.bench.task.spec import Source, Task
from kscope.bench.values.result import Variant
from kscope.model.errors import EXIT_USAGE, KscopeError


class Line(Struct, frozen=True):
    key: str
    variant: Variant


class Journal:
    """The file of one sweep. Variants are known by what they were made of: sources, task, values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: dict[str, Variant] = {}
        try:
            for line in path.read_bytes().split(b"\n") if path.is_file() else []:
                try:
                    found = msgspec.json.decode(line, type=Line)
                except (msgspec.DecodeError, msgspec.ValidationError):
                    continue  # empty, or cut where its writer was killed
                self.done[found.key] = found.variant
        except OSError as error:
            raise KscopeError("unreadable", f"{path}: {error.strerror}", "name another --journal", EXIT_USAGE) from None

    def add(self, key: str, variant: Variant) -> None:
        """Raises KscopeError (status 2) where it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                # a line that a killed writer left open ends here
                file.write((b"\n" if file.tell() else b"") + msgspec.json.encode(Line(key, variant)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise KscopeError(
                "unwritable", f"{self.path}: {error.strerror}", "name another --journal", EXIT_USAGE
            ) from None
        self.done[key] = variant


def key(task: Task, values: Mapping[str, str]) -> str:
    """Of the contents of the sources, everything the task says, and the values of this variant."""
    parts = [_content(one) for one in (task.candidate, task.reference, task.baseline) if one is not None]
    plain = msgspec.structs.replace(task, cases=(), dtypes=(), keywords={})
    parts += [msgspec.json.encode(plain).decode(), repr(sorted(values.items()))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _content(source: Source) -> str:
    try:
        return hashlib.sha256(Path(source.path).read_bytes()).hexdigest() if source.path else source.text
    except OSError:
        return source.text


def product(swept: Sequence[tuple[str, Sequence[str]]]) -> list[dict[str, str]]:
    """Every combination, the last key turning fastest."""
    rows: list[dict[str, str]] = [{}]
    for name, values in swept:
        rows = [{**row, name: value} for row in rows for value in values]
    return rows
