"""All features of one timeline, for rules and the engine: each is computed on first use."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kscope.features.timeline.communication import collectives
from kscope.features.timeline.communication.communication import Communication
from kscope.features.timeline.gaps.critical_path import CriticalPath, critical_path
from kscope.features.timeline.gaps.gap_table import CAUSES, NOT_IDLE
from kscope.features.timeline.gaps.gaps import Causes
from kscope.features.timeline.gaps.launch_sequences import Sequences
from kscope.features.timeline.gaps.waits import Waits
from kscope.features.timeline.operations import busy_time
from kscope.features.timeline.operations.api_names import as_hip
from kscope.features.timeline.operations.counters import Sampled, sampled
from kscope.features.timeline.operations.intervals import Cover, union
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.features.timeline.operations.memory import Memory, memory
from kscope.features.timeline.operations.operators import Operators
from kscope.features.timeline.operations.projected import Projected, Stream, projected, streams
from kscope.features.timeline.operations.recording_cost import RecordingCost
from kscope.features.timeline.operations.single_precision import Single, single_products
from kscope.features.timeline.operations.steady import LEAST_OPERATIONS, TIMES
from kscope.features.timeline.operations.torch_compile import Compiled, find_compiled
from kscope.features.timeline.operations.unseen import Unseen, unseen
from kscope.model.columns import column, distinct
from kscope.model.contract.job import CommunicationFigures
from kscope.model.contract.timeline_figures import CopyFigures, TopKernel
from kscope.model.timeline import Timeline

BUSY = 0.7
"""Share of the window in kernels from which on the kernels are what to look at."""
MOSTLY, START_NS = 0.5, 100_000_000
"""Share of the window, and time (contexts and libraries take as long to load), beyond which it is a program's start."""


