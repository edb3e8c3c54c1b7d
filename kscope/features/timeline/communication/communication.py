"""What ranks sent each other in one recording: collectives and transfers, what of them ran beside computation, and the
exposed rest, by device, step, communicator and kind. Times in ns.

Definitions: an operation communicates where its kernel's base name says so (NCCL, RCCL, NVSHMEM and their like) or it
copies from device to device of another GPU. Computation is every other kernel. Communication is exposed while it runs
on a device and no other kernel does; beside a kernel it is overlapped.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from msgspec import Struct

from kscope.features.timeline.operations.intervals import Cover, union
from kscope.features.timeline.operations.kernel_kinds import COMMUNICATION, base_name, kind_of
from kscope.features.timeline.operations.launches import Mask, TimelineFacts
from kscope.model.columns import Column, column, different
from kscope.model.timeline import Copy, Message, Op

_WHAT = (
    ("all_reduce", r"all_?reduce|one_?shot|two_?shot|multimem"), ("reduce_scatter", r"reduce_?scatter"),
    ("all_gather", r"all_?gather"), ("all_to_all", r"all_?to_?all|deep_?ep"), ("broadcast", r"broadcast|bcast"),
    ("send_recv", r"send|recv|p2p"), ("reduce", r"reduce"),
)  # fmt: skip
PAIRWISE = frozenset({"send", "recv", "send_recv", "peer_copy", "isend", "irecv"})
"""Operations between two ranks, of which one may be there only to send, the other to receive."""
NO_DATA = frozenset({"barrier"})


class Sent(Struct, frozen=True):
    """The communication of one recording, sorted by start; columns of equal length. op: row of Timeline.ops. what:
    index into `kinds`. group: index into `groups`. bytes: 0 where unknown. step: the step that the operation falls
    into, -1 outside. exposed: time of each without another kernel beside it (those that overlap one another both
    count it). kinds: names of collectives; kernels: base names of the kernels."""

    op: Column
    start: Column
    end: Column
    what: Column
    kernel: Column
    group: Column
    bytes: Column
    peer: Column
    device: Column
    step: Column
    exposed: Column
    kinds: tuple[str, ...]
    kernels: tuple[str, ...]
    groups: tuple[tuple[str, tuple[int, ...], int], ...]
    """(name, members, size) of each communicator; ("", (), 0) where the recording does not tell."""

    def __len__(self) -> int:
        return len(self.op)


class Communication:
    """The communication of a recording. Empty where there is none."""

    def __init__(self, facts: TimelineFacts) -> None:
        self.facts = facts
        self.waits: Column | None = None
        """For each row of `sent` the time until the last rank came; None while the other ranks are unknown."""

    def waiting(self, device: int) -> Cover:
        """When a device was in a collective that the last rank had not reached, and no other kernel ran."""
        sent, waits = self.sent, self.waits
        if waits is None or not waits.any():
            return Cover(column([]), column([]))
        mine = np.flatnonzero((sent.device == device) & (waits > 0))
        start = sent.start[mine]
        return both(union(start, start + waits[mine], *self.facts.window[:2]), self.exposed(device))

    @cached_property
    def mask(self) -> Mask:
        """Which operations communicate."""
        timeline = self.facts.timeline
        ops = timeline.ops
        found = np.array([kind_of(name).kind == COMMUNICATION for name in timeline.names] or [False])
        if not found.any() and not (ops.copy == Copy.PTOP).any():
            return np.zeros(len(ops), dtype=bool)
        mask: Mask = (ops.kind == Op.KERNEL) & found[ops.name] | (ops.copy == Copy.PTOP)
        return mask

    @cached_property
    def any(self) -> bool:
        return bool(self.mask.any())

    def cover(self, device: int) -> Cover:
        """When a device communicated, in the window."""
        if device not in self._covers:
            ops, mine = self.facts.timeline.ops, self.mask & (self.facts.timeline.ops.device == device)
            self._covers[device] = union(ops.start[mine], ops.end[mine], *self.facts.window[:2])
        return self._covers[device]

    def computing(self, device: int) -> Cover:
        """When other kernels ran on a device, in the window."""
        if device not in self._computing:
            ops = self.facts.timeline.ops
            mine = ~self.mask & self.facts.chosen(device, Op.KERNEL, Op.GRAPH)
            self._computing[device] = union(ops.start[mine], ops.end[mine], *self.facts.window[:2])
        return self._computing[device]

    def exposed(self, device: int) -> Cover:
        """When a device communicated and no other kernel ran."""
        if device not in self._exposed:
            self._exposed[device] = without(self.cover(device), self.computing(device))
        return self._exposed[device]

    @cached_property
    def _covers(self) -> dict[int, Cover]:
        return {}

    @cached_property
    def _computing(self) -> dict[int, Cover]:
        return {}

    @cached_property
    def _exposed(self) -> dict[int, Cover]:
        return {}

    @cached_property
    def total(self) -> int:
        """Time in which devices communicated, ns, summed over them."""
        return sum(self.cover(d).length for d in self.facts.devices) if self.any else 0

    @cached_property
    def exposed_total(self) -> int:
        """Time of it without another kernel, ns, summed over the devices."""
        return sum(self.exposed(d).length for d in self.facts.devices) if self.any else 0

    @property
    def waiting_total(self) -> int:
        """Time of the exposed communication until the last rank came, ns, summed over the devices."""
        return sum(self.waiting(d).length for d in self.facts.devices) if self.any else 0

    @cached_property
    def sent(self) -> Sent:
        """Every operation that communicates, of the window and around it."""
        facts, timeline = self.facts, self.facts.timeline
        ops = timeline.ops
        rows = np.flatnonzero(self.mask)
        start, end = ops.start[rows], ops.end[rows]
        kernels = [base_name(name) for name in timeline.names]
        messages = [_message(timeline.messages, int(m)) for m in ops.message[rows].tolist()]
        names = [kernels[n] for n in ops.name[rows].tolist()]
        said = [m.what if m is not None else what_of(n) for m, n in zip(messages, names, strict=True)]
        groups = self._groups(rows, messages)
        known: dict[tuple[str, tuple[int, ...], int], int] = {}
        kinds: dict[str, int] = {}
        places: dict[str, int] = {}
        exposed = np.zeros(len(rows), dtype=np.int64)
        low, high, _ = facts.window
        for device in facts.devices:
            mine = np.flatnonzero(ops.device[rows] == device)
            b, e = np.clip(start[mine], low, high), np.clip(end[mine], low, high)
            exposed[mine] = e - b - self.computing(device).within(b, e)
        step = np.full(len(rows), -1, dtype=np.int64)
        if facts.steps is not None:
            step = np.searchsorted(facts.steps.begin, start, side="right") - 1
            step[start >= facts.steps.until] = -1
        return Sent(
            op=rows, start=start, end=end, what=column([kinds.setdefault(w, len(kinds)) for w in said]),
            kernel=column([places.setdefault(n, len(places)) for n in names]),
            group=column([known.setdefault(g, len(known)) for g in groups]),
            bytes=column([m.bytes if m is not None else 0 for m in messages]),
            peer=column([m.peer if m is not None else -1 for m in messages]),
            device=ops.device[rows], step=step, exposed=exposed,
            kinds=tuple(kinds), kernels=tuple(places), groups=tuple(known),
        )  # fmt: skip

    def _groups(self, rows: Column, messages: list[Message | None]) -> list[tuple[str, tuple[int, ...], int]]:
        """The communicator of each operation; of one that does not say, that of others on its stream."""
        ops = self.facts.timeline.ops
        by_stream: dict[tuple[int, int], tuple[str, tuple[int, ...], int]] = {}
        streams = list(zip(ops.device[rows].tolist(), ops.stream[rows].tolist(), strict=True))
        for key, message in zip(streams, messages, strict=True):
            if message is not None and message.what not in NO_DATA:
                by_stream.setdefault(key, (message.group, message.ranks, message.size))
        lone = next(iter(by_stream.values())) if len(set(by_stream.values())) == 1 else ("", (), 0)
        return [
            (m.group, m.ranks, m.size) if m is not None else by_stream.get(key, lone)
            for key, m in zip(streams, messages, strict=True)
        ]


def _message(every: tuple[Message, ...], number: int) -> Message | None:
    return every[number - 1] if 0 < number <= len(every) else None


def what_of(kernel: str) -> str:
    """The collective that a kernel's base name tells: ncclDevKernel_AllReduce_Sum_bf16_RING_LL is an all_reduce."""
    if kernel.startswith("Memcpy"):
        return "peer_copy"
    return next((what for what, words in _WHAT if re.search(words, kernel, re.I)), "communication")


def without(a: Cover, b: Cover) -> Cover:
    """What lies in `a` and not in `b`."""
    return _parts(a, b, inside=False)


def both(a: Cover, b: Cover) -> Cover:
    """What lies in `a` and in `b`."""
    return _parts(a, b, inside=True)


def _parts(a: Cover, b: Cover, *, inside: bool) -> Cover:
    edges = different(np.concatenate([a.start, a.end, b.start, b.end]))
    if len(edges) < 2:
        return Cover(column([]), column([]))
    begin, end = edges[:-1], edges[1:]
    keep = _holds(a, begin) & (_holds(b, begin) == inside)
    return union(begin[keep], end[keep])


def _holds(cover: Cover, begin: Column) -> Mask:
    """Whether the time right behind each edge lies in the cover."""
    if not len(cover.start):
        return np.zeros(len(begin), dtype=bool)
    at = np.searchsorted(cover.start, begin, side="right") - 1
    return (at >= 0) & (cover.end[np.maximum(at, 0)] > begin)
