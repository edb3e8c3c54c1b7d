"""Windows that neighbouring threads load again and again: several outputs a thread load their union once (MEM112)."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.facts import Code, Facts, Scale, Unit, Window, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

PATH = ("l1", "lsu")  # units that these loads stand in line for: what lies behind them, the caches have caught
INDEX = "alu"  # the pipe that computes where they load: clamped at borders, an index costs more than its load
QUEUES = ("mio_throttle", "lg_throttle", "short_scoreboard")  # waits that are a queue there, or shared memory's own
LEAST = 0.1  # of all samples
WAYS = (2, 4, 8)  # outputs a thread along one axis
FILLED = 0.9  # of a wave, from which longer threads with several outputs each still fill the device (judged)
REGISTERS = 255  # a thread can have; an output more needs a sum of its own and another value of the window
WORTH = 0.75  # of the loads of half as many outputs, above which more outputs are not worth their registers (judged)
ALONG = {
    "lanes": "side by side", "rows": "one below the other", "x": "those of blocks that follow each other in x",
    "y": "those of blocks that follow each other in y", "z": "those of blocks that follow each other in z",
}  # fmt: skip


class Blocking(Struct, frozen=True):
    """`loads`: of the windows that `outputs` a thread along `axis` share; `kept`: share of them that is left;
    `asked`: values that a thread loads for its window now; `apart`: threads from one output to the next."""

    loads: tuple[int, ...]
    axis: str
    outputs: int
    kept: float
    asked: int
    apart: int

    @property
    def place(self) -> str:
        """Where the outputs of one thread lie."""
        if self.axis == "lanes" and self.apart > 1:
            return f"those of threads {self.apart} apart"
        return ALONG[self.axis]


def shared_windows(rule: ProfiledRule, facts: Facts, code: Code) -> Outcome:
    """The finding: what neighbouring threads load again, and several outputs a thread that keep it in registers."""
    found = blocking(facts, code) if _busy(facts) else None
    share = standing(facts, code, found.loads) if found is not None else 0.0
    if found is None or share < LEAST:
        return PASSED
    scale = facts.profile.demands_after(facts.patterns.addresses_of(found.loads), found.kept)
    if not relieves(facts, scale):
        return PASSED
    n, asked, place = found.outputs, found.asked, found.place
    space = " and ".join(sorted({code.classes[i].space or "any" for i in found.loads}))
    return rule.finding(
        title="Neighbouring threads load nearly the same values",
        why=(
            f"each thread loads a window of {asked} values from {space} memory, and its neighbours load most of them "
            f"again; {n} outputs a thread, {place}, need {asked * found.kept:.2g} values each. {_told(facts, share)}"
        ),
        fix=f"{n} outputs a thread, {place}: load what their windows hold once, keep it in registers, and let each "
        "value feed every output that needs it",
        evidence=[
            derived("values that a thread loads for its window", asked, "", "by the addresses of lanes"),
            derived("values an output that are left", asked * found.kept, "", f"of {n} outputs a thread"),
            derived("samples in line for the loads", share, "", "share of warp samples, blamed by def-use"),
        ],
        locations=code.locations(found.loads),
        estimate=facts.estimate.relieve(
            share, found.kept, scale, latency=facts.estimate.floor_without(found.loads, found.kept)
        ),
        pulls=["+registers", "-threads"],
        confidence=0.7 if space == "shared" else 0.5,  # measured in shared memory alone (window.one)
    )


def _told(facts: Facts, share: float) -> str:
    """What the loads take, in a sentence: places in a queue, or the pipe that computes where they go."""
    if any(u.name == INDEX for u in _busy(facts)):
        return f"They and their indices, clamped or not, take {percent(share)} of the full integer pipe."
    return f"{percent(share)} of all samples stand in line for these loads."


def blocking(facts: Facts, code: Code) -> Blocking | None:
    """The axis along which several outputs a thread save most loads, as many as the launch has waves and a thread
    registers for; None where nobody shares a window."""
    launch = facts.kernel.launch
    most = min(facts.counters.launch.waves / FILLED, (REGISTERS - launch.registers) / 2)
    by_axis: dict[str, list[Window]] = {}
    for window in facts.profile.windows(facts.lanes.inside):
        by_axis.setdefault(window.axis, []).append(window)
    found = []
    for axis, windows in by_axis.items():
        best, left = 1, 1.0
        for outputs in WAYS:
            share = _kept(code, windows, outputs)
            if outputs <= most and share <= WORTH * left:
                best, left = outputs, share
        if best > 1:
            found.append(_blocking(code, axis, windows, best, left))
    # Of two that save as much, the one that leaves neighbouring lanes on neighbouring addresses.
    return max(found, key=lambda b: ((1 - b.kept) * total(code.executed, b.loads), b.axis != "lanes"), default=None)


def standing(facts: Facts, code: Code, loads: tuple[int, ...]) -> float:
    """Share of the time that fewer of these loads would save, 0..1: what stands in their queues, and of the waits
    for memory as much as L1 and the load/store unit are in demand. A round trip takes as long for one load as for
    five. Warps enough to cover every wait show none: there a full unit's time is theirs by what they ask of it."""
    queued = code.blamed_share(loads, *QUEUES)
    waited = queued + facts.estimate.in_line(*PATH) * (code.blamed_share(loads) - queued)
    asked = facts.profile.demands_after(facts.patterns.addresses_of(loads), 0.0)
    theirs = (facts.estimate.in_line(u.name) * (1 - u.load_after(asked) / u.load) for u in _busy(facts))
    return max(waited, *theirs)


def relieves(facts: Facts, scale: Scale) -> bool:
    """One of the units that loads stand in line for is that busy, and clearly less so afterwards."""
    return any(u.load_after(scale) < facts.constants.relieved * u.load for u in _busy(facts))


def _busy(facts: Facts) -> list[Unit]:
    """Units that loads stand in line for, as far as they are that busy."""
    units = [facts.counters.units.get(n) for n in PATH]
    index = facts.counters.units.get(INDEX)
    full = [index] if index is not None and index.load >= facts.constants.full_unit else []
    return [u for u in units if u is not None and u.load >= facts.constants.free] + full


def _kept(code: Code, windows: list[Window], outputs: int) -> float:
    weights = [total(code.executed, w.loads) for w in windows]
    return sum(w.kept(outputs) * n for w, n in zip(windows, weights, strict=True)) / sum(weights)


def _blocking(code: Code, axis: str, windows: list[Window], outputs: int, kept: float) -> Blocking:
    """Of a loop unrolled several times over, each part has a window; a thread enters the one or the other."""
    loads = tuple(sorted({i for w in windows for i in w.loads}))
    entered = max(total(code.executed, w.loads) / w.asked for w in windows)
    asked = round(sum(total(code.executed, w.loads) for w in windows) / entered)
    return Blocking(loads, axis, outputs, kept, asked, windows[0].apart)
