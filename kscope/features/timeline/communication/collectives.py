"""The figures of a recording's communication: by kind and communicator, by step, by device."""

from __future__ import annotations

import numpy as np

from kscope.features.timeline.communication.communication import Communication, Sent
from kscope.features.timeline.operations.medians import quantile
from kscope.model.columns import Column, combinations
from kscope.model.contract.job import CollectiveFigures, CommunicationFigures, DeviceCommunication, StepCommunication

STEPS = 2_000
"""Steps that are listed."""


def figures(found: Communication, whole: int) -> CommunicationFigures | None:
    """None where nothing was sent in the window. whole: time that shares are of, ns, summed over the devices."""
    facts = found.facts
    sent = found.sent if found.any else None
    if sent is None or not found.total:
        return None
    low, high, _ = facts.window
    devices = max(len(facts.devices), 1)
    inside = np.flatnonzero((sent.end > low) & (sent.start < high) & np.isin(sent.device, facts.devices))
    waits = found.waits
    return CommunicationFigures(
        us=round(found.total / 1e3 / devices, 3), pct=round(100 * found.total / whole, 3),
        exposed_us=round(found.exposed_total / 1e3 / devices, 3),
        exposed_pct=round(100 * found.exposed_total / whole, 3),
        overlapped_us=round((found.total - found.exposed_total) / 1e3 / devices, 3),
        waiting_us=None if waits is None else round(found.waiting_total / 1e3 / devices, 3),
        operations=len(inside), kinds=_kinds(sent, inside, waits), steps=_steps(found),
        devices=[
            DeviceCommunication(
                device=d, us=round(found.cover(d).length / 1e3, 3), exposed_us=round(found.exposed(d).length / 1e3, 3)
            )
            for d in facts.devices
        ],
    )  # fmt: skip


def _kinds(sent: Sent, inside: Column, waits: Column | None) -> list[CollectiveFigures]:
    out = []
    for what, group in sorted(set(zip(sent.what[inside].tolist(), sent.group[inside].tolist(), strict=True))):
        rows = inside[(sent.what[inside] == what) & (sent.group[inside] == group)]
        name, members, size = sent.groups[group]
        time = int((sent.end - sent.start)[rows].sum())
        out.append(
            CollectiveFigures(
                what=sent.kinds[what], group=name, ranks=list(members), size=size, count=len(rows),
                bytes=int(sent.bytes[rows].sum()), us=round(time / 1e3, 3),
                exposed_us=round(int(sent.exposed[rows].sum()) / 1e3, 3),
                waiting_us=None if waits is None else round(int(waits[rows].sum()) / 1e3, 3),
            )
        )  # fmt: skip
    return sorted(out, key=lambda k: (-k.us, k.what, k.group))


def _steps(found: Communication) -> list[StepCommunication]:
    """By step on the device."""
    facts = found.facts
    steps = facts.steps
    if steps is None or len(steps.begin) > STEPS:
        return []
    begin, end = steps.begin, np.append(steps.begin[1:], steps.until)
    every, alone = np.zeros(len(begin), dtype=np.int64), np.zeros(len(begin), dtype=np.int64)
    for device in facts.devices:
        every += found.cover(device).within(begin, end)
        alone += found.exposed(device).within(begin, end)
    count = 1e3 * max(len(facts.devices), 1)
    return [
        StepCommunication(step=i, us=round(a / count, 3), exposed_us=round(b / count, 3))
        for i, (a, b) in enumerate(zip(every.tolist(), alone.tolist(), strict=True))
    ]


def excess(found: Communication) -> float:
    """Share (0..1) of the communication's time beyond what the fastest fifth of each kind and size takes: waits for
    other ranks, or contention. 0 where no kind and size occurs often enough to tell."""
    sent = found.sent
    low, high, _ = found.facts.window
    inside = np.flatnonzero((sent.start >= low) & (sent.end <= high))
    beyond = whole = 0
    keys = sent.what[inside], sent.group[inside], sent.bytes[inside]
    for what, group, size in combinations(*keys):
        rows = inside[(keys[0] == what) & (keys[1] == group) & (keys[2] == size)]
        length = (sent.end - sent.start)[rows]
        whole += int(length.sum())
        if len(rows) >= 5:
            beyond += int(np.maximum(length - quantile(length, 0.2), 0).sum())
    return beyond / whole if whole else 0.0
