"""Without counters: what machine code, a launch and a time prove, and what only a profiler would tell.

All figures are bounds at the chip's highest clock: a pipe's share is at least what is said, rounds and bytes at most.
"""

from __future__ import annotations

import math

from msgspec import Struct

from kscope.arch.chips import PARTITIONS, Chip
from kscope.engine.findings.rank import PAYS
from kscope.features.counters.occupancy_limits import pressure
from kscope.features.lanes.bank_conflicts import conflicts
from kscope.features.sass.listing import Listing
from kscope.features.sass.loop_throughput import TITLES, once_through
from kscope.features.views.program import loops
from kscope.model.contract.analysis import Bounded, Finding, NextStep
from kscope.model.contract.bounded import BesideProblem, PipeTime, ResidentWarps, RoundsBound, Unknown
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.program import Program
from kscope.model.units import counted, percent
from kscope.napkin.estimate import LAUNCH_US, estimate
from kscope.napkin.measured import compare
from kscope.napkin.problem import Problem
from kscope.napkin.roofs import Roofs

FAR = 1.25  # as in engine/verdict/next_step.py
FULL = 0.85  # of the time from which a pipe that is proved busy is the limit (as engine/verdict/regime.py judges units)
PROFILE = "ncu --set full --import-source yes (`kscope run -- COMMAND`)"
UNKNOWN = (
    Unknown(what="which unit is full, bytes from device memory, L2 and L1 hit rates",
            collect="ncu --section SpeedOfLight --section MemoryWorkloadAnalysis"),
    Unknown(what="what warps wait for, and at which instruction",
            collect="ncu --section WarpStateStats --section SourceCounters --import-source yes"),
    Unknown(what="trip counts, lanes that are active, conflicts and sectors of each access",
            collect="ncu --section SourceCounters"),
    Unknown(what="the clock that it ran at, and whether caches were warm",
            collect="ncu --clock-control none --cache-control none, and nvidia-smi -q -d CLOCK beside the run"),
)  # fmt: skip
"""`kscope doctor` says whether counters are permitted."""


