"""The clock: rounds of candidate and baseline side by side, on rotating buffers, with outputs that are checked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Literal

import numpy as np

from kscope.bench.judge.clocks import Watcher
from kscope.bench.judge.hold import Array, Failed, Unfit
from kscope.bench.judge.inputs import Data, make
from kscope.bench.judge.interval import Ratio, ratio
from kscope.bench.judge.matrix import LATE_S
from kscope.bench.judge.referee import Referee
from kscope.bench.judge.seat import Seat
from kscope.bench.judge.side import Plan, Side, Timed
from kscope.bench.task.spec import Task
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import Finding, Timing, Word

STEADY = 0.03  # three batches in a row within this of each other end the warm-up; judged
WARM_S = 2.0  # of warm-up at most; a tuner that runs longer does so in the checks before
WARM_LEAST_S = 0.3  # of it at most where one is to look at the clock for less than that
GRAPH_CALLS = 400  # calls in a graph that has fewer slots: more only take longer to build
BUSY = 0.02  # share of a batch in which a player waited for a processor: the round is not counted. Judged
ENOUGH = 5  # rounds that must be left
MOST = 200_000  # calls in a batch
LOOP = 2000  # turns of an empty loop


class Clock:
    """Times one candidate on one shape. empty: the seat in which an empty batch is timed, never the candidate's."""

    def __init__(
        self,
        task: Task,
        candidate: Seat,
        baseline: Seat | None,
        referee: Referee,
        plan: Plan,
        watcher: Watcher,
        rng: np.random.Generator,
    ) -> None:
        self.task, self.referee, self.plan, self.watcher, self.rng = task, referee, plan, watcher, rng
        self.candidate = Side(candidate)
        self.baseline = Side(baseline) if baseline is not None else None
        self.notes: list[str] = []
        self.findings: list[Finding] = []
        self.wrong = ""
        self.stale = False
        self.before: list[Data] = []
        self.generations: list[float] = []
        self.rms = 0.0

    def time(
        self, dims: Mapping[str, int], chosen: str, cache: Literal["cold", "hot"], *, graph: bool = False
    ) -> Timed:
        """Raises Died, Failed."""
        sides = [self.candidate, *([self.baseline] if self.baseline is not None else [])]
        for generation in range(self.plan.generations):
            if generation:  # other addresses, other pages: what differs for good between two processes varies
                for side in sides:
                    side.seat.close()
            data = self._open(dims, chosen, cache, sides if generation % 2 == 0 else sides[::-1])
            for side in sides:
                self._warm(side, graph=graph)
            if len({side.mode for side in sides}) > 1:  # one of both cannot be captured: neither is
                for side in sides:
                    self._warm(side, graph=False)
            self._rounds(sides, data, self._empty(), dims, chosen)
        found = self._ratio()
        if self.candidate.mode == "called":
            self._late()
        return Timed(
            self._timing(dims, chosen, cache, found), self.findings, self.wrong, self.rms, self.notes, self.stale
        )

    def _open(self, dims: Mapping[str, int], chosen: str, cache: str, sides: list[Side]) -> list[Data]:
        """The same data for both sides, in as many slots as it takes to leave the cache. Sides start in their order:
        the first process has its pages and its queue from a device that is empty."""
        first = make(self.task, dims, chosen, "normal", self.rng)
        size = sum(one.nbytes for one in first.arrays()) or 1
        slots = 1
        if cache == "cold":
            slots = min(
                max(-(-2 * self.plan.cache_bytes // size), 2),
                self.plan.most_slots,
                max(self.plan.most_bytes // size, 1),
            )
            if slots * size < 2 * self.plan.cache_bytes:
                self.notes.append(f"buffers of {slots * size / 2**20:.0f} MiB rotate, less than twice the cache of "
                                  f"{self.plan.cache_bytes / 2**20:.0f} MiB: not wholly cold")  # fmt: skip
        data = [first]
        few = min(slots, 4)  # distinct data; the other slots repeat them at other addresses
        data += [make(self.task, dims, chosen, "normal", self.rng, first) for _ in range(few - 1)]
        self.referee.open(dims, chosen)
        for side in sides:
            side.seat.open(dims, chosen, slots=slots)
            for i in range(few):
                side.seat.fill(i, data[i])
            side.seat.spread(few)
            side.slots, side.most = slots, slots if self.task.changes else MOST
        return [data[i % few] for i in range(slots)]

    def _warm(self, side: Side, *, graph: bool) -> None:
        """Until batches are long enough and steady; then the number of calls is set from the last one."""
        side.mode, side.graph, side.calls, side.at, side.repeat = "called", side.graph + 1, 1, 0, 1
        begun, last, seconds = time.perf_counter(), list[float](), 0.0
        most = min(WARM_S, max(WARM_LEAST_S, self.plan.budget_s))
        while time.perf_counter() - begun < most:
            side.turn()
            seconds = side.batch([]).seconds
            if seconds < self.plan.batch_s / 2 and side.calls < side.most:
                factor = min(self.plan.batch_s / max(seconds, 1e-6), 8)
                side.calls, last = min(max(int(side.calls * factor), side.calls + 1), side.most), []
                continue
            last = [*last[-2:], seconds]
            if len(last) == 3 and max(last) < (1 + STEADY) * min(last):
                break
        each = (min(last) if last else seconds) / side.calls
        side.calls = min(max(int(self.plan.batch_s / max(each, 1e-7)), 1), side.most)
        side.turn()
        if graph:
            self._capture(side)

    def _capture(self, side: Side) -> None:
        """Every slot in turn, all as often, so that each buffer's last use lies as far back."""
        calls = side.calls
        side.mode, side.at, side.repeat = "graph", 0, 1
        side.calls = max(min(calls, GRAPH_CALLS), side.slots)
        side.turn()
        try:
            side.batch([])
            if not self.task.changes:  # inputs are put back before a batch, not between its replays
                seconds = min(side.batch([]).seconds for _ in range(3))
                side.repeat = max(int(self.plan.batch_s / max(seconds, 1e-6)), 1)
        except (Failed, Unfit) as error:
            side.mode, side.calls, side.repeat = "called", calls, 1
            side.turn()
            self.notes.append(f"{side.seat.role} cannot be captured into a CUDA graph ({error}): timed as it is called")

    def _empty(self) -> tuple[float, float]:
        """Seconds of a batch around no work, and of one more turn of the loop; never in the candidate's process."""
        seat = self.baseline.seat if self.baseline is not None else self.referee.native
        fixed = min(seat.run([], empty=True).seconds for _ in range(7))
        turn = (min(seat.run([0] * LOOP, empty=True).seconds for _ in range(3)) - fixed) / LOOP
        return fixed, max(turn, 0.0)

    def _rounds(
        self, sides: list[Side], data: list[Data], empty: tuple[float, float], dims: Mapping[str, int], chosen: str
    ) -> None:
        begun, plan, first = time.perf_counter(), self.plan, len(self.candidate.us)
        most, fewest = max(plan.rounds // plan.generations, 3), max(plan.fewest // plan.generations, 3)
        looked = set(self.rng.choice(fewest, min(plan.checks, fewest), replace=False).tolist()) | {0}
        for i in range(most):
            self._both(sides, data, empty, (dims, chosen) if i in looked else None)
            if i + 1 >= fewest and time.perf_counter() - begun > plan.budget_s / plan.generations:
                break
            if i + 1 >= 2 * fewest and self.baseline is not None:
                found = ratio(self.baseline.us[first:], self.candidate.us[first:])
                if found.noise_pct < 100 * plan.precise:
                    break
        # and the last one, whichever that is: what begins late (a cheat that counts its calls) still goes on
        self._both(sides, data, empty, (dims, chosen))
        if self.baseline is not None:
            self.generations.append(ratio(self.baseline.us[first:], self.candidate.us[first:]).value)

    def _both(
        self,
        sides: list[Side],
        data: list[Data],
        empty: tuple[float, float],
        look: tuple[Mapping[str, int], str] | None = None,
    ) -> None:
        """A round of both sides. look: shape and type of fresh data, for which the candidate's output is looked at."""
        for side in sides:
            side.turn()
        fresh = self._refresh(data, *look) if look else None
        for side in sides if self.rng.random() < 0.5 else sides[::-1]:
            self._round(side, data, fresh, empty)
        self.watcher.sample()

    def _round(self, side: Side, data: list[Data], fresh: int | None, empty: tuple[float, float]) -> None:
        """One batch of one side; where a slot is fresh, the candidate's output for it is looked at."""
        mine = side is self.candidate and fresh is not None
        at = self._where(side, fresh) if side is self.candidate and fresh is not None else []
        assert side.seat.hold is not None
        before = side.seat.hold.waited()
        ran = side.batch(at)
        after = side.seat.hold.waited()
        side.waits.append((after - before) / ran.seconds if after is not None and before is not None else 0.0)
        turn = empty[1] if side.mode == "called" and side.seat.source.language == "python" else 0.0
        side.us.append(max(1e6 * ((ran.seconds - empty[0]) / (len(side.order) * side.repeat) - turn), 1e-4))
        if mine:
            kept = sorted({0, len(side.order) - 1}) if side.mode == "graph" else at
            self._check(side, data, kept, ran.outputs)

    def _ratio(self) -> Ratio | None:
        """Of all rounds; its interval holds what each pair of processes gave."""
        if self.baseline is None:
            return None
        rows = list(zip(self.baseline.us, self.candidate.us, self.baseline.waits, self.candidate.waits, strict=True))
        free = [(b, c) for b, c, x, y in rows if max(x, y) < BUSY]
        if len(free) < ENOUGH:
            self.notes.append(
                f"other programs took the processor in {len(rows) - len(free)} of {len(rows)} rounds: its range"
            )
            every = sorted(b / c for b, c, _, _ in rows)  # the range: what is plain in spite of them stays so
            return Ratio(ratio(self.baseline.us, self.candidate.us).value, every[0], every[-1])
        found = ratio([b for b, _ in free], [c for _, c in free])
        return Ratio(found.value, min(found.low, *self.generations), max(found.high, *self.generations))

    def _refresh(self, data: list[Data], dims: Mapping[str, int], chosen: str) -> int:
        """New data in one slot of both sides, and in the slots that a graph keeps."""
        slot = self.candidate.order[-1]
        if self.candidate.mode != "graph":
            slot = int(self.rng.choice(self.candidate.order))
        self.before.append(data[slot])
        data[slot] = make(self.task, dims, chosen, "normal", self.rng, data[0])
        how = "raw" if self.rng.random() < 0.5 else "copy"
        for side in (self.candidate, self.baseline):
            if side is not None:
                side.seat.fill(slot, data[slot], how)
        return slot

    def _where(self, side: Side, slot: int) -> list[int]:
        """One call of that slot in the batch, nobody knows which."""
        places = [i for i, one in enumerate(side.order) if one == slot]
        return [int(self.rng.choice(places))] if places else [0]

    def _check(self, side: Side, data: list[Data], kept: list[int], outputs: list[list[Array]]) -> None:
        for at, got in zip(kept, outputs, strict=True):
            truth = self.referee.truth(data[side.order[at]], self.rng, 1)
            ok, found, says = self.referee.compare(got, truth)
            self.rms = max(self.rms, found.rms)
            if not ok and not self.wrong:
                earlier = [self.referee.truth(one, self.rng, 1) for one in self._others(data, side.order[at])]
                self.stale = any(self.referee.compare(got, one)[0] for one in earlier)
                self.wrong = says or f"error {found.error:.3g} at {list(found.index)}, bound {found.bound:.3g}"

    def _others(self, data: list[Data], slot: int) -> list[Data]:
        """Data of earlier calls and of other slots: whose answer a wrong output may be."""
        found = [*self.before[-3:], *data[:4]]
        return [one for one in found if one is not data[slot]]

    def _late(self) -> None:
        """Outputs of one more batch, at once and again later."""
        side = self.candidate
        ran = side.batch([len(side.order) - 1], again=True)
        time.sleep(LATE_S)
        assert side.seat.hold is not None
        later = side.seat.hold.retake()
        before = [one.raw.tobytes() for row in ran.outputs for one in row]
        after = [one.raw.tobytes() for row in later for one in row]
        if before != after and not self.task.changes and not self.task.reuses_output:
            self.findings.append(
                finding(2, f"an output of a timed call changed within {LATE_S * 1e3:.0f} ms after it was returned")
            )

    def _timing(
        self, dims: Mapping[str, int], chosen: str, cache: Literal["cold", "hot"], found: Ratio | None
    ) -> Timing:
        word: Word = found.word if found is not None else "correct"
        mine = self.candidate
        return Timing(
            dims=dict(dims), dtype=chosen, cache=cache, candidate_us=median(mine.us),
            baseline_us=median(self.baseline.us) if self.baseline is not None else None,
            ratio=found.value if found else None, low=found.low if found else None, high=found.high if found else None,
            noise_pct=found.noise_pct if found else _spread(mine.us), rounds=len(mine.us), calls=len(mine.order),
            mode=mine.mode, verdict="incorrect" if self.wrong else word,
        )  # fmt: skip


def _spread(times: list[float]) -> float:
    """Half the distance of the quartiles, in percent of the median."""
    low, high = np.percentile(times, [25, 75])
    return float(50 * (high - low) / median(times))
