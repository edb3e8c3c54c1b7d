"""Chips by name: what chips.toml says of one, joined with what the other tables say of its architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kscope.arch import table
from kscope.model.errors import EXIT_USAGE, KscopeError

PRECISIONS = ("fp4", "int8", "fp8", "fp16", "bf16", "tf32", "fp32", "fp64_tensor", "fp64")
"""Names of peaks, fastest first. fp32 and fp64 are the CUDA cores, the others tensor cores."""
TENSOR = frozenset(PRECISIONS) - {"fp32", "fp64"}
PARTITIONS = 4  # of an SM on every chip since Volta; a warp instruction of 32 lanes issues to one of them
LANES = 32
SHARED_BYTES_PER_CLOCK = 128
"""Of an SM: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory", every capability since 5.0)."""
BORROWED = "borrowed:"


class Chip(Struct, frozen=True):
    """One chip. Numbers in SI units (FLOP/s, byte/s, Hz, bytes, W), None where nothing is published. `source` maps a
    number's name (`sms`, `peak.fp16`) to the words of its document; `borrowed` holds the names of another chip's."""

    key: str
    name: str
    family: str
    cc: int
    sms: int
    clock_hz: float | None
    memory: str
    memory_bytes: float
    bus_bits: int | None
    dram_bytes_per_s: float
    host_bytes_per_s: float | None
    l2_bytes: int | None
    power_w: int | None
    previous: str | None
    sparse: float
    sparse_fp4: float
    tensor_share: float
    peak: Mapping[str, float]
    attained: Mapping[str, float]
    match: tuple[str, ...]
    aliases: tuple[str, ...]
    source: Mapping[str, str]
    borrowed: frozenset[str]

    @property
    def sm(self) -> Mapping[str, Any]:
        """What an SM holds (sm.toml), of the nearest target at or below this one."""
        entry: Mapping[str, Any] = at_or_below(table("sm"), self.cc)
        return entry

    @property
    def latency(self) -> Mapping[str, Any]:
        """Unloaded latencies (latency.toml); those of `default` where the target has none of its own."""
        known = table("latency")
        entry: Mapping[str, Any] = known.get(f"sm_{self.cc}", known["default"])
        return entry

    @property
    def shared_bytes_per_s(self) -> float | None:
        return SHARED_BYTES_PER_CLOCK * self.sms * self.clock_hz if self.clock_hz else None

    def per_clock(self, precision: str) -> float | None:
        """FLOP a clock and SM by opcodes.toml: fp32, fp64 (CUDA cores), fp16 and fp64_tensor; None for others."""
        if precision in ("fp32", "fp64"):
            return 2 * PARTITIONS * LANES / issue("ffma" if precision == "fp32" else "fp64_fma", self.cc)
        rates = table("opcodes")["tensor"]
        if precision == "fp16":
            return 2 * PARTITIONS * float(at_or_below(rates["fp16"], self.cc)) * self.tensor_share
        if precision == "fp64_tensor" and precision in self.peak:
            return 2 * PARTITIONS * float(at_or_below(rates["fp64"], self.cc))
        return None

    def at_clock(self, precision: str) -> float | None:
        """Peak at the highest clock, FLOP/s: never below the published one. Other tensor precisions move with fp16."""
        published = self.peak.get(precision)
        like = "fp16" if precision in TENSOR and precision != "fp64_tensor" else precision
        rate, base = self.per_clock(like), self.peak.get(like)
        if rate is None or self.clock_hz is None:
            return published
        highest = rate * self.sms * self.clock_hz
        if published is None:
            return highest if like == precision and precision not in TENSOR else None
        return max(published, published * highest / base) if base else published

    def sparse_factor(self, precision: str) -> float:
        """What 2:4 sparsity multiplies a tensor peak by; 1 where there is none."""
        if precision not in TENSOR or precision == "fp64_tensor":
            return 1.0
        return self.sparse_fp4 if precision == "fp4" else self.sparse


def at_or_below(by_target: Mapping[str, Any], cc: int) -> Any:
    """The entry of the nearest target at or below `cc`; the lowest one below the table."""
    known = sorted(int(key) for key in by_target if key.isdigit())
    below = [target for target in known if target <= cc]
    return by_target[str(below[-1] if below else known[0])]


def issue(group: str, cc: int) -> float:
    """Cycles between two warp instructions of a sub-partition, of one group of opcodes.toml. Raises StopIteration for
    an unknown group."""
    entry = next(one for one in table("opcodes")["group"] if one["name"] == group)
    by_target = entry.get("issue_sm")
    return float(at_or_below(by_target, cc) if by_target else entry["issue"])


