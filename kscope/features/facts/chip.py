"""What the chip of a kernel has: `facts.chip`. Advice names nothing else."""

from __future__ import annotations

from functools import cached_property

from kscope.arch import table
from kscope.arch.chips import at_or_below, instructions, lender

TENSOR_SINCE = 70  # the first target with matrix units
TENSOR = "tensor"
MEASURED = 90
"""The target on which the attainable shares of arch/units.toml were measured, and bounds of loops held against time."""
LEVELS = {"l1": "L1", "l2": "L2", "dram": "device memory"}


class ChipFacts:
    """`facts.chip`: by compute capability, and by the device's name where a chip lacks what its architecture has."""

    def __init__(self, sm: int, name: str = "") -> None:
        """sm: 90 for 9.0, 0 where the report does not say; name: of the device, if known."""
        self._sm, self._name = sm, name.lower()

    def has(self, what: str) -> bool:
        """Whether the chip has an instruction (a key of arch/instructions.toml), or `tensor` cores at all. Of a chip
        that is not known everything may be there. Raises KeyError for another word."""
        if what != TENSOR and what not in table("instructions"):
            raise KeyError(what)
        return not self._sm or what in self._there

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that an SM has for blocks; of a chip that is not known the most that any has."""
        known = table("sm")
        if not self._sm or self.elder:
            return max(int(known[key]["shared"]) for key in known if key.isdigit())
        return int(at_or_below(known, self._sm)["shared"])

    @cached_property
    def elder(self) -> str:
        """Why nothing is known of a chip that came before those of the tables; empty for all others."""
        oldest = min(int(key) for key in table("sm") if key.isdigit())
        if not 0 < self._sm < oldest:
            return ""
        return f"sm_{self._sm} came before the chips that kscope knows (sm_{oldest} and later)"

    @cached_property
    def borrowed(self) -> tuple[str, ...]:
        """What of the tables is another chip's or a default for this target, in words: empty where all is its own."""
        if self._sm in (0, MEASURED) or self.elder:
            return ()
        out = []
        latency = table("latency").get(f"sm_{self._sm}")
        if latency is None:
            out.append("unloaded latencies (not published: a default, +-30 %)")
        elif "borrowed" in latency:
            levels = " and ".join(LEVELS[one] for one in latency["borrowed"])
            out.append(f"the unloaded latency of {levels} (a default)")
        lent = (lender(group.get("issue_sm"), self._sm) for group in table("opcodes")["group"])
        if lenders := sorted({sm for sm in lent if sm is not None}):
            out.append(f"some issue intervals (of {' and '.join(f'sm_{sm}' for sm in lenders)})")
        return (*out, f"the shares of peaks that kernels attain (measured on an H200, sm_{MEASURED})")

    @cached_property
    def _there(self) -> frozenset[str]:
        there = set(instructions(self._sm))
        if self._sm >= TENSOR_SINCE:
            there.add(TENSOR)
        for what, names in table("advice")["without"].items():
            if any(name in self._name for name in names):
                there = {one for one in there if one != what and not (what == TENSOR and one.startswith("mma_"))}
        return frozenset(there)
