"""What orders the threads of a block: of all that its warps do, which comes before which in every run. Threads have
clocks (vectors of them); an mbarrier hands on those of all who arrived to all who wait for that phase. An arrival
counts for the phase of which its thread knows that all before it are over: no other order of the warps changes it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.roles.cells import Cells
from kscope.fixes.roles.events import (
    Access,
    Arrived,
    Begun,
    Copy,
    Event,
    Grouped,
    Met,
    Multiplied,
    Settled,
    Stopped,
    Waited,
)
from kscope.fixes.roles.phases import Bar, Phase, Team
from kscope.model.lazily import np

MOST = 64 << 20  # times that somebody read something (256 MB)


class Order:
    """Plays what the warps of a block do. Raises Unplayable where two of its accesses have no order, where a phase of
    an mbarrier is not the same in every run, or where somebody waits for ever."""

    def __init__(
        self, warps: Sequence[Sequence[Event]], without: Collection[int] = (), *, together: bool = False
    ) -> None:
        """without: marks of barriers that are left out; together: whether lanes of a warp that wait for one phase all
        have seen it when one of them goes on."""
        self.together = together
        every = [[e for e in w if not isinstance(e, Stopped) or e.mark not in without] for w in warps]
        self.warps, self.threads = every, len(warps) * WARP
        self.bars: dict[int, Bar] = {}
        made = {int(b) for w in warps for e in w if isinstance(e, Begun) for b in e.bar}
        self.numbers = {bar: n for n, bar in enumerate(sorted(made))}
        # A column for each thread; for each mbarrier, how many phases are known to be over; for each thread again, how
        # far it had come, even if what it had stored is not seen, as who waits for a copy knows of who asked for it.
        self.ran = self.threads + len(made)
        # At the end, for each warpgroup, how many groups of its products are known to be over.
        self.over = self.ran + self.threads
        teams = -(-len(warps) // 4)
        self.clock = np.zeros((self.threads, self.over + teams), dtype=np.int32)
        none = np.zeros(self.clock.shape[1] - self.threads, dtype=np.int32)
        self.teams = [Team([[], [], [], []], [none] * 4) for _ in range(teams)]
        self._tick(np.arange(self.threads))
        self.stopped: dict[int, list[Any]] = {}
        self.held = [False] * len(warps)
        cells = Cells([e for w in every for e in w if isinstance(e, (Access, Copy, Multiplied))], self.numbers)
        self.at, self.row, self.words = cells.at, cells.row, cells.words
        rows = int(self.row.max(initial=-1)) + 2
        if rows * self.threads > MOST:
            raise Unplayable("memory")
        self.reads = np.zeros((rows, self.threads + len(self.teams)), dtype=np.int32)
        self.mine = np.r_[: self.threads, self.over : self.over + len(self.teams)]
        self.writer = np.full(len(self.row), -1, dtype=np.int32)
        self.time = np.zeros(len(self.row), dtype=np.int32)

    def run(self) -> int:
        """How many accesses were compared."""
        next_of, compared = [0] * len(self.warps), 0
        while True:
            moved = False
            for w, events in enumerate(self.warps):
                while next_of[w] < len(events):
                    done = self._done(w, events[next_of[w]])
                    if done is None:
                        break
                    compared += done
                    next_of[w] += 1
                    moved = True
            if not moved:
                break
        if any(n < len(e) for n, e in zip(next_of, self.warps, strict=True)):
            raise Unplayable("a warp that waits for ever")
        return compared

    def phases(self) -> int:
        """Phases that the mbarrier with the fewest has been through."""
        return min((bar.over for bar in self.bars.values()), default=0)

    def _done(self, warp: int, event: Event) -> int | None:
        """None where it has to wait."""
        threads = warp * WARP + np.asarray(event.lanes)
        if isinstance(event, Access):
            return self._access(event, threads, warp)
        if isinstance(event, Copy):
            return self._copy(event, threads)
        if isinstance(event, Waited):
            return self._waited(event, threads)
        if isinstance(event, Stopped):
            return self._stop(event, threads, warp)
        if isinstance(event, Multiplied):
            return self._multiplied(event, warp)
        if isinstance(event, Settled):
            return self._settled(event, warp)
        if isinstance(event, Met):
            self._join(threads)
        elif isinstance(event, Grouped):
            self.teams[warp // 4].groups[warp % 4].append(self.teams[warp // 4].ran[warp % 4])
        elif isinstance(event, Begun):
            for t, at, count in zip(threads, event.bar, event.count, strict=True):
                if int(at) in self.bars:
                    raise Unplayable("an mbarrier that is made again")
                self.bars[int(at)] = Bar(self.numbers[int(at)], int(count), (int(t), int(self.clock[t, t])))
        else:
            self._arrive(event, threads)
        return 0

    def _tick(self, threads: Any) -> None:
        self.clock[threads, threads] += 1
        self.clock[threads, self.ran + threads] += 1

    def _join(self, threads: Any) -> None:
        self.clock[threads] = self.clock[threads].max(0)
        self._tick(threads)

    def _stop(self, event: Stopped, threads: Any, warp: int) -> int | None:
        if len(threads) != WARP:
            raise Unplayable("a part of a warp at a barrier")
        if self.held[warp]:
            if any(warp * WARP in g for g in self.stopped.get(event.number, [])):
                return None
            self.held[warp] = False
            return 0
        here = self.stopped.setdefault(event.number, [])
        here.append(threads)
        wanted = event.count or self.threads
        if len(here) * WARP < wanted:
            if not event.waits:
                raise Unplayable("a barrier that is not waited at")
            self.held[warp] = True
            return None
        self._join(np.concatenate(here))
        self.stopped[event.number] = []
        return 0

    def _bar(self, at: int, thread: int) -> Bar:
        bar = self.bars.get(at)
        if bar is None or self.clock[thread, bar.begun[0]] < bar.begun[1]:
            raise Unplayable("an mbarrier before it is made")
        return bar

    def _known(self, bar: Bar, thread: int) -> int:
        """Phases of an mbarrier of which a thread knows that they are over."""
        return int(self.clock[thread, self.threads + bar.number])

    def _phase(self, bar: Bar, number: int) -> Phase:
        while len(bar.phases) <= number:
            bar.phases.append(Phase(np.zeros(self.clock.shape[1], dtype=np.int32)))
        if number < bar.over:
            raise Unplayable("an arrival at a phase that is over")
        return bar.phases[number]

    def _arrive(self, event: Arrived, threads: Any) -> None:
        for t, at, count, size in zip(threads.tolist(), event.bar, event.count, event.bytes, strict=True):
            bar = self._bar(int(at), t)
            phase = self._phase(bar, self._known(bar, t))
            phase.bytes += int(size)
            if size:
                phase.promised.append((t, int(self.clock[t, t])))
            if count:
                phase.arrived += int(count)
                phase.clock = np.maximum(phase.clock, self.clock[t])
                self._tick(t)
            self._over(bar)

    def _over(self, bar: Bar) -> None:
        """Ends the phase that is due, if all have arrived and all bytes have come."""
        phase = self._phase(bar, bar.over)
        if phase.arrived > bar.count:
            raise Unplayable("arrivals too many")
        if phase.arrived < bar.count or phase.copied < phase.bytes:
            return
        before = bar.phases[bar.over - 1].waits if bar.over else bar.early
        late = any(phase.clock[self.ran + t] < time for t, time in before)
        if late or phase.copied > phase.bytes or any(phase.clock[t] < time for t, time in phase.promised):
            raise Unplayable("a phase that may be over too early")
        bar.over += 1
        phase.clock[self.threads + bar.number] = bar.over

    def _copy(self, event: Copy, threads: Any) -> int:
        cells, compared = self.at[id(event)], 0
        for n, t in enumerate(threads.tolist()):
            bar = self._bar(int(event.bar[n]), t)
            known = self._known(bar, t)
            phase = self._phase(bar, known)
            self._before(cells[n], t)
            if ((self.writer[cells[n]] >= 0) & (self.writer[cells[n]] < self.threads)).any():
                raise Unplayable("a bulk copy over a store")  # which a fence between the proxies has to order
            self.writer[cells[n]], self.time[cells[n]] = self.threads + bar.number, known + 1
            phase.copied += int(event.bytes[n])
            ran = slice(self.threads, None)
            phase.clock[ran] = np.maximum(phase.clock[ran], self.clock[t, ran])
            self.clock[t, self.ran + t] += 1
            compared += int(self.words[cells[n]].sum())
            self._over(bar)
        return compared

    def _before(self, cells: Any, thread: int) -> None:
        """Whether all that used these words comes before what this thread does now."""
        writer, mine = self.writer[cells], self.clock[thread]
        rows = self.row[cells]
        reads = self.reads[rows[rows >= 0]]
        if ((writer >= 0) & (mine[writer] < self.time[cells])).any() or (reads > mine[self.mine]).any():
            raise Unplayable("a race")

    def _multiplied(self, event: Multiplied, warp: int) -> int:
        """It reads from now on until its group is over; what it reads has come by copies that all its lanes know of."""
        every, team = warp * WARP + np.arange(WARP), self.teams[warp // 4]
        known, compared = self.clock[every].min(0), 0
        for cells in self.at.get(id(event), ()):
            writer = self.writer[cells]
            if ((writer >= 0) & (writer < self.threads)).any():
                raise Unplayable("a product of what is stored")  # which a fence between the proxies has to order
            if ((writer >= 0) & (known[writer] < self.time[cells])).any():
                raise Unplayable("a race")
            rows = self.row[cells]
            self.reads[rows[rows >= 0], self.threads + warp // 4] = len(team.groups[warp % 4]) + 1
            compared += int(self.words[cells].sum())
        team.ran[warp % 4] = self.clock[every, self.threads :].max(0)
        return compared

    def _settled(self, event: Settled, warp: int) -> int | None:
        """A product is one of four warps: where it is over, all of them have begun it."""
        every, team = warp * WARP + np.arange(WARP), self.teams[warp // 4]
        over = len(team.groups[warp % 4]) - event.left
        if over <= 0:
            return 0
        if any(len(one) < over for one in team.groups):
            return None
        ran = np.max([one[over - 1] for one in team.groups], axis=0)
        self.clock[every, self.threads :] = np.maximum(self.clock[every, self.threads :], ran)
        self.clock[every, self.over + warp // 4] = np.maximum(self.clock[every, self.over + warp // 4], over)
        return 0

    def _access(self, event: Access, threads: Any, warp: int) -> int:
        cells = self.at.get(id(event))
        if cells is None:
            return 0
        writer, every = self.writer[cells], warp * WARP + np.arange(WARP)
        known = self.clock[every].min(0)[writer] if event.all else self.clock[threads[:, None], writer]
        if ((writer >= 0) & (known < self.time[cells])).any():
            raise Unplayable("a race")
        now = self.clock[threads, threads]
        if event.write:
            if (self.row[cells] >= 0).any():  # somebody reads them
                for t, mine in zip(threads.tolist(), cells, strict=True):
                    self._before(mine, t)
            if len(np.unique(cells)) != cells.size:
                raise Unplayable("a race")
            self.writer[cells], self.time[cells] = threads[:, None], now[:, None]
        else:
            rows = self.row[cells]
            who, when = threads[:, None], now[:, None]
            if event.all:  # what one lane names each of them gets
                self.reads[np.ix_(rows.ravel(), every)] = self.clock[every, every][None, :]
            else:
                self.reads[rows, who] = when
        return int(cells.size)

    def _waited(self, event: Waited, threads: Any) -> int | None:
        """Each lane knows how many phases are over: it waits for the next one, or for the last of them."""
        found = []
        for t, at, parity in zip(threads.tolist(), event.bar, event.parity, strict=True):
            bar = self._bar(int(at), t)
            known = self._known(bar, t)
            wanted = known if known % 2 == int(parity) else known - 1
            if wanted >= bar.over:
                return None
            found.append((bar, wanted))
        for t, (bar, wanted) in zip(threads.tolist(), found, strict=True):
            if wanted + 1 < bar.over:
                raise Unplayable("a wait that may come too late")
            now = int(self.clock[t, self.ran + t])
            if wanted >= 0:
                bar.phases[wanted].waits.append((t, now))
                self.clock[t] = np.maximum(self.clock[t], bar.phases[wanted].clock)
            elif bar.over:
                raise Unplayable("a wait that may come too late")
            else:
                bar.early.append((t, now))
        if self.together:
            self.clock[threads, self.threads :] = self.clock[threads, self.threads :].max(0)
        return 0
