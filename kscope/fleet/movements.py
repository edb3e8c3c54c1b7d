"""What got slower or faster since when, and what came with it: change points of each series of kernel, shape, chip, job
and model, held against the findings, the machine code, the commit and the clock on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from kscope.fleet import questions
from kscope.fleet.base import Base
from kscope.fleet.change_points import LEAST, changes
from kscope.fleet.view import Delivered, Moved
from kscope.model.contract.limiters import SHORT

Row = dict[str, Any]
LOOKED_AT = 5  # runs on each side whose findings are compared: a finding counts where most of them have it
CLOCK = 0.8
"""Part of a slowdown, on a logarithmic scale, from which on the clock explains it. Judged."""


class Movements:
    """slower, faster: changes that were found; delivered: promises behind the faster ones; series: how many there are,
    short: of them, with too few runs."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self.slower: list[Moved] = []
        self.faster: list[Moved] = []
        self.delivered: list[Delivered] = []
        self.series = self.short = 0
        self._known: dict[tuple[str, str], dict[str, Row]] = {}
        for runs in self._all():
            self.series += 1
            if len(runs) < 2 * LEAST:
                self.short += 1
                continue
            self._look(runs)
            self._known.clear()
        self.slower.sort(key=lambda m: (-m.cost_us, m.name, m.grid, m.since))
        self.faster.sort(key=lambda m: (m.cost_us, m.name, m.grid, m.since))

    def _all(self) -> Iterator[list[Row]]:
        """The runs of each series, oldest first. A kernel that goes on under another name, with the same machine code,
        is one series."""
        names = renamed(self._base.rows(questions.SIGHTINGS))
        rows = self._base.rows(questions.SERIES)
        for row in rows:
            row["as"] = names.get((row["name"], row["chip"], row["grid"], row["block"]), row["name"])
        rows.sort(key=_series)
        for _, runs in groupby(rows, key=_series):
            yield sorted(runs, key=lambda r: (r["recorded_at"], r["input"], r["kernel"]))

    def _look(self, runs: Sequence[Row]) -> None:
        found = changes([row["duration_us"] for row in runs])
        cuts = [0, *(c.at for c in found), len(runs)]
        for number, change in enumerate(found):
            before, after = runs[cuts[number] : change.at], runs[change.at : cuts[number + 2]]
            old, new = self._findings(before[-LOOKED_AT:]), self._findings(after[:LOOKED_AT])
            moved = _moved(before, after, change.before, change.after, old, new, last=number == len(found) - 1)
            (self.slower if change.ratio > 1 else self.faster).append(moved)
            if change.ratio < 1:
                self._deliver(moved, [old[code] for code in moved.findings_gone if old[code]["speedup"] is not None])

    def _findings(self, runs: Sequence[Row]) -> dict[str, Row]:
        """Those that most of the runs have, with their promise in the last of them."""
        count: dict[str, int] = {}
        said: dict[str, Row] = {}
        for run in runs:
            for code, row in self._of(run).items():
                count[code] = count.get(code, 0) + 1
                said[code] = row
        return {code: said[code] for code in sorted(said) if 2 * count[code] > len(runs)}

    def _of(self, run: Row) -> dict[str, Row]:
        key = (run["input"], run["kernel"])
        if key not in self._known:
            self._known[key] = {row["code"]: row for row in self._base.rows(questions.FOUND, *key)}
        return self._known[key]

    def _deliver(self, moved: Moved, gone: Sequence[Row]) -> None:
        """Of several findings that went at once the one that promised most stands for the gain: nobody knows how they
        share it."""
        if not gone:
            return
        said, got = max(gone, key=lambda row: row["speedup"]), 1 / moved.ratio
        self.delivered.append(
            Delivered(
                name=moved.name, chip=moved.chip, code=said["code"], promised=said["speedup"], low=said["low"],
                high=said["high"], got=got, since=moved.since, held=said["low"] <= got <= said["high"],
            )
        )  # fmt: skip


def _series(row: Row) -> tuple[str, ...]:
    return tuple(row[name] or "" for name in ("chip", "job", "model", "as", "grid", "block"))


def renamed(sightings: Sequence[Row]) -> dict[tuple[str, str, str, str], str]:
    """(name, chip, grid, block) to the name that it had before, where a name appears with the machine code of one that
    was not seen again."""
    last: dict[tuple[str, str, str, str], Any] = {}
    first_code: dict[tuple[str, str, str, str], str] = {}
    for row in sightings:
        key = (row["name"], row["chip"], row["grid"], row["block"])
        last[key] = max(last.get(key, row["last"]), row["last"])
        first_code.setdefault(key, row["code"])
    out: dict[tuple[str, str, str, str], str] = {}
    by_code: dict[tuple[str, ...], list[tuple[str, str, str, str]]] = {}
    seen: set[tuple[str, str, str, str]] = set()
    for row in sightings:  # by the day on which they appeared
        key = (row["name"], row["chip"], row["grid"], row["block"])
        place = (row["code"], *key[1:])
        if key not in seen:
            seen.add(key)
            gone = [k for k in by_code.get(place, ()) if k[0] != key[0] and last[k] < row["first"]]
            if gone and first_code[key] == row["code"]:
                out[key] = out.get(gone[-1], gone[-1][0])
        by_code.setdefault(place, []).append(key)
    return out


def _moved(
    before: Sequence[Row], after: Sequence[Row], was: float, now: float, old: dict[str, Row], new: dict[str, Row],
    *, last: bool,
) -> Moved:  # fmt: skip
    end, start = before[-1], after[0]
    clocks = [[r["sm_clock_hz"] for r in side if r["sm_clock_hz"]] for side in (before, after)]
    clock = median(clocks[1]) / median(clocks[0]) if all(clocks) else None
    appeared, gone = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    launches = after[-1]["total_us"] / after[-1]["duration_us"] if after[-1]["duration_us"] else 1.0
    return Moved(
        name=start["name"], grid=start["grid"], block=start["block"], chip=start["chip"], job=start["job"],
        model=start["model"], since=stamp(start["recorded_at"]), until=stamp(end["recorded_at"]), before_us=was,
        after_us=now, ratio=now / was, runs_before=len(before), runs_after=len(after), commit_before=end["commit"],
        commit=start["commit"], findings_new=appeared, findings_gone=gone, code_before=end["code"],
        code_after=start["code"], limiter_before=end["limiter"], limiter_after=start["limiter"], clock_ratio=clock,
        cause=_words(end, start, appeared, gone, now / was, clock), lasts=last, cost_us=(now - was) * launches,
    )  # fmt: skip


def _words(end: Row, start: Row, appeared: list[str], gone: list[str], ratio: float, clock: float | None) -> str:
    """What came with a change."""
    parts = []
    if end["code"] and start["code"]:
        parts.append("other machine code" if end["code"] != start["code"] else "the same machine code")
    if appeared:
        parts.append(f"{', '.join(appeared)} appeared")
    if gone:
        parts.append(f"{', '.join(gone)} went")
    if end["limiter"] != start["limiter"]:
        parts.append(f"the limit was {_plain(end['limiter'])} and is {_plain(start['limiter'])}")
    if clock is not None and ratio > 1 and clock < 1 and ratio**CLOCK <= 1 / clock:
        parts.append(f"the clock fell to {100 * clock:.0f} %, which explains it")
    return "; ".join(parts) or "nothing else changed that was recorded"


def _plain(limiter: str) -> str:
    return SHORT.get(limiter, limiter)


def stamp(when: Any) -> str:
    """A time as text, to the minute."""
    return str(when.strftime("%Y-%m-%d %H:%M"))
