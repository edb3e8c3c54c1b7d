"""What a fix can gain: stall elimination and latency hiding, capped by whatever stops the kernel next.

Two kinds of fix, one form of answer (time after the fix as a share of the time now):

relieve: a fix removes work (wavefronts, sectors, instructions, spills). The samples blamed on that work shrink, the
    others stay (stall elimination T / (T - B), Zhou et al., GPA, CGO 2021). Where the unit that did the work was full,
    half of the other waits was queueing for it and goes too. The result cannot be shorter than any unit's remaining
    load (next limiter) nor than the latency floor (kscope.features.estimate.latency_floor), which is walked again
    without what the fix removes (Estimates.floor_without). Samples do not show who fills a unit with stores, for no
    warp waits at one: where a unit is full of them, its time is theirs by the utilisation law, busy share = rate x
    service
    time (Lazowska et al., Quantitative System Performance, 1984, chapter 3), and all other waits are its queue
    (`posted`).
overlap: a fix keeps more work in flight (occupancy, grid, independent instructions). The part of the time that is
    latency shrinks by that factor, the load of the fullest unit does not. Near saturation latency grows with load;
    both add up as units do (time^p = load^p + latency^p). A p of its own, 2, was too careful: on
    relax_field, list_walk, dot_stream, decode_attention and dependency_chain it promised less than was measured.

All know the queue at L2 and device memory (`queue`), by Little's law: warps in flight over loads answered a cycle is
how long a load takes. Where that is several times what it takes on an idle device, and the memory is busy, more in
flight only makes the queue longer, and warps that are freed of other work join it: what a fix leaves there, stays.

low and high: low assumes that a part of the saving comes true (`low`), and that the rewrite costs something itself
(`cost`), which tells where it saves little: then the low end lies below 1; high that only a cap resists, that the
rewrite relieves the capping unit a little too (`yields`), and that it brings what was not counted (`rise`). The
constants, and how each was chosen, are in kscope/arch/estimates.toml and passed in; `tools/fit.py` chooses those that
are fitted again, and says how they hold on a family of kernels that was left out.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from kscope.features.counters.units import Scale
from kscope.features.estimate.queues import Queues
from kscope.model.contract.analysis import Estimate
from kscope.model.units import figure

REST = "the rest of the kernel"
LATENCY = "latency at this launch shape"
CHAIN = "the chain of one thread"
LAUNCH = "the launch itself"
STARTING = "the rate at which blocks start"


class Bounds(Queues, frozen=True):
    """Caps of one kernel. All times are shares of its present time."""

    @property
    def floor(self) -> float:
        """Share of the time that only latency explains (0..1); 0 where it cannot be told."""
        return min(1.0, self.latency_floor.share) if self.latency_floor is not None else 0.0

    @property
    def start(self) -> float:
        """Share of the present time that a kernel's first and last block need at least, however small they are. Where
        cycles or the time without work were not collected, by the duration of a kernel that does nothing."""
        launch, c = self.launch, self.constants
        if not launch.timed and launch.duration_us:
            return min(1.0, c.empty / launch.duration_us)
        return c.start / launch.cycles if launch.cycles else 0.0

    @property
    def waiting(self) -> float:
        """Share of the time that is latency rather than the load of the fullest unit, as units add up (0..1)."""
        load = self.next_limit({}, skip=("blocks",))[0]
        return float(max(0.0, 1.0 - min(1.0, load) ** self.constants.smooth) ** (1 / self.constants.smooth))

    @property
    def starting(self) -> float:
        """Blocks over what the device can start in the time (0..1)."""
        return min(1.0, self.launch.blocks / self.launch.cycles / self.constants.starts) if self.launch.cycles else 0.0

    def next_limit(
        self, scale: Scale, skip: tuple[str, ...] = (), *, stay: bool = False, alone: bool = False
    ) -> tuple[float, str]:
        """Load and title of the fullest unit when demands are scaled; the start of "blocks" is one too. skip: units
        to leave out; stay: the work stays on the SMs that have it, of a grid that leaves some empty; alone: and with
        the warps that have it."""
        loads = [
            (self.here(u, u.load_after(scale), alone=alone) if stay else u.load_after(scale), u.title)
            for n, u in self.units.items() if n not in skip
        ]  # fmt: skip
        if stay and (port := self.port) is not None and "l2" not in skip:
            loads.append((self.here(port, port.load_after(scale)), port.title))
        if "blocks" not in skip:
            loads.append((self.starting * scale.get("blocks", 1.0), STARTING))
        return max(loads, default=(0.0, REST))

    def relieve(
        self,
        touched: float,
        remaining: float,
        scale: Scale,
        *,
        latency: float = 1.0,
        posted: float = 0.0,
        brings: tuple[float, str] = (0.0, ""),
        uncovered: float = 0.0,
        hides: bool = False,
        behind: float = 0.0,
    ) -> Estimate:
        """touched: share of samples that the fault explains; remaining: what is left of them after the fix (0..1);
        scale: demand -> factor on the units; latency: factor on the floor; posted: share of the fault's work that
        nobody waits for (stores), 0..1: a full unit's time is theirs by what it does, not by samples; brings: load of
        a unit that the fix moves work to, as a share of the present time, and its title;
        uncovered: share of the present time that other waits take longer, because fewer warps cover them;
        hides: the waits are hidden rather than their work removed: what is the queue of a full unit stays;
        behind: share of the present time, behind the last block, that goes with the fault's work."""
        queued = self.queued(scale)
        touched *= 1 - queued if hides else 1.0
        units = [*self.units.values(), *([self.port] if self.port is not None else [])]
        relieved = [u for u in units if u.load_after(scale) < self.constants.relieved * u.load]
        # Stores that take a request more are L2's own work, whatever waits behind it.
        loads = {
            u.name: self.here(u, posted * max(u.load, self.seen(u)) + (1 - posted) * self.seen(u)) for u in relieved
        }
        fullest = max(relieved, key=lambda u: loads[u.name], default=None)
        full = min(1.0, loads[fullest.name] / self.working) if fullest is not None else 0.0
        saturated = self.saturation(full)
        if fullest is not None:  # nobody waits at a store: all waits are the queue that it stands in
            touched = max(touched, posted * saturated * full * (1 - fullest.load_after(scale) / fullest.load))
        queueing = saturated * max(self.constants.queueing, posted) * min(1.0, 2 * touched)
        outside, inside = self.launch.outside - behind * (1 - remaining), 1.0 - self.launch.outside
        residual = outside + inside * ((1 - touched) * (1 - queueing) + touched * min(remaining, 1 - queueing))
        residual += inside * uncovered * (1 - queueing)
        load, name = max(self.next_limit(scale, stay=True, alone=True), brings)
        floor = self.floor * latency
        # The same smooth form before and after: what several half-full units cost each other is there already.
        before = self.together(1.0, min(1.0, self.next_limit({}, stay=True, alone=True)[0]), self.floor)
        after = self.behind(max(self.together(residual, load, floor) / before, min(1.0, load)), scale)
        least = min(1.0, outside + self.start)  # of a kernel that does nothing
        after = max(after, least)
        cap = max((residual, REST), (load, name), (floor, LATENCY), (least, LAUNCH))[1]
        left = outside + inside * (1 - touched) * (1 - queueing) * self.constants.others_left
        hardest = max(load * self.constants.yields, left, self.constants.floor_left * floor, least, 1e-4)
        return self._promise(after, hardest, cap, queued=queued, scale=scale)

    def overlap(
        self,
        factor: float,
        scale: Scale | None = None,
        passes: float = 1.0,
        chain: float = 0.0,
        stay: bool = True,
        alone: bool = False,
    ) -> Estimate:
        """factor: how many times more work is in flight; the waiting part of the time shrinks by it. passes: starts
        that the kernel then needs, 2 where blocks must be joined by a second kernel or wait for each other. chain:
        time of what each thread must still do one after the other, as a share of the present time. stay: on the SMs
        that have work now, of a grid that leaves some empty; alone: in the warps that there are."""
        load, name = self.next_limit(scale or {}, stay=stay, alone=alone)
        outside = self.launch.outside
        load = min(load, 1.0)
        queued = self.queued(scale or {})
        waiting = self.waiting
        waited = waiting * (queued + (1 - queued) / factor)
        start = passes * self.start
        chain = min(1.0, chain)
        after = outside + start + (1 - outside) * max(self.together(load, waited), chain)
        cap = name if load > waited else f"{figure(factor)} times the work in flight"
        if chain > max(load, waited):
            cap = CHAIN
        if outside + start > max(load, waited, chain):
            cap = LAUNCH
        after = self.behind(after, scale or {})
        c = self.constants
        hardest = max(load * c.yields, 1 / (factor * c.more_overlap), outside + start, c.floor_left * chain)
        return self._promise(after, hardest, cap, queued=queued, scale=scale or {})

    def spread_apart(self, turns: float) -> Estimate:
        """The same warps on all SMs, not on those alone that have them: what they wait for each other's turn (turns, a
        share of the samples) goes, and of what else they wait for the line in front of what an SM has for itself."""
        outside, idle = self.launch.outside, 1 - self.reached
        line = self.saturation(self.inside) * self.constants.queueing * (1 - turns)
        load, name = self.next_limit({})
        left = 1 - idle * (turns + line)
        after = outside + (1 - outside) * self.together(load, left)
        hardest = max(load * self.constants.yields, 1 - idle, outside + self.start, 1e-4)
        return self._promise(min(1.0, after), hardest, name if load > left else REST)

    def balance(self, factor: float, cap: str, scale: Scale | None = None, fuller: float = 1.0) -> Estimate:
        """The kernel takes 1 / factor of its time because idle SMs get work; units that are full stay full. scale:
        what smaller pieces of work ask more of them. fuller: how many times more warps an SM could hold while it works,
        which the same pieces bring at best: an SM with one long block left counts as at work."""
        load, name = self.next_limit(scale or {})
        after = self.behind(max(1 / factor, load if load > 1 / factor else 0.0), scale or {})
        cap = name if load > 1 / factor else cap
        hardest = max(load * self.constants.yields, 1 / (factor * self.constants.more_balance * fuller))
        return self._promise(min(1.0, after), hardest, cap, 1.0)

    def without_launch(self, outside: float, issued_us: float) -> Estimate:
        """What is outside goes, a share of the time. The upper end is that of a row of launches which the host issues
        more slowly than the device works them off, one each `issued_us`: of that all but what is inside goes."""
        kept = max(1 - outside, 0.05)
        alone, inside = self.balance(1 / kept, LAUNCH), (self.launch.duration_us or 0.0) * kept
        most = self.constants.more_balance * issued_us / inside if inside else 0.0
        return structs.replace(alone, high=round(max(alone.high, most), 3))

    def spread(self, fixed: Estimate, factor: float, scale: Scale) -> Estimate:
        """A repair together with `factor` times as many SMs at work: the product, as far as the units allow. scale:
        demands that the repair changes."""
        load, name = self.next_limit(scale)
        outside = self.launch.outside
        rest = 1 / (fixed.speedup * factor)
        both = outside + self.start + (1 - outside) * self.together(load, rest)
        gain = max(1 / both, fixed.speedup)
        high = max(gain, min(fixed.high * factor, 1 / max(self.constants.yields * load, outside, 1e-3)))
        high = max(high, (1 + self.constants.noise) * gain)
        cap = name if load > rest else REST
        low = max(fixed.low, 1 / (1 - self.constants.low * (1 - 1 / gain)))
        return Estimate(speedup=round(gain, 3), low=round(low, 3), high=round(high, 3), capped_by=cap, kind="modelled")

    def removed(
        self, lost: float, *, sure: float, high: float | None = None, scale: Scale | None = None, plateau: float
    ) -> Estimate:
        """A share `lost` of the time of a pipeline goes: `sure` of it as the point, half of that as the low bound, all
        of `high`, and what a rewrite mends beside it (`rise`), as the high one. Capped by what is left of any unit's
        load; the tensor pipe, which the kernel may be for, can go up to the plateau that such kernels hold, of which
        `lost` is a share. scale: demands that the fix lowers."""
        load, name = self.next_limit(scale or {}, skip=("tensor",))
        tensor = self.units.get("tensor")
        if tensor is not None and tensor.busy / plateau > load:
            load, name = tensor.busy / plateau, tensor.title
        gain = 1 / max(1 - sure * lost, min(load, 1.0))
        most = high if high is not None else lost
        noise = 1 + self.constants.noise
        best = max(gain, 1 / max(1 - most, 0.05)) * self._beside(gain)
        return Estimate(
            speedup=round(gain, 3),
            low=round(min(gain / noise, 1 / (1 - 0.5 * sure * lost)), 3),
            high=round(max(best, gain * noise), 3),
            capped_by=name if load > 1 - sure * lost else REST,
            kind="modelled",
        )

    def relieves(self, scale: Scale, high: float = 1.0) -> list[str]:
        """Units that a fix asks less of, by name: those at their peak, or with a queue in front of them, and those
        that would stand in the way of a range up to `high` if they stayed as full as they are."""
        c = self.constants
        queued = self.memory.name if self.memory is not None and self.queue else ""
        return [
            name for name, u in self.units.items()
            if (u.load >= c.full_unit or name == queued or u.load * high > c.over)
            and u.load_after(scale) < c.relieved * u.load
        ]  # fmt: skip

    def together(self, *loads: float) -> float:
        """Time of several things that go on at once, each a share of the time it would take alone: the longest, and a
        little more where others are as long."""
        power = self.constants.smooth
        return float(sum(max(0.0, x) ** power for x in loads) ** (1 / power))

    def _beside(self, gain: float, rise: float | None = None) -> float:
        """Times the upper end that a rewrite brings beside what was counted: more where more is rewritten."""
        return float(min(self.constants.rise if rise is None else rise, gain**self.constants.steep))

    def _promise(
        self, after: float, hardest: float, cap: str, rise: float | None = None, queued: float = 0.0,
        scale: Scale | None = None,
    ) -> Estimate:  # fmt: skip
        """after: expected time over present time; hardest: the least it can be; rise: how far above that the end
        lies; queued: how far waits are the queue of a unit that stays full: then as little as nothing may come of
        it."""
        after = min(1.0, max(after, 1e-4))
        point = 1 / after
        low = 1 / (1 - self.constants.low * (1 - queued) * (1 - after) + self.constants.cost * after)
        high = max(point, 1 / min(1.0, hardest)) * self._beside(point, rise)
        high = max(high, (1 + self.constants.noise) * point)
        return Estimate(
            speedup=round(point, 3), low=round(low, 3), high=round(high, 3), capped_by=cap, kind="modelled",
            relieves=self.relieves(scale or {}, high) or UNSET,
        )  # fmt: skip
