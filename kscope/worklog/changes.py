"""What changed in the code from one version to another, as far as the worklog knows."""

from __future__ import annotations

import difflib

from kscope.model.errors import KscopeError
from kscope.worklog.entries import Entry
from kscope.worklog.objects import Objects
from kscope.worklog.store import Worklog


def of(objects: Objects, entry: Entry) -> str:
    """What a version changed against its parent; "" where it is not known, or its object is not here."""
    return text(objects, entry.change)


def between(log: Worklog, a: Entry, b: Entry) -> str:
    """B's own change where A is its parent; else the difference of the lines that became code."""
    if b.parent == a.uid and b.change:
        return of(log.objects, b)
    return difference(text(log.objects, a.code), text(log.objects, b.code))


def difference(before: str, after: str) -> str:
    """A unified difference of the kernel's own lines, as reports embed them."""
    if not before or not after:
        return ""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=2)
    return "".join(f"{line}\n" for line in lines)


def text(objects: Objects, name: str | None) -> str:
    """An object in words; "" where it is not here."""
    if not name:
        return ""
    try:
        return objects.get(name).decode("utf-8", "replace")
    except KscopeError:
        return ""