class Ran(Struct, frozen=True):
    """A run that was timed: grid and block as launched, bytes of dynamic shared memory a block."""

    time_us: float
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_dynamic: int
    roofs: Roofs
    chip_from: str
    problem: Problem | None

    @property
    def chip(self) -> Chip:
        return self.roofs.chip

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-math.prod(self.block) // 32)

    @property
    def warps_a_partition(self) -> float:
        """That the sub-partitions of the SM with the most blocks run at least, on average: blocks come whole."""
        return -(-self.blocks // self.chip.sms) * self.warps / PARTITIONS


def bounded(program: Program, ran: Ran, findings: list[Finding]) -> Bounded:
    """findings: of the lints. Raises KscopeError (usage) for a launch that the chip cannot run."""
    resident = _resident(program, ran)
    code = Listing(program)
    known = {i: float(c.wavefronts) for i, c in conflicts(code).items()}
    once = once_through(program, code.cfg, code.classes, known)
    cycles = ran.time_us * 1e-6 * (ran.chip.clock_hz or 0.0)
    pipes, rounds = [], []
    refused = [once.refused] if once.refused else [f"{TITLES.get(p.pipe, p.pipe)}: {p.refused}"
                                                   for p in once.pipes if p.refused]  # fmt: skip
    if not cycles:
        refused.append(f"no clock of {ran.chip.name} is known")
    else:
        pipes = [
            PipeTime(pipe=TITLES.get(p.pipe, p.pipe), us=ran.time_us * share, share=round(share, 4))
            for p in once.pipes
            if not p.refused and (share := p.least * ran.warps_a_partition / cycles) >= 5e-5
        ]  # fmt: skip
        for view in loops(program, code.cfg, code.classes, None, known):
            top = next((b for b in view.bounds if not b.refused and b.cycles), None)
            if top is not None and not view.kind:
                most = cycles / (top.cycles * ran.warps_a_partition)
                rounds.append(RoundsBound(loop=view.number, start=view.start, end=view.end, pipe=top.pipe,
                                          cycles=top.cycles, rounds=most))  # fmt: skip
    beside = _beside(ran)
    return Bounded(
        time_us=ran.time_us, chip=ran.chip.name, chip_from=ran.chip_from, grid=ran.grid, block=ran.block,
        shared_dynamic=ran.shared_dynamic, resident=resident, pipes=pipes, loops=rounds, refused=refused,
        device_bytes=ran.time_us * 1e-6 * ran.chip.dram_bytes_per_s, problem=beside,
        says=_says(ran, resident, pipes), unknown=list(UNKNOWN), next=_next(pipes, beside, findings, ran),
    )  # fmt: skip


def _resident(program: Program, ran: Ran) -> ResidentWarps | None:
    threads, limits = math.prod(ran.block), ran.chip.sm
    if threads > limits["threads_block"]:
        raise _wrong(f"--block: {threads:,} threads, {ran.chip.name} runs {limits['threads_block']:,} a block at most")
    has = program.resources
    if has is None or not has.registers:
        return None
    if has.max_threads is not None and threads > math.prod(has.max_threads):
        raise _wrong(f"--block: {threads:,} threads, the code was compiled for {math.prod(has.max_threads):,} at most")
    found = pressure(ran.chip.cc, has.registers, threads, "launch", (has.shared or 0) + ran.shared_dynamic)
    if found is None:
        raise _wrong(f"not one block of {threads:,} threads, {has.registers} registers and "
                     f"{(has.shared or 0) + ran.shared_dynamic:,} B of shared memory fits on an SM")  # fmt: skip
    waves = ran.blocks / (found.blocks * ran.chip.sms)
    return ResidentWarps(
        warps=found.warps, warps_max=found.warps_max, blocks=found.blocks, limits=list(found.limits),
        waves=round(waves, 3), filled=round(waves / math.ceil(waves), 4), idle_sms=max(0, ran.chip.sms - ran.blocks),
    )  # fmt: skip


def _wrong(message: str) -> KscopeError:
    return KscopeError("usage", message, "give the launch as it ran", EXIT_USAGE)


def _beside(ran: Ran) -> BesideProblem | None:
    if ran.problem is None:
        return None
    found = estimate(ran.problem, ran.roofs)
    beside = compare(found, ran.time_us)
    return BesideProblem(
        text=ran.problem.text, floor_us=found.floor_us, attained_us=found.attained_us, above=beside.of_attained,
        limiter=found.limiter, verdict=beside.verdict, explanations=[s.what for s in beside.stories],
    )  # fmt: skip


def _says(ran: Ran, resident: ResidentWarps | None, pipes: list[PipeTime]) -> list[str]:
    says = []
    if ran.time_us < 2 * LAUNCH_US:
        says.append(f"a launch alone takes about {LAUNCH_US:g} us: the time says little about the code")
    if resident is not None and resident.idle_sms:
        says.append(f"{counted(ran.blocks, 'block')}: {resident.idle_sms} of {ran.chip.sms} SMs have none")
    elif resident is not None and resident.waves > 1 and resident.filled < 1 / PAYS:
        says.append(f"{resident.waves:.2f} waves of blocks: the last one leaves {percent(1 - resident.filled)} of all "
                    "block slots empty")  # fmt: skip
    impossible = [p for p in pipes if p.share > 1]
    if impossible:
        p = impossible[0]
        says.append(f"one pass of every warp takes {p.us:.3g} us of the {p.pipe} alone: most warps leave early, or "
                    "time, launch or chip are others")  # fmt: skip
    return says


def _next(pipes: list[PipeTime], beside: BesideProblem | None, findings: list[Finding], ran: Ran) -> NextStep:
    grave = next((f for f in findings if f.severity in ("critical", "major")), None)
    if beside is not None and beside.above < PAYS:
        left = percent(max(0.0, 1 - 1 / max(beside.above, 1.0)))
        return NextStep(do="stop", words=f"stop: {left} to the roof of the problem", why=beside.verdict)
    full = next((p for p in pipes if FULL <= p.share <= 1), None)
    if beside is not None and full is not None and grave is None and beside.above >= FAR:
        return NextStep(
            do="change_algorithm", speedup=beside.above,
            words=f"change the algorithm: {beside.above:.2f}x above the problem's floor ({beside.limiter})",
            why=f"the {full.pipe} needs {percent(full.share)} of the time at least for one pass through this code",
        )  # fmt: skip
    if grave is not None:
        return NextStep(do="go_on", words=f"go on: {grave.code}, gain unknown", code=grave.code,
                        why=f"{grave.title}: the code proves it, only counters would say what it costs")  # fmt: skip
    return NextStep(do="measure", words="measure: counters would tell", why=f"the code proves no fault; {PROFILE}")
