"""Two worklogs become one: the rows of both. Entries are known by their uid, so merging again, or the other way round,
changes nothing more; numbers of this worklog stay, entries that come get the next ones."""

from __future__ import annotations

from msgspec.structs import replace

from kscope.model.contract.analysis import Frozen
from kscope.worklog.entries import Entry
from kscope.worklog.objects import Objects
from kscope.worklog.store import Worklog


class Merged(Frozen, frozen=True, kw_only=True):
    """came: entries that were not here, with their numbers here. known: entries that both had. missing: objects that
    the other worklog does not have beside it."""

    came: list[Entry]
    known: int
    missing: list[str]


def merge(log: Worklog, other: Worklog) -> Merged:
    """Take what `other` has and this one lacks. Objects first: an entry is never there without what it could bring.
    Raises KscopeError where one of them is no worklog."""
    mine = {one.uid for one in log.raw()} if log.exists else set()
    theirs = other.raw()
    words, ideas = other.words(), other.ideas()
    fresh = [one for one in theirs if one.uid not in mine]
    missing = [name for one in fresh for name in named(one) if not log.objects.adopt(name, other.objects)]
    came = log.take([replace(one, number=0) for one in fresh], words, ideas)
    return Merged(came=came, known=len(theirs) - len(fresh), missing=missing)


def named(entry: Entry) -> list[str]:
    """The objects of an entry."""
    names = (entry.report, entry.analysis, entry.footprint, entry.code, entry.change, entry.git.patch)
    return [name for name in names if name]


def lacking(entries: list[Entry], objects: Objects) -> list[str]:
    """Objects that entries name and that are not there."""
    return [name for one in entries for name in named(one) if not objects.has(name)]