class TimelineView:
    """What rules see of a timeline. Shares are of the window without the profiler's own part and what happened once."""

    LEAST = LEAST_OPERATIONS

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.facts = TimelineFacts(timeline)
        self.causes = Causes(self.facts)
        self.cost = RecordingCost(self.facts)
        self.sequences = Sequences(self.facts, self.causes, self.cost)
        self.communication = Communication(self.facts)
        self.operators = Operators(self.facts)
        self.waits = Waits(self.facts, self.causes)

    @cached_property
    def operations(self) -> int:
        """GPU operations in the window."""
        ops, (low, high, _) = self.timeline.ops, self.facts.window
        return int(((ops.end > low) & (ops.start < high)).sum())

    @cached_property
    def one_pass(self) -> bool:
        """Whether nothing ran again and again, neither steps nor operations of one name, and kernels are not what the
        time goes into: what the program waits for it may wait for once."""
        ops, (low, high, _) = self.timeline.ops, self.facts.window
        names = ops.name[(ops.end > low) & (ops.start < high)]
        return self.facts.steps is None and int(np.bincount(names).max(initial=0)) < TIMES and self.computing < BUSY

    @cached_property
    def _hip(self) -> bool:
        names, calls = self.timeline.names, distinct(self.timeline.calls.name)[0].tolist()
        return any(names[n].startswith("hip") for n in calls)

    def in_its_words(self, advice: str) -> str:
        """With the names of the API that the program calls."""
        return as_hip(advice) if self._hip else advice

    @cached_property
    def unseen(self) -> Unseen:
        """Launches without an operation."""
        return unseen(self.facts)

    @cached_property
    def once_share(self) -> float:
        """Share of the window that is idle for what happened once."""
        return self.causes.gaps.once_time / max(self.facts.span * max(len(self.facts.devices), 1), 1)

    @property
    def mostly_once(self) -> bool:
        """Whether the recording is of a start: no step recurs, and most of the window happened once."""
        long = self.causes.gaps.once_time > START_NS * max(len(self.facts.devices), 1)
        return self.facts.steps is None and long and self.once_share > MOSTLY

    @cached_property
    def kernels(self) -> list[TopKernel]:
        return busy_time.top_kernels(self.facts, self.causes.starved)

    @cached_property
    def critical(self) -> CriticalPath | None:
        """What the recording's end waited for; None without operations."""
        calls = self.causes.calls
        return critical_path(self.facts, calls["sync"] | calls["copy"], self.waits.held)

    @cached_property
    def memory(self) -> list[Memory]:
        """What the framework's allocator held, by device."""
        return memory(self.facts)

    @cached_property
    def single(self) -> Single | None:
        """Products of FP32 operands, and what they would be in TF32; None for a device without it."""
        return single_products(self.facts, self.operators, self.causes.starved)

    @cached_property
    def sampled(self) -> list[Sampled]:
        """Hardware counters that were sampled."""
        return sampled(self.facts)

    @cached_property
    def streams(self) -> list[Stream]:
        """How busy streams are, and what is queued for them."""
        return streams(self.facts)

    @cached_property
    def projected(self) -> list[Projected]:
        """What the GPU did for the user's ranges."""
        return projected(self.facts)

    @cached_property
    def copies(self) -> list[CopyFigures]:
        return busy_time.copies(self.facts)

    @cached_property
    def compiled(self) -> Compiled | None:
        """What torch.compile did; None where the recording shows nothing of it."""
        return find_compiled(self.facts)

    def idle_within(self, cover: Cover) -> float:
        """Share of the window in which the GPU was idle, by causes of the program that recur, during these times."""
        found = self.causes.gaps
        mine = ~np.isin(found.cause, [CAUSES.index(c) for c in NOT_IDLE]) & ~found.once
        return float(cover.within(found.start[mine], found.end[mine]).sum()) / self.causes.whole

    def idle_during(self, spans: list[tuple[int, int]]) -> float:
        """The same for intervals (start, end), in order."""
        return self.idle_within(union(column([s for s, _ in spans]), column([e for _, e in spans])))

    @cached_property
    def recompiling(self) -> float:
        """Share of the window in which the GPU was idle behind what torch.compile compiled again."""
        again = self.compiled.recompilations if self.compiled is not None else []
        return self.idle_during([(c.start, c.end) for c in again])

    @property
    def communication_figures(self) -> CommunicationFigures | None:
        """What was sent between ranks or GPUs in the window; None for nothing."""
        return collectives.figures(self.communication, self.causes.whole)

    @cached_property
    def communication_excess(self) -> float:
        """Share of its time beyond what the fastest of each kind and size take."""
        return collectives.excess(self.communication)

    @cached_property
    def idle_in_collectives(self) -> float:
        """Share of the window in which the GPU waits for launches while the host is in c10d's own calls."""
        mine = self.facts.named(r"^(record_param_comms|c10d::|nccl:)")
        return sum(
            time for name, time in self.causes.places("launch") if mine[self._name_index.get(name, 0)]
        ) / self.causes.whole if mine.any() else 0.0  # fmt: skip

    @cached_property
    def _name_index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.timeline.names)}

    @cached_property
    def exposed_share(self) -> float:
        """Share of the window in which communication ran and no other kernel did."""
        return self.communication.exposed_total / self.causes.whole

    @property
    def sending_share(self) -> float:
        """The same without waits for other ranks, where these are known."""
        return self.exposed_share - self.communication.waiting_total / self.causes.whole

    @cached_property
    def computing(self) -> float:
        """Share of the window in which kernels ran that do not communicate."""
        return max(self.causes.work - self.exposed_share, 0.0)

    def share(self, *causes: str) -> float:
        return self.causes.share(*causes)

    def us(self, *causes: str) -> float:
        """Idle time of these causes in us, mean over the devices."""
        return sum(self.causes.gaps.time(c) for c in causes) / 1e3 / max(len(self.facts.devices), 1)

    @cached_property
    def span_us(self) -> float:
        """The window without the profiler's part and what happened once, us; mean over the devices."""
        return self.causes.whole / 1e3 / max(len(self.facts.devices), 1)

    def a_step(self, us: float) -> str:
        """A time as people think of it: a step, where there are steps, else in all. Like "1.2 ms a step"."""
        steps = self.facts.steps
        whole = steps is None or steps.periodic
        value = us if whole or steps is None else us / len(steps.start)
        text = f"{value / 1e3:.1f} ms" if value >= 1e3 else f"{value:.0f} us"
        return f"{text} {'in all' if whole else 'a step'}"

    @cached_property
    def recording_share(self) -> float:
        """Share of the window that the torch profiler's recording of host events takes on the busiest thread; 0 for
        Nsight Systems, whose cost was not measured."""
        return min(self.cost.busiest / 1e3 / max(self.span_us, 1e-3), 1.0)

    @cached_property
    def recorded_launch(self) -> float:
        """Of the share of the window that the GPU waits for launches, what recording them took: at most nine tenths."""
        return min(self.recording_share, 0.9 * self.share("launch"))

    @cached_property
    def host_share(self) -> float:
        """Share of the window that the host needs to issue the steps, without what it waits for the GPU (in
        synchronising calls, and for room in the launch queue); 0 where there are no steps of the user."""
        steps, calls = self.facts.steps, self.timeline.calls
        if steps is None or steps.periodic or not len(calls):
            return 0.0
        waits = self.causes.calls["sync"]
        start = np.concatenate([calls.start[waits], self.timeline.full.start])
        end = np.concatenate([calls.end[waits], self.timeline.full.end])
        order = np.argsort(start, kind="stable")
        waiting = union(start[order], end[order]).within(steps.start, steps.end)
        own = int((steps.end - steps.start - waiting).sum())
        return min(own / max(self.facts.span, 1), 1.0)

    def calls_named(self, what: str) -> list[tuple[str, int, float]]:
        """API calls of a class ("sync", "copy", "alloc", "graph") in the window: (name, count, us), most time first."""
        calls, names = self.timeline.calls, self.timeline.names
        low, high, _ = self.facts.window
        rows = np.flatnonzero(self.causes.calls[what] & (calls.end > low) & (calls.start < high))
        found, inverse, counts = np.unique(calls.name[rows], return_inverse=True, return_counts=True)
        time = np.bincount(inverse, weights=(calls.end - calls.start)[rows], minlength=len(found)) / 1e3
        out = [(names[int(n)], int(c), float(t)) for n, c, t in zip(found, counts, time, strict=True)]
        return sorted(out, key=lambda row: -row[2])
