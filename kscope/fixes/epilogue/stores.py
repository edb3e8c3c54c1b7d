"""Stores of four bytes that a play has seen: whether four lanes may exchange what they store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kscope.features.lanes.semantics import LANES
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text
from kscope.fixes.packed.stored import PAIR, QUAD, WHOLE, Stored
from kscope.fixes.roles.events import Access, Event
from kscope.fixes.roles.played import FEW, Warps, events, few
from kscope.fixes.roles.texts import kernel, opened
from kscope.fixes.roles.warp import MARK
from kscope.model.lazily import np


def ends_played(setting: Setting, text: Text, found: Sequence[Stored]) -> list[int]:
    """For each number that all of the kernel's numbers were, how many addresses the statements stored to, if they may
    be exchanged; none where one may not."""
    at = opened(text.code, setting.name)
    if at is None or setting.launch is None:
        return []
    body, out = text.code[at[2] :], list[int]()
    for n, one in sorted(enumerate(found), key=lambda x: x[1].span, reverse=True):
        start, end = (x - at[2] for x in one.span)
        body = f"{body[:start]}{{ {MARK}({n}); {body[start:end]} }}{body[end:]}"
    try:
        known, launch = kernel(setting, text, body), few(setting.launch)
        for number in FEW:
            marks = list(_of_marks(events(known, launch, number), len(found)))
            out.append(sum(marks))
            if all(marks) and len([n for n in out if n]) > 1:
                return out
    except (Unplayable, KeyError):
        return []
    return []


def _of_marks(warps: Warps, count: int) -> Iterator[int]:
    every = [e for w in warps for e in w if isinstance(e, Access)]
    spaces = {e.space for e in every if e.mark >= 0}
    if any(e.space in spaces and not e.write for e in every) or not _once([e for e in every if e.space in spaces]):
        raise Unplayable("what is stored is loaded, or stored again")
    for n in range(count):
        mine = [[e for e in w if isinstance(e, Access) and e.mark == n] for w in warps]
        yield sum(exchangeable(one, 1) for one in mine if one)


def exchangeable(events: Sequence[Event], statements: int) -> int:
    """Addresses of stores, which are all that a warp does besides loads of other arrays."""
    stores = [e for e in events if isinstance(e, Access) and e.write]
    spaces = {e.space for e in stores}
    others = [e for e in events if not isinstance(e, Access) or (not e.write and e.space in spaces)]
    if not stores or others or "" in spaces or not _once(stores):
        raise Unplayable("more than stores")
    runs: dict[str, list[int]] = {}
    for e in stores:
        if e.wide != PAIR or e.at is None or len(e.lanes) != LANES:
            raise Unplayable("other stores")
        quads = e.at.reshape(-1, QUAD)
        if (quads != quads[:, :1] + PAIR * np.arange(QUAD)).any() or (quads[:, 0] % WHOLE).any():
            raise Unplayable("lanes apart")
        runs.setdefault(e.space, []).append(int(e.at[0]))
    for first in runs.values():
        _in_fours(first, statements)
    return len(stores) * LANES


def _once(stores: Sequence[Access]) -> bool:
    """Whether no word is stored twice: what comes earlier than before overwrites nothing."""
    found: dict[str, list[Any]] = {}
    for e in stores:
        if e.at is None:
            return False
        words = (e.at[:, None] + np.arange(0, max(e.wide, PAIR), PAIR)[None, :]) // PAIR
        found.setdefault(e.space, []).append(words.ravel())
    whole = [np.concatenate(one) for one in found.values()]
    return all(len(np.unique(one)) == len(one) for one in whole)


def _in_fours(first: Sequence[int], statements: int) -> None:
    """Whether each statement's rounds, of which each stores once, follow one another by sixteen bytes."""
    if len(first) % (QUAD * statements):
        raise Unplayable("rounds")
    for n in range(statements):
        each = np.array(first[n::statements]).reshape(-1, QUAD)
        if (each != each[:, :1] + WHOLE * np.arange(QUAD)).any():
            raise Unplayable("rounds apart")
