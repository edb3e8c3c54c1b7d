"""What an instruction is: pipe, memory space and access, scoreboard, cycles. Numbers and their sources are in
`arch/opcodes.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct

from kscope.arch import table
from kscope.isa.families import by_opcode, families_of
from kscope.isa.operand_shapes import mma_shape, shape_of
from kscope.model.program import Instruction

DEFAULT_SM = 90
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "96": 12, "128": 16, "256": 32, "F64": 8, "S64": 8, "U64": 8,
          "F16": 2, "BF16": 2, "F16x2": 4, "BF16x2": 4}  # fmt: skip
_ELEMENT_BITS = by_opcode("matrix", "bits")


class OpClass(Struct, frozen=True):
    """What one opcode with its modifiers is on one target.

    `bytes`: per lane of a memory access (0 for others). `scoreboard`: the stall that a consumer of the result shows,
    "long" (L1TEX) or "short" (MIO), None for fixed latencies. `latency`: cycles from issue to usable result on an
    idle chip, global memory served by L2. `issue`: cycles between two warp instructions of one sub-partition.
    `kind`: the group's own kinds and the families of the opcode. `group`: the table's row, "unknown" where the opcode
    is in none.
    """

    pipe: str
    space: str | None
    access: str | None
    bytes: int
    scoreboard: str | None
    latency: float
    issue: float
    kind: frozenset[str]
    group: str

    @property
    def known(self) -> bool:
        return self.pipe != "unknown"


UNKNOWN = OpClass("unknown", None, None, 0, None, 6.0, 2.0, frozenset(), "unknown")


def classify(ins: Instruction, sm: int = DEFAULT_SM) -> OpClass:
    """The class of an instruction; `sm` (90 for sm_90) picks issue rates and latencies."""
    return classify_name(ins.name, sm)


@lru_cache(maxsize=8192)
def classify_name(name: str, sm: int = DEFAULT_SM) -> OpClass:
    """The class of an opcode with modifiers as listings print it (`LDG.E.128`)."""
    opcode, *rest = name.split(".")
    mods = tuple(rest)
    if opcode == "HFMA2" and "MMA" in mods:
        mods = tuple(m for m in mods if m != "MMA")
    for group in _by_opcode().get(opcode, ()):
        wanted = group.get("mods")
        if (wanted is None or any(m in mods for m in wanted)) and not any(m in mods for m in group.get("without", ())):
            return _build(group, opcode, mods, name, sm)
    return UNKNOWN


def _table() -> dict[str, Any]:
    return table("opcodes")


@cache
def _by_opcode() -> dict[str, list[dict[str, Any]]]:
    out: dict[str, list[dict[str, Any]]] = {}
    for group in _table()["group"]:
        for opcode in group["opcodes"]:
            out.setdefault(opcode, []).append(group)
    return out


def _at(by_target: Mapping[str, Any], sm: int, default: Any) -> Any:
    """The entry of the nearest target at or below `sm` (the lowest one below the table)."""
    targets = sorted(int(key) for key in by_target if key.isdigit())
    if not targets:
        return default
    below = [t for t in targets if t <= sm]
    return by_target[str(below[-1] if below else targets[0])]


def _build(group: dict[str, Any], opcode: str, mods: tuple[str, ...], name: str, sm: int) -> OpClass:
    access = group.get("access")
    size = _access_bytes(group, opcode, mods, name)
    issue = float(_at(group.get("issue_sm", {}), sm, group["issue"]))
    latency = float(_at(group.get("latency_sm", {}), sm, group["latency"]))
    kind = frozenset(group.get("kind", ())) | families_of(opcode)
    if group["pipe"] == "lsu" and size > 4:
        issue *= size / 4  # 128 bytes a clock and SM: a wide access takes several passes
    if group["pipe"] == "tensor" and opcode[:3] != "UTC":
        issue = _tensor_issue(opcode, mods, sm) or issue
        if "wgmma" in kind:
            latency = issue + latency
    board = _at(group.get("scoreboard_sm", {}), sm, group.get("scoreboard")) or None
    return OpClass(group["pipe"], group.get("space"), access, size, board, latency, issue, kind, group["name"])


def _access_bytes(group: dict[str, Any], opcode: str, mods: tuple[str, ...], name: str) -> int:
    """Bytes per lane that the modifiers name; four where they name none."""
    if group.get("access") is None or group["pipe"] == "tma":
        return 0
    if opcode == "LDSM":
        return 4 * shape_of(name).dests[0]
    if opcode == "LDTM":
        return 4 * shape_of(name).dests[0]
    if opcode in ("STSM", "STTM"):
        return 4 * shape_of(name).source
    return next((_BYTES[m] for m in reversed(mods) if m in _BYTES), 4)


def _tensor_issue(opcode: str, mods: tuple[str, ...], sm: int) -> float | None:
    """Cycles that a matrix instruction occupies its sub-partition's tensor pipe, from its size and the peak rate."""
    shape = mma_shape(opcode if not opcode.endswith("GMMA") else "GMMA", mods)
    if shape is None:
        return None
    m, n, k = shape
    if opcode.endswith("GMMA"):
        m //= 4  # one of the four sub-partitions of the warpgroup
    rates = _table()["tensor"]
    if opcode == "DMMA":
        return float(m * n * k / _at(rates["fp64"], sm, 1))
    bits = 32 if "TF32" in mods else _ELEMENT_BITS.get(opcode, 16)
    sparse = 2 if "SP" in mods else 1
    return float(max(1.0, m * n * k / sparse * bits / 16 / _at(rates["fp16"], sm, 128)))
