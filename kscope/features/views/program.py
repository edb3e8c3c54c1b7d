"""One function's public view: counts, loops with their bounds, memory accesses, occupancy steps, and the listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kscope.features.counters.occupancy_limits import ASSUMED_THREADS, pressure
from kscope.features.profile.measured import Profile
from kscope.features.sass.accesses import Access
from kscope.features.sass.loop_kinds import SERIAL, loop_kinds
from kscope.features.sass.loop_throughput import TITLES, loop_bound
from kscope.features.views.annotations import Annotation, annotate, loop_numbers
from kscope.features.views.notes import notes
from kscope.isa.purpose import handover_of
from kscope.model.contract.programs import (
    AccessRow,
    ControlView,
    InstructionView,
    LoopView,
    MixRow,
    Occupancy,
    OccupancyStep,
    PipeCycles,
    WaitView,
)

if TYPE_CHECKING:
    from kscope.features.sass.cfg import Cfg
    from kscope.isa.opcodes import OpClass
    from kscope.model.program import Control, Instruction, Program

_NO_PIPE = "none"


def loops(
    program: Program,
    cfg: Cfg,
    classes: Sequence[OpClass],
    profile: Profile | None = None,
    wavefronts: Mapping[int, float] | None = None,
) -> list[LoopView]:
    """Loops in the order of their addresses, with the bounds of each pipe. `wavefronts`: see `loop_bound`."""
    numbers, kinds = loop_numbers(cfg), loop_kinds(program, cfg, classes)
    once = [n for n, kind in kinds.items() if kind == SERIAL]
    code = program.instructions
    out = []
    for n in sorted(range(len(cfg.loops)), key=numbers.__getitem__):
        loop = cfg.loops[n]
        head = cfg.blocks[loop.header].start
        rounds = profile.executed[head] if profile is not None else None
        weights = _weights(profile, loop.instructions, rounds) if profile is not None and rounds else None
        bound = loop_bound(program, cfg, classes, n, weights, wavefronts, once)
        out.append(
            LoopView(
                number=numbers[n], start=code[head].pc, end=code[loop.instructions[-1]].pc, depth=loop.depth,
                parent=numbers[loop.parent] if loop.parent is not None else None,
                instructions=len(loop.instructions), own=bound.always + bound.sometimes, kind=kinds.get(n, ""),
                bounds=[_pipe(b.pipe, b.least, b.most, b.refused) for b in bound.pipes], refused=bound.refused,
                file=code[head].file, line=code[head].line, rounds=rounds,
                share=profile.share(loop.instructions) if profile is not None else None,
            )
        )  # fmt: skip
    return out


def _weights(profile: Profile, inside: Sequence[int], rounds: float) -> Mapping[int, float]:
    return {i: profile.executed[i] / rounds for i in inside}


def _pipe(pipe: str, least: float, most: float, refused: str) -> PipeCycles:
    return PipeCycles(pipe=TITLES.get(pipe, pipe), cycles=least, most=most, refused=refused)


def mix(
    program: Program, cfg: Cfg, classes: Sequence[OpClass], profile: Profile | None = None
) -> list[MixRow]:
    """Instructions by pipe, most first (by executions where a profile counted them); padding is left out."""
    count: dict[str, list[float]] = {}
    for i, (ins, op) in enumerate(zip(program.instructions, classes, strict=True)):
        if op.pipe == _NO_PIPE and ins.opcode == "NOP":
            continue
        row = count.setdefault(op.pipe, [0, 0, 0.0])
        row[0] += 1
        row[1] += cfg.depth[i] > 0
        row[2] += profile.executed[i] if profile is not None else 0.0
    ranked = sorted(count.items(), key=lambda kv: (-kv[1][2], -kv[1][0], kv[0]))
    names = {**TITLES, "fmaheavy": "FMA heavy", _NO_PIPE: "no pipe", "unknown": "unknown"}
    return [
        MixRow(pipe=names.get(pipe, pipe), instructions=int(n), in_loops=int(inside),
               executed=executed if profile is not None else None)
        for pipe, (n, inside, executed) in ranked
    ]  # fmt: skip


def access_table(
    program: Program, cfg: Cfg, touched: Sequence[Access | None], profile: Profile | None = None
) -> list[AccessRow]:
    """Memory accesses by name and width, constants left out; most executed first, else those in loops."""
    rows: dict[Access, list[int]] = {}
    for i, access in enumerate(touched):
        if access is not None and access.space != "constant":
            rows.setdefault(access, []).append(i)
    out = []
    for access, indices in rows.items():
        counted = profile.traffic(indices) if profile is not None else None
        out.append(
            AccessRow(
                access=access.name, space=access.space, kind=access.kind, bytes=access.bytes, stack=access.stack,
                instructions=len(indices), in_loops=sum(cfg.depth[i] > 0 for i in indices),
                executed=sum(profile.executed[i] for i in indices) if profile is not None else None,
                unit=counted[0] if counted else "", moved=counted[1] if counted else None,
                ideal=counted[2] if counted else None,
            )
        )  # fmt: skip
    return sorted(out, key=lambda r: (-(r.executed or 0.0), -r.in_loops, -r.instructions, r.access))


def occupancy_view(
    program: Program, live: Sequence[int] | None, *, registers: int | None, threads: int | None, shared: int | None
) -> Occupancy | None:
    """Occupancy at this register count; `threads` a block from the launch, else from __launch_bounds__, else assumed.
    None where the register count or the target is not known."""
    resources = program.resources
    registers = registers if registers is not None else resources.registers if resources else None
    if not registers:
        return None
    bounds = resources.max_threads if resources is not None else None
    source = "launch" if threads else "launch bounds" if bounds else "assumed"
    if not threads:
        threads = bounds[0] * bounds[1] * bounds[2] if bounds else ASSUMED_THREADS
    if shared is None:
        shared = resources.shared if resources is not None and resources.shared else 0
    found = pressure(program.sm, registers, threads, source, shared)
    if found is None:
        return None
    peak = max(range(len(live)), key=live.__getitem__) if live else None
    return Occupancy(
        threads=found.threads, threads_from=found.threads_from, blocks=found.blocks, warps=found.warps,
        warps_max=found.warps_max, limits=list(found.limits),
        steps=[OccupancyStep(registers=s.registers, blocks=s.blocks, warps=s.warps) for s in found.steps],
        handover=sorted({n for ins in program.instructions if (n := handover_of(ins)) is not None}, reverse=True),
        live_max=live[peak] if live and peak is not None else None,
        live_max_pc=program.instructions[peak].pc if peak is not None else None,
    )  # fmt: skip


def listing(
    program: Program,
    cfg: Cfg,
    classes: Sequence[OpClass],
    *,
    live: Sequence[int] | None = None,
    spilling: bool | None = None,
    profile: Profile | None = None,
    findings: Mapping[int, Sequence[str]] | None = None,
    conflicts: Mapping[int, tuple[float, float]] | None = None,
) -> list[InstructionView]:
    """Every instruction with its annotations. `findings`: codes of findings by pc; `conflicts`: wavefronts and the
    fewest possible by index, see `notes`."""
    noted = annotate(program, cfg, classes, live=live, spilling=spilling)
    marks = findings or {}
    names = dict(program.symbols)
    out = []
    for i, (ins, one) in enumerate(zip(program.instructions, noted, strict=True)):
        measured = profile.at(i) if profile is not None else None
        out.append(
            InstructionView(
                pc=ins.pc, sass=ins.text, role=one.role, pipe=one.pipe, symbol=names.get(ins.pc, ""),
                depth=one.depth, loop=one.loop, live=one.live,
                control=_control(ins.control), latency=one.latency, scoreboard=one.scoreboard,
                access=one.access.name if one.access else "", bytes=one.access.bytes if one.access else None,
                stack=one.access.stack if one.access else "", waits=_waits(program.instructions, one),
                notes=notes(program, i, one, measured, (conflicts or {}).get(i)),
                findings=list(marks.get(ins.pc, ())), file=ins.file, line=ins.line,
                inlined=[(site.file, site.line) for site in ins.inlined], measured=measured,
            )
        )  # fmt: skip
    return out


def _control(control: Control | None) -> ControlView | None:
    if control is None:
        return None
    return ControlView(
        stall=control.stall, yields=control.yields, write_barrier=control.write_barrier,
        read_barrier=control.read_barrier, waits=control.waits, reuse=control.reuse,
    )  # fmt: skip


def _waits(code: Sequence[Instruction], one: Annotation) -> list[WaitView]:
    return [
        WaitView(scoreboard=w.board, needed=[code[p].pc for p in w.needed], also=[code[p].pc for p in w.shared])
        for w in one.waits
        if w.needed
    ]


def spill_counts(touched: Sequence[Access | None]) -> tuple[int, int]:
    """(stores, loads) that are spills, by the compiler's marks or their form."""
    spills = [a.kind for a in touched if a is not None and a.stack.startswith("spill")]
    return spills.count("store"), spills.count("load")