def lender(by_target: Mapping[str, Any] | None, cc: int) -> int | None:
    """The target whose entry `cc` borrows: the nearest at or below it, the lowest one below the table; None where it
    has one of its own, or all targets are alike."""
    known = sorted(int(key) for key in by_target or () if key.isdigit())
    if not known or cc in known:
        return None
    return max((target for target in known if target <= cc), default=known[0])


def instructions(cc: int) -> dict[str, Mapping[str, Any]]:
    """What the target has of instructions.toml, in its order."""
    return {
        name: entry
        for name, entry in table("instructions").items()
        if (cc in entry["only"] if "only" in entry else cc >= entry["since"])
    }


@cache
def chips() -> dict[str, Chip]:
    """Every chip of chips.toml by its key, in the file's order."""
    data = table("chips")
    return {key: _chip(key, entry, data["documents"]) for key, entry in data.items() if key != "documents"}


def find(name: str) -> Chip:
    """The chip that people call `name` (`h100`, `H100-SXM`, `rtx 4090`, `NVIDIA H200`). Raises KscopeError (2)."""
    wanted = _plain(name)
    for chip in chips().values():
        if wanted in {_plain(n) for n in (chip.key, chip.name, *chip.aliases)}:
            return chip
    if (chip_ := of_device(name)) is not None:
        return chip_
    known = ", ".join(chips())
    raise KscopeError("unknown-chip", f"no chip {name!r} in the table", f"known are {known}", EXIT_USAGE)


def of_device(name: str) -> Chip | None:
    """The chip of a device's own name (`NVIDIA H100 80GB HBM3`), None where no entry names it. The longest match
    counts: "NVIDIA L4" is not an L40S."""
    plain = f" {name.lower()} "
    hits = [(len(m), c) for c in chips().values() for m in c.match if re.search(rf"(?<!\w){re.escape(m)}(?!\w)", plain)]
    return max(hits, key=lambda hit: hit[0])[1] if hits else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("nvidia").removeprefix("geforce")


def _chip(key: str, entry: Mapping[str, Any], documents: Mapping[str, str]) -> Chip:
    source: dict[str, str] = {}
    borrowed: set[str] = set()
    for document, names in entry["sources"].items():
        if document.startswith(BORROWED):
            borrowed.update(names)
        words = documents.get(document, f"borrowed from {document.removeprefix(BORROWED)}")
        source.update(dict.fromkeys(names, words))
    return Chip(
        key=key, name=entry["name"], family=entry["family"], cc=entry["cc"], sms=entry["sms"],
        clock_hz=entry.get("clock_hz"), memory=entry["memory"], memory_bytes=entry["memory_bytes"],
        bus_bits=entry.get("bus_bits"), dram_bytes_per_s=entry["dram_bytes_per_s"],
        host_bytes_per_s=entry.get("host_bytes_per_s"), l2_bytes=entry.get("l2_bytes"), power_w=entry.get("power_w"),
        previous=entry.get("previous"), sparse=float(entry.get("sparse", 1)),
        sparse_fp4=float(entry.get("sparse_fp4", entry.get("sparse", 1))),
        tensor_share=float(entry.get("tensor_share", 1)), peak=entry.get("peak", {}),
        attained=entry.get("attained", {}), match=tuple(entry["match"]), aliases=tuple(entry.get("aliases", ())),
        source=source, borrowed=frozenset(borrowed),
    )  # fmt: skip


def derived(
    name: str, cc: int, sms: int, clock_hz: float | None, dram_bytes_per_s: float, l2_bytes: float | None
) -> Chip:
    """A chip that is not in the table, from what its device says of itself: peaks are its architecture's rates at its
    highest clock, tensor ones as if FP32 accumulation cost nothing (it halves them on GeForce)."""
    bare = Chip(
        key="", name=name, family="", cc=cc, sms=sms, clock_hz=clock_hz, memory="", memory_bytes=0.0, bus_bits=None,
        dram_bytes_per_s=dram_bytes_per_s, host_bytes_per_s=None, l2_bytes=int(l2_bytes) if l2_bytes else None,
        power_w=None, previous=None, sparse=1.0, sparse_fp4=1.0, tensor_share=1.0, peak={}, attained={}, match=(),
        aliases=(), source={}, borrowed=frozenset(),
    )  # fmt: skip
    rate = bare.per_clock("fp16")
    top = rate * sms * clock_hz if rate and clock_hz else 0.0
    types = {"fp16": 1.0, "bf16": 1.0 if cc >= 80 else 0.0, "tf32": 0.5 if cc >= 80 else 0.0,
             "int8": 2.0 if cc >= 75 else 0.0, "fp8": 2.0 if cc >= 89 else 0.0}  # fmt: skip
    return replace(bare, peak={p: share * top for p, share in types.items() if share * top})
