"""Entries as a tree: ladders, the way from a version to its start, the rows that `kscope log show` prints."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.model.contract.analysis import Frozen
from kscope.worklog.entries import Delivered, Entry


class Rung(Frozen, frozen=True, kw_only=True):
    """One version on its ladder. gain: on its parent, whole: on the start of the ladder (time before over time after).
    depth: branches below the first, for indentation; best: the fastest of the kept ones."""

    entry: Entry
    depth: int
    gain: float | None
    whole: float | None
    best: bool


def ladders(entries: Sequence[Entry]) -> list[list[Rung]]:
    """Each ladder from its start; a branch follows the version that it leaves, the kept way comes last."""
    numbers = {one.uid: one.number for one in entries}
    starts: list[Entry] = []
    below: dict[str, list[Entry]] = {}
    for one in entries:
        if numbers.get(one.parent or "", one.number) < one.number:  # a parent is there before (Worklog.take)
            below.setdefault(one.parent or "", []).append(one)
        else:
            starts.append(one)
    return [_ladder(start, below) for start in starts]


def lineage(entries: Sequence[Entry], member: Entry) -> list[Entry]:
    """All entries of the ladder that `member` is on, dead ends too, by number."""
    for ladder in ladders(entries):
        if any(rung.entry.uid == member.uid for rung in ladder):
            return sorted((rung.entry for rung in ladder), key=lambda one: one.number)
    return [member]


def way(entries: Sequence[Entry], member: Entry) -> list[Entry]:
    """From the start of the ladder to `member`."""
    by_uid = {one.uid: one for one in entries}
    path = [member]
    while (parent := by_uid.get(path[-1].parent or "")) is not None and parent not in path:
        path.append(parent)
    return path[::-1]


def current(entries: Sequence[Entry], member: Entry | None = None) -> Entry | None:
    """The version that work goes on from: the last one that was kept, of the ladder of `member` or of the one that was
    added to last. Its start where nothing was kept."""
    if not entries:
        return None
    mine = lineage(entries, member or entries[-1])
    kept = [one for one in mine if one.status == "kept"]
    return kept[-1] if kept else mine[0]


def judged(entry: Entry) -> list[Delivered]:
    return entry.step.delivered if entry.step else []


def _ladder(start: Entry, below: dict[str, list[Entry]]) -> list[Rung]:
    order: list[tuple[Entry, int]] = []
    todo = [(start, 0)]
    while todo:
        one, depth = todo.pop()
        order.append((one, depth))
        children = below.get(one.uid, [])
        main = _main(children, below)
        branches = [child for child in children if child is not main]
        todo += [(main, depth)] if main is not None else []
        todo += [(child, depth + 1) for child in reversed(branches)]
    kept = [one for one, _ in order if one.status == "kept"]
    best = min(kept, key=lambda one: one.time_us, default=None)
    return [
        Rung(
            entry=one, depth=depth, gain=one.step.speedup if one.step else None,
            whole=start.time_us / one.time_us if one.time_us and one is not start else None, best=one is best,
        )
        for one, depth in order
    ]  # fmt: skip


def _main(children: Sequence[Entry], below: dict[str, list[Entry]]) -> Entry | None:
    """Of the versions after one, that which work went on from: kept, and then the one with most below it, the last."""
    if not children:
        return None
    return max(children, key=lambda one: (one.status == "kept", _size(one, below), one.number))


def _size(entry: Entry, below: dict[str, list[Entry]]) -> int:
    count, todo = 0, [entry]
    while todo:
        one = todo.pop()
        count += 1
        todo += below.get(one.uid, [])
    return count
