"""The worklog in git: entries as notes of their commits, under refs/notes/kscope. A note is a line of JSON an entry, so
that git itself merges notes (`git config notes.kscope.mergeStrategy cat_sort_uniq`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kscope.model.contract.analysis import Frozen
from kscope.model.errors import EXIT_TOOL, KscopeError
from kscope.worklog import git
from kscope.worklog.entries import Entry

REF = "kscope"


class Noted(Frozen, frozen=True, kw_only=True):
    """written: commits whose note changed. without: entries without a commit, or with one that is not here."""

    written: int
    without: int


def write(folder: Path, entries: Sequence[Entry]) -> Noted:
    """Put every entry into the note of its commit, beside what other copies of the worklog put there. Raises
    KscopeError (status 4) where there is no repository or no git."""
    if git.noted(folder, REF) is None:
        raise KscopeError("no-git", f"{folder}: no git repository, or no git", "run it inside one", EXIT_TOOL)
    by_commit: dict[str, list[Entry]] = {}
    for one in entries:
        by_commit.setdefault(one.git.commit or "", []).append(one)
    without = len(by_commit.pop("", []))
    written = 0
    for commit, mine in by_commit.items():
        old = git.note(folder, REF, commit)
        uids = {one.uid for one in mine}
        lines = sorted({*(_line(one) for one in mine), *(_line(one) for one in _read(old) if one.uid not in uids)})
        text = "".join(f"{line}\n" for line in lines)
        if text == old:
            continue
        trouble = git.add_note(folder, REF, commit, text)
        if trouble == "no such commit here":
            without += len(mine)
        elif trouble:
            raise KscopeError("no-git", f"{folder}: {trouble}", "git config user.name and user.email", EXIT_TOOL)
        else:
            written += 1
    return Noted(written=written, without=without)


def read(folder: Path) -> list[Entry]:
    """The entries in the notes of a repository, in the order of time. Their reports are not in the notes."""
    commits = git.noted(folder, REF)
    if commits is None:
        raise KscopeError("no-git", f"{folder}: no git repository, or no git", "run it inside one", EXIT_TOOL)
    found = {one.uid: one for commit in commits for one in _read(git.note(folder, REF, commit))}
    return sorted(found.values(), key=lambda one: (one.added, one.uid))


def _line(entry: Entry) -> str:
    """Numbers differ between copies and stay out."""
    return msgspec.json.encode(replace(entry, number=0)).decode()


def _read(note: str) -> Iterable[Entry]:
    """What is no entry is passed over: a note is anybody's."""
    for line in note.splitlines():
        try:
            yield msgspec.json.decode(line, type=Entry)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
            continue
