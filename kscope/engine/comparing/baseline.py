"""Which violations an earlier run had already.

A finding is the same one in another build where its rule, its kernel and its places are: the kernel by its name as all
tools write it, without parameters; a place by the file and the text of its source line where the reports hold that.
Program counters and line numbers move with every edit above them and registers with every compiler, so none of these
counts. Without source text the lines of one file are counted: as many as before, or fewer, are the same ones. Without
lines the opcodes count. What an earlier run found to be less grave than the limits of today is not known to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, ValidationError

from kscope.engine.comparing.gate import Limits, Subject, subjects, violations
from kscope.engine.comparing.kernel_names import canonical
from kscope.model.contract.analysis import SCHEMA, Finding, from_json
from kscope.model.errors import KscopeError

LARGEST = 1 << 30
"""Bytes of a baseline that are read; JSON of a thousand kernels takes 50 MB."""


CUT = 4
"""Places that rules name at most, the hottest: of a list so long the rest is unknown, and one place in common is what
can be asked for."""


class Places(Struct, frozen=True):
    """Where a finding is, in what survives recompilation. texts: (file, source line); lines:
    by file, how many lines have no text; bare: opcodes of places without a line; opcodes: of all. cut: whether the list
    may go on."""

    texts: frozenset[tuple[str, str]]
    lines: Counter[str]
    bare: frozenset[str]
    opcodes: frozenset[str]
    cut: bool

    def within(self, other: Places) -> bool:
        """Whether none of these places is new against the other ones."""
        if not other.texts and not other.lines:
            return self.opcodes <= other.opcodes
        if self.texts and other.texts:
            if other.cut and self.texts & other.texts:
                return True
            if not self.texts <= other.texts:
                return False
        mine = self.lines + (Counter() if other.texts else Counter(file for file, _ in self.texts))
        known = other.lines + Counter(file for file, _ in other.texts)
        return self.bare <= other.opcodes and mine <= known


def places(finding: Finding) -> Places:
    """The places of a finding."""
    texts, lines, bare = set(), set(), set()
    for at in finding.locations:
        file = (at.file or "").replace("\\", "/").rsplit("/", 1)[-1]
        if file and at.source and at.source.strip():
            texts.add((file, " ".join(at.source.split())))
        elif file and at.line:
            lines.add((file, at.line))
        else:
            bare.add(at.opcode.split(".")[0])
    opcodes = frozenset(at.opcode.split(".")[0] for at in finding.locations)
    counted = Counter(file for file, _ in lines)
    return Places(frozenset(texts), counted, frozenset(bare), opcodes, len(finding.locations) >= CUT)


class Baseline:
    """The violations of an earlier run, by rule and kernel."""

    def __init__(self, found: Sequence[Subject], limits: Limits) -> None:
        self._known: dict[tuple[str, str], list[Places]] = {}
        for subject, finding in violations(found, limits):
            self._known.setdefault(_key(subject, finding), []).append(places(finding))

    def knows(self, subject: Subject, finding: Finding) -> bool:
        mine = places(finding)
        return any(mine.within(other) for other in self._known.get(_key(subject, finding), ()))


def _key(subject: Subject, finding: Finding) -> tuple[str, str]:
    """A recording has no name that lasts: the next one is another file."""
    return finding.code, "" if subject.kind == "recording" else canonical(subject.name)


def read_baseline(path: Path, limits: Limits) -> Baseline:
    """Of the JSON of an earlier `analyze`, `run` or `sass`. Raises KscopeError (status 3) for anything else."""
    hint = "kscope analyze (or sass) --format json -o FILE writes one"
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise KscopeError("unreadable", f"{path}: no regular file", hint)
        if size > LARGEST:
            raise KscopeError("too-large", f"{path}: {size:,} bytes are too many for a baseline", hint)
        data = path.read_bytes()
    except FileNotFoundError:
        raise KscopeError("missing-file", f"{path}: no such file", hint) from None
    except OSError as error:
        raise KscopeError("unreadable", f"{path}: {error.strerror or error}", hint) from None
    try:
        analysis = from_json(data)
    except (ValidationError, ValueError, RecursionError):
        raise KscopeError("bad-baseline", f"{path}: not the JSON of an earlier run", hint) from None
    if analysis.schema != SCHEMA:
        raise KscopeError("bad-baseline", f"{path}: JSON of the schema {analysis.schema!r}, not {SCHEMA}", hint)
    return Baseline([*subjects(analysis), *subjects(analysis, functions=True)], limits)
