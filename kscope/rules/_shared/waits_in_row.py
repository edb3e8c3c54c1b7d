"""Loads outside loops that could be in flight together, and are waited for one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kscope.features.facts import Code, Column, Facts

FAINT = 0.02  # of the waiting, below which a wait is none


class InRow(Struct, frozen=True):
    """count: waits in a row; sooner: how many times shorter the waiting for all loads is once all that need nothing of
    one another are issued before the first of these waits, which is then as long as the longest of them."""

    count: int
    sooner: float


def waits_in_row(facts: Facts, code: Code, loads: Iterable[int]) -> InRow:
    """Of these loads, those outside loops. A load is behind a wait where the value of an earlier one is used before it
    is issued: a store that might be to the same array, a branch or a predicate keeps the compiler from moving it up.
    Loads whose address is loaded and those of rare branches stay where they are; barriers keep all loads behind them
    that may read what another thread has stored."""
    waited = code.blame.by_producer.get("long_scoreboard")
    every = sorted(loads)
    total = sum(waited[i] for i in every) if waited is not None else 0.0
    if waited is None or not total:
        return InRow(count=0, sooner=1.0)
    rows = _rows(facts, code, every, waited)
    saved = sum(sum(row) - max(row, default=0.0) for row in rows)
    count = max(sum(w > FAINT * total for w in row) for row in rows)
    return InRow(count=count, sooner=total / max(total - saved, 0.01 * total))


def _rows(facts: Facts, code: Code, loads: list[int], waited: Column) -> list[list[float]]:
    """Samples of each wait, in the order of the code; another row behind a barrier that keeps loads."""
    barriers = code.ran(code.where(lambda ins, op: "barrier" in op.kind))
    rows: list[list[float]] = [[]]
    stop, often = -1, max(code.executed[i] for i in loads) / 2
    for i in loads:
        if code.cfg.loop_of[i] is not None or code.executed[i] < often or facts.addresses.gathers(i):
            continue
        used = min((c for c in code.defuse.consumers(i) if c > i), default=i)
        if "CONSTANT" not in code[i].mods and any(stop <= b < i for b in barriers) and rows[-1]:
            rows.append([])
        if i > stop or not rows[-1]:
            rows[-1].append(0.0)
            stop = used
        stop = min(stop, used)
        rows[-1][-1] += waited[i]
    return rows
