"""A report's metrics as columns: which stream holds the values of which, and what one column says of another."""

from __future__ import annotations

from tests.support.streams import Shared, read_varint

NAME = 1 << 3 | 2  # key of a name in a block's table: field 1, bytes
SAMPLES, REASON = "smsp__pcsamp_sample_count", "smsp__pcsamp_warps_issue_stalled_"
"""All samples at an instruction, and those with a reason: what the last reason has is what is left of all."""


class Columns:
    """Of one report: its names of metrics, which metric it is at, and how many samples no reason met so far has."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.every: list[str] = []
        self.name, self.column = "", -1
        self.samples: dict[int, list[int]] = {}

    def add(self, table: bytes) -> None:
        """A block's table: names that this block and later ones use by their number."""
        at = 0
        while at < len(table):
            key, at = read_varint(table, at)
            if key != NAME:
                return
            size, at = read_varint(table, at)
            self.every.append(table[at : at + size].decode(errors="replace"))
            at += size

    def now(self, number: int) -> None:
        self.name = self.every[number] if number < len(self.every) else ""
        self.column = self.shared.column(self.name)
        if self.name == SAMPLES:
            self.samples.clear()

    def stream(self, field: str, *, in_value: bool) -> str:
        """Where the values of a field go: those of metrics by metric."""
        return f"{field}/{self.column}" if in_value else field

    def left(self, idents: int) -> list[int] | None:
        """By instruction, the samples without a reason met so far; None where this is no reason."""
        return self.samples.get(idents) if self.name.startswith(REASON) else None

    def sampled(self, idents: int, numbers: list[int]) -> None:
        if self.name == SAMPLES:
            self.samples[idents] = numbers
        elif (left := self.left(idents)) is not None:
            self.samples[idents] = [all_ - one for all_, one in zip(left, numbers, strict=True)]


def sized(stream: str, size: int) -> str:
    kind, slash, number = stream.partition("/")
    return f"{kind}:{size}{slash}{number}"
