"""What each pipe would need for one round of a loop if it were the only limit, as uiCA and OSACA print it for CPUs.

Cycles are of one sub-partition and one warp: the sum of the issue intervals of `arch/opcodes.toml` (each group with
its source there) over the loop's own instructions, inner loops left out. Units that the four sub-partitions share
(load/store, texture) count as if all four were asking. Global memory counts as coalesced and hitting L1; shared memory
with its bank conflicts where they are known (derived from the code, or counted), else as its luckiest pattern at least
and as conflict-free lanes of their own at most. A bound, never a prediction: the elapsed cycles of every capture in
fixtures/h200 lie above it, close to it where one pipe is the limit (tests/features/test_loopbound.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.isa.abi import abi

if TYPE_CHECKING:
    from kscope.features.sass.cfg import Cfg
    from kscope.isa.opcodes import OpClass
    from kscope.model.program import Program

TITLES = {
    "fma": "FMA", "alu": "ALU", "fp16": "FP16", "fp64": "FP64", "xu": "XU", "tensor": "tensor", "lsu": "LSU",
    "adu": "ADU", "tex": "TEX", "uniform": "uniform", "cbu": "CBU", "tma": "TMA", "issue": "issue slots",
}  # fmt: skip
_FREE = frozenset({"none", "fma", "fmaheavy"})
_WAVEFRONT = 4.0
"""Cycles of a sub-partition for one wavefront of shared memory: one a cycle for the four of them."""


class PipeBound(Struct, frozen=True):
    """Cycles per warp and round. `least`: of the instructions that run in every round; `most`: with those that run
    under a condition. `refused`: why there is no figure (both are 0 then)."""

    pipe: str
    least: float
    most: float
    refused: str = ""


class LoopBound(Struct, frozen=True):
    """Bounds of one loop, largest first. `always` and `sometimes` count its own instructions, run in every round and
    under a condition. `refused`: why no bound can be given at all (an opcode that no table knows)."""

    always: int
    sometimes: int
    pipes: tuple[PipeBound, ...]
    refused: str = ""

    @property
    def largest(self) -> PipeBound | None:
        return next((p for p in self.pipes if not p.refused), None)


def loop_bound(
    program: Program,
    cfg: Cfg,
    classes: Sequence[OpClass],
    loop: int,
    weights: Mapping[int, float] | None = None,
    wavefronts: Mapping[int, float] | None = None,
    once: Collection[int] = (),
) -> LoopBound:
    """The bound of loop number `loop` of the graph. `once`: inner loops that make one round as a rule (an elected lane
    issues a TMA): they count as part of this one. `weights`: executions of an instruction per round where a profile
    counted them (index to number). `wavefronts`: those of one execution of a shared-memory access, where known."""
    body = [*cfg.loop_body(loop), *(i for n in once if cfg.loops[n].parent == loop for i in cfg.loop_body(n))]
    code = program.instructions
    unknown = [i for i in body if not classes[i].known]
    steady = _every_round(cfg, loop)
    always = [i for i in body if cfg.block_of[i] in steady]
    if unknown:
        names = sorted({code[i].opcode for i in unknown})
        at = code[unknown[0]].pc
        why = f"no table knows {', '.join(names)} (first at {at:04x})"
        return LoopBound(len(always), len(body) - len(always), (), why)
    low, high = _intervals(classes, body, wavefronts or {})
    if weights is not None:
        counts = {i: weights.get(i, 0.0) for i in body}
        least, most = _cycles(program, classes, counts, low), _cycles(program, classes, counts, high)
    else:
        least = _cycles(program, classes, dict.fromkeys(always, 1.0), low)
        most = _cycles(program, classes, dict.fromkeys(body, 1.0), high)
    refused = _refusals(program, classes, body)
    found = [PipeBound(p, round(least.get(p, 0.0), 2), round(c, 2)) for p, c in most.items() if p not in refused and c]
    found.sort(key=lambda b: (-b.least, -b.most, b.pipe))
    found += [PipeBound(pipe, 0.0, 0.0, why) for pipe, why in sorted(refused.items())]
    return LoopBound(len(always), len(body) - len(always), tuple(found))


def once_through(
    program: Program, cfg: Cfg, classes: Sequence[OpClass], wavefronts: Mapping[int, float] | None = None
) -> LoopBound:
    """The bound of one pass from the entry to the end, of a warp that does not leave early: what every path to the
    last, unconditional EXIT has in it, one round of the loops there. `sometimes` counts nothing here."""
    code = program.instructions
    ends = [cfg.block_of[i] for i, ins in enumerate(code) if ins.opcode == "EXIT" and ins.guard is None]
    common = _on_every_way(cfg, ends)
    body = [i for i in range(len(code)) if cfg.block_of[i] in common]
    unknown = sorted({code[i].opcode for i in body if not classes[i].known})
    if unknown or not body:
        why = f"no table knows {', '.join(unknown)}" if unknown else "no way through the code is certain"
        return LoopBound(0, 0, (), why)
    low, _ = _intervals(classes, body, wavefronts or {})
    least = _cycles(program, classes, dict.fromkeys(body, 1.0), low)
    refused = _refusals(program, classes, body)
    found = [PipeBound(p, round(c, 2), round(c, 2)) for p, c in least.items() if p not in refused and c]
    found.sort(key=lambda b: (-b.least, b.pipe))
    return LoopBound(len(body), 0, (*found, *(PipeBound(p, 0.0, 0.0, why) for p, why in sorted(refused.items()))))


def _on_every_way(cfg: Cfg, ends: Sequence[int]) -> set[int]:
    """Blocks that every way from the entry to any of these blocks passes."""
    common: set[int] | None = None
    for end in ends:
        chain: set[int] = set()
        at: int | None = end
        while at is not None and at not in chain:
            chain.add(at)
            at = cfg.idom[at]
        common = chain if common is None else common & chain
    return common or set()


def _every_round(cfg: Cfg, loop: int) -> set[int]:
    """Blocks that every round of a loop passes: those that dominate all its back edges."""
    inside = cfg.loops[loop]
    tails = [p for p in cfg.blocks[inside.header].predecessors if p in inside.blocks]
    common: set[int] | None = None
    for tail in tails:
        chain: set[int] = set()
        at: int | None = tail
        while at is not None and at in inside.blocks:
            chain.add(at)
            if at == inside.header:
                break
            at = cfg.idom[at]
        common = chain if common is None else common & chain
    return common or set(inside.blocks)


def _intervals(
    classes: Sequence[OpClass], body: Sequence[int], wavefronts: Mapping[int, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Issue interval of each instruction, at least and at most."""
    low: dict[int, float] = {}
    high: dict[int, float] = {}
    for i in body:
        op = classes[i]
        low[i] = high[i] = op.issue
        if i in wavefronts:
            low[i] = high[i] = max(1.0, wavefronts[i]) * _WAVEFRONT
        elif op.space == "shared" and op.access == "load" and op.bytes > 4:
            # All lanes may want one address: 8 bytes a lane then take one wavefront, 16 take two (see banks).
            low[i] = max(1, op.bytes // 8) * _WAVEFRONT
    return low, high


def _cycles(
    program: Program, classes: Sequence[OpClass], counts: Mapping[int, float], interval: Mapping[int, float]
) -> dict[str, float]:
    """Cycles by pipe, and the issue slots."""
    by: dict[str, float] = {}
    for i, times in counts.items():
        if times:
            op, ins = classes[i], program.instructions[i]
            by["issue"] = by.get("issue", 0.0) + times
            if ins.guard is None and ins.guard_negated:  # @!PT: takes a slot and no pipe
                continue
            by[op.pipe] = by.get(op.pipe, 0.0) + interval[i] * times
    heavy, both = by.get("fmaheavy", 0.0), by.get("fma", 0.0)
    out = {pipe: cycles for pipe, cycles in by.items() if pipe not in _FREE}
    if heavy or both:
        # IMAD keeps one half busy; FFMA then takes what is left of both.
        out["fma"] = max(heavy, both + heavy / 2) if abi(program.sm).dual_fma else heavy + both
    return out


def _refusals(program: Program, classes: Sequence[OpClass], body: Sequence[int]) -> dict[str, str]:
    """Pipes whose time the text does not tell, with the reason."""
    out: dict[str, str] = {}
    for i in body:
        op, ins = classes[i], program.instructions[i]
        if "tcgen05" in op.kind and "tensor" in op.kind:
            out["tensor"] = f"{ins.opcode} takes its shape from a descriptor"
        elif op.pipe == "tma" and op.access is not None:
            out["tma"] = f"{ins.opcode} takes its size from {'a register' if 'BLK' in ins.opcode else 'a tensor map'}"
    return out
