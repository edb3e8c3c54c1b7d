"""What sampled hardware counters say of the window, and which of them are worth a line or a row of a picture."""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.timeline import Counter

TOLD = tuple(
    re.compile(words, re.I)
    for words in (
        r"^SMs Active", r"^Tensor Active", r"^DRAM (Read|Write) Bandwidth", r"^DRAM Bandwidth",
        r"^NVLink (RX|TX)( bandwidth|.*User Data|$)", r"^PCIe (RX|TX) ",
        r"Bytes (sent|received)|(rx|tx)_bytes|xmit|rcv",
    )
)  # fmt: skip
"""What GPUs and links were used for, in this order; other counters are in the figures alone."""


class Sampled(Struct, frozen=True):
    """A counter in the window: mean of its samples, the highest, how many. rank: place among what is told, or None."""

    counter: Counter
    mean: float
    most: float
    samples: int
    rank: int | None


def sampled(facts: TimelineFacts) -> list[Sampled]:
    """What was sampled in the window, what is told first; empty where nothing was. Parts of the recording count that
    begin in the window, and the one in which it begins."""
    low, high, _ = facts.window
    out = []
    for one in facts.timeline.counters:
        inside = (one.at > low - one.width) & (one.at < high) if high > low else np.ones(len(one.at), dtype=bool)
        if not inside.any():
            continue
        samples = int(one.samples[inside].sum())
        rank = next((i for i, words in enumerate(TOLD) if words.search(one.name)), None)
        mean = float(one.total[inside].sum()) / max(samples, 1)
        out.append(Sampled(one, mean, float(one.most[inside].max()), samples, rank))
    return sorted(out, key=lambda s: (s.rank is None, s.counter.device < 0, s.counter.source, s.rank or 0))
